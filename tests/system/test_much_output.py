"""Very much output, very many lines, a line without an end, very short jobs: whole, and bounded."""

from __future__ import annotations

import sys

import pytest

from tests.support.memory import PATIENT, read_slowly
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm

LINES = """
import os
rank, rest = os.environ["YOD_RANK"], "x" * 80
os.write(1, b"up\\n")
for block in range(100):
    first = 100 * block
    os.write(1, "".join(f"{rank} {n} {rest}\\n" for n in range(first, first + 100)).encode())
"""
ENDLESS = """
import os
os.write(1, b"up\\n")
if os.environ["YOD_RANK"] == "1":
    for n in range(100):
        os.write(1, b"line %d\\n" % n)
else:
    for _ in range(500):
        os.write(1, b"x" * 100000)
"""


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--label"], ["--merge"]], ids=["whole", "label", "merge"])
def test_a_gigabyte_of_each_of_four_ranks_comes_through_in_bounded_memory(here, options):
    line = b"0123456789abcdef" * 4 + b"\n"
    script = f"echo up; yes {line.decode().strip()} | head -c $((16000000 * {len(line)}))"
    with here.start_yod(*options, "-sz", "4", "sh", "-c", script) as yod:
        count = sum(map(len, read_slowly(here, yod)))
        assert yod.wait(timeout=LIMIT_S) == 0
    if not options:
        assert count == 4 * (16_000_000 * len(line) + len("up\n"))
    assert count >= 16_000_000 * len(line)


def test_ten_thousand_lines_of_each_of_64_ranks_are_whole_and_in_order(embedded):
    """As fast as they come, while a slow reader holds them up: 55 MB."""
    words = ("-sz", "64", sys.executable, "-S", "-c", LINES)
    with embedded.start_yod(*words, env=PATIENT) as yod:
        out = b"".join(read_slowly(embedded, yod))
        assert (yod.wait(timeout=LIMIT_S), yod.stderr.read()) == (0, b"")
    seen = [0] * 64
    for line in out.splitlines():
        if line == b"up":
            continue
        rank, number, rest = line.split()
        assert (int(number), rest) == (seen[int(rank)], b"x" * 80)
        seen[int(rank)] += 1
    assert seen == [10_000] * 64


def test_a_line_without_an_end_costs_no_memory_and_no_line_of_others(here):
    with here.start_yod("-sz", "2", sys.executable, "-S", "-c", ENDLESS) as yod:
        seen, count = b"", 0
        for data in read_slowly(here, yod):
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
