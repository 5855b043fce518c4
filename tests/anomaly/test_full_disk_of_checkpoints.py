"""A disk that is full at any write of a checkpoint: the newest one that is called so is whole."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from native.host.marks import outputs
from native.wire.alloc import NodeSpec
from partition.checkpoint import committing, digests, files, finding
from partition.checkpoint.collecting import record
from partition.savers import draining

RANKS = (0, 1)
OPEN = open
CALLS = ("fsync", "rename", "unlink", "mkdir", "pwrite")


class Disk:
    """Is full at the n-th call that writes, and at each one behind it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None  # None: it has room
        self.is_full = False
        for name in CALLS:
            monkeypatch.setattr(os, name, self._checked(getattr(os, name)))
        for module in (digests, files, outputs):
            monkeypatch.setattr(module, "open", self._open, raising=False)

    def be_full_at(self, number: int | None) -> None:
        self.left, self.is_full = number, False

    def write(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left <= 0:
            self.is_full = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _checked(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            self.write()
            return real(*words, **named)

        return call

    def _open(self, path: str, mode: str = "r", **named: Any) -> Any:
        if "w" in mode:
            self.write()  # there is no room for the name
        file = OPEN(path, mode, **named)
        return Written(file, self) if "w" in mode else file


class Written:
    """A file that is written to."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file = file
        self._disk = disk

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes | str) -> None:
        self._file.write(data[: len(data) // 2])  # some of it still fits
        self._disk.write()
        self._file.write(data[len(data) // 2 :])

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        return int(self._file.fileno())


def make(directory: Path, text: str, local: Path | None = None) -> str:
    """What the savers of a job of one node do behind what the ranks have written; its path."""
    here = directory / ".collecting-1" if local is None else local / "kept"
    for rank in RANKS:
        own = here / files.rank_directory(rank)
        own.mkdir(parents=True, exist_ok=True)
        (own / "state").write_text(text)
    found, _ = record(0, RANKS, str(here), 1)
    files.write(str(here / files.node_file(0)), found)
    if local is not None:
        draining.drain(0, str(local), here.name, str(directory), ".collecting-1")
    member = files.RecipeMember(("a.out",), NodeSpec(size=len(RANKS)))
    recipe = files.Recipe("a.out", "/", (member,), "", "none", "2")
    return committing.commit(recipe, 1, 1, str(directory), ".collecting-1")[1]


def state_of(path: str) -> str:
    return Path(path, files.rank_directory(1), "state").read_text()


@pytest.mark.parametrize("is_local", [False, True])
def test_the_newest_checkpoint_is_whole_whatever_could_not_be_written(
    tmp_path, monkeypatch, is_local
):
    disk = Disk(monkeypatch)
    local = tmp_path / "local" if is_local else None
    for number in itertools.count(1):
        disk.be_full_at(None)
        directory = tmp_path / str(number)
        directory.mkdir()
        make(directory, "before", local)
        disk.be_full_at(number)
        made = ""
        try:
            made = make(directory, "behind", local)
        except OSError as error:
            assert error.errno == errno.ENOSPC
        was_full = disk.is_full
        disk.be_full_at(None)
        path, manifest = finding.newest(str(directory))  # which compares all files
        assert state_of(path) == ("before" if manifest.number == 1 else "behind")
        assert made in ("", path)
        assert state_of(make(directory, "later", local)) == "later"  # with what the fault has left
        if not was_full:
            break
    assert number > 8


def test_marks_of_output_are_all_there_or_none_whatever_could_not_be_written(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    output = tmp_path / "yod-1.out"
    output.write_text("line 1\nline 2\n")
    for number in itertools.count(1):
        disk.be_full_at(None)
        directory = tmp_path / str(number)
        directory.mkdir()
        path = make(directory, "state")
        found = outputs.Marks("1", (outputs.mark(str(output), is_of_job=True),))
        disk.be_full_at(number)
        try:
            outputs.put_down(path, found, ())
        except OSError as error:
            assert error.errno == errno.ENOSPC
        was_full = disk.is_full
        disk.be_full_at(None)
        assert outputs.read(path) in (found, outputs.Marks("", ()))
        finding.newest(str(directory))
        if not was_full:
            break
    assert outputs.read(path) == found
    assert number > 4
