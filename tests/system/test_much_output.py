"""Very much output, very many lines, a line without an end, very short jobs: whole, and bounded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm

GROWTH_BYTES = 128 << 20  # far less than what is written
LINES = """
import os
rank = os.environ["YOD_RANK"]
for block in range(100):
    first = 100 * block
    os.write(1, "".join(f"{rank} {n}\\n" for n in range(first, first + 100)).encode())
"""
ENDLESS = """
import os
if os.environ["YOD_RANK"] == "1":
    for n in range(100):
        os.write(1, b"line %d\\n" % n)
else:
    for _ in range(500):
        os.write(1, b"x" * 100000)
"""


def peak_bytes(unix_pid: int) -> int:
    """The most memory that a process has had."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{unix_pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) << 10


def counted(stream: int, yod: subprocess.Popen[bytes]) -> tuple[int, int]:
    """All bytes that come, and the most memory that yod has had before the last of them."""
    count = peak = 0
    while data := os.read(stream, 1 << 20):
        count += len(data)
        if count % 64 == 0 or not peak:
            peak = max(peak, peak_bytes(yod.pid))
    return count, peak


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--label"], ["--merge"]], ids=["whole", "label", "merge"])
def test_a_gigabyte_of_each_of_four_ranks_comes_through_in_bounded_memory(here, options):
    line = b"0123456789abcdef" * 4 + b"\n"
    script = f"yes {line.decode().strip()} | head -c $((16000000 * {len(line)}))"
    with here.start_yod(*options, "-sz", "4", "sh", "-c", script) as yod:
        count, peak = counted(yod.stdout.fileno(), yod)
        assert yod.wait(timeout=LIMIT_S) == 0
    if not options:
        assert count == 4 * 16_000_000 * len(line)
    assert count >= 16_000_000 * len(line)
    assert peak < GROWTH_BYTES


def test_ten_thousand_lines_of_each_of_64_ranks_are_whole_and_in_order(embedded):
    done = embedded.yod("-sz", "64", sys.executable, "-S", "-c", LINES)
    assert (done.status, done.err) == (0, "")
    seen = [0] * 64
    for text in done.out.splitlines():
        rank, number = map(int, text.split())
        assert number == seen[rank]
        seen[rank] += 1
    assert seen == [10_000] * 64


def test_a_line_without_an_end_costs_no_memory_and_no_line_of_others(here):
    with here.start_yod("-sz", "2", sys.executable, "-S", "-c", ENDLESS) as yod:
        seen, count = b"", 0
        while data := os.read(yod.stdout.fileno(), 1 << 20):
            count += len(data)
            seen += data.translate(None, b"x")
        assert yod.wait(timeout=LIMIT_S) == 0
    assert count >= 50_000_000
    assert [word for word in seen.splitlines() if word.startswith(b"line")] == [
        b"line %d" % number for number in range(100)
    ]


def test_the_output_of_jobs_of_a_hundredth_of_a_second_is_all_there(here):
    for number in range(3):
        script = f"echo {number}; sleep 0.01; echo end >&2"
        assert here.yod("-sz", "2", "sh", "-c", script) == (0, f"{number}\n" * 2, "end\n" * 2)


def test_nuls_of_one_rank_are_all_there_and_tear_no_line_of_another(here):
    script = "if [ $YOD_RANK = 0 ]; then head -c 300000 /dev/zero; else echo text; fi"
    with here.start_yod("-sz", "2", "sh", "-c", script) as yod:
        out, _ = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, out.count(b"\0")) == (0, 300_000)
    assert b"text\n" in out
