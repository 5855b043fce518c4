"""What the launch server makes of a stream that a client gives: never what could make it wait."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from native.errors import PeerProtocolError
from native.wire.client import Gift
from partition.server.gifts import own_description


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ours, theirs = os.pipe()
    with open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0):
        yield ours, theirs


def is_open(fd: int) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_a_pipe_has_a_description_that_nobody_shares(pipe: tuple[int, int]):
    given = os.dup(pipe[1])
    own = own_description(Gift.PIPE, (given,))
    assert not is_open(given)
    os.set_blocking(pipe[1], False)
    os.set_blocking(pipe[1], True)
    assert not os.get_blocking(own)
    assert not os.get_inheritable(own)
    os.write(own, b"data")
    os.close(own)
    assert os.read(pipe[0], 10) == b"data"


def test_the_end_that_is_read_does_as_well(pipe: tuple[int, int]):
    own = own_description(Gift.PIPE, (os.dup(pipe[0]),))
    os.write(own, b"data")
    os.close(own)
    assert os.read(pipe[0], 10) == b"data"


def test_a_pipe_without_a_reader_says_so_when_it_is_written_to():
    ours, theirs = os.pipe()
    os.close(ours)
    own = own_description(Gift.PIPE, (theirs,))
    assert not is_open(theirs)
    with pytest.raises(BrokenPipeError):
        os.write(own, b"data")
    os.close(own)


def test_the_null_device_is_our_own(pipe: tuple[int, int]):
    own = own_description(Gift.NULL, ())
    assert os.readlink(f"/proc/self/fd/{own}") == os.devnull
    os.close(own)


def test_without_a_descriptor_there_is_nothing():
    assert own_description(Gift.NOTHING, ()) == own_description(Gift.PIPE, ()) == -1


@pytest.mark.parametrize("kind", ["file", "fifo", "socket", "null", "directory"])
def test_what_is_no_pipe_is_refused_and_closed(kind: str, tmp_path: Path):
    if kind == "fifo":
        os.mkfifo(tmp_path / "fifo")
    match kind:
        case "socket":
            given = socket.socket().detach()
        case "null":
            given = os.open(os.devnull, os.O_WRONLY)
        case "directory":
            given = os.open(tmp_path, os.O_PATH)
        case _:
            given = os.open(tmp_path / kind, os.O_RDWR | os.O_CREAT)
    with pytest.raises(PeerProtocolError):
        own_description(Gift.PIPE, (given,))
    assert not is_open(given)
