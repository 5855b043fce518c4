"""A rank has the user's terminal (``yod --pty``): keys, size, job control, and its end."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import sys
import termios

import pytest

from tests.support.partition import BIN, finish
from tests.support.terminal import CTRL_C, CTRL_D, CTRL_Z, command_on_a_terminal, on_a_terminal
from tests.support.wait import LIMIT_S, read_until, wait_until

pytestmark = pytest.mark.warm  # where a launch server is, the client runs these by itself

SHELL = ("bash", "--norc", "-i")
ENV = {"PS1": "% ", "TERM": "dumb", "HISTFILE": "/dev/null"}
PROMPT = b"% "
CAT = b"echo ready; cat\r"  # a shell that reads a line would not translate the end of another


def resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))


def is_raw(terminal: int) -> bool:
    return not termios.tcgetattr(terminal)[3] & termios.ICANON


def answer(terminal: int, typed: bytes, until: bytes = PROMPT) -> bytes:
    os.write(terminal, typed)
    return read_until(terminal, until)


def test_a_shell_has_a_terminal_with_echo_size_and_job_control(anywhere):
    with on_a_terminal(anywhere, "--pty", *SHELL, env=ENV) as (yod, terminal):
        read_until(terminal, PROMPT)
        assert is_raw(terminal)
        assert re.fullmatch(rb"tty\r\n/dev/pts/\d+\r\n% ", answer(terminal, b"tty\r"))
        resize(terminal, 33, 99)
        wait_until(lambda: b"\n33 99\r\n" in answer(terminal, b"stty size\r"), what="the size")
        answer(terminal, CAT, b"\nready\r\n")
        answer(terminal, b"x\r", b"x\r\nx\r\n")
        answer(terminal, CTRL_C)
        answer(terminal, CAT, b"\nready\r\n")
        answer(terminal, b"y\r", b"y\r\ny\r\n")
        assert b"Stopped" in answer(terminal, CTRL_Z)
        answer(terminal, b"fg\r", b"cat\r\n")
        answer(terminal, b"z\r", b"z\r\nz\r\n")
        answer(terminal, CTRL_D)
        os.write(terminal, b"exit 7\r")
        assert yod.wait(timeout=LIMIT_S) == 7
        assert not is_raw(terminal)


def test_the_debugger_of_python_takes_commands(here, tmp_path):
    (tmp_path / "x.py").write_text("answer = 6 * 7\nprint('the answer', answer)\n")
    words = ("--pty", sys.executable, "-m", "pdb", tmp_path / "x.py")
    with on_a_terminal(here, *words, env=ENV) as (yod, terminal):
        read_until(terminal, b"(Pdb) ")
        answer(terminal, b"next\r", b"(Pdb) ")
        assert b"\n42\r\n" in answer(terminal, b"p answer\r", b"(Pdb) ")
        os.write(terminal, b"q\r")
        assert yod.wait(timeout=LIMIT_S) == 0


def test_a_prompt_of_python_takes_lines_an_interrupt_and_its_end(anywhere):
    python = ("--pty", sys.executable, "-I", "-i", "-q")
    with on_a_terminal(anywhere, *python, env=ENV) as (yod, terminal):
        read_until(terminal, b">>> ")
        assert b"\n42\r\n" in answer(terminal, b"6 * 7\r", b"\r\n>>> ")
        answer(terminal, b"while True: print('on') or __import__('time').sleep(60)\r", b"... ")
        answer(terminal, b"\r", b"\non\r\n")
        assert b"KeyboardInterrupt" in answer(terminal, CTRL_C, b"\r\n>>> ")
        assert b"\n'still there'\r\n" in answer(terminal, b"'still ' + 'there'\r", b"\r\n>>> ")
        os.write(terminal, CTRL_D)
        assert yod.wait(timeout=LIMIT_S) == 0
        assert not is_raw(terminal)


def test_another_rank_has_it_and_the_others_write_lines_beside_it(anywhere):
    text = 'if [ $YOD_RANK = 2 ]; then tty; exec cat; fi; read line; echo "$YOD_RANK none" | cat'
    words = ("-sz", "4", "--pty=2", "--label", "sh", "-c", text)
    with on_a_terminal(anywhere, *words) as (yod, terminal):
        seen = b""
        while seen.count(b"none\r\n") < 3 or b"/dev/pts/" not in seen:
            seen += read_until(terminal, b"\n")
        assert {b"0: 0 none\r", b"1: 1 none\r", b"3: 3 none\r"} <= set(seen.split(b"\n"))
        assert b"2: /dev" not in seen
        answer(terminal, b"typed\r", b"typed\r\ntyped\r\n")
        os.write(terminal, CTRL_D)
        assert yod.wait(timeout=LIMIT_S) == 0


def test_all_that_is_written_at_once_comes_in_order_up_to_the_last_byte(anywhere):
    """The rank has ended long before the user's terminal has taken it."""
    text = "stty -opost; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done; printf last"
    with on_a_terminal(anywhere, "--pty", "sh", "-c", text) as (yod, terminal):
        seen = read_until(terminal, b"last")
        assert yod.wait(timeout=LIMIT_S) == 0
    assert seen.split() == [b"%d" % number for number in range(1, 20001)] + [b"last"]


def test_a_tilde_and_a_dot_end_a_rank_that_ignores_all_keys(anywhere):
    text = "trap '' INT TSTP; stty raw -echo; printf ready; exec cat"
    with on_a_terminal(anywhere, "--pty", "sh", "-c", text) as (yod, terminal):
        read_until(terminal, b"ready")
        answer(terminal, CTRL_C + CTRL_Z + b"~x\r~~.\r", CTRL_C + CTRL_Z + b"~x\r~.\r")
        os.write(terminal, b"~.")
        assert b"SIGTERM sent to all ranks" in read_until(terminal, b"\n")
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGINT
        assert not is_raw(terminal)


def test_a_shell_that_ignores_sigterm_ends_with_its_terminal(here):
    with on_a_terminal(here, "--pty", *SHELL, env=ENV) as (yod, terminal):
        answer(terminal, b"sleep 1000 &\r")
        yod.terminate()
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGTERM
        assert not is_raw(terminal)


def test_a_terminal_hangs_up_once_more_for_what_has_forgotten_the_first_time(here):
    """As bash does where SIGHUP comes just before it reads a line."""
    text = "trap '' TERM; trap 'trap \"exit 7\" HUP' HUP; echo ready; while :; do read -r x; done"
    with on_a_terminal(here, "--pty", "bash", "-c", text) as (yod, terminal):
        read_until(terminal, b"ready")
        yod.terminate()
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_yod_that_dies_leaves_the_terminal_as_it_was(here, number):
    """The process that the shell waits for gives the terminal back."""
    with on_a_terminal(here, "--pty", *SHELL, env=ENV) as (yod, terminal):
        read_until(terminal, PROMPT)
        assert is_raw(terminal)
        (child,) = children(yod.pid)
        os.kill(child, number)
        assert yod.wait(timeout=LIMIT_S) == -number
        assert not is_raw(terminal)


def children(unix_pid: int) -> list[int]:
    with open(f"/proc/{unix_pid}/task/{unix_pid}/children") as file:
        return [int(word) for word in file.read().split()]


def test_a_tilde_and_ctrl_z_stop_yod_and_fg_goes_on(here):
    shell = f"set -m; {BIN}/yod --stop-ranks --pty cat; echo stopped $?; read word; fg; "
    shell += "echo over $?; read word"
    with command_on_a_terminal(here, "bash", "-c", shell) as (_, terminal):
        answer(terminal, b"one\r", b"one\r\none\r\n")
        os.write(terminal, b"~" + CTRL_Z)
        read_until(terminal, b"stopped 148\n")
        assert not is_raw(terminal)
        os.write(terminal, b"go\n")
        wait_until(lambda: is_raw(terminal), what="a raw terminal")
        answer(terminal, b"two\r", b"two\r\ntwo\r\n")
        os.write(terminal, CTRL_D)
        read_until(terminal, b"over 0\n")
        assert not is_raw(terminal)


def test_a_terminal_that_fg_has_fetched_is_the_ranks(here):
    """Bash sends a job that runs no SIGCONT: it looks when the terminal shows or gets something."""
    with command_on_a_terminal(here, "bash", "--norc", "-i", env=ENV) as (_, terminal):
        os.write(terminal, f"{BIN}/yod --pty sh -c 'echo u''p; exec cat' &\n".encode())
        read_until(terminal, b"up\r\n")
        assert b"42" in answer(terminal, b"echo $((6 * 7))\n", b"42\n")
        at_first = os.tcgetpgrp(terminal)
        os.write(terminal, b"fg\n")
        wait_until(lambda: os.tcgetpgrp(terminal) != at_first, what="another foreground")
        answer(terminal, b"one\n", b"one\r\none\r\n")
        assert is_raw(terminal)
        answer(terminal, b"two\r", b"two\r\ntwo\r\n")
        os.write(terminal, b"~.")
        read_until(terminal, b"SIGTERM sent to all ranks")
        wait_until(lambda: os.tcgetpgrp(terminal) == at_first, what="the shell")


def test_the_line_that_leaves_gives_the_terminal_back(here, tmp_path):
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": None, **ENV}
    shell = f"{BIN}/yod --pty sh -c 'echo up; read line; exit 3'; echo over $?; read word"
    with command_on_a_terminal(here, "bash", "-c", shell, env=env) as (_, terminal):
        read_until(terminal, b"up\r\n")
        os.write(terminal, b"~d\r")
        shown = read_until(terminal, b"over 0\n")
        assert not is_raw(terminal)
        job_id = re.search(rb"yodjob attach (\S+)\n", shown)[1].decode()
        done = finish(here.start_command(BIN / "yodjob", "attach", job_id, env=env), b"x\n")
        assert done.status == 3, done


def test_yods_lines_end_as_the_terminal_of_the_moment_wants_it(here):
    """Raw while its rank runs; behind that the terminal itself goes back to the left."""
    text = "[ $YOD_RANK = 1 ] && exit 2; read line; exit 3"
    words = (BIN / "yod", "-sz", "2", "--keep-going", "--pty", "sh", "-c", text)
    shell = 'stty opost onlcr; exec "$@"'
    with command_on_a_terminal(here, "sh", "-c", shell, "sh", *words) as (yod, terminal):
        read_until(terminal, b"exit code 2; the others go on\r\n")
        os.write(terminal, b"\r")
        read_until(terminal, b"exit code 3\r\n")
        assert yod.wait(timeout=LIMIT_S) == 2


def test_when_its_rank_has_ended_the_keys_are_yods_again(here):
    text = "if [ $YOD_RANK = 0 ]; then printf ready; read line; exit 0; fi; exec sleep 1000"
    with on_a_terminal(here, "-sz", "2", "--pty", "sh", "-c", text) as (yod, terminal):
        read_until(terminal, b"ready")
        assert is_raw(terminal)
        os.write(terminal, b"\r")
        wait_until(lambda: not is_raw(terminal), what="the terminal as it was")
        os.write(terminal, CTRL_C)
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGINT


def test_without_a_terminal_or_a_rank_it_is_refused(here):
    text = "yod: --pty needs a terminal: yod's standard input is none\n"
    assert here.yod("--pty", "cat") == (125, "", text)
    with on_a_terminal(here, "-sz", "2", "--pty=2", "cat") as (yod, terminal):
        read_until(terminal, b"yod: --pty: there is no rank 2: the job has ranks 0 to 1")
        assert yod.wait(timeout=LIMIT_S) == 125
    with on_a_terminal(here, "--pty=x", "cat") as (yod, terminal):
        read_until(terminal, b"yod: --pty=x: a rank, as in --pty=3, or --pty for rank 0\n")
        assert yod.wait(timeout=LIMIT_S) == 125
    assert here.yod("--pty", "-o", "out.%t", "cat").err == "yod: --pty and -o exclude each other\n"
