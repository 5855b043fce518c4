"""yod is left at its terminal, by a line or because the terminal is lost: the job goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.partition import BIN, Done, Partition, finish
from tests.support.processes import command_line
from tests.support.terminal import CTRL_C, command_on_a_terminal, on_a_terminal
from tests.support.wait import LIMIT_S, read_until, wait_for_exit

LEAVES = b"~d\n"
ASKS = "echo up; read line; echo got $line; exit 5"
SHELL = '"$@"; echo over $?; read word'
COUNTS = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done; echo all; read line"


@pytest.fixture
def env(request, tmp_path) -> dict[str, str | None]:
    if "launch_server" in request.fixturenames or "warm" in request.node.name:
        return dict(request.getfixturevalue("launch_server").directories)
    return {"HOME": str(tmp_path), "XDG_STATE_HOME": None}


@pytest.fixture(
    params=["embedded", "local", "warm", pytest.param("warm local", marks=pytest.mark.long)]
)
def there(request, start_local) -> Partition:
    """The partition of yod alone, that of a launch server, and one of daemons."""
    partition = start_local(2, slots=2) if "local" in request.param else Partition()
    if "warm" in request.param:
        partition.launch_server = request.getfixturevalue("launch_server")
    return partition


@contextmanager
def in_a_shell(partition: Partition, env, *words: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """A command at the terminal of a shell, which says how it has ended."""
    command = ("bash", "-c", SHELL, "bash", *words)
    with command_on_a_terminal(partition, *command, env=env) as (bash, terminal):
        yield bash, terminal


def yodjob(partition: Partition, env, *words: str, input: bytes = b"") -> Done:
    return finish(partition.start_command(BIN / "yodjob", *words, env=env), input)


def leave(terminal: int) -> tuple[bytes, str]:
    """Type the line.

    Returns:
        What the terminal shows before yod's last line, and the job's id.
    """
    os.write(terminal, LEAVES)
    shown = read_until(terminal, b"over 0\n")
    before, job_id = re.fullmatch(
        rb"(.*)yod: detached; yodjob attach (\S+)\nover 0\n", shown, re.S
    ).groups()
    return before, job_id.decode()


def test_the_line_leaves_and_the_job_has_its_input_output_and_status_when_attached(there, env):
    with in_a_shell(there, env, BIN / "yod", "sh", "-c", ASKS) as (_, terminal):
        read_until(terminal, b"up\n")
        before, job_id = leave(terminal)
        assert before == b""
        assert job_id in yodjob(there, env, "list").out
    done = yodjob(there, env, "attach", job_id, input=b"me\n")
    assert (done.status, done.out) == (5, "got me\n"), done
    assert yodjob(there, env, "attach", job_id) == done  # again, after the end
    assert yodjob(there, env, "wait", job_id).status == 5


def test_no_line_is_lost_or_shown_twice_over_detach_and_attach(there, env):
    """It is typed while lines come, some of which the terminal has not taken yet."""
    with in_a_shell(there, env, BIN / "yod", "sh", "-c", COUNTS) as (_, terminal):
        seen = read_until(terminal, b"line 20\n")
        before, job_id = leave(terminal)
    done = yodjob(there, env, "attach", job_id, input=b"\n")
    assert done.status == 0
    lines = [f"line {number}" for number in range(1, 3001)]
    assert ((seen + before).decode() + done.out).split("\n") == [*lines, "all", ""]


def test_much_output_to_a_pipe_is_lost_in_no_part_over_detach_and_attach(there, env, tmp_path):
    """A launch server writes to the pipe by itself, and its reader sees the end of it."""
    many = "seq 300000; echo up >&2; seq 300001 600000; read line"
    piped = f'"$@" | cat >{tmp_path}/got; echo over ${{PIPESTATUS[0]}}; read word'
    command = ("bash", "-c", piped, "bash", BIN / "yod", "sh", "-c", many)
    with command_on_a_terminal(there, *command, env=env) as (_, terminal):
        read_until(terminal, b"up\n")
        _, job_id = leave(terminal)
    done = yodjob(there, env, "attach", job_id, input=b"\n")
    assert done.status == 0
    found = ((tmp_path / "got").read_text() + done.out).split()
    assert found == [str(number + 1) for number in range(600_000)]


def test_ranks_keep_their_labels_and_streams(there, env):
    rank = "echo out; echo err >&2; read line; exec 2>&-; echo end"
    words = ("-sz", "2", "--label", "sh", "-c", f"trap '' TERM; {rank}")
    with in_a_shell(there, env, BIN / "yod", *words) as (_, terminal):
        read_until(terminal, b"\n", times=5)  # rank 1 reads the end of its input, and ends
        _, job_id = leave(terminal)
    assert yodjob(there, env, "attach", job_id, input=b"\n").out == "0: end\n"


def test_the_same_line_leaves_a_terminal_that_has_attached(here, env):
    with in_a_shell(here, env, BIN / "yod", "sh", "-c", ASKS) as (_, terminal):
        read_until(terminal, b"up\n")
        _, job_id = leave(terminal)
    with in_a_shell(here, env, BIN / "yodjob", "attach", job_id) as (_, terminal):
        read_until(terminal, b"leaves\n")
        os.write(terminal, LEAVES)
        assert b"goes on" in read_until(terminal, b"over 0\n")
    assert yodjob(here, env, "attach", job_id, input=b"x\n").out == "got x\n"


def test_ctrl_c_of_one_who_has_attached_interrupts_the_job(here, env):
    trap = "trap 'echo caught; exit 7' TERM; echo up; while :; do sleep 0.05; done"
    with in_a_shell(here, env, BIN / "yod", "sh", "-c", trap) as (_, terminal):
        read_until(terminal, b"up\n")
        _, job_id = leave(terminal)
    with in_a_shell(here, env, BIN / "yodjob", "attach", job_id) as (_, terminal):
        read_until(terminal, b"leaves\n")
        os.write(terminal, CTRL_C)
        assert b"SIGTERM sent to all ranks" in read_until(terminal, b"caught\n")
    assert yodjob(here, env, "attach", job_id).status == 128 + signal.SIGINT


def test_a_job_that_was_left_can_be_cancelled(there, env):
    with in_a_shell(there, env, BIN / "yod", "sh", "-c", "echo up; sleep 600") as (_, terminal):
        read_until(terminal, b"up\n")
        _, job_id = leave(terminal)
    assert yodjob(there, env, "cancel", job_id).status == 0
    assert yodjob(there, env, "attach", job_id).status == 128 + signal.SIGTERM


def test_a_line_with_two_tildes_is_the_jobs(here, env):
    with in_a_shell(here, env, BIN / "yod", "sh", "-c", ASKS) as (_, terminal):
        read_until(terminal, b"up\n")
        os.write(terminal, b"~~d\n")
        assert read_until(terminal, b"over 5\n").startswith(b"got ~d\n")


def test_a_file_goes_on_to_get_the_output(here, env, tmp_path):
    shell = f"exec {BIN}/yod sh -c '{ASKS}' > {tmp_path}/out"
    with in_a_shell(here, env, "sh", "-c", shell) as (_, terminal):
        while not (tmp_path / "out").exists() or not (tmp_path / "out").read_text():
            os.sched_yield()
        _, job_id = leave(terminal)
    done = yodjob(here, env, "attach", job_id, input=b"me\n")
    assert (done.status, done.out) == (5, "")
    assert (tmp_path / "out").read_text() == "up\ngot me\n"


def test_a_step_of_an_allocation_is_left(start_local, env):
    partition = start_local(2, slots=2)
    script = f"{BIN}/yod sh -c '{ASKS}'; echo over $?; read word"
    words = ("yodjob", "alloc", "-quiet", "-sz", "2", "bash", "-c", script)
    with command_on_a_terminal(partition, BIN / words[0], *words[1:], env=env) as (_, terminal):
        read_until(terminal, b"up\n")
        _, job_id = leave(terminal)
        assert re.fullmatch(r"\d+\.\d+", job_id)
        done = yodjob(partition, env, "attach", job_id, input=b"me\n")
        assert (done.status, done.out) == (5, "got me\n"), done
        os.write(terminal, b"\n")


def test_what_is_typed_before_the_job_runs_is_read_when_it_runs(start_local, env):
    partition = start_local(1, slots=1)
    holder = partition.start_yod("sh", "-c", "echo up; read line; exit 0", env=env)
    read_until(holder.stdout.fileno(), b"up\n")
    with in_a_shell(partition, env, BIN / "yod", "--wait", "sh", "-c", ASKS) as (_, terminal):
        read_until(terminal, b"waits for nodes")
        os.write(terminal, LEAVES)
        assert finish(holder, b"\n").status == 0
        job_id = read_until(terminal, b"over 0\n").split(b"attach ")[1].split()[0].decode()
    assert yodjob(partition, env, "attach", job_id, input=b"me\n").out.endswith("got me\n")


# -- the terminal is lost ------------------------------------------------------


@pytest.mark.parametrize("is_shell", [True, False], ids=["shell", "alone"])
def test_a_lost_terminal_leaves_the_job_that_is_to_go_on(there, env, is_shell):
    command = (BIN / "yod", "--detach-on-hangup", "sh", "-c", ASKS)
    start = in_a_shell(there, env, *command)
    if not is_shell:
        start = command_on_a_terminal(there, *command, env=env)
    with start as (process, terminal):
        read_until(terminal, b"up\n")
        job_id = yodjob(there, env, "list").out.split()[8]
        os.close(terminal)
        process.wait(timeout=LIMIT_S)
    done = yodjob(there, env, "attach", job_id, input=b"me\n")
    assert (done.status, done.out) == (5, "got me\n"), done


def test_what_a_lost_terminal_has_not_taken_is_kept(here, env):
    """The job writes all the time: what fails to be written is not lost."""
    with in_a_shell(here, env, BIN / "yod", "--detach-on-hangup", "sh", "-c", COUNTS) as (
        bash,
        terminal,
    ):
        read_until(terminal, b"line 20\n")
        job_id = yodjob(here, env, "list").out.split()[8]
        os.close(terminal)
        bash.wait(timeout=LIMIT_S)
    lines = yodjob(here, env, "attach", job_id, input=b"\n").out.split("\n")
    assert lines[-2:] == ["all", ""]
    numbers = [int(line.split()[1]) for line in lines[1:-2]]
    assert numbers == list(range(numbers[0], 3001))


def test_without_the_option_a_lost_terminal_ends_the_job(there, env):
    with on_a_terminal(there, "sh", "-c", "echo up; sleep 600", env=env) as (yod, terminal):
        read_until(terminal, b"up\n")
        os.close(terminal)
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGHUP


# -- the process that the shell waits for --------------------------------------


def test_a_killed_yod_ends_its_job(there, env):
    with on_a_terminal(there, "sh", "-c", "echo up $$; sleep 600", env=env) as (yod, terminal):
        shown = read_until(terminal, b"up ")
        while not shown.endswith(b"\n"):
            shown += read_until(terminal, b"\n")
        rank = int(shown.split(b"up ")[1])
        yod.kill()
        wait_for_exit(rank)


@pytest.mark.parametrize(("status", "word"), [(0, "0"), (9, "9"), (-signal.SIGSEGV, "139")])
def test_it_ends_as_yod_ends(here, env, status, word):
    rank = f"exit {status}" if status >= 0 else "kill -SEGV $$"
    with in_a_shell(here, env, BIN / "yod", "sh", "-c", rank) as (_, terminal):
        read_until(terminal, b"over %s\n" % word.encode())


def test_signals_to_it_are_yods(here, env):
    rank = "trap 'echo usr1' USR1; trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"
    with on_a_terminal(here, "sh", "-c", rank, env=env) as (yod, terminal):
        read_until(terminal, b"up\n")
        yod.send_signal(signal.SIGUSR1)
        read_until(terminal, b"usr1\n")
        yod.send_signal(signal.SIGTERM)
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGTERM


def test_a_yod_without_a_terminal_is_one_process(here, env):
    with here.start_yod("sh", "-c", "echo up; read line; exit 0", env=env) as yod:
        read_until(yod.stdout.fileno(), b"up\n")
        assert "yod-cold" in command_line(yod.pid)
        yod.stdin.close()
        assert yod.wait(timeout=LIMIT_S) == 0
