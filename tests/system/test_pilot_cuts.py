"""What is put into a pilot's channels and is lost there is told of in the log of its agent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wait import read_until, wait_until

zmq = pytest.importorskip("zmq")
msgspec = pytest.importorskip("msgspec")

MOST_BYTES = 4096  # the least that YOD_CHANNEL_BYTES can be
SOON_MS = 20_000
PUTS, GETS = "work_queue.in", "work_queue.out"


class Served:
    """A bridge with its channels, and programs that put into them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ours, self._life = os.pipe()
        words = [sys.executable, "-P", "-m", "yod.pilot.channel.bridge", str(directory)]
        self._bridge = subprocess.Popen(
            [*words, "work_queue", "news_pubsub"],
            stdin=ours,
            stderr=subprocess.PIPE,
            env={**os.environ, "YOD_CHANNEL_BYTES": str(MOST_BYTES)},
        )
        os.close(ours)
        self._ends: list[zmq.Socket] = []

    def end_of(self, kind: int, name: str) -> zmq.Socket:
        """One that a program of its own has connected."""
        end = zmq.Context().socket(kind)
        self._ends.append(end)
        end.set(zmq.RCVTIMEO, SOON_MS)
        end.connect(f"ipc://{self.directory}/{name}")
        return end

    def leave(self, end: zmq.Socket, linger_ms: int = 0) -> None:
        """Its program ends; with -1 when all that it has put has gone."""
        end.close(linger_ms)
        end.context.term()

    def line(self) -> str:
        """The next one of the log."""
        return read_until(self._bridge.stderr.fileno(), b"\n").decode()

    def end(self) -> str:
        """What else it has told until its end."""
        for each in self._ends:
            if not each.closed:
                self.leave(each)
        os.close(self._life)
        return self._bridge.communicate()[1].decode()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "s").mkdir()
    found = Served(tmp_path / "s")
    yield found
    assert found.end() == ""


def packed(size: int) -> bytes:
    """A list of one text."""
    return msgspec.msgpack.encode(["." * size])


def get(getter: zmq.Socket) -> int:
    """The length of the next text."""
    getter.send(b"default")
    (text,) = msgspec.msgpack.decode(getter.recv_multipart()[1])
    return len(text)


def put(putter: zmq.Socket, size: int) -> None:
    putter.send_multipart([msgspec.msgpack.encode("default"), packed(size)])


def test_what_is_larger_than_a_queue_is_told_of_and_what_follows_comes(served):
    putter, getter = served.end_of(zmq.PUSH, PUTS), served.end_of(zmq.REQ, GETS)
    put(putter, 50_000_000)
    said = f"work_queue: process {os.getpid()} has put more than {MOST_BYTES} bytes at once"
    assert served.line() == f"{said} (YOD_CHANNEL_BYTES): they are lost\n"
    put(putter, 7)
    assert get(getter) == 7


def test_a_byte_too_many_is_told_of(served):
    put(served.end_of(zmq.PUSH, PUTS), MOST_BYTES)
    assert "has put more than" in served.line()


def test_it_is_told_behind_others_that_came_well(served):
    putter, getter = served.end_of(zmq.PUSH, PUTS), served.end_of(zmq.REQ, GETS)
    put(putter, 5)
    assert get(getter) == 5
    put(putter, 1_000_000)
    assert "has put more than" in served.line()


def test_what_is_larger_than_a_publication_may_be_is_told_of(served):
    publisher = served.end_of(zmq.PUB, "news_pubsub.in")
    subscriber = served.end_of(zmq.SUB, "news_pubsub.out")
    subscriber.subscribe(b"")
    wait_until(lambda: publisher.send(b"small") or subscriber.poll(10))
    publisher.send(b"." * 1_000_000)
    assert served.line().startswith(f"news_pubsub: process {os.getpid()} has put more than")


def test_programs_that_come_and_go_are_not_told_of(served):
    getter = served.end_of(zmq.REQ, GETS)
    for number in range(30):
        putter = served.end_of(zmq.PUSH, PUTS)
        put(putter, number)
        served.leave(putter, linger_ms=-1)
        assert get(getter) == number
