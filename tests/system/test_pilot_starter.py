"""The starter, as its page describes it: native/wire/STARTER.md."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.wait import LIMIT_S, wait_until
from yod.pilot.agent.starters import PROGRAM
from yod.pilot.wire import starter as wire
from yod.pilot.wire.starter import ReportKind, Step


class Caller:
    """A caller, and its starter."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.end.settimeout(LIMIT_S)
        self.unix_pid = os.posix_spawn(
            PROGRAM,
            ["yod-starter"],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)],
        )
        theirs.close()

    def start(self, number, script, output="out", error="err", **more):
        words = ["sh", "-c", script]
        place = str(self.directory / str(number))
        self.end.send(wire.encode_start(number, words, ["A=b"], place, output, error, **more))

    def report(self):
        return wire.decode_report(self.end.recv(wire.REPORT_BYTES_MAX))

    def close(self):
        self.end.close()
        assert os.waitpid(self.unix_pid, 0)[1] == 0


@pytest.fixture
def caller(place, tmp_path):
    caller = Caller(tmp_path)
    yield caller
    if caller.end.fileno() >= 0:
        caller.close()


def is_there(unix_pid):
    return Path(f"/proc/{unix_pid}").exists()


def test_a_program_has_its_directory_outputs_variables_and_a_session_of_its_own(caller, tmp_path):
    caller.start(1, "echo $A $RP_RANK; ps -o sid= -p $$; echo $$ >&2; ls /proc/$$/fd", ranks=1)
    report = caller.report()
    assert (report.kind, report.number, report.value) == (ReportKind.ENDED, 1, 0)
    variables, session, *descriptors = report.stdout.split(b"\n", 2)
    assert variables == b"b 0"
    assert session.strip() == report.stderr.strip()
    assert descriptors[0].split() == [b"0", b"1", b"2"]
    assert (tmp_path / "1/out").read_bytes() == report.stdout
    assert report.began <= report.prepared <= report.started <= report.ended <= report.cleaned


def test_only_the_ends_of_outputs_are_reported_and_one_file_may_be_both(caller, tmp_path):
    caller.start(1, "seq 10000; echo late >&2", output="both", error="both")
    report = caller.report()
    whole = (tmp_path / "1/both").read_bytes()
    assert report.stdout == whole[-1024:]
    assert report.stderr == b""
    assert whole.endswith(b"10000\nlate\n")


def test_the_first_rank_that_fails_is_the_status_and_ranks_have_numbers(caller):
    caller.start(1, "echo $RP_RANK; [ $RP_RANK != 5 ] || exit 3", ranks=3, first_rank=4)
    report = caller.report()
    assert (report.kind, report.value) == (ReportKind.ENDED, 3 << 8)
    assert sorted(report.stdout.split()) == [b"4", b"5", b"6"]


def test_what_cannot_be_started_is_reported_with_its_step(caller):
    caller.end.send(wire.encode_start(1, ["no-such-program"], [], str(caller.directory), "", ""))
    caller.end.send(wire.encode_start(2, ["true"], [], "/proc/none", "", ""))
    caller.end.send(wire.encode_start(3, ["true"], [], str(caller.directory), "no/out", ""))
    caller.end.send(wire.encode_start(4, ["true"], [], str(caller.directory), "", "")[:-1])
    caller.end.send(b"nonsense")
    told = {report.number: report for report in (caller.report() for _ in range(5))}
    assert {report.kind for report in told.values()} == {ReportKind.FAILED}
    steps = {number: told[number].step for number in (1, 2, 3, 4)}
    assert steps == {1: Step.EXEC, 2: Step.DIRECTORY, 3: Step.OUTPUT, 4: Step.ORDER}
    caller.start(5, "true")
    assert caller.report().kind is ReportKind.ENDED


def test_signals_reach_the_group_and_the_end_reaches_all(caller):
    caller.start(1, "trap 'echo got; exit 4' USR1; echo up; sleep 60 & wait", flags=3)
    assert caller.report().kind is ReportKind.STARTED
    wait_until(lambda: (caller.directory / "1/out").read_text() == "up\n")
    caller.end.send(wire.encode_signal(1, signal.SIGUSR1))
    report = caller.report()
    assert (report.value, report.stdout) == (4 << 8, b"up\ngot\n")
    caller.start(2, "setsid setsid sleep 3600 & trap '' TERM; echo $!; sleep 60", flags=3)
    caller.report()
    wait_until(lambda: (caller.directory / "2/out").read_text())
    caller.end.send(wire.encode_signal(2, signal.SIGTERM))
    caller.end.send(wire.encode_end(2))
    report = caller.report()
    assert report.value == signal.SIGKILL
    assert not is_there(int(report.stdout))
    caller.end.send(wire.encode_end(99))


@pytest.mark.parametrize("how", ["hangs up", "starter is killed", "starter is told"])
def test_no_program_outlives_its_caller_or_its_starter(caller, how):
    caller.start(1, "setsid sleep 3600 & echo $! $$; sleep 3600", flags=3)
    caller.report()
    pids = wait_until(lambda: (caller.directory / "1/out").read_text().split())
    if how == "hangs up":
        caller.close()
    else:
        number = signal.SIGTERM if how == "starter is told" else signal.SIGKILL
        os.kill(caller.unix_pid, number)
        caller.end.close()
        os.waitpid(caller.unix_pid, 0)
    wait_until(lambda: not any(map(is_there, pids)), what="nothing is left")


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_sources_have_no_warnings(tmp_path):
    sources = sorted(Path(PROGRAM).parent.glob("*.c"))
    flags = [
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-fsyntax-only",
    ]
    subprocess.run(["cc", *flags, *map(str, sources)], check=True)
