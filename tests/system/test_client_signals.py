"""Signals of a client, its end, and a server that is of no use any more."""

from __future__ import annotations

import os
import pty
import signal
import subprocess

import pytest

from native.wire import client as wire
from tests.support.launch_server import (
    Installed,
    Server,
    client,
    ended,
    lost_line,
    server,
)
from tests.support.processes import stopped
from tests.support.terminal import CTRL_C, CTRL_Z
from tests.support.wait import wait_until

__all__ = ["client", "server"]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TOLD = sorted(wire.TOLD_SIGNALS)


@pytest.fixture(autouse=True)
def is_waited_for(monkeypatch: pytest.MonkeyPatch, place: None) -> None:
    """A server that is slow to say HELLO is waited for."""
    monkeypatch.setenv("YOD_COLD", "never")


@pytest.mark.parametrize("number", TOLD, ids=lambda number: signal.Signals(number).name)
def test_a_signal_is_told_and_does_nothing_else(
    client: Installed, server: Server, number: int
) -> None:
    process = client.start("x")
    conversation = server.begin()
    process.send_signal(number)
    assert conversation.expect(wire.Signal).number == number
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_signals_that_were_ignored_stay_so(client: Installed, server: Server) -> None:
    ignoring = 'trap "" HUP INT QUIT TERM USR1 TSTP CONT; exec "$0" x'
    process = client.start_command("sh", "-c", ignoring, client.yod)
    conversation = server.begin()
    for number in (*ENDING, signal.SIGUSR1, signal.SIGTSTP, signal.SIGCONT, signal.SIGUSR2):
        process.send_signal(number)
    assert conversation.expect(wire.Signal).number == signal.SIGUSR2
    ignored = set(conversation.request.ignored_signals)
    assert {*ENDING, signal.SIGUSR1, signal.SIGTSTP, signal.SIGCONT} <= ignored
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


@pytest.mark.parametrize("number", ENDING)
def test_the_client_dies_of_the_signal_that_ended_the_job(
    client: Installed, server: Server, number: int
) -> None:
    process = client.start("x")
    conversation = server.begin()
    conversation.send(wire.Output(1, b"last words\n"))
    conversation.send(wire.Exit(-number))
    assert process.communicate() == (b"last words\n", b"")
    assert process.returncode == -number


def test_on_the_third_press_it_leaves_whatever_the_server_does(
    client: Installed, server: Server
) -> None:
    process = client.start("x")
    conversation = server.begin(press_ms=0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        process.send_signal(number)
        assert conversation.expect(wire.Signal).number == number
    assert ended(process) == -signal.SIGTERM


def test_signals_that_come_together_are_one_press(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin(press_ms=3_600_000)
    for number in (*ENDING, *ENDING):
        process.send_signal(number)
        assert conversation.expect(wire.Signal).number == number
    conversation.send(wire.Exit(5))
    assert ended(process) == 5


def test_the_launchs_own_limits_replace_those_of_the_server(
    client: Installed, server: Server
) -> None:
    process = client.start("x")
    conversation = server.begin(press_ms=3_600_000)
    conversation.send(wire.Times(press_ms=0, liveness_ms=20_000))
    conversation.send(wire.Append(1, b"/dev/null", b""))
    conversation.expect(wire.Appended)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        conversation.expect(wire.Signal)
    assert ended(process) == -signal.SIGINT


def test_a_signal_before_the_launch_went_cold_is_not_lost(
    client: Installed, server: Server
) -> None:
    process = client.start("x")
    conversation = server.begin()
    process.send_signal(signal.SIGTERM)
    conversation.expect(wire.Signal)
    conversation.send(wire.Cold("late"))
    assert process.communicate() == (b"", b"")
    assert process.returncode == -signal.SIGTERM


def test_a_client_on_a_terminal_is_stopped_and_continued(client: Installed, server: Server) -> None:
    ours, theirs = pty.openpty()
    shell = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "yod = subprocess.Popen(sys.argv[1:], process_group=0)\n"
        "os.tcsetpgrp(0, yod.pid)\n"
        "status = os.waitpid(yod.pid, os.WUNTRACED)[1]\n"
        "assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTSTP, status\n"
        "yod.send_signal(signal.SIGCONT)\n"
        "sys.exit(yod.wait() + 100)\n"
    )
    process = client.start_below_shell(shell, theirs)
    conversation = server.begin()
    conversation.send(wire.Read(10))
    wait_until(lambda: os.tcgetpgrp(ours) not in (0, process.pid))
    os.write(ours, CTRL_Z)
    assert conversation.expect(wire.Signal).number == signal.SIGTSTP
    conversation.send(wire.Suspend())
    assert conversation.expect(wire.Signal).number == signal.SIGCONT
    os.write(ours, CTRL_C)
    assert conversation.expect(wire.Signal).number == signal.SIGINT  # and no second SIGCONT
    conversation.send(wire.Exit(-signal.SIGINT))
    assert ended(process) == 100 - signal.SIGINT
    os.close(ours)


def test_a_client_that_cannot_be_stopped_goes_on(client: Installed, server: Server) -> None:
    process = client.start("x", start_new_session=True)  # its group is orphaned
    conversation = server.begin()
    conversation.send(wire.Suspend())
    assert conversation.expect(wire.Signal).number == signal.SIGCONT
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def communicate(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("phase", ["asked", "output", "input"])
def test_a_server_that_ends_is_one_line_and_no_output_is_lost(
    client: Installed, server: Server, phase: str
) -> None:
    process = client.start("x")
    conversation = server.begin()
    out, err = b"", lost_line("has ended")
    if phase == "output":
        out = b"x" * 200_000
        for at in range(0, len(out), 50_000):
            conversation.send(wire.Output(1, out[at : at + 50_000]))
        conversation.send(wire.Output(2, b"unfinished"))
        err = b"unfinished\n" + err
    elif phase == "input":
        conversation.send(wire.Read(5))
        process.send_signal(signal.SIGUSR1)
        conversation.expect(wire.Signal)
    conversation.close()
    assert communicate(process) == (125, out, err)


def test_a_server_that_is_silent_is_asked_and_then_given_up(
    client: Installed, server: Server
) -> None:
    process = client.start("x")
    conversation = server.begin(liveness_ms=4000)
    assert conversation.receive() == wire.Ping()
    conversation.send(wire.Pong())
    conversation.send(wire.Times(press_ms=1000, liveness_ms=800))
    assert conversation.receive() == wire.Ping()
    conversation.wait_end()
    assert communicate(process) == (125, b"", lost_line("has not answered for 0.8 s"))


def test_the_time_in_which_the_client_is_stopped_does_not_count(
    client: Installed, server: Server
) -> None:
    process = client.start("x")
    conversation = server.begin(liveness_ms=2000)
    assert conversation.receive() == wire.Ping()
    with stopped(process.pid):
        began = os.times().elapsed
        wait_until(lambda: os.times().elapsed - began > 2.5)
    assert process.poll() is None
    assert conversation.expect(wire.Signal).number == signal.SIGCONT
    conversation.send(wire.Pong())
    assert conversation.receive() == wire.Ping()
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_after_something_has_begun_nothing_runs_cold(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin()
    conversation.send(wire.Output(1, b"x\n"))
    conversation.send(wire.Cold("no"))
    assert communicate(process) == (125, b"x\n", lost_line("broke the protocol"))
