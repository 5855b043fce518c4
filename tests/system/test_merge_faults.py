"""``yod --merge`` while something fails: no line twice or torn, and none lost without a word."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.daemons import Daemons
from tests.support.wait import LIMIT_S, unread, wait_until

NODES = 4
ENOUGH_BYTES = 50_000
LINES = 120_000  # more than pipes, pieces and windows hold
SMALL = {"YOD_OUTPUT_WINDOW_BYTES": "65536", "YOD_LINE_ROOM_BYTES": "65536"}
# Lines that all ranks have alike, and every tenth one of the rank's own; a write for each line.
# Without an end they are written slowly: a rank may begin late on a loaded machine.
WRITES = """
import os, sys, time
number, most = 0, int(sys.argv[1])
while number != most:
    own = f" of {os.environ['YOD_RANK']}" if number % 10 == 9 else ""
    os.write(1, f"line {number}{own}\\n".encode())
    number += 1
    if most < 0 and number % 20 == 0:
        time.sleep(0.002)
"""
LINE = re.compile(r"\[([0-9,-]+)\] line (\d+)(?: of (\d+))?")


def numbers(text: str, *, may_be_cut: set[int] = frozenset()) -> dict[int, list[int]]:
    """Of each rank the numbers of its lines, in the order shown; every line is whole.

    Args:
        may_be_cut: ranks whose node is lost, and with it the end of a line.
    """
    found = defaultdict(list)
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        ranks = [
            rank
            for each in (match[1] if match else line[1:].partition("]")[0]).split(",")
            for rank in range(int(each.split("-")[0]), int(each.split("-")[-1]) + 1)
        ]
        is_whole = match is not None and all(
            (int(match[2]) % 10 == 9) == (match[3] == str(rank)) for rank in ranks
        )
        if not is_whole:
            assert set(ranks) <= may_be_cut, line
            continue
        for rank in ranks:
            found[rank].append(int(match[2]))
    return found


@pytest.fixture
def chain(start_local) -> Daemons:
    return start_local(NODES, slots=1)


def start(chain: Daemons, most: int, **streams) -> subprocess.Popen[bytes]:
    """A rank on each node of a tree that is a chain: each node's parent is the one before."""
    words = ("-sz", str(NODES), "-list", f"0..{NODES - 1}", "--arity", "1", "--merge")
    return chain.start_yod(*words, sys.executable, "-c", WRITES, str(most), env=SMALL, **streams)


def is_enough(shown: Path) -> bool:
    """All ranks have been heard for a while."""
    text = shown.read_text()
    return len(text) > ENOUGH_BYTES and all(f"9 of {rank}\n" in text for rank in range(NODES))


def is_without_gap(found: list[int]) -> bool:
    return found == list(range(len(found)))


def test_a_pct_that_dies_in_the_middle_of_the_tree_costs_no_line_of_the_others(chain, tmp_path):
    shown = tmp_path / "shown"
    with open(shown, "wb") as out, start(chain, -1, stdout=out) as yod:
        wait_until(lambda: is_enough(shown))
        chain.pcts[1].kill()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode != 0 and b"was lost" in err, err
    found = numbers(shown.read_text(), may_be_cut={1})
    assert set(found) == set(range(NODES))
    lost = {int(rank) for rank in re.findall(rb"bytes of rank (\d+)'s output are lost", err)}
    for rank, seen in found.items():
        assert seen == sorted(set(seen)), rank  # none twice, each in its place
        assert is_without_gap(seen) or rank in lost or b"are lost" in err, rank
    assert is_without_gap(found[0])
    chain.replace_pct(1)


def test_a_yod_that_dies_leaves_whole_lines_none_twice_and_free_nodes(chain, tmp_path):
    shown = tmp_path / "shown"
    with open(shown, "wb") as out, start(chain, -1, stdout=out) as yod:
        wait_until(lambda: is_enough(shown))
        yod.kill()
        assert yod.wait(timeout=LIMIT_S) == -signal.SIGKILL
    text = shown.read_text()
    found = numbers(text[: text.rindex("\n") + 1])  # of the last line it may have written a part
    assert set(found) == set(range(NODES))
    assert all(map(is_without_gap, found.values()))
    wait_until(lambda: chain.states() == ["free"] * NODES)


def test_a_reader_that_stops_for_a_while_gets_every_line_once(chain):
    with start(chain, LINES) as yod:
        fd = yod.stdout.fileno()
        wait_until(lambda: unread(fd) > 60_000)  # the pipe is full
        wait_until(lambda: any(map(is_waiting, ranks_of(chain))))  # and so is that of a rank
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    found = numbers(out.decode())
    assert found == {rank: list(range(LINES)) for rank in range(NODES)}


def ranks_of(chain: Daemons) -> list[int]:
    """The processes that write."""
    return [
        int(child)
        for node in range(NODES)
        for keeper in chain.keepers(node)
        for child in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        if b"os.write(1" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def is_waiting(unix_pid: int) -> bool:
    """It waits in a write to its pipe."""
    return Path(f"/proc/{unix_pid}/wchan").read_text() in ("pipe_write", "anon_pipe_write")
