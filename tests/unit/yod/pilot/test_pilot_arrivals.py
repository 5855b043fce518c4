"""Starters come to the agent by TCP: who says nothing, or too much, is not waited for."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from native.loop.reactor import Reactor
from yod.pilot.agent import remote
from yod.pilot.agent.remote import Arrivals, RemoteEnd


class Steps:
    """Launches nothing: the starters are the test's."""

    def start(self, *_: object, **__: object) -> None:
        """The step begins."""


class Agent:
    """What awaits the starter of one node, and hears of it."""

    def __init__(self, sandbox: Path) -> None:
        self.reactor = Reactor()
        self.come: list[tuple[int, int]] = []
        self.arrivals = Arrivals(
            self.reactor, Steps(), ["n1"], str(sandbox), self._come, lambda reason: None
        )
        self.key = Path(self.arrivals.path).read_bytes()

    def _come(self, index: int, number: int, opened: Callable[..., RemoteEnd]) -> None:
        self.come.append((index, number))
        opened(lambda packet: None, lambda reason: None).close()

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
