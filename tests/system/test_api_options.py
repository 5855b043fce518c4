"""What a program asks for by the names of the command's rarer options."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys

import pytest

from tests.support.limits import try_longer
from tests.support.programs import HEARS
from tests.support.terminal import command_on_a_terminal
from tests.support.wait import LIMIT_S, read_until, wait_until
from yod import api


def sh(text: str, **choices) -> api.Result:
    """Run a shell on each rank, here, and keep its output."""
    choices = {"partition": "embedded", "stdin": b"", **choices}
    return api.run(["sh", "-c", text], capture_output=True, **choices)


def test_ranks_share_one_input_line_by_line(place):
    lines = b"".join(b"line %d\n" % number for number in range(300))
    done = sh("while read line; do echo $line; done", size=3, stdin=lines, stdin_ranks="shared")
    assert sorted(done.stdout.splitlines()) == sorted(lines.splitlines())


@pytest.mark.parametrize(
    ("ranks", "count"), [("all", 4), ("1,3", 2), ([0, 2, 3], 3), ("none", 0)], ids=str
)
def test_the_ranks_that_are_named_have_the_whole_input(place, ranks, count):
    done = sh("cat", size=4, stdin=b"to each\n", stdin_ranks=ranks)
    assert done.stdout == b"to each\n" * count


@pytest.mark.parametrize("reaches", [False, True])
def test_a_signal_reaches_helpers_only_when_asked(place, reaches):
    async def heard() -> list[bytes]:
        command = [sys.executable, "-S", "-c", HEARS]
        seen = b""
        job = api.launch(command, partition="embedded", stdin=b"", signal_tree=reaches)
        async with job:
            async for event in job.events():
                if isinstance(event, api.Output):
                    seen += event.data
                    if event.data == b"ready\n":
                        job.signal(signal.SIGUSR1)
        return sorted(seen.splitlines())

    assert asyncio.run(heard()) == [*([b"helper 10"] if reaches else []), b"rank 10", b"ready"]


# The shell has job control, so that Ctrl-Z stops the program.
CONTROL = """
set -m
trap : CONT
{python} -c "$0" "$1"
echo stopped $?
read word
fg
echo over $?
"""
STOPS = """
import sys
from yod import api
done = api.run(["sh", "-c", 'echo rank $$; read line < $0; echo done', sys.argv[1]],
    size=2, stdin=b"", stop_ranks=True)
print("status", done.exit_status)
"""


def state(unix_pid: int) -> str:
    with open(f"/proc/{unix_pid}/stat") as stat:
        return stat.read().rpartition(") ")[2][0]


def test_ctrl_z_stops_the_ranks_of_a_program_when_asked(here, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    shell = CONTROL.format(python=sys.executable)
    command = ("bash", "-c", shell, STOPS, str(fifo))
    with command_on_a_terminal(here, *command) as (bash, terminal):
        seen = b""
        while seen.count(b"rank") < 2 or not seen.endswith(b"\n"):
            seen += read_until(terminal, b"\n")
        ranks = [int(line.split()[1]) for line in seen.splitlines() if line.startswith(b"rank")]
        os.write(terminal, b"\x1a")
        read_until(terminal, b"stopped 148\n")
        for rank in ranks:
            wait_until(lambda rank=rank: state(rank) == "T", what="the ranks stopped")
        os.write(terminal, b"go\n")
        for rank in ranks:
            wait_until(lambda rank=rank: state(rank) != "T", what="the ranks go on")
        with open(fifo, "wb", buffering=0) as go:
            go.write(b"a line\nfor each\n")
            shown = read_until(terminal, b"over 0\n")
        assert shown.count(b"done\n") == 2 and b"status 0\n" in shown
        bash.wait(timeout=LIMIT_S)


def test_ranks_write_to_files_of_their_own(place, tmp_path):
    done = sh(
        "echo out $YOD_RANK; echo err >&2", size=2, cwd=tmp_path, output="o.%t", error="e.%2t"
    )
    assert (done.stdout, done.stderr, done.exit_status) == (b"", b"", 0)
    found = {path.name: path.read_text() for path in tmp_path.glob("[oe].*")}
    assert found == {"o.0": "out 0\n", "o.1": "out 1\n", "e.00": "err\n", "e.01": "err\n"}


def test_a_time_limit_warns_the_ranks_and_ends_them(place):
    text = "trap 'echo warned; exit 0' USR1; sleep 1000 & wait"

    def is_warned(begun_s: float) -> None:
        done = sh(text, time_s=begun_s + 60.0, warning="USR1@60")
        assert (done.stdout, done.exit_status) == (b"warned\n", 0)

    try_longer(is_warned, 0.5)
    assert sh("exec sleep 1000", time_s=0.2).exit_status == 124


def test_lines_are_stamped_and_launchers_imitated_and_the_launch_traced(place, tmp_path):
    trace = tmp_path / "trace.json"
    done = sh(
        "echo $SLURM_PROCID $RANK",
        size=1,
        timestamp=True,
        rank_variables="slurm,torch",
        stacks=True,
        trace=trace,
    )
    assert re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} 0 0\n", done.stdout), done
    assert json.loads(trace.read_text())["traceEvents"]
