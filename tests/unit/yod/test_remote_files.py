"""The process with the files, as a kernel speaks to it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.errors import UsageError
from native.fuse.frames import PAGE_BYTES, ROOT_NODE, Op, request_of
from yod.plan.remote import chosen
from yod.remote.files import Files
from yod.remote.nodes import Descriptors
from yod.remote.serve import Server


def frame(op: int, node: int = ROOT_NODE, body: bytes = b"", number: int = 2) -> bytes:
    return struct.pack("<IIQQIIIHH", 40 + len(body), op, number, node, 0, 0, 9, 0, 0) + body


class Kernel:
    """Asks, and reads the answers."""

    def __init__(self, directory: Path, descriptors: int = 100) -> None:
        self.files = Files(os.fsencode(directory), Descriptors(descriptors))

    def ask(self, op: int, node: int = ROOT_NODE, body: bytes = b"") -> tuple[int, bytes]:
        """The errno, and what is behind the head."""
        answer = self.files.serve(request_of(frame(op, node, body)))
        size, error, number = struct.unpack_from("<IiQ", answer)
        assert (size, number) == (len(answer), 2)
        return -error, answer[16:]

    def look_up(self, name: str, parent: int = ROOT_NODE) -> int:
        error, entry = self.ask(Op.LOOKUP, parent, os.fsencode(name) + b"\0")
        if error:
            raise OSError(error, name)
        assert len(entry) == 128  # struct fuse_entry_out
        return struct.unpack_from("<Q", entry)[0]

    def open(self, node: int, flags: int = os.O_RDWR) -> int:
        error, opened = self.ask(Op.OPEN, node, struct.pack("<II", flags, 0))
        assert error == 0
        return struct.unpack_from("<Q", opened)[0]

    def read(self, handle: int) -> bytes:
        body = struct.pack("<QQIIQII", handle, 0, PAGE_BYTES, 0, 0, 0, 0)
        error, data = self.ask(Op.READ, ROOT_NODE, body)
        assert error == 0
        return data


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    made = Kernel(tmp_path)
    yield made
    made.files.close()


def test_the_sizes_of_structures_are_those_of_the_kernel(kernel):
    body = struct.pack("<IIII", 7, 45, 0, 1 << 30) + bytes(48)
    assert len(kernel.ask(Op.INIT, 0, body)[1]) == 64
    assert len(kernel.ask(Op.GETATTR, ROOT_NODE, bytes(16))[1]) == 104
    assert len(kernel.ask(Op.STATFS)[1]) == 80


def test_a_name_is_one_file_in_its_directory(kernel, tmp_path):
    (tmp_path.parent / "outside").write_text("x")
    for name in ("..", ".", "", "../outside", "/etc/passwd"):
        assert kernel.ask(Op.LOOKUP, ROOT_NODE, name.encode() + b"\0")[0] == errno.EINVAL
        assert kernel.ask(Op.UNLINK, ROOT_NODE, name.encode() + b"\0")[0] == errno.EINVAL
        body = bytes(16) + name.encode() + b"\0"
        assert kernel.ask(Op.CREATE, ROOT_NODE, body)[0] == errno.EINVAL


def test_a_link_is_not_followed(kernel, tmp_path):
    (tmp_path / "out").symlink_to("/etc")
    link = kernel.look_up("out")
    assert kernel.ask(Op.LOOKUP, link, b"passwd\0")[0] == errno.ENOTDIR
    assert kernel.ask(Op.OPEN, link, struct.pack("<II", os.O_RDONLY, 0))[0] == errno.ELOOP
    assert kernel.ask(Op.READLINK, link) == (0, b"/etc")
    body = struct.pack("<IIII", os.O_WRONLY | os.O_CREAT, 0o600, 0, 0) + b"out\0"
    assert kernel.ask(Op.CREATE, ROOT_NODE, body)[0] == errno.ELOOP


def test_a_file_stays_the_same_when_it_is_renamed_or_removed(kernel, tmp_path):
    (tmp_path / "a").write_text("first")
    node = kernel.look_up("a")
    handle = kernel.open(node)
    os.rename(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").write_text("second")
    assert kernel.look_up("b") == node != kernel.look_up("a")
    os.unlink(tmp_path / "b")
    assert kernel.read(handle) == b"first"
    assert kernel.ask(Op.GETATTR, node, bytes(16))[0] == 0


def test_few_descriptors_are_enough_for_many_files(tmp_path):
    for number in range(50):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / "f").write_text(str(number))
    before = len(os.listdir("/proc/self/fd"))
    kernel = Kernel(tmp_path, descriptors=4)
    nodes = [kernel.look_up("f", kernel.look_up(f"d{number}")) for number in range(50)]
    assert len(os.listdir("/proc/self/fd")) - before <= 6
    for number, node in enumerate(nodes):
        handle = kernel.open(node, os.O_RDONLY)
        assert kernel.read(handle) == str(number).encode()
        kernel.ask(Op.RELEASE, node, struct.pack("<QIIQ", handle, 0, 0, 0))
    os.rename(tmp_path / "d0" / "f", tmp_path / "d0" / "g")
    (tmp_path / "d0" / "f").write_text("another")
    assert kernel.ask(Op.GETATTR, nodes[0], bytes(16))[0] == errno.ESTALE
    for node in nodes:
        assert kernel.files.serve(request_of(frame(Op.FORGET, node, struct.pack("<Q", 1)))) == b""
    kernel.files.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_it_does_not_know_it_refuses(kernel):
    assert kernel.ask(21, ROOT_NODE, bytes(8))[0] == errno.ENOSYS  # SETXATTR
    assert kernel.ask(Op.GETATTR, 77, bytes(16))[0] == errno.ESTALE
    assert kernel.ask(Op.READ, ROOT_NODE, struct.pack("<QQIIQII", 9, 0, 1, 0, 0, 0, 0))[0] == (
        errno.EBADF
    )


@given(st.sampled_from([*Op, 0, 21, 999]), st.integers(0, 3), st.binary(max_size=120))
def test_nonsense_ends_nothing(op, node, body):
    """Neither is it carried out on anything but an empty directory."""
    if op in (Op.MKNOD, Op.MKDIR, Op.SYMLINK, Op.CREATE, Op.SETATTR):
        body = body[:7]
    files = Files(b"/proc/self/task", Descriptors(4))
    try:
        answer = files.serve(request_of(frame(op, node, body)))
        assert answer == b"" or len(answer) >= 16
    finally:
        files.close()


def test_mounts_of_nodes_have_names_of_their_own(tmp_path):
    (tmp_path / "a").write_text("x")
    server = Server([os.fsencode(tmp_path), b"/none"], Descriptors(9))
    look = frame(Op.LOOKUP, ROOT_NODE, b"a\0")
    assert server.serve(0, 0, 0, look)[4:8] == server.serve(1, 0, 0, look)[4:8] == bytes(4)
    assert struct.unpack_from("<i", server.serve(0, 1, 1, look), 4) == (-errno.ENOENT,)
    for place in (0, 1):
        assert server.serve(place, 0, 0, b"") == b""
    assert server.serve(0, 0, 0, b"nonsense") == b""


@pytest.mark.parametrize("paths", [["/"], ["/proc"], ["/etc/x"], ["/a", "/a/b"], ["/a/b", "/a"]])
def test_directories_that_ranks_need_or_that_are_within_others_are_refused(paths):
    with pytest.raises(UsageError):
        chosen(paths)


def test_a_directory_may_be_named_twice():
    assert chosen(["/a", "/ab", "/a"]) == (b"/a", b"/ab")
    with pytest.raises(UsageError):
        chosen([f"/{number}" for number in range(17)])
