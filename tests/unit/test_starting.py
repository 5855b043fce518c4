"""A pct and the program that starts it: the key, its end, and word that the pct is ready."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from native.errors import UsageError
from native.host.starting import LINE_MAX_BYTES, Starter, read_told
from native.loop.reactor import Reactor


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


def written(data: bytes) -> int:
    """A descriptor that gives these bytes, and then ends."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return reader


def test_the_key_is_one_line_and_what_follows_stays_unread():
    fd = written(b"abcd\nmore")
    assert read_told(fd) == ("abcd", "")
    assert os.read(fd, 10) == b"more"
    os.close(fd)


def test_behind_the_key_there_may_be_the_address_of_bebopd():
    fd = written(b"abcd 10.0.0.1:7\n")
    assert read_told(fd) == ("abcd", "10.0.0.1:7")
    os.close(fd)


@pytest.mark.parametrize("data", [b"", b"abcd", b"a" * (LINE_MAX_BYTES + 1)])
def test_an_end_without_a_line_is_an_error(data):
    fd = written(data)
    with pytest.raises(UsageError, match="no line with a key"):
        read_told(fd)
    os.close(fd)


def test_a_descriptor_that_is_not_there_is_an_error():
    with pytest.raises(UsageError, match="Bad file descriptor"):
        read_told(987)


def starter(reactor: Reactor, gone: list[str]) -> tuple[Starter, int, int]:
    """One with a starter that lives, whose end is returned, and where the line comes."""
    life_fd, their_end = os.pipe()
    line_fd, ready_fd = os.pipe()
    made = Starter(reactor, life_fd, ready_fd, "10.0.0.1:7", lambda: gone.append("gone"))
    return made, their_end, line_fd


def test_the_end_of_the_starter_is_told_until_the_pct_is_ready(reactor):
    gone: list[str] = []
    _, their_end, line_fd = starter(reactor, gone)
    reactor.run_once(0.0)
    assert gone == []
    os.close(their_end)
    reactor.run_once(0.0)
    reactor.run_once(0.0)
    assert gone == ["gone"]
    os.close(line_fd)


def test_one_that_is_ready_says_so_and_has_no_bond_to_its_starter(reactor):
    gone: list[str] = []
    made, their_end, line_fd = starter(reactor, gone)
    assert made.waits_for_bebopd
    made.ready()
    assert os.read(line_fd, 100) == b"10.0.0.1:7\n"
    assert os.read(line_fd, 100) == b""
    with pytest.raises(BrokenPipeError):
        os.write(their_end, b"x")
    os.close(their_end)
    reactor.run_once(0.0)
    assert gone == []
    os.close(line_fd)


def test_a_starter_that_waits_no_more_for_the_line_does_no_harm(reactor):
    with ExitStack() as stack:
        made, their_end, line_fd = starter(reactor, [])
        stack.callback(os.close, their_end)
        os.close(line_fd)
        made.ready()


def test_without_a_starter_a_pct_is_ready_when_it_listens(reactor):
    made = Starter(reactor, None, None, "10.0.0.1:7", lambda: None)
    assert not made.waits_for_bebopd
    made.ready()
