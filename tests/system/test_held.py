"""``yod -attach`` holds the ranks at their entry for debuggers, until the user lets them go."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess

import pytest

from tests.support.partition import BIN, Partition, finish
from tests.support.terminal import CTRL_C, on_a_terminal
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

pytestmark = pytest.mark.warm  # where a launch server is, the client runs these by itself

PROGRAM = """
#include <stdio.h>

volatile int answer = 1;

int main (void)
{
    char line[80] = "nothing";

    if (fgets (line, sizeof (line), stdin))
        line[4] = 0;
    printf ("%d %s\\n", answer, line);
    return 0;
}
"""
LAST_WORDS = b"(`yodjob list` shows the id)\n"


@pytest.fixture(params=["dynamic", "static"])
def program(request, programs, tmp_path):
    options = ["-static"] if request.param == "static" else []
    return programs.compile(str(tmp_path / request.param), PROGRAM, *options)


def shown(said: bytes) -> list[tuple[str, int]]:
    """The node and the process of rank 0, 1, ..."""
    found = re.findall(rb"^yod:   rank (\d+) on (\S+): gdb -p (\d+)$", said, re.MULTILINE)
    assert [int(rank) for rank, _, _ in found] == list(range(len(found)))
    return [(node.decode(), int(unix_pid)) for _, node, unix_pid in found]


def processes(said: bytes) -> list[int]:
    return [unix_pid for _, unix_pid in shown(said)]


def set_answer(partition: Partition, node: str, unix_pid: int) -> None:
    """By a debugger, on the node."""
    words = ["gdb", "-nx", "-batch", "-p", str(unix_pid), "-ex", "set var *(int *) &answer = 42"]
    hosts = {host.name: host for host in getattr(partition, "hosts", ())}
    if node in hosts:
        hosts[node].run(words, check=True)
    else:
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True}
        subprocess.run(words, check=True, timeout=LIMIT_S, **streams)


def id_of(partition: Partition) -> str:
    """Of the only job, which has it soon after it has nodes."""

    def listed() -> list[list[str]]:
        lines = finish(partition.start_command(BIN / "yodjob", "list")).out.splitlines()
        return [line.split() for line in lines[1:]]

    (job,) = wait_until(listed, what="a job")
    assert job[3] == "S"
    return job[0]


def test_a_debugger_changes_a_rank_before_main_and_enter_lets_all_go(anywhere, programs, tmp_path):
    program = programs.compile(str(tmp_path / "answers"), PROGRAM)
    with on_a_terminal(anywhere, "-attach", "-sz", "3", program) as (yod, terminal):
        said = read_until(terminal, LAST_WORDS)
        assert b"yod: Enter lets them go, or `yodjob resume ID`" in said
        set_answer(anywhere, *shown(said)[1])
        os.write(terminal, b"\nline\n")
        lines = read_until(terminal, b"\n", times=3).splitlines()
        assert yod.wait(timeout=LIMIT_S) == 0
    assert sorted(lines[:3]) == [b"1 line", b"1 nothing", b"42 nothing"]


def test_a_static_program_is_held_for_a_debugger_too_and_goes_by_a_command(embedded, program):
    with embedded.start_yod("-attach", program, stdin=subprocess.DEVNULL) as yod:
        said = read_until(yod.stderr.fileno(), LAST_WORDS)
        assert b"yod: they go by `yodjob resume ID`" in said
        set_answer(embedded, *shown(said)[0])
        job_id = id_of(embedded)
        assert finish(embedded.start_command(BIN / "yodjob", "resume", job_id)) == (0, "", "")
        out, _ = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, out) == (0, b"42 nothing\n")


@pytest.mark.parametrize(("point", "is_executed"), [("2", False), ("3", True)])
def test_ranks_that_sleep_are_held_before_exec_or_at_their_entry(here, point, is_executed):
    program = shutil.which("sleep")
    with on_a_terminal(here, "-sleep", point, "-sz", "2", program, "0") as (yod, terminal):
        said = read_until(terminal, LAST_WORDS)
        assert b"yod: they go in 60 s; before that Enter lets them go, or `yodjob resume" in said
        for rank in processes(said):
            assert os.path.samefile(f"/proc/{rank}/exe", program) == is_executed
        os.write(terminal, b"\n")
        assert yod.wait(timeout=LIMIT_S) == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("-sleep", "5"), "-sleep 5: 1 and 2 hold the ranks before exec, 3 and 4 at their entry"),
        (
            ("-sleep", "1", "-attach"),
            "-sleep and -attach exclude each other: -attach holds for any time",
        ),
    ],
)
def test_a_point_of_sleep_that_there_is_not_is_refused(here, options, why):
    done = here.yod(*options, "true")
    assert (done.status, done.out) == (125, "")
    assert done.err.splitlines()[0] == f"yod: {why}"


def test_an_interrupt_ends_ranks_that_are_held(here, program):
    with on_a_terminal(here, "-attach", "-sz", "2", program) as (yod, terminal):
        ranks = processes(read_until(terminal, LAST_WORDS))
        os.write(terminal, CTRL_C)
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGINT
    for rank in ranks:
        wait_for_exit(rank)


def test_a_rank_that_is_killed_while_it_is_held_ends_the_job(embedded, program):
    with embedded.start_yod("-attach", "-sz", "2", program, stdin=subprocess.DEVNULL) as yod:
        ranks = processes(read_until(yod.stderr.fileno(), LAST_WORDS))
        os.kill(ranks[1], signal.SIGKILL)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert b"rank 1" in err
    assert b"killed by SIGKILL before its entry" in err
    assert yod.returncode == 125


@pytest.mark.parametrize(("answer", "status"), [(b"y\n", 0), (b"n\n", 125)], ids=["y", "n"])
def test_a_user_who_is_asked_sees_the_nodes_and_decides(anywhere, answer, status):
    with on_a_terminal(anywhere, "-alloc", "-sz", "3", "echo", "gone") as (yod, terminal):
        said = read_until(terminal, LAST_WORDS)
        assert b"yod: all ranks are held at their entry, on " in said
        assert re.search(rb"^yod:   \S+ \(node \d+\): ranks? 0", said, re.MULTILINE)
        assert b"gone" not in said
        os.write(terminal, answer)
        shown = read_until(terminal, b"gone\n", times=3) if status == 0 else b""
        assert yod.wait(timeout=LIMIT_S) == status
    assert shown.count(b"gone\n") == 3 * (status == 0)


@pytest.mark.parametrize(
    ("options", "why"),
    [(("-batch",), "the job is not interactive"), (("-attach",), "-attach holds the ranks, too")],
    ids=["batch", "attach"],
)
def test_nobody_is_asked_where_nobody_could_answer_or_who_attaches(embedded, options, why):
    with embedded.start_yod(*options, "-alloc", "true", stdin=subprocess.DEVNULL) as yod:
        if "-attach" in options:
            read_until(yod.stderr.fileno(), f"yod: -alloc is ignored: {why}\n".encode())
            yod.send_signal(signal.SIGTERM)
            yod.communicate(timeout=LIMIT_S)
        else:
            _, err = yod.communicate(timeout=LIMIT_S)
            assert err.decode() == f"yod: -alloc is ignored: {why}\n"


def test_show_tells_what_is_launched_and_launches_it(embedded):
    done = finish(embedded.start_yod("-show", "-sz", "2", "echo", "ran"))
    assert (done.status, done.out) == (0, "ran\nran\n")
    assert re.search(r"^yod: yod \d\S+\n", done.err)
    assert re.search(r"^yod: ranks 0-1: \S+/echo ran\nyod: mpi: ", done.err, re.MULTILINE)
