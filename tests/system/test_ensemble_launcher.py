"""yod-ensemble: what its launcher shows and writes, and what it does without room on the disk."""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import socket

import pytest

from tests.support import oar
from tests.support.ensemble import Study
from tests.support.leaks import marked
from tests.support.partition import BIN, finish
from tests.support.terminal import a_terminal_of
from tests.support.wait import LIMIT_S, wait_until

# A client, and another one when the test wants it.
TWO = """
server.submit(0)
while server.unfinished or not os.path.exists("go"):
    server.poll(0.05)
server.submit(1)
for client, state in server.updates():
    pass
server.finish()
"""
ONE = """
print("goes on", server.goes_on)
server.submit(0)
for client, state in server.updates():
    pass
server.finish()
"""


@pytest.fixture
def study(place, tmp_path):
    def make(**keys):
        return Study(place, tmp_path, **keys)

    return make


def read_until(fd: int, text: str) -> str:
    """What comes from a descriptor, up to a text."""
    said = b""
    while text.encode() not in said:
        assert select.select([fd], [], [], LIMIT_S)[0], said
        piece = os.read(fd, 65536)
        assert piece, said
        said += piece
    return said.decode()


def test_without_room_for_its_journal_a_launcher_submits_nothing_and_goes_on_later(study):
    made = study(server=TWO)
    launcher = made.start()
    made.wait_for("client 0 (job 2): terminated")
    wait_until(lambda: made.left() == {1}, what="only the server is left")
    size = (made.out / "journal").stat().st_size
    _, most = resource.prlimit(launcher.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(launcher.pid, resource.RLIMIT_FSIZE, (size + 10, most))
    (made.out / "go").touch()
    read_until(launcher.stderr.fileno(), "client 1: not submitted: the journal: ")
    assert (made.out / "journal").stat().st_size == size  # no half of a line
    resource.prlimit(launcher.pid, resource.RLIMIT_FSIZE, (most, most))
    done = finish(launcher)
    assert done.status == 0, done.err
    made.is_clean()


def test_a_terminal_has_colours_and_a_line_of_progress(study):
    made = study(server=ONE, client="exit 3")
    words = [BIN / "yod-ensemble", "--config", made.directory / "study.json"]
    with a_terminal_of(*words, env={**made.environment, "TERM": "xterm"}) as (launcher, fd):
        said = read_until(fd, "all is over")
        launcher.wait(LIMIT_S)
    assert "\r\x1b[Kserving: 1 clients, 0 waiting, 0 ended, 0 failed" in said
    assert "\x1b[31mclient 0 (job 2): failed\x1b[0m" in said


def test_messages_are_lines_with_verbose_2(study):
    made = study(server=ONE, verbose=2)
    assert made.run().status == 0
    assert "from the server: JobSubmission(first=0, count=1)\n" in made.log
    assert made.log.count("to the server: JobUpdate(client=0, state=2)\n") == 1


def test_output_of_jobs_is_the_launchers_without_std_output(study):
    made = study(server=ONE, std_output=False)
    done = made.run()
    assert (done.status, sorted(done.out.splitlines())) == (
        0,
        ["client 0 of epoch 1", "goes on False"],
    )
    assert not list(made.out.glob("job.*"))


def test_the_first_server_goes_on_from_a_checkpoint_where_the_study_says_so(study):
    made = study(server=ONE, load_from_checkpoint=True)
    assert made.run().status == 0
    assert made.files("job.1.server.out") == ["goes on True\n"]


def test_a_study_begins_anew_when_it_is_run_again_and_goes_on_when_it_is_resumed(study):
    made = study(server=ONE)
    for words in ((), (), ("resume", "out")):
        done = made.run(*words)
        assert done.status == 0, done.err
    said = {path.name: path.read_text() for path in made.out.glob("job.*.server.out")}
    assert said == {
        "job.1.server.out": "goes on False\n",
        "job.3.server.out": "goes on False\n",
        "job.5.server.out": "goes on True\n",
    }


@pytest.mark.parametrize("name", ["study.json", "config.json"])
def test_a_directory_with_files_of_others_is_refused_and_they_stay(study, name):
    made = study()
    made.out.mkdir()
    (made.out / name).write_text("{}")
    done = made.run()
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"output_dir: {made.out}/{name}: not the launcher's; name another directory" in done.err
    assert [(path.name, path.read_text()) for path in made.out.iterdir()] == [(name, "{}")]


def test_without_descriptors_for_its_commands_a_launcher_goes_on_later(place, tmp_path):
    path = f"{oar.make(tmp_path)}:{BIN}:{os.environ['PATH']}"
    made = Study(place, tmp_path, server=TWO, scheduler="oar", env={"PATH": path})
    launcher = made.start()
    made.wait_for("the server has connected")
    wait_until(lambda: made.left() == {1}, what="only the server is left")
    _, most = resource.prlimit(launcher.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(launcher.pid, resource.RLIMIT_NOFILE, (3, most))
    read_until(launcher.stderr.fileno(), "the scheduler does not say how jobs are: oarstat: Too")
    resource.prlimit(launcher.pid, resource.RLIMIT_NOFILE, (most, most))
    read_until(launcher.stderr.fileno(), "the scheduler answers again")
    (made.out / "go").touch()
    done = finish(launcher)
    assert done.status == 0, done.err
    made.is_clean()


def test_a_second_signal_names_every_job_and_leaves_its_cancellation_to_others(place, tmp_path):
    directory, hanging = oar.make(tmp_path), tmp_path / "hanging"
    path = f"{hanging}:{directory}:{BIN}:{os.environ['PATH']}"
    sleeps = "exec sleep 600"
    made = Study(place, tmp_path, server=TWO, client=sleeps, scheduler="oar", env={"PATH": path})
    hanging.mkdir()
    hangs = f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"
    made.script("hanging/oardel", f'#!/bin/sh\n{hangs}\nexec {directory}/oardel "$@"\n')
    launcher = made.start()
    made.wait_for("client 0 (job 2): submitted")
    launcher.terminate()
    made.wait_for("interrupted by signal 15")
    launcher.terminate()
    done = finish(launcher)
    assert done.status == 128 + 15
    prefix = json.loads((made.out / "study.json").read_text())["prefix"]
    assert f"the server (job 1) may be left: its name is {prefix}-1\n" in done.err
    assert f"client 0 (job 2) may be left: its name is {prefix}-2\n" in done.err
    assert made.left() == {1, 2}
    (tmp_path / "go").touch()
    wait_until(lambda: not marked(place.mark), what="all jobs are cancelled")


def has_sctp() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError as error:
        assert error.errno in (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT)
        return False
    return True


def test_sctp_is_spoken_where_the_kernel_has_it_and_is_else_one_line(study):
    made = study(server=ONE, protocol="sctp")
    done = made.run()
    if has_sctp():
        assert done.status == 0, done.err
    else:
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert "protocol: sctp: Protocol not supported; `tcp` is everywhere" in done.err
    made.configure(protocol="auto")
    assert made.run().status == 0


def test_a_dry_run_shows_every_command_of_the_scheduler(place, tmp_path):
    path = f"{oar.make(tmp_path)}:{BIN}:{os.environ['PATH']}"
    made = Study(place, tmp_path, scheduler="oar", env={"PATH": path})
    done = made.run("--config", "study.json", "--dry-run")
    assert (done.status, done.err) == (0, "")
    for who in (1, 2):
        assert f"  oarsub --scanscript {made.out}/oarsub.{who}.sh\n      #!/bin/sh\n" in done.out
    assert done.out.count("  oarstat --full --job JOB\n  oardel JOB\n") == 2
    assert not made.out.exists()
