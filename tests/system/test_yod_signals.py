"""Signals and terminals: each press goes a step further, and says so."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.partitions import BIN, ROOT, Partition
from tests.support.wait import LIMIT_S, read_until, wait_until

# Says what it hears; ends after two signals.
LISTEN = """
import os, signal
heard = []
def hear(number, frame):
    heard.append(number)
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
signal.signal(signal.SIGUSR1, hear)
signal.signal(signal.SIGUSR2, hear)
os.write(1, b"ready\\n")
while len(heard) < 2:
    signal.pause()
"""
STUBBORN = "trap '' INT TERM; echo ready; while :; do sleep 60 & wait; done"
POLITE = "trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 60 & wait $!; done"


def count(yod: subprocess.Popen[bytes], word: bytes, times: int) -> None:
    """Return when the output has a word so often."""
    seen = b""
    while seen.count(word) < times:
        seen += read_until(yod.stdout.fileno(), b"\n")


def test_usr1_and_usr2_are_passed_to_every_rank(here):
    with here.start_yod("-sz", "3", sys.executable, "-c", LISTEN) as yod:
        count(yod, b"ready\n", 3)
        yod.send_signal(signal.SIGUSR1)
        count(yod, b"SIGUSR1\n", 3)
        yod.send_signal(signal.SIGUSR2)
        count(yod, b"SIGUSR2\n", 3)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_the_first_interrupt_ends_the_ranks_with_term(here, number):
    with here.start_yod("-sz", "3", "sh", "-c", "echo ready; exec sleep 60") as yod:
        count(yod, b"ready\n", 3)
        yod.send_signal(number)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 128 + number
    first = err.splitlines()[0]
    assert first == b"yod: SIGTERM sent to all ranks; interrupt again to send SIGKILL"
    assert b"killed by SIGTERM at yod's request" in err


# Preloaded, it stops the process that is about to load a module in C.
STOPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
void *dlopen (const char *path, int flags)
{
    void *(*next) (const char *, int) = dlsym (RTLD_NEXT, "dlopen");

    if (path && strstr (path, "msgspec"))
        raise (SIGSTOP);
    return next (path, flags);
}
"""


def test_an_interrupt_while_yod_is_being_loaded_is_no_traceback(embedded, programs):
    stops = programs.compile("stops.so", STOPS, "-shared", "-fPIC")
    with embedded.start_yod("true", env={"LD_PRELOAD": str(stops)}) as yod:
        os.waitid(os.P_PID, yod.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yod.send_signal(signal.SIGINT)
        yod.send_signal(signal.SIGCONT)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in err


def test_ranks_may_end_well_after_an_interrupt(here):
    with here.start_yod("-sz", "3", "sh", "-c", POLITE) as yod:
        count(yod, b"ready\n", 3)
        yod.send_signal(signal.SIGINT)
        count(yod, b"term\n", 3)
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 130


def test_the_second_interrupt_kills(here):
    with here.start_yod("-sz", "3", "sh", "-c", STUBBORN) as yod:
        count(yod, b"ready\n", 3)
        yod.send_signal(signal.SIGINT)
        read_until(yod.stderr.fileno(), b"interrupt again to send SIGKILL\n")
        yod.send_signal(signal.SIGINT)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 130
    assert b"SIGKILL sent to all ranks; interrupt again to reset the nodes and leave" in err
    assert b"killed by SIGKILL at yod's request" in err


def test_interrupts_end_yod_though_nobody_takes_its_output(here):
    """As in `yod yes | less`: the reader has enough for now, and holds the pipe."""
    with here.start_yod("-sz", "2", "yes", env={"YOD_END_S": "0.3"}) as yod:
        wait_until(lambda: unread(yod.stdout.fileno()) >= 65536, what="the pipe full")
        said = b""
        while yod.poll() is None:
            yod.send_signal(signal.SIGINT)
            said += read_some(yod.stderr.fileno())
        said += yod.stderr.read()
        assert yod.returncode in (130, -signal.SIGINT)
    assert b"SIGTERM sent to all ranks" in said
    assert b"bytes of output that nobody takes are dropped" in said


def unread(fd: int) -> int:
    """Bytes that wait in a pipe."""
    answer = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, answer)
    return int.from_bytes(answer, sys.byteorder)


def read_some(fd: int) -> bytes:
    """What comes within a while."""
    return os.read(fd, 65536) if select.select([fd], [], [], 0.3)[0] else b""


@contextmanager
def on_a_terminal(
    partition: Partition, *words: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """yod in a session of its own whose terminal's other end is ours."""
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    # setsid -c makes the terminal the controlling one.
    process = subprocess.Popen(
        ["setsid", "-c", BIN / "yod", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=partition.environment(),
        cwd=ROOT,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_three_presses_of_ctrl_c_on_a_terminal(here):
    with on_a_terminal(here, "-sz", "2", "sh", "-c", STUBBORN) as (yod, terminal):
        read_until(terminal, b"ready\n")
        os.write(terminal, b"\x03")
        read_until(terminal, b"interrupt again to send SIGKILL\n")
        os.write(terminal, b"\x03")
        read_until(terminal, b"interrupt again to reset the nodes and leave\n")
        os.write(terminal, b"\x03")
        # It may be on its way out already when the last one comes: the same to a shell.
        assert yod.wait(timeout=LIMIT_S) in (130, -signal.SIGINT)


def test_ctrl_c_reaches_yod_only(here):
    """A rank that would die of SIGINT gets the SIGTERM that it can catch."""
    with on_a_terminal(here, "-sz", "2", "sh", "-c", POLITE) as (yod, terminal):
        read_until(terminal, b"ready\n")
        os.write(terminal, b"\x03")
        read_until(terminal, b"term\n")
        assert yod.wait(timeout=LIMIT_S) == 130


def test_what_is_typed_reaches_rank_0_and_ctrl_d_ends_it(here):
    with on_a_terminal(here, "-sz", "2", "cat") as (yod, terminal):
        os.write(terminal, b"typed\n")
        read_until(terminal, b"typed\n")
        os.write(terminal, b"\x04")
        assert yod.wait(timeout=LIMIT_S) == 0


def test_a_job_in_the_background_is_not_stopped_by_typing(here, tmp_path):
    """It reads the terminal only in the foreground: SIGTTIN would stop it."""
    fifo = tmp_path / "fifo"
    for rank in range(2):
        os.mkfifo(f"{fifo}{rank}")
    shell = f"""
        set -m
        {BIN}/yod -sz 2 sh -c 'echo up; read line < {fifo}$YOD_RANK; echo $line' &
        read word
        echo went on with $word
        echo go > {fifo}0
        echo go > {fifo}1
        wait
        echo over
    """
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    with subprocess.Popen(
        ["setsid", "-c", "bash", "-c", shell],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=here.environment(),
    ) as process:
        os.close(theirs)
        seen = b""
        while seen.count(b"up\n") < 2:
            seen += read_until(ours, b"\n")
        os.write(ours, b"typed\n")
        text = read_until(ours, b"over\n")
        process.wait(timeout=LIMIT_S)
    os.close(ours)
    assert b"went on with typed" in text
    assert text.count(b"go\n") == 2


SHOW_SIGNALS = """
with open("/proc/self/status") as status:
    print(*[line.split()[1] for line in status if line.startswith(("SigBlk", "SigIgn"))])
"""
PYTHONS = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1  # Python ignores them, to any end


@contextmanager
def ignoring(*numbers: signal.Signals) -> Iterator[None]:
    """What is started inside ignores these signals from its beginning."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def test_a_rank_ignores_the_signals_that_yod_was_started_to_ignore(here):
    """As under nohup, or in the background of a script; none else, and none is blocked."""
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGRTMAX)
    with ignoring(*ignored):
        done = here.yod("-sz", "2", sys.executable, "-c", SHOW_SIGNALS)
    mask = sum(1 << number - 1 for number in ignored)
    assert done == (0, f"{0:016x} {mask | PYTHONS:016x}\n" * 2, "")


def test_what_a_partition_was_started_to_ignore_is_nothing_to_its_ranks(start_local):
    with ignoring(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
        local = start_local(1)
    done = local.yod("-sz", "2", sys.executable, "-c", SHOW_SIGNALS)
    assert done == (0, f"{0:016x} {PYTHONS:016x}\n" * 2, "")


def test_what_yod_ignores_it_does_not_pass_on_either(here):
    with ignoring(signal.SIGUSR1):
        yod = here.start_yod("-sz", "2", sys.executable, "-c", LISTEN)
    with yod:
        count(yod, b"ready\n", 2)
        yod.send_signal(signal.SIGUSR1)
        yod.send_signal(signal.SIGUSR2)
        count(yod, b"SIGUSR2\n", 2)
        yod.send_signal(signal.SIGUSR2)
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, out + err) == (0, b"SIGUSR2\nSIGUSR2\n")


def test_an_interactive_shell_as_a_rank_reads_its_input_and_does_not_wait_for_a_terminal(here):
    with on_a_terminal(here, "-sz", "1", "bash", "--norc", "-i") as (yod, terminal):
        os.write(terminal, b"echo $((6 * 7)) > /dev/tty || echo $((6 * 7))\n")
        read_until(terminal, b"42\n")
        os.write(terminal, b"exit 7\n")
        assert yod.wait(timeout=LIMIT_S) == 7


def test_a_rank_that_asks_for_a_password_reads_it_from_its_input(here):
    code = "import getpass; print('got', getpass.getpass(''))"
    with on_a_terminal(here, "-sz", "1", sys.executable, "-c", code) as (yod, terminal):
        os.write(terminal, b"secret\n")
        read_until(terminal, b"got secret\n")
        assert yod.wait(timeout=LIMIT_S) == 0


def test_yod_under_nohup_does_not_end_when_its_terminal_goes(here):
    with here.start_yod(
        "-sz",
        "2",
        "sh",
        "-c",
        "echo up; cat; echo over",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as yod:
        count(yod, b"up\n", 2)
        yod.send_signal(signal.SIGHUP)
        out, err = yod.communicate(b"more\n", timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert b"more\n" in out and b"over\n" in out
