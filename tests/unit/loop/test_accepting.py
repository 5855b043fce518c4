"""A listener whose process has no descriptor left, by itself or by others."""

from __future__ import annotations

import os
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from native.loop import accepting
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor

TURN_MAX = 4
LIMIT_S = 20.0


class Served:
    """A listener in a loop, who has come to it, and who was hung up on."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.come: list[int] = []
        self.closed: list[object] = []
        self.acceptor = Acceptor(
            self.reactor,
            self.listener,
            TURN_MAX,
            lambda fd, peer: self.come.append(fd),
            self.closed.append,
        )
        self.ends: list[socket.socket] = []

    def call(self, count: int) -> None:
        for _ in range(count):
            self.ends.append(socket.create_connection(self.listener.getsockname()))

    def turns(self, count: int = 4) -> None:
        for _ in range(count):
            self.reactor.run_once(0.0)

    @property
    def rests(self) -> bool:
        """The loop has nothing to do until a time has come."""
        return not select.select([self.reactor], [], [], 0)[0]

    def close(self) -> None:
        self.acceptor.close()
        self.acceptor.close()
        self.listener.close()
        for fd in self.come:
            os.close(fd)
        for end in self.ends:
            end.close()
        self.reactor.close()


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.close()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Others, who take each descriptor that becomes free; these are theirs."""
    taken: list[int] = []

    def take() -> int:
        try:
            taken.append(os.dup(0))
        except OSError:
            pass
        return -1

    monkeypatch.setattr(accepting, "_open_spare", take)
    yield taken
    for fd in taken:
        os.close(fd)


def test_no_more_than_a_turns_connections_are_taken_at_once(served):
    served.call(TURN_MAX + 1)
    served.reactor.run_once(LIMIT_S)
    assert len(served.come) == TURN_MAX
    served.reactor.run_once(LIMIT_S)
    assert len(served.come) == TURN_MAX + 1


def test_who_comes_where_no_descriptor_is_left_is_hung_up_on(served):
    served.call(3)
    with no_descriptor_left():
        served.turns()
        assert served.rests
    assert [end.recv(1) for end in served.ends] == [b""] * 3
    assert len(served.closed) == 3
    served.call(1)
    served.reactor.run_once(LIMIT_S)
    assert len(served.come) == 1


def test_a_loop_rests_where_not_even_the_kept_descriptor_is_left(served, others):
    served.call(2)
    with no_descriptor_left():
        served.turns()
        assert served.rests
        assert len(served.closed) == 1  # by the descriptor that was kept
        served.reactor.run_once(accepting.PAUSE_S)  # it looks again
        served.turns(1)
        assert served.rests
        assert len(served.closed) == 1
    while not served.come:  # who waits is taken when there is one
        served.reactor.run_once(accepting.PAUSE_S)


def test_an_acceptor_that_rests_is_closed(served, others):
    served.call(2)
    with no_descriptor_left():
        served.turns()
        served.acceptor.close()
        served.reactor.run_once(2 * accepting.PAUSE_S)
    assert served.come == []


def test_one_that_is_closed_by_who_has_come_takes_no_more(served):
    served.acceptor._on_come = lambda fd, peer: (served.come.append(fd), served.acceptor.close())
    served.call(3)
    served.turns()
    assert len(served.come) == 1
