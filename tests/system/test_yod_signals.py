"""Signals and terminals: each press goes a step further, and says so."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.partition import BIN
from tests.support.wait import LIMIT_S, read_until, unread, wait_until

pytestmark = pytest.mark.warm

# Says what it hears; ends after two signals. They are blocked and waited for: one that
# came between a look at a counter and pause() would be heard, and the pause go on.
LISTEN = """
import os, signal
signals = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
os.write(1, b"ready\\n")
for _ in range(2):
    os.write(1, signal.Signals(signal.sigwait(signals)).name.encode() + b"\\n")
"""
AT_ONCE = {"YOD_PRESS_S": "0"}  # every signal is a press
STUBBORN = "trap '' INT TERM; echo ready; while :; do sleep 60 & wait; done"
POLITE = "trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 60 & wait $!; done"


def count(yod: subprocess.Popen[bytes], word: bytes, times: int) -> None:
    """Return when the output contains a word this many times."""
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
    assert yod.returncode == -number
    first = err.splitlines()[0]
    assert first == b"yod: SIGTERM sent to all ranks; interrupt again after 1 s to send SIGKILL"
    assert b"killed by yod (SIGTERM)" in err


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


@pytest.mark.cold
def test_an_interrupt_while_yod_is_being_loaded_is_no_traceback(embedded, programs):
    stops = programs.compile("stops.so", STOPS, "-shared", "-fPIC")
    with embedded.start_yod("true", env={"LD_PRELOAD": str(stops)}) as yod:
        os.waitid(os.P_PID, yod.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        yod.send_signal(signal.SIGINT)
        yod.send_signal(signal.SIGCONT)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT
    assert b"Traceback" not in err


def test_ranks_may_end_well_after_an_interrupt(here):
    with here.start_yod("-sz", "3", "sh", "-c", POLITE) as yod:
        count(yod, b"ready\n", 3)
        yod.send_signal(signal.SIGINT)
        count(yod, b"term\n", 3)
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT


def test_the_second_interrupt_kills(here):
    with here.start_yod("-sz", "3", "sh", "-c", STUBBORN, env=AT_ONCE) as yod:
        count(yod, b"ready\n", 3)
        yod.send_signal(signal.SIGINT)
        read_until(yod.stderr.fileno(), b"interrupt again to send SIGKILL\n")
        yod.send_signal(signal.SIGINT)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT
    assert b"SIGKILL sent to all ranks; interrupt again to reset the nodes and leave" in err
    assert b"killed by yod (SIGKILL)" in err


def test_a_shell_that_looks_sees_128_and_the_signal(here):
    script = f'{BIN}/yod sh -c "echo ready; exec sleep 60" & echo $!; wait $!; echo $?'
    with here.start_command("bash", "-c", script) as bash:
        unix_pid = int(bash.stdout.readline())
        read_until(bash.stdout.fileno(), b"ready\n")
        os.kill(unix_pid, signal.SIGTERM)
        out, _ = bash.communicate(timeout=LIMIT_S)
    assert out == b"143\n"


def test_sigquit_leaves_no_core_file(here, tmp_path):
    def allow_core():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)

    words = ("sh", "-c", "echo ready; exec sleep 60")
    with here.start_yod(*words, cwd=tmp_path, preexec_fn=allow_core) as yod:
        read_until(yod.stdout.fileno(), b"ready\n")
        yod.send_signal(signal.SIGQUIT)
        _, status = os.waitpid(yod.pid, 0)
        yod.returncode = os.waitstatus_to_exitcode(status)
    assert yod.returncode == -signal.SIGQUIT
    assert not os.WCOREDUMP(status)


def test_timeout_is_one_press_though_it_signals_both_yod_and_its_group(here):
    """timeout that gets SIGTERM behaves as when its time is up."""
    command = ("timeout", "600", BIN / "yod", "-sz", "2", "sh", "-c", POLITE)
    with here.start_command(*command, process_group=0) as timeout:
        count(timeout, b"ready\n", 2)
        timeout.terminate()
        out, err = timeout.communicate(timeout=LIMIT_S)
    assert timeout.returncode == -signal.SIGTERM
    assert out.count(b"term\n") == 2
    assert err.count(b"SIGTERM sent") == 1 and b"SIGKILL sent" not in err


def test_a_signal_to_the_group_of_a_wrapper_that_passes_it_on_is_one_press(here):
    wrapper = "import os, signal, subprocess, sys\nyod = subprocess.Popen(sys.argv[1:])\n"
    wrapper += "signal.signal(signal.SIGINT, lambda number, frame: yod.send_signal(number))\n"
    wrapper += "sys.exit(yod.wait() + 100)"
    command = (sys.executable, "-c", wrapper, BIN / "yod", "-sz", "2", "sh", "-c", POLITE)
    with here.start_command(*command, process_group=0) as process:
        count(process, b"ready\n", 2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 100 - signal.SIGINT
    assert out.count(b"term\n") == 2
    assert err.count(b"SIGTERM sent") == 1 and b"SIGKILL sent" not in err


def test_interrupts_end_yod_though_nobody_takes_its_output(here):
    """As in `yod yes | less`: the reader stops reading and keeps the pipe open."""
    with here.start_yod("-sz", "2", "yes", env={"YOD_END_S": "0.3"}) as yod:
        wait_until(lambda: unread(yod.stdout.fileno()) >= 65536, what="the pipe full")
        said = b""
        while yod.poll() is None:
            yod.send_signal(signal.SIGINT)
            said += read_some(yod.stderr.fileno())
        said += yod.stderr.read()
        assert yod.returncode == -signal.SIGINT
    assert b"SIGTERM sent to all ranks" in said
    assert b"bytes of output that were not read are dropped" in said


def read_some(fd: int) -> bytes:
    """What comes within a while."""
    return os.read(fd, 65536) if select.select([fd], [], [], 0.3)[0] else b""


SHOW_SIGNALS = """
with open("/proc/self/status") as status:
    print(*[line.split()[1] for line in status if line.startswith(("SigBlk", "SigIgn"))])
"""
PYTHONS = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1  # Python ignores them, to any end
LIBC_KEEPS = (32, 33)  # glibc and musl use them between their own threads


@contextmanager
def ignoring(*numbers: signal.Signals) -> Iterator[None]:
    """Programs that are started inside the block ignore these signals from the beginning."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def test_a_rank_ignores_the_signals_that_yod_was_started_to_ignore(here):
    """As under nohup, or in the background of a script. It ignores no other, and blocks none."""
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGRTMAX)
    with ignoring(*ignored):
        done = here.yod("-sz", "2", sys.executable, "-c", SHOW_SIGNALS)
    mask = sum(1 << number - 1 for number in ignored)
    assert done == (0, f"{0:016x} {mask | PYTHONS:016x}\n" * 2, "")


@contextmanager
def ignoring_what_libc_keeps() -> Iterator[None]:
    """As below a program of another C library: musl's posix_spawn leaves such signals ignored."""
    rt_sigaction = {"x86_64": 13, "aarch64": 134}[platform.machine()]
    ignore, before = (ctypes.c_ulong * 4)(signal.SIG_IGN), (ctypes.c_ulong * 4)()
    libc = ctypes.CDLL(None, use_errno=True)
    for number in LIBC_KEEPS:
        assert libc.syscall(rt_sigaction, number, ignore, before, 8) == 0
    try:
        yield
    finally:
        for number in LIBC_KEEPS:
            assert libc.syscall(rt_sigaction, number, before, None, 8) == 0


def test_a_rank_does_not_ignore_a_signal_that_libc_keeps_for_itself(here):
    with ignoring_what_libc_keeps():
        done = here.yod("-sz", "2", sys.executable, "-c", SHOW_SIGNALS)
    assert done == (0, f"{0:016x} {PYTHONS:016x}\n" * 2, "")


def test_what_a_partition_was_started_to_ignore_is_nothing_to_its_ranks(start_local):
    with ignoring(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
        local = start_local(1, env={})  # its own: started here
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
