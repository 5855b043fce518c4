"""Files that users name: only plain ones are opened."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from native.host.files import Owner, exists, open_plain, punch

MYSELF = Owner(os.getuid(), os.getgid(), tuple(os.getgroups()))


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can search."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def fault(call: Callable[..., object], *arguments: object) -> int | None:
    """Number of the error that a call ends with."""
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return None


def test_a_plain_file_is_read_also_by_a_link(place):
    (place / "file").write_bytes(b"bytes")
    (place / "link").symlink_to("file")
    for name in ("file", "link"):
        fd = open_plain(os.fsencode(place / name), MYSELF)
        assert os.read(fd, 9) == b"bytes"
        assert not os.get_inheritable(fd)
        os.close(fd)


def test_what_is_no_plain_file_is_not_opened(place):
    os.mkfifo(place / "fifo")  # to open it would wait for who writes
    paths = [place, place / "fifo", Path("/dev/zero"), Path("/dev/tty")]
    for path in paths:
        assert fault(open_plain, os.fsencode(path), MYSELF) == errno.EINVAL
    assert fault(open_plain, os.fsencode(place / "absent"), MYSELF) == errno.ENOENT
    assert fault(open_plain, os.fsencode(place) + b"/a\0b", MYSELF) == errno.EINVAL


def test_a_hole_gives_room_back_and_leaves_the_size():
    fd = os.memfd_create("test-of-yod")
    os.posix_fallocate(fd, 0, 1 << 20)
    punch(fd, 0, 1 << 20)
    status = os.fstat(fd)
    assert (status.st_size, status.st_blocks) == (1 << 20, 0)
    os.close(fd)


def test_whether_there_is_a_file_is_told(place):
    assert exists(os.fsencode(place), MYSELF)
    assert not exists(os.fsencode(place / "absent"), MYSELF)
