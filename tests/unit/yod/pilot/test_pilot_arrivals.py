"""Starters come to the agent by TCP: who says nothing, or too much, is not waited for."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from native.loop.reactor import Reactor
from yod.pilot.agent import remote
from yod.pilot.agent.remote import Arrivals, RemoteEnd
from yod.ranks import RankResult


class Steps:
    """Launches nothing: the starters are the test's."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self.on_rank_ended: Callable[[RankResult], None] = lambda rank: None

    def start(self, *_: object, on_rank_ended: Callable[[RankResult], None], **__: object) -> None:
        """The step begins."""
        self.on_rank_ended = on_rank_ended

    def signal(self, uid: str, signo: int) -> None:
        """It is ended."""
        self.signals.append(signo)


class Agent:
    """What awaits the starter of one node, and hears of it."""

    def __init__(self, sandbox: Path) -> None:
        self.reactor = Reactor()
        self.come: list[tuple[int, int]] = []
        self.absent: list[tuple[int, str]] = []
        self.spare = 0
        self.steps = Steps()
        self.arrivals = Arrivals(
            self.reactor,
            self.steps,
            ["n1"],
            str(sandbox),
            self._come,
            lambda reason: None,
            self._will_not_come,
        )
        self.key = Path(self.arrivals.path).read_bytes()

    def _come(self, index: int, number: int, opened: Callable[..., RemoteEnd]) -> None:
        self.come.append((index, number))
        opened(lambda packet: None, lambda reason: None).close()

    def _will_not_come(self, index: int, reason: str) -> bool:
        self.absent.append((index, reason))
        return len(self.absent) <= self.spare

    def connection(self) -> socket.socket:
        host, port = self.arrivals._end.getsockname()
        return socket.create_connection((host, port))

    def turns(self) -> None:
        for _ in range(4):
            self.reactor.run_once(0.0)


@pytest.fixture
def agent(tmp_path, monkeypatch):
    monkeypatch.setenv("YOD_PARTITION", "127.0.0.1:1")
    found = Agent(tmp_path)
    yield found
    found.arrivals.close()
    found.reactor.close()


def framed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def test_a_starter_with_the_key_is_let_in(agent):
    with agent.connection() as end:
        end.sendall(framed(agent.key + b" 7 n1"))
        agent.turns()
        assert agent.come == [(0, 7)]


@pytest.mark.parametrize("said", [framed(b"key 7 n1"), struct.pack("<I", 1 << 29) + b"x"])
def test_a_stranger_is_hung_up_on_whatever_it_says(agent, said):
    with agent.connection() as end:
        end.sendall(said)
        agent.turns()
        assert end.recv(1) == b""
        assert agent.come == []


def test_who_connects_and_says_nothing_is_hung_up_on(agent, monkeypatch):
    monkeypatch.setattr(remote, "_HELLO_S", 0.0)
    with agent.connection() as end:
        agent.turns()
        assert end.recv(1) == b""


@pytest.mark.parametrize("spare, signals", [(0, [signal.SIGTERM]), (1, [])])
def test_a_starter_that_cannot_begin_ends_the_others_unless_its_node_is_spare(
    agent, spare, signals
):
    agent.spare = spare
    agent.steps.on_rank_ended(SimpleNamespace(node="n1"))
    agent.steps.on_rank_ended(SimpleNamespace(node="n1"))  # of it nothing more is told
    assert agent.absent == [(0, "node n1 is lost: its starter could not begin")]
    assert agent.steps.signals == signals
