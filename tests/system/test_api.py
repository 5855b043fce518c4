"""Launches from a Python program: results, errors, time, signals, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from native.errors import ProgramNotFoundError, UsageError
from native.host.rlimits import soft
from native.limits import Limits
from pct.host.spawn.orphans import children_of
from tests.support.wait import LIMIT_S, wait_for_exit
from yod import api
from yod.driver import END_SIGNALS

QUICK = Limits(kill_delay_s=0.2, press_s=0.1, notice_s=3600.0)
PATIENT = Limits(kill_delay_s=120.0, notice_s=3600.0)
STUBBORN = "trap '' TERM; echo up; while :; do sleep 60 & wait; done"


def sh(text: str, **choices) -> api.Result:
    """Run a shell on each rank, here, and keep its output."""
    choices = {"partition": "embedded", "stdin": b"", **choices}
    return api.run(["sh", "-c", text], capture_output=True, **choices)


@pytest.fixture(autouse=True)
def as_it_was(request, place):
    """No child, descriptor, handler or limit of this process is another than before."""
    if "here" in request.fixturenames:  # daemons that serve further tests
        yield
        return

    def state():
        handlers = [signal.getsignal(number) for number in (*END_SIGNALS, signal.SIGCHLD)]
        fds = len(os.listdir("/proc/self/fd"))
        limits = [soft(number) for number in range(10)]
        return children_of(os.getpid()), fds, handlers, limits

    before = state()
    yield
    assert state() == before


def test_a_result_says_how_each_rank_ended():
    done = sh('test $YOD_RANK = 1 && kill -9 $$; exec sleep "$YOD_RANK"', size=2, limits=PATIENT)
    assert (done.exit_status, done.signal) == (137, 9)
    assert done.reason.startswith("rank 1 on ") and done.reason.endswith("killed by SIGKILL")
    clean, killed = done.ranks
    assert (clean.rank, clean.exit_code, clean.signal, clean.phase) == (0, 0, None, "run")
    assert (killed.rank, killed.exit_code, killed.signal, killed.phase) == (1, None, 9, "run")
    assert clean.node == os.uname().nodename.partition(".")[0] and clean.node_number == 0
    assert clean.unix_pid != killed.unix_pid and clean.max_rss_bytes > 0
    assert [phase for phase, _, _ in done.timing][-2:] == ["end", "release"]


def test_output_is_kept_in_whole_lines_and_apart_from_the_words_of_yod():
    text = "printf 'a %d\n' $YOD_RANK; printf err >&2; exit 3"
    done = sh(text, size=2, label=True, limits=PATIENT)
    assert sorted(done.stdout.splitlines()) == [b"0: a 0", b"1: a 1"]
    assert sorted(done.stderr.split()) == [b"0:", b"1:", b"err", b"err"]
    assert done.exit_status == 3
    # The first failure may be told before the other rank has ended.
    assert all("ended with exit code 3; the others have" in text for text in done.messages)
    assert len(done.summary) <= 1 and len(done.messages) <= 1
    assert all("ended with exit code 3" in text for text in done.summary)
    assert done.summary or done.messages


def test_input_goes_to_rank_0_and_ends():
    text = b"x" * 3_000_000
    assert sh("cat | wc -c", size=2, stdin=text).stdout.split() in (
        [b"3000000", b"0"],
        [b"0", b"3000000"],
    )
    assert sh("cat", stdin=b"").stdout == b""


def test_environment_and_directory_are_those_that_are_given(tmp_path):
    done = sh('echo "$A:$HOME"; pwd', env={"A": "1", "PATH": os.environ["PATH"]}, cwd=tmp_path)
    assert done.stdout == f"1:\n{tmp_path}\n".encode()
    with pytest.raises(UsageError, match="no such directory"):
        sh("true", cwd=tmp_path / "none")


def test_a_program_is_looked_for_in_the_directory_that_is_given(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "tool").chmod(0o755)
    done = api.run("tool", cwd=tmp_path, capture_output=True, stdin=b"", partition="embedded")
    assert done.stdout == b"here\n"


def test_several_programs_are_one_job(tmp_path):
    members = [api.Member(["echo", "one"]), api.Member(["sh", "-c", "echo $YOD_RANK"], size=2)]
    done = api.run(members, capture_output=True, stdin=b"", partition="embedded")
    assert sorted(done.stdout.split()) == [b"1", b"2", b"one"]
    file = tmp_path / "load"
    file.write_text("echo one\n-sz 2 sh -c 'echo $YOD_RANK'\n")
    members = api.read_load_file(file)
    again = api.run(members, capture_output=True, stdin=b"", partition="embedded")
    assert sorted(again.stdout.split()) == [b"1", b"2", b"one"]


def test_a_failure_is_an_error_where_it_is_asked_for():
    with pytest.raises(
        api.JobFailedError, match=r"^rank 0 on \S+: ended with exit code 4$"
    ) as caught:
        sh("exit 4", check=True)
    assert (caught.value.exit_status, caught.value.result.ranks[0].exit_code) == (4, 4)
    assert sh("exit 4").exit_status == 4
    assert sh("true", check=True).exit_status == 0


def test_what_cannot_begin_is_an_error():
    with pytest.raises(ProgramNotFoundError, match="no such program"):
        api.run("no-such-program", partition="embedded")
    with pytest.raises(UsageError, match="exclude each other"):
        sh("true", label=True, raw=True)
    with pytest.raises(TypeError, match="sise"):
        sh("true", sise=2)


@pytest.mark.parametrize("text", ["echo up; exec sleep 1000", STUBBORN])
def test_a_job_that_is_not_over_in_time_is_ended(text):
    for timeout in (0.3, 3.0, 30.0):  # a slow machine may end it before its ranks run
        with pytest.raises(TimeoutError) as caught:
            sh(text, size=2, timeout=timeout, limits=QUICK)
        assert str(caught.value).startswith(f"the job did not end in {timeout:g} s; ")
        result = caught.value.result
        if result.stdout == b"up\nup\n":
            break
    number = signal.SIGKILL if text == STUBBORN else signal.SIGTERM
    assert {rank.signal for rank in result.ranks} == {number}
    assert result.exit_status == 128 + signal.SIGTERM


def test_a_job_that_writes_more_than_is_kept_ends():
    limits = Limits(collected_bytes=100_000, kill_delay_s=0.2)
    done = sh("yes; sleep 1000", size=2, limits=limits)
    assert (done.exit_status, len(done.stdout)) == (125, 100_000)
    assert done.reason.endswith("more than 100000 bytes to collect (collected_bytes)")


def test_in_another_thread_no_signal_is_taken():
    results: list[api.Result] = []
    before = signal.getsignal(signal.SIGINT)

    def launch() -> None:
        results.append(sh("echo $YOD_JOB_ID", size=2))

    threads = [threading.Thread(target=launch) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert signal.getsignal(signal.SIGINT) is before
    for thread in threads:
        thread.join(LIMIT_S)
    assert [done.exit_status for done in results] == [0] * 5
    # At a time the numbers of their jobs differ; one that has ended may be used again.
    assert all(len(set(done.stdout.split())) == 1 for done in results)


KEEPER_LOST = """
import os, signal, subprocess
from pct.host.spawn.orphans import children_of
from yod import api
before = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
mine = [before]
def lose(number, frame):
    (keeper,) = set(children_of(os.getpid())) - {before.pid}
    sleep = subprocess.Popen(["sleep", "1000"], stdout=-3, start_new_session=True)
    mine.append(sleep)
    os.kill(keeper, signal.SIGKILL)
signal.signal(signal.SIGALRM, lose)
os.environ["EMBEDS"] = str(os.getpid())
text = "setsid sleep 1000 & kill -ALRM $EMBEDS; wait"
done = api.run(["sh", "-c", text], partition="embedded", stdin=b"", mpi="none")
print(done.exit_status, [child.poll() for child in mine])
print(len(set(children_of(os.getpid())) - {child.pid for child in mine}))
for child in mine:
    child.kill()
    child.wait()
"""


def test_children_of_the_program_are_not_taken_for_orphans(embedded):
    """A lost keeper leaves processes behind, which are killed; the program has its own."""
    with python(embedded, KEEPER_LOST) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert out == b"125 [None, None]\n0\n", (out, err)


def python(here, text: str, *words: str, **options) -> subprocess.Popen[bytes]:
    return here.start_command(sys.executable, "-c", text, *words, **options)


def test_streams_are_those_of_the_program(here):
    text = "from yod import api; print(api.run(['cat'], size=2).exit_status)"
    with python(here, text) as process:
        out, err = process.communicate(b"line\n", timeout=LIMIT_S)
    assert (process.returncode, out, err) == (0, b"line\n0\n", b"")


INTERRUPTED = """
import os, signal
from yod import api
os.environ["EMBEDS"] = str(os.getpid())
command = ["sh", "-c", "kill -INT $EMBEDS; exec sleep 60"]
try:
    api.run(command, size=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
signal.signal(signal.SIGINT, lambda number, frame: print("heard", flush=True))
result = api.run(command, size=2)
print(result.exit_status, result.signal, flush=True)
os.kill(os.getpid(), signal.SIGINT)
os.environ["EMBEDS"] = "0"
"""


def test_an_interrupt_is_the_programs_when_nothing_is_left_of_the_job(here):
    with python(here, INTERRUPTED) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (0, b"interrupted\nheard\n130 2\nheard\n"), err


def test_a_program_that_is_terminated_dies_of_it_behind_its_job(here):
    text = "from yod import api; api.run(['sh', '-c', 'echo $$; exec sleep 60'], size=1)"
    with python(here, text) as process:
        rank = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (-signal.SIGTERM, b""), err
    assert b"SIGTERM sent to all ranks" in err
    wait_for_exit(rank)


def test_the_interface_imports_no_asyncio(here):
    text = "import sys; from yod import api; api.run; print('asyncio' in sys.modules)"
    with python(here, text) as process:
        assert process.communicate(timeout=LIMIT_S) == (b"False\n", b"")


def test_the_same_line_of_several_ranks_is_collected_once():
    result = sh("echo all; echo rank $YOD_RANK", size=3, merge=True)
    lines = result.stdout.splitlines()
    assert lines[0] == b"[0-2] all"
    assert sorted(lines[1:]) == [b"[%d] rank %d" % (rank, rank) for rank in range(3)]


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"merge": True, "label": True}, "label and merge exclude each other"),
        ({"merge": True, "raw": True}, "raw and merge exclude each other"),
        ({"remote_io": "/no/such"}, "remote_io /no/such: No such file or directory"),
        ({"remote_io": ["/usr"]}, "/usr: ranks need that of their own node"),
        ({"stall_s": -1}, "stall_s=-1: 0 or more seconds"),
        ({"stall_s": float("nan")}, "stall_s=nan: 0 or more seconds"),
    ],
)
def test_what_cannot_be_chosen_is_refused_with_its_name(choices, text):
    with pytest.raises(UsageError, match=text):
        sh("true", **choices)
