"""Marks of output files: the size at the moment of saving, never less than what was saved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from partition.checkpoint import marks
from tests.support.wait import wait_until


class Writer:
    """A rank that has a file as its standard output, and has written a line."""

    def __init__(self, path: Path, mode: str = "ab") -> None:
        with open(path, mode) as file:
            words = ("sh", "-c", "echo begun; read line")
            self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=file, stderr=file)
        self.unix_pid = self._child.pid
        wait_until(lambda: path.stat().st_size, what="the line")

    def close(self) -> None:
        self._child.communicate()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def marked(writer: Writer, tmp_path: Path, said: str | None) -> str:
    """The marks of a rank that has saved itself."""
    outputs = marks.Outputs({3: writer.unix_pid}, marks.OPENED)
    saved = tmp_path / "saved"
    if said is not None:
        saved.write_text(said)
    outputs.saved(3, str(saved))
    outputs.put_down({3: str(tmp_path)})
    outputs.close()
    writer.close()
    kept = tmp_path / marks.MARKS
    return kept.read_text() if kept.exists() else ""


def test_the_mark_is_what_the_rank_says_and_else_what_the_file_has(out, tmp_path):
    whole = "open 6 626567756e0a"
    for said, begins in (
        ("1 4\n2 4\n", "open 4 62656775"),
        *((said, whole) for said in ("1 9\n", "x", "1 -2", "1 2 3", "", None)),
    ):
        out.unlink(missing_ok=True)
        assert marked(Writer(out), tmp_path, said) == f"{begins} {out}\n"


def test_a_file_that_was_not_opened_to_append_has_no_mark(out, tmp_path):
    assert marked(Writer(out, "wb"), tmp_path, "1 4\n") == ""


def test_an_empty_mark_has_no_tail(out, tmp_path):
    assert marked(Writer(out), tmp_path, "1 0\n2 0\n") == f"open 0 - {out}\n"


def entry(path: bytes, position: int) -> bytes:
    """One entry of CRIU's files.img: a regular file."""
    own = b"\x08\x07\x10\x81\x08\x18" + varint(position) + b"\x2a\x02\x08\x00"
    own += b"\x32" + varint(len(path)) + path
    whole = b"\x08\x01\x10\x07\x1a" + varint(len(own)) + own
    return len(whole).to_bytes(4, "little") + whole


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def test_positions_are_read_from_images_and_the_furthest_of_a_file_counts(tmp_path):
    image = b"\x00" * 8 + entry(b"/a", 300) + entry(b"/b", 5) + entry(b"/a", 100_000)
    (tmp_path / "files.img").write_bytes(image)
    assert marks.positions(str(tmp_path)) == {"/a": 100_000, "/b": 5}


def test_images_that_are_cut_off_or_missing_have_no_positions(tmp_path):
    assert marks.positions(str(tmp_path)) == {}
    image = b"\x00" * 8 + entry(b"/a", 300)
    for size in range(9, len(image)):
        (tmp_path / "files.img").write_bytes(image[:size])
        assert marks.positions(str(tmp_path)) in ({}, {"/a": 300})
