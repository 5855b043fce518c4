"""Whether a node has an object's bytes, whatever becomes of the file meanwhile."""

from __future__ import annotations

import os
from _blake2 import blake2b
from pathlib import Path

import pytest

from native.host.files import Owner
from native.loop.slices import run
from native.wire.load import ShippedObject
from pct.host import compare
from pct.host.compare import SLICE_BYTES, Digests

MYSELF = Owner(os.getuid(), os.getgid())


@pytest.fixture(autouse=True)
def on_a_local_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "is_local", lambda device, directory: True)


def shipped(path: Path, content: bytes, size: int | None = None) -> ShippedObject:
    """An object that yod found at a path."""
    digest = blake2b(content, digest_size=32).digest()
    return ShippedObject(os.fsencode(path), len(content) if size is None else size, digest, 0o644)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Of three slices and a byte."""
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * SLICE_BYTES + 1))
    path.chmod(0o644)
    return path


def test_a_file_is_hashed_in_slices_once(file):
    digests = Digests()
    wanted = shipped(file, file.read_bytes())
    work = digests.has(wanted, MYSELF)
    for _ in range(3):
        next(work)
    assert run(work)
    assert run(digests.has(wanted, MYSELF))
    with pytest.raises(StopIteration):  # no slice: it is remembered
        next(digests.has(wanted, MYSELF))


@pytest.mark.parametrize("size", [0, SLICE_BYTES, 9 * SLICE_BYTES])
def test_a_file_that_shrinks_or_grows_while_it_is_read_is_another(file, size):
    """Nor is it read for ever."""
    work = Digests().has(shipped(file, file.read_bytes()), MYSELF)
    next(work)
    os.truncate(file, size)
    assert not run(work)


def test_a_file_that_is_written_while_it_is_read_is_another_and_not_remembered(file):
    digests = Digests()
    content = file.read_bytes()
    work = digests.has(shipped(file, content), MYSELF)
    next(work)
    with file.open("r+b") as writing:
        writing.write(b"x")
    assert not run(work)
    assert run(digests.has(shipped(file, file.read_bytes()), MYSELF))
    assert not run(digests.has(shipped(file, content), MYSELF))


def test_a_comparison_that_is_given_up_holds_nothing(file):
    before = len(os.listdir("/proc/self/fd"))
    work = Digests().has(shipped(file, file.read_bytes()), MYSELF)
    next(work)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    work.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_no_plain_file_is_not_the_object(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero"), tmp_path / "absent"):
        assert not run(Digests().has(shipped(path, b"", 1 << 40), MYSELF))
