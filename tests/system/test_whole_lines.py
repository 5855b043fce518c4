"""The ranks' output in whole lines, by real processes, on a terminal, in files and in pipes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections import defaultdict

import pytest

from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.warm

# A line in two writes, as an unbuffered Python prints it.
PIECES = """
import os
for n in range(300):
    os.write(1, b"line %d of" % n)
    os.write(1, b" rank %s\\n" % os.environb[b"YOD_RANK"])
"""
# Both streams of each rank, in pieces.
BOTH = """
import os
for n in range(200):
    for stream in (1, 2, 1, 2):
        os.write(stream, b"%d " % stream)
    for stream in (1, 2):
        os.write(stream, b"%s\\n" % os.environb[b"YOD_RANK"])
"""
# Fills standard output until it cannot be written for a second, then says so on standard error.
FLOOD = """
import os, select
os.set_blocking(1, False)
while select.select([], [1], [], 1.0)[1]:
    try:
        os.write(1, b"x" * 4095 + b"\\n")
    except BlockingIOError:
        pass
os.write(2, b"blocked\\n")
"""
ASK = """
import os
if os.environ["YOD_RANK"] == "0":
    os.write(1, b"name? ")
    os.write(1, b"hello " + os.read(0, 100))
"""


def test_four_ranks_that_print_in_two_writes_print_four_lines(here):
    assert here.yod("-sz", "4", sys.executable, "-u", "-c", "print(1234)") == (0, "1234\n" * 4, "")


def test_lines_in_pieces_come_whole_and_each_ranks_in_order(here):
    done = here.yod("-sz", "4", sys.executable, "-c", PIECES)
    assert (done.status, done.err) == (0, "")
    came = defaultdict(list)
    for line in done.out.splitlines():
        number, rank = re.fullmatch(r"line (\d+) of rank (\d)", line).groups()
        came[rank].append(int(number))
    assert came == {str(rank): list(range(300)) for rank in range(4)}


def test_no_line_of_a_stream_of_numbers_is_torn(here):
    done = here.yod("-sz", "4", "seq", "100000", "200000")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) == 4 * 100001 and set(map(len, lines)) == {6}


def test_labels_tell_whose_each_line_is(embedded):
    done = embedded.yod("--label", "-sz", "11", "seq", "1000", "2000")
    came = defaultdict(list)
    for line in done.out.splitlines():
        came[line[:4]].append(int(line[4:]))
    assert came == {f"{rank:>2}: ": list(range(1000, 2001)) for rank in range(11)}


def test_standard_output_and_error_do_not_tear_each_other_in_one_pipe(here):
    with here.start_yod("-sz", "3", sys.executable, "-c", BOTH, stderr=subprocess.STDOUT) as yod:
        out, _ = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 0
    expected = [f"{stream} {stream} {rank}" for rank in range(3) for stream in (1, 2)]
    assert sorted(out.decode().splitlines()) == sorted(expected * 200)


def test_a_slow_reader_tears_no_line(here):
    """What waited for the reader was taken for a line that stays open."""
    with here.start_yod("-sz", "2", "seq", "1000000", "2000000") as yod:
        out = b""
        while data := os.read(yod.stdout.fileno(), 100 if len(out) < 20_000 else 1 << 20):
            out += data
        assert yod.wait(timeout=LIMIT_S) == 0
    lines = out.split(b"\n")
    assert len(lines) == 2 * 1000001 + 1 and set(map(len, lines)) == {7, 0}


def test_standard_error_does_not_wait_for_the_reader_of_standard_output(here):
    """They shared a window: errors stayed behind output that a pager did not take."""
    with here.start_yod("-sz", "2", sys.executable, "-c", FLOOD) as yod:
        read_until(yod.stderr.fileno(), b"blocked\nblocked\n")
        out, _ = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 0
    assert set(out.split(b"\n")) <= {b"x" * 4095, b""}


def test_a_prompt_on_a_terminal_appears_and_is_answered(embedded):
    """While rank 0 waits for its answer nothing more is written."""
    screen, terminal = pty.openpty()
    options = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    with embedded.start_yod("-sz", "2", sys.executable, "-c", ASK, **options) as yod:
        os.close(terminal)
        read_until(screen, b"name? ")
        os.write(screen, b"Ann\n")
        read_until(screen, b"hello Ann\r\n")
        assert yod.wait(timeout=LIMIT_S) == 0
    os.close(screen)


def test_an_open_line_makes_way_and_its_rest_names_its_rank(embedded):
    """Rank 1 speaks while rank 0's prompt is on show."""
    reader, writer = os.pipe()
    told = f"/proc/{os.getpid()}/fd/{reader}"
    script = f'[ $YOD_RANK = 0 ] && printf "name? " || exec <{told}; read x; echo $x'
    with embedded.start_yod("-sz", "2", "sh", "-c", script) as yod:
        read_until(yod.stdout.fileno(), b"name? ")
        os.write(writer, b"now\n")
        assert read_until(yod.stdout.fileno(), b"now\n") == b"\nnow\n"
        yod.stdin.write(b"Ann\n")
        assert read_until(yod.stdout.fileno(), b"Ann\n") == b"0: Ann\n"
        assert yod.wait(timeout=LIMIT_S) == 0
    os.close(reader)
    os.close(writer)


def test_only_the_last_line_stays_without_its_end(here):
    assert here.yod("-sz", "3", "printf", "hello") == (0, "hello\nhello\nhello", "")


@pytest.mark.parametrize("options", [["-sz", "1"], ["-sz", "2", "--raw"]])
def test_raw_output_and_that_of_a_single_rank_is_exact(here, options):
    script = "import os; os.write(1, bytes(range(256)) * 512)"
    with here.start_yod(*options, sys.executable, "-c", script) as yod:
        out, err = yod.communicate(timeout=LIMIT_S)
    size = int(options[1])
    assert (yod.returncode, err, len(out)) == (0, b"", size * 256 * 512)
    assert sorted(out) == sorted(bytes(range(256)) * 512 * size)
    assert size > 1 or out == bytes(range(256)) * 512


@pytest.mark.parametrize("size", ["1", "2"])
def test_yods_own_words_begin_on_a_fresh_line(here, size):
    done = here.yod("-sz", size, "sh", "-c", 'printf "no end" >&2; exit 3')
    lines = done.err.splitlines()
    assert done.status == 3
    ours = [line for line in lines if line.startswith("yod: rank")]
    again = [line for line in ours if line.endswith("has last written on standard error:")]
    told = ["no end"] * int(size) + ["yod: no end"] * len(again)
    assert sorted(lines) == sorted(told + ours)
    assert any("ended with exit code 3" in line for line in ours)


def test_labels_and_raw_exclude_each_other(embedded):
    done = embedded.yod("--label", "--raw", "true")
    assert done == (125, "", "yod: --label and --raw exclude each other\n")
