"""pingd --watch: the table in a terminal, as it changes."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios

import pytest

from tests.support.partition import BIN, finish
from tests.support.terminal import CTRL_C, command_on_a_terminal
from tests.support.wait import LIMIT_S, read_until


@pytest.fixture
def watched(local):
    """A pingd that shows the table, and the other end of its terminal."""
    env = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}  # they go stale, and do not count
    with command_on_a_terminal(local, BIN / "pingd", "--watch", env=env) as started:
        process, terminal = started
        size(terminal, 24, 120)
        read_until(terminal, b"q leaves")
        yield process, terminal


def size(terminal, lines, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def test_a_job_comes_and_goes_while_the_table_is_shown(local, watched):
    _, terminal = watched
    yod = local.start_yod("-sz", "5", "sh", "-c", "exec sleep 600")
    read_until(terminal, b"2 busy")
    yod.terminate()
    finish(yod)
    read_until(terminal, b"0 busy")


@pytest.mark.parametrize("key", [b"q", CTRL_C])
def test_a_key_leaves_and_the_terminal_is_as_before(local, watched, key):
    process, terminal = watched
    during = termios.tcgetattr(terminal)
    os.write(terminal, key)
    seen = read_until(terminal, b"\x1b[?1049l")
    assert process.wait(LIMIT_S) == 0
    assert b"\x1b[?25h" in seen + _rest(terminal)  # the cursor is back
    after = termios.tcgetattr(terminal)
    assert not during[3] & termios.ICANON and after[3] & termios.ICANON


def _rest(terminal):
    os.set_blocking(terminal, False)
    try:
        return os.read(terminal, 65536)
    except (BlockingIOError, OSError):
        return b""


def test_a_new_size_is_filled_at_once(local, watched):
    _, terminal = watched
    size(terminal, 6, 60)
    read_until(terminal, b"1..2 of 4")
    os.write(terminal, b"\x1b[B")
    read_until(terminal, b"2..3 of 4")
    size(terminal, 30, 60)
    read_until(terminal, b"1..4 of 4")


def test_only_what_was_chosen_is_shown(local):
    words = ("--watch", "-list", "1..2")
    with command_on_a_terminal(local, BIN / "pingd", *words, env={"TERM": "xterm"}) as started:
        read_until(started[1], b"of 2")


def test_a_bebopd_that_is_lost_is_said(start_local):
    partition = start_local(2, env={"YOD_ANNOUNCE_RETRY_S": "0.1"})
    env = {"TERM": "xterm", "YOD_ANNOUNCE_RETRY_S": "0.1"}
    with command_on_a_terminal(partition, BIN / "pingd", "--watch", env=env) as (_, terminal):
        size(terminal, 24, 200)
        read_until(terminal, b"q leaves")
        partition.bebopd.kill()
        read_until(terminal, b"trying again")
        partition.replace_bebopd()
        read_until(terminal, b"q leaves")


def test_without_a_terminal_a_line_says_what_to_use(local):
    process = subprocess.Popen(
        [BIN / "pingd", "--watch"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=local.environment(),
    )
    done = finish(process)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("pingd: --watch needs a terminal") and done.err.count("\n") == 1


def test_a_partition_that_is_not_there_leaves_the_terminal_alone(embedded):
    command = (BIN / "pingd", "--watch")
    with command_on_a_terminal(embedded, *command, env={"TERM": "xterm"}) as (process, terminal):
        seen = read_until(terminal, b"no partition is up here")
        assert process.wait(LIMIT_S) == 1
        assert b"\x1b[?1049h" not in seen
