"""What yod writes is on a file system that fills up: one line says so, and nothing is left."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.partition import finish

pytestmark = [pytest.mark.warm, pytest.mark.usefixtures("needs_root")]

ROOM_BYTES = 64 << 10
LINE = "a line of the output\n"
FOREVER = f"while echo {LINE.strip()}; do :; done"
CANNOT = "yod: the application's output cannot be written: No space left on device\n"


@pytest.fixture
def small(tmp_path: Path, needs_root: None) -> Iterator[Path]:
    """A file system of little room. It cannot be unmounted while a file in it is open."""
    path = tmp_path / "small"
    path.mkdir()
    options = f"size={ROOM_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("raw", [(), ("--raw",)], ids=["lines", "raw"])
def test_output_that_finds_no_more_room_ends_the_job(here, small, stream, raw):
    to = "" if stream == "stdout" else " >&2"
    with open(small / "out", "wb") as file:
        words = (*raw, "-q", "-sz", "2", "sh", "-c", f"exec{to}; {FOREVER}")
        done = finish(here.start_yod(*words, **{stream: file}))
    assert (done.status, done.out) == (125, "")
    assert done.err == (CANNOT if stream == "stdout" else "")
    written = (small / "out").read_text()
    assert len(written) == ROOM_BYTES
    assert raw or written == (LINE * ROOM_BYTES)[:ROOM_BYTES]


def test_where_no_stream_has_room_the_status_tells(here, small):
    with open(small / "out", "wb") as file:
        done = finish(here.start_yod("-sz", "2", "sh", "-c", FOREVER, stdout=file, stderr=file))
    assert done.status == 125
    assert (small / "out").stat().st_size == ROOM_BYTES


def test_a_report_that_finds_no_room_follows_on_the_terminal(here, small):
    (small / "ballast").write_bytes(bytes(ROOM_BYTES))
    done = here.yod("-q", "-file", small / "report", "-sz", "2", "true")
    first, *table = done.err.splitlines()
    assert (done.status, done.out, len(table)) == (0, "", 3)
    assert first == f"yod: {small}/report: no space left on device; the report follows here"
