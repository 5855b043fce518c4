"""yod-ensemble: studies by yod and by Open MPI, whose servers and launchers come to harm."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from ensemble import messages as m
from tests.support.ensemble import Study
from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, wait_until

# Says where it is, once; then waits for the test.
HOLDS = """
server.submit(0, 3)
open(f"server.{server.epoch}", "w").write(str(os.getpid()))
while server.epoch < LAST:
    server.poll(60)
for client, state in server.updates():
    pass
server.finish()
"""
SLEEPS = "echo up; exec sleep 600"
ONCE = "[ $YOD_ENSEMBLE_EPOCH != 1 ] || exec sleep 600"


@pytest.fixture
def study(place, tmp_path):
    def make(**keys):
        return Study(place, tmp_path, **keys)

    return make


def openmpi():
    is_there = shutil.which("mpirun.openmpi") is not None
    return pytest.param(
        {
            "scheduler": "openmpi",
            "scheduler_client_command": "mpirun.openmpi",
            "scheduler_server_command": "mpirun.openmpi",
            "scheduler_arg": ["--allow-run-as-root", "--oversubscribe"],
        },
        marks=[pytest.mark.mpi, pytest.mark.skipif(not is_there, reason="no Open MPI")],
        id="openmpi",
    )


BY = pytest.mark.parametrize("by", [pytest.param({}, id="yod"), openmpi()])


def pid_of(study: Study, epoch: int) -> int:
    path = study.out / f"server.{epoch}"
    wait_until(lambda: path.exists() and path.read_text(), what=f"a server of epoch {epoch}")
    return int(path.read_text())


@BY
def test_a_study_runs_to_its_end_and_a_failed_client_is_the_servers_to_judge(study, by):
    fails = "[ $MELISSA_CLIENT_ID != 3 ] || [ -e again ] || { touch again; exit 5; }; echo well"
    made = study(client=fails, **by)
    done = made.run()
    assert (done.status, done.out) == (0, ""), done.err
    assert len(made.files("job.*.client-*.out")) >= 10
    assert sum("well" in text for text in made.files("job.*.client-*.out")) == 10
    (said,) = made.files("job.*.server.out")
    for client in range(10):  # each change once
        states = re.findall(rf"^{client} (\w+)$", said, re.M)
        first = ["WAITING", "RUNNING", "FAILED"] if client == 3 else []
        assert states == [*first, "WAITING", "RUNNING", "TERMINATED"], said
    made.is_clean()


@BY
def test_a_server_that_is_killed_is_replaced_and_goes_on_from_its_checkpoint(study, by):
    server = HOLDS.replace("LAST", "2") + "print('goes on', server.goes_on)"
    made = study(server=server, client=ONCE, **by)
    launcher = made.start()
    os.kill(pid_of(made, 1), signal.SIGKILL)
    done = finish(launcher)
    assert done.status == 0, done.err
    assert "another server is started" in done.err
    assert any("goes on True" in text for text in made.files("job.*.server.out"))
    made.is_clean()


def test_a_server_that_is_stopped_is_silent_and_so_replaced(study):
    made = study(server=HOLDS.replace("LAST", "2"), client=ONCE, server_timeout=1.5)
    launcher = made.start()
    with suppress(ProcessLookupError):  # it was silent for so long before
        os.kill(pid_of(made, 1), signal.SIGSTOP)
    done = finish(launcher)
    assert done.status == 0, done.err
    assert "the server has said nothing for" in done.err
    made.is_clean()


def test_a_launcher_that_stands_still_for_a_while_keeps_its_server(study):
    wait = "while [ ! -e go ]; do sleep 0.1; done"
    made = study(server=HOLDS.replace("LAST", "1"), client=wait, server_timeout=1)
    launcher = made.start()
    pid_of(made, 1)
    made.wait_for("): submitted", 4)
    launcher.send_signal(signal.SIGSTOP)
    with suppress(subprocess.TimeoutExpired):  # it cannot end, and stands still for longer than 1 s
        launcher.wait(2)
    launcher.send_signal(signal.SIGCONT)
    (made.out / "go").touch()
    done = finish(launcher)
    assert done.status == 0, done.err
    assert "another server is started" not in done.err
    made.is_clean()


def test_a_server_that_never_lives_long_is_a_crash_loop(study):
    made = study(server="raise SystemExit(3)", restart_limit=2)
    done = made.run()
    assert done.status == 1
    assert "2 restarts within 300 s are enough" in done.err
    made.is_clean()


def test_without_fault_tolerance_the_first_failure_ends_all_with_its_name(study):
    made = study(client="exit $((MELISSA_CLIENT_ID == 1))", fault_tolerance=False)
    done = made.run()
    assert done.status == 1
    assert re.search(r"client 1 \(job \d+\) has failed; fault_tolerance is false", done.err)
    made.is_clean()


@BY
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_interrupted_leaves_no_job(study, by, number):
    made = study(server=HOLDS.replace("LAST", "2"), client=SLEEPS, **by)
    launcher = made.start()
    pid_of(made, 1)
    made.wait_for("): submitted", 4)
    if by:  # an mpirun that is ended before it has taken its signals leaves its own files
        wait_until(lambda: made.files("job.*.client-*.out").count("up\n") == 3, what="clients")
    launcher.send_signal(number)
    done = finish(launcher)
    assert done.status == 128 + number, done.err
    made.is_clean()


@BY
def test_jobs_die_with_a_launcher_that_is_killed_and_resume_goes_on(study, by):
    made = study(server=HOLDS.replace("LAST", "2"), client=ONCE, **by)
    launcher = made.start()
    pid_of(made, 1)
    made.wait_for("): submitted", 4)
    launcher.kill()
    finish(launcher)
    done = made.run("resume", "out")
    assert done.status == 0, done.err
    assert "4 jobs of an earlier launcher: cancelled" in done.err
    made.is_clean()


def test_a_launcher_is_stopped_from_elsewhere_and_two_do_not_share_a_directory(study):
    made = study(server=HOLDS.replace("LAST", "2"), client=SLEEPS)
    launcher = made.start()
    pid_of(made, 1)
    made.configure(job_limit=9)
    second = made.run()
    assert '"job_limit": 3' in (made.out / "config.json").read_text()
    assert (second.status, second.err.count("\n")) == (2, 1)
    assert "another launcher works there" in second.err
    assert made.run("stop", "out") == (0, "", "")
    assert finish(launcher).status == 128 + signal.SIGTERM
    again = made.run("stop", "out")
    assert (again.status, again.err) == (2, f"yod-ensemble: {made.out}: no launcher works there\n")
    made.is_clean()


def variables(unix_pid: int) -> dict[str, str]:
    data = Path(f"/proc/{unix_pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in data.split("\0") if "=" in entry)


def test_garbage_strangers_and_second_servers_harm_nobody(study):
    made = study(server=HOLDS.replace("LAST", "1"), client="while [ ! -e go ]; do sleep 0.1; done")
    launcher = made.start()
    env = variables(pid_of(made, 1))
    port, token = int(env["MELISSA_LAUNCHER_PORT"]), env["YOD_ENSEMBLE_TOKEN"]

    def answer(data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as sock:
            sock.sendall(data)
            said = b""
            while piece := sock.recv(65536):
                said += piece
            return said

    assert answer(b"\xff" * 100) == b""  # a huge length
    assert answer(b"GET / HTTP/1.1\r\n\r\n") == b""
    assert answer(m.encode(1, m.JobSubmission(0, 5))) == b""  # before hello
    assert b"another token" in answer(m.encode(1, m.Hello("x" * 32)))
    assert b"a server is connected already" in answer(m.encode(1, m.Hello(token)))
    assert b"a server is connected already" in answer(m.encode(0, m.Hello(token)))
    (made.out / "go").touch()
    done = finish(launcher)
    assert done.status == 0, done.err
    assert "another server is started" not in done.err
    made.is_clean()


def test_a_dry_run_shows_what_would_be_submitted_and_submits_nothing(study):
    made = study(client_processes=2)
    done = made.run("--config", "study.json", "--dry-run")
    assert (done.status, done.err) == (0, "")
    assert f"yod -sz 2 {made.directory}/client" in done.out
    assert not made.out.exists()


def test_every_key_and_the_version_are_printed():
    done = subprocess.run([BIN / "yod-ensemble", "--print-options"], capture_output=True, text=True)
    assert done.returncode == 0 and "job_limit = 1000\n" in done.stdout
    done = subprocess.run([BIN / "yod-ensemble", "-v"], capture_output=True, text=True)
    assert re.fullmatch(r"yod-ensemble \d[\w.]*\n", done.stdout)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"job_limits": 3}, "launcher_config: job_limits: no such key; job_limit?"),
        ({"timer_delay": "x"}, "launcher_config: timer_delay: must be a number"),
        ({"server_executable": "./none"}, "server_executable: DIR/none: no such file"),
        ({"server_executable": "s" * 300}, "sss: File name too long"),
        ({"client_executable": "study.json"}, "client_executable: DIR/study.json: not executable"),
        ({"scheduler": "lsf"}, "scheduler: lsf: none of yod, openmpi, slurm"),
        ({"scheduler_arg": ["--label"]}, "scheduler_arg: --label: no option of a launch"),
        ({"scheduler_arg_client": ["-N"]}, "scheduler_arg_client: -N: a value is missing"),
        ({"scheduler_arg": ["-sz=3"]}, "scheduler_arg: -sz is set by the launcher itself"),
        (
            {"scheduler": "openmpi", "scheduler_arg": ["-n", "3"]},
            "-n is set by the launcher itself",
        ),
        ({"scheduler": "slurm", "std_output": False}, "std_output: must be true with slurm"),
        (
            {"scheduler": "slurm", "scheduler_arg": ["--output=x"]},
            "scheduler_arg: --output is set by",
        ),
        ({"bind": "192.0.2.1"}, "bind: cannot listen at 192.0.2.1:0"),
        ({"bind": f"{'b' * 70}.example"}, "bbb.example: no name of a host"),
        ({"output_dir": "/proc/x"}, "output_dir: /proc/x:"),
    ],
)
def test_what_is_wrong_with_a_study_is_one_line_before_anything_is_submitted(study, keys, text):
    made = study(**keys)
    done = made.run()
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert text.replace("DIR", str(made.directory)) in done.err
    assert not list(made.out.glob("job.*"))


def test_a_taken_port_is_one_line(study):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        made = study(port=taken.getsockname()[1])
        done = made.run()
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "Address already in use" in done.err
