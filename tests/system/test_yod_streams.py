"""yod is its application's terminal: output whole and in order, input to rank 0."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from tests.support.partition import BIN
from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.warm

MB = 1 << 20
WRITE = """
import os, sys
rank, size = int(os.environ["YOD_RANK"]), int(sys.argv[1])
block = bytes([65 + rank]) * 65521
left = size
while left:
    left -= os.write(1, block[:left])
"""
# Numbered lines, so that order and losses show.
COUNT = "import sys\nfor n in range(int(sys.argv[1])): print(n)\n"


def test_ten_megabytes_come_through_exact(here):
    script = "import sys, os; os.write(1, b''); sys.stdout.buffer.write(bytes(range(256)) * 40960)"
    with here.start_yod(sys.executable, "-c", script) as yod:
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert out == bytes(range(256)) * 40960


def test_the_output_of_every_rank_is_whole(here):
    with here.start_yod("-sz", "4", sys.executable, "-c", WRITE, str(3 * MB)) as yod:
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, err) == (0, b"")
    assert [out.count(letter) for letter in (b"A", b"B", b"C", b"D")] == [3 * MB] * 4


def test_the_output_of_one_rank_keeps_its_order(here):
    done = here.yod(sys.executable, "-c", COUNT, "200000")
    assert (done.status, done.err) == (0, "")
    assert done.out == "".join(f"{n}\n" for n in range(200000))


def test_output_and_errors_stay_apart(here):
    done = here.yod("-sz", "2", "sh", "-c", "echo out; echo err >&2")
    assert done == (0, "out\nout\n", "err\nerr\n")


def test_a_reader_that_is_slow_gets_everything(here):
    """More than all windows on the way hold: the ranks wait."""
    with here.start_yod("--raw", "-sz", "2", sys.executable, "-c", WRITE, str(4 * MB)) as yod:
        got = 0
        while data := os.read(yod.stdout.fileno(), 1000 if got < 100_000 else MB):
            got += len(data)
        assert yod.wait(timeout=LIMIT_S) == 0
    assert got == 8 * MB


def test_several_megabytes_of_input_reach_rank_0_only(here):
    data = os.urandom(5 * MB)
    digest = "import sys, hashlib, os; d = sys.stdin.buffer.read(); "
    digest += "print(os.environ['YOD_RANK'], len(d), hashlib.sha1(d).hexdigest())"
    done = here.yod("-sz", "3", sys.executable, "-c", digest, input=data)
    empty = hashlib.sha1(b"").hexdigest()
    assert (done.status, sorted(done.out.splitlines()), done.err) == (
        0,
        [f"0 {len(data)} {hashlib.sha1(data).hexdigest()}", f"1 0 {empty}", f"2 0 {empty}"],
        "",
    )


def test_input_that_nobody_reads_does_not_hold_the_end(here):
    assert here.yod("-sz", "2", "true", input=bytes(3 * MB)) == (0, "", "")
    done = here.yod("head", "-c", "3", input=b"abc" * MB)
    assert done == (0, "abc", "")


def test_input_from_a_file_and_output_to_a_file(here, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    data = os.urandom(3 * MB)
    source.write_bytes(data)
    with (
        source.open("rb") as stdin,
        target.open("wb") as stdout,
        here.start_yod("cat", stdin=stdin, stdout=stdout) as yod,
    ):
        assert yod.wait(timeout=LIMIT_S) == 0
    assert target.read_bytes() == data


def test_a_conversation_over_input_and_output(here):
    with here.start_yod("-sz", "2", "cat") as yod:
        for n in range(20):
            yod.stdin.write(b"line %d\n" % n)
            read_until(yod.stdout.fileno(), b"line %d\n" % n)
        yod.stdin.close()
        assert yod.wait(timeout=LIMIT_S) == 0


def test_a_full_device_is_told_and_ends_the_job(here):
    with open("/dev/full", "wb") as full, here.start_yod("-sz", "2", "yes", stdout=full) as yod:
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125
    assert b"cannot be written: No space left on device" in err
    assert err.count(b"\n") <= 3


def test_a_reader_that_has_enough_ends_the_job_quietly(here):
    """As in `yod yes | head`: no words, and the status of SIGPIPE."""
    with here.start_yod("-sz", "2", "yes") as yod:
        assert len(os.read(yod.stdout.fileno(), 1000)) > 0
        yod.stdout.close()
        err = yod.stderr.read()
        assert yod.wait(timeout=LIMIT_S) == 141
    assert err == b""


def test_head_and_yod_in_a_shells_pipeline(here):
    command = f"{BIN}/yod -sz 2 yes | head -n 3"
    done = subprocess.run(
        ["sh", "-c", command], env=here.environment(), capture_output=True, timeout=LIMIT_S
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"y\ny\ny\n", b"", 0)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_do_no_harm(here, closed):
    command = f"exec {BIN}/yod -sz 2 sh -c 'cat; exit 3' {closed}"
    done = subprocess.run(
        ["sh", "-c", command],
        env=here.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 3, done.stderr


def test_the_output_before_a_crash_is_not_lost(here):
    text = "yes | head -c 300000; kill -SEGV $$"
    done = here.yod("-sz", "2", "sh", "-c", text)
    assert done.status == 139
    assert len(done.out) == 600000


def test_text_of_any_bytes_comes_through(here):
    done = here.yod("printf", r"\377\000\001\n")
    assert done.out.encode(errors="surrogateescape") == b"\xff\x00\x01\n"
