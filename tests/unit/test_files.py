"""Files that users name: only plain ones are opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from native.host.files import Owner, exists, open_plain, punch
from tests.support.files import fault

MYSELF = Owner(os.getuid(), os.getgid(), tuple(os.getgroups()))


def test_a_plain_file_is_read_also_by_a_link(open_place):
    (open_place / "file").write_bytes(b"bytes")
    (open_place / "link").symlink_to("file")
    for name in ("file", "link"):
        fd = open_plain(os.fsencode(open_place / name), MYSELF)
        assert os.read(fd, 9) == b"bytes"
        assert not os.get_inheritable(fd)
        os.close(fd)


def test_what_is_no_plain_file_is_not_opened(open_place):
    os.mkfifo(open_place / "fifo")  # to open it would wait for who writes
    paths = [open_place, open_place / "fifo", Path("/dev/zero"), Path("/dev/tty")]
    for path in paths:
        assert fault(open_plain, os.fsencode(path), MYSELF) == errno.EINVAL
    assert fault(open_plain, os.fsencode(open_place / "absent"), MYSELF) == errno.ENOENT
    assert fault(open_plain, os.fsencode(open_place) + b"/a\0b", MYSELF) == errno.EINVAL


def test_a_hole_gives_room_back_and_leaves_the_size():
    fd = os.memfd_create("test-of-yod")
    os.posix_fallocate(fd, 0, 1 << 20)
    punch(fd, 0, 1 << 20)
    status = os.fstat(fd)
    assert (status.st_size, status.st_blocks) == (1 << 20, 0)
    os.close(fd)


def test_whether_there_is_a_file_is_told(open_place):
    assert exists(os.fsencode(open_place), MYSELF)
    assert not exists(os.fsencode(open_place / "absent"), MYSELF)
