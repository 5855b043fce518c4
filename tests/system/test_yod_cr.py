"""yod-cr: yod with checkpoints, the same signals and the same end (docs/yod-cr.md)."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from native.host import jobsockets
from tests.support.partition import BIN, Done, Partition, finish
from tests.support.terminal import CTRL_C, CTRL_Z, command_on_a_terminal
from tests.support.wait import read_until, wait_until
from tests.system.test_checkpoint import PROGRAM

LISTEN = """
import os, signal
signals = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
os.write(1, b"ready\\n")
os.write(1, signal.Signals(signal.sigwait(signals)).name.encode() + b"\\n")
"""
RANK = ("sh", "-c", "echo ready; exec sleep 600")
# In place of yod: says each signal that it gets, but for those that stop it.
FAKE = f"""#!{sys.executable}
import os, signal, sys
numbers = signal.valid_signals() - {{9, 19, 20, 21, 22, 17}}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
os.write(1, f"ready {{os.getpid()}} {{os.getpgrp()}} {{sys.argv[1:]}}\\n".encode())
while True:
    os.write(1, f"got {{signal.sigwait(numbers)}}.\\n".encode())
"""


def start(partition: Partition, *words: str | Path, **options) -> subprocess.Popen[bytes]:
    return partition.start_command(BIN / "yod-cr", *words, **options)


def run(partition: Partition, *words: str | Path, **options) -> Done:
    return finish(start(partition, *words, **options))


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]


def child_of(cr: subprocess.Popen[bytes]) -> int:
    return int(Path(f"/proc/{cr.pid}/task/{cr.pid}/children").read_text().split()[0])


@pytest.fixture
def fake(embedded, tmp_path: Path):
    """A copy of yod-cr beside a program in place of yod."""
    copy = tmp_path / "yod-cr"
    copy.write_text((BIN / "yod-cr").read_text())
    (tmp_path / "yod").write_text(FAKE)
    for path in (copy, tmp_path / "yod"):
        path.chmod(0o755)
    # In a group of its own: the kernel stops none whose parent is of another session.
    cr = embedded.start_command(copy, "-sz", "1", "true", process_group=0)
    said = read_until(cr.stdout.fileno(), b"\n").decode()
    yield cr, said
    if cr.poll() is None:
        os.kill(child_of(cr), signal.SIGKILL)
    finish(cr)


def test_the_ranks_come_back_from_the_directory(embedded, tmp_path):
    limit, program = tmp_path / "limit", tmp_path / "count.py"
    limit.write_text("2")
    program.write_text(PROGRAM)
    words = ("-sz", "2", "python", program, "4", limit)
    cr = start(embedded, "--checkpoint-on", "TERM", *words, cwd=tmp_path)
    read_until(cr.stdout.fileno(), b" at 2\n", times=2)
    cr.send_signal(signal.SIGTERM)
    assert finish(cr).status == 75
    assert (tmp_path / "checkpoints" / "checkpoint.1").is_dir()
    limit.write_text("9")
    done = run(embedded, "--restart", "checkpoints", cwd=tmp_path)
    assert (done.status, done.out.count(" begins at 2\n")) == (0, 2)
    env = {"YOD_CR_RESTART_DIR": "checkpoints"}
    done = run(embedded, *words, cwd=tmp_path, env=env)
    assert (done.status, done.out.count(" begins at 2\n")) == (0, 2)
    env = {"YOD_CR_RESTART_DIR": "other"}  # nothing is there
    say = "echo [$YOD_CR_RESTART_DIR]"
    done = run(embedded, "-sz", "1", "sh", "-c", say, cwd=tmp_path, env=env)
    assert done == (0, "[]\n", "")


def test_checkpoints_are_kept_where_the_user_says(embedded, tmp_path):
    env = {"YOD_CR_DIR": "mine"}
    assert run(embedded, "-sz", "1", "true", cwd=tmp_path, env=env).status == 0
    words = ("--checkpoint-dir", "other", "-sz", "1", "true")
    assert run(embedded, *words, cwd=tmp_path, env=env).status == 0
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} >= {"mine", "other"}
    assert not (tmp_path / "checkpoints").exists()


def test_yod_is_in_a_group_of_its_own_and_gets_every_signal_that_can_be_caught(fake):
    cr, said = fake
    _, pid, group, words = said.split(maxsplit=3)
    assert pid == group != str(os.getpgid(cr.pid))
    assert words == "['--checkpoint-dir', 'checkpoints', '-sz', '1', 'true']\n"
    own = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    stops = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    for number in signal.valid_signals() - own - stops:
        cr.send_signal(number)  # also ILL, FPE, BUS and SEGV, which are sent here
        read_until(cr.stdout.fileno(), f"got {int(number)}.\n".encode())


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU])
def test_what_stops_yod_cr_stops_both_and_both_go_on(fake, number):
    cr, said = fake
    pid = int(said.split()[1])
    cr.send_signal(number)
    wait_until(lambda: state(pid) == "T", what="yod is stopped")
    wait_until(lambda: state(cr.pid) == "T", what="yod-cr is stopped")
    cr.send_signal(signal.SIGCONT)
    read_until(cr.stdout.fileno(), b"got 18.\n")
    assert state(pid) != "T"


def test_a_fault_of_its_own_ends_it():
    text = (
        "import ctypes, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "ctypes.string_at(0)"
    )
    assert subprocess.run([sys.executable, "-c", text]).returncode == -signal.SIGSEGV


def test_it_ends_with_the_status_of_yod(embedded, tmp_path):
    done = run(embedded, "-sz", "1", "sh", "-c", "exit 7", cwd=tmp_path)
    assert done.status == run_yod(embedded, "-sz", "1", "sh", "-c", "exit 7").status == 7
    done = run(embedded, "--no-such-option", cwd=tmp_path)
    assert done == run_yod(embedded, "--no-such-option")


def run_yod(partition: Partition, *words: str) -> Done:
    return finish(partition.start_command(BIN / "yod", *words))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_signal_that_has_ended_yod_ends_it_without_a_core_file(embedded, tmp_path, number):
    copy = tmp_path / "yod-cr"
    copy.write_text((BIN / "yod-cr").read_text())
    (tmp_path / "yod").write_text(f"#!/bin/sh\nulimit -c 0; kill -{int(number)} $$\n")
    for path in (copy, tmp_path / "yod"):
        path.chmod(0o755)
    cr = embedded.start_command(copy, "-sz", "1", "true", cwd=tmp_path)
    assert finish(cr).status == -number
    assert not list(tmp_path.glob("core*"))


def test_a_checkpoint_is_asked_for_at_a_socket_that_is_closed_to_others(embedded, tmp_path):
    cr = start(embedded, "-sz", "1", *RANK, cwd=tmp_path)
    read_until(cr.stdout.fileno(), b"ready\n")
    directory = jobsockets.Directory(embedded.environment())
    names = [directory.name_of(each) for each in directory.ids()]
    directory.close()
    modes = {stat.S_IMODE(os.stat(name).st_mode) for name in names}
    assert modes == {0o600}
    cr.send_signal(signal.SIGTERM)
    assert finish(cr).status == -signal.SIGTERM


def test_yod_has_the_terminal_and_a_key_stops_both(embedded, tmp_path):
    env = {"YOD_CR_DIR": str(tmp_path / "kept")}
    rank = "echo ready; read x; echo got $x; read x; exit $x"
    line = f"set -m; {BIN}/yod-cr -sz 1 sh -c '{rank}'; echo stopped; fg; echo status $?"
    with command_on_a_terminal(embedded, "bash", "-c", line, env=env) as (_, terminal):
        read_until(terminal, b"ready\n")
        os.write(terminal, b"word\n")
        read_until(terminal, b"got word\n")
        os.write(terminal, CTRL_Z)
        read_until(terminal, b"stopped\n")
        os.write(terminal, b"7\n")  # both go on, and yod has the terminal again
        read_until(terminal, b"status 7")


def test_an_interrupt_at_the_terminal_ends_both(embedded, tmp_path):
    env = {"YOD_CR_DIR": str(tmp_path / "kept")}
    words = (BIN / "yod-cr", "-sz", "1", *RANK)
    with command_on_a_terminal(embedded, *words, env=env) as (cr, terminal):
        read_until(terminal, b"ready\n")
        os.write(terminal, CTRL_C)
        read_until(terminal, b"killed by yod")
        assert cr.wait() == -signal.SIGINT


def test_yod_cr_that_cannot_start_yod_says_so(embedded, tmp_path):
    copy = tmp_path / "yod-cr"
    copy.write_text((BIN / "yod-cr").read_text())
    (tmp_path / "yod").write_text("not a program\n")
    for path in (copy, tmp_path / "yod"):
        path.chmod(0o755)
    done = finish(embedded.start_command(copy, "-sz", "1", "true", cwd=tmp_path))
    assert done.status == 126
    assert done.err == f"yod-cr: {tmp_path}/yod: Exec format error\n"
