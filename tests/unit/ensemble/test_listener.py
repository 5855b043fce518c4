"""Where servers connect: what is sent and read on streams, and where messages are kept apart."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ensemble import messages as m
from ensemble.host.listener import Listener
from ensemble.machine import job as j
from native.loop.reactor import Reactor

MANY = 50
KINDS = [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]  # as TCP, and as SCTP


class End:
    """A listener in its loop, and a server that is connected to it."""

    def __init__(self, kind: socket.SocketKind, path: Path) -> None:
        self.reactor = Reactor()
        self.events: list[j.Event] = []
        listening = socket.socket(socket.AF_UNIX, kind)
        listening.bind(str(path))
        listening.listen()
        listening.setblocking(False)
        self.listener = Listener(listening, "secret", self.reactor, self._take)
        self.server = socket.socket(socket.AF_UNIX, kind)
        self.server.connect(str(path))
        self.server.sendall(m.encode(1, m.Hello("secret")))
        self.run()

    def _take(self, event: j.Event) -> None:
        self.events.append(event)
        self.reactor.stop()

    def run(self) -> None:
        """Until something happens."""
        self.reactor.run()

    def send_many(self) -> None:
        """Send messages in one turn of the loop."""
        (connection,) = self.listener.connections
        for client in range(MANY):
            self.listener.send(connection, 1, m.JobUpdate(client, 1))
        self.reactor.call_soon(self.reactor.stop)
        self.reactor.run()

    def close(self) -> None:
        self.server.close()
        self.listener.close()
        self.reactor.close()


@pytest.fixture
def end(request, tmp_path):
    made = End(request.param, tmp_path / "socket")
    yield made
    made.close()


@pytest.mark.parametrize("end", [socket.SOCK_SEQPACKET], indirect=True)
def test_where_messages_are_kept_apart_each_has_one_frame(end):
    end.send_many()
    for client in range(MANY):
        assert end.server.recv(65536) == m.encode(1, m.JobUpdate(client, 1))


@pytest.mark.parametrize("end", [socket.SOCK_STREAM], indirect=True)
def test_on_a_stream_what_is_said_in_one_turn_is_sent_at_once(end):
    end.send_many()
    said = end.server.recv(65536)
    assert said == b"".join(m.encode(1, m.JobUpdate(client, 1)) for client in range(MANY))


@pytest.mark.parametrize("end", KINDS, indirect=True)
def test_messages_are_read_in_their_order(end):
    assert isinstance(end.events[0], j.ServerConnected)
    for client in range(MANY):
        end.server.sendall(m.encode(1, m.JobSubmission(client, 1)))
    while len(end.events) <= MANY:
        end.run()
    found = [event.message for event in end.events[1:]]
    assert found == [m.JobSubmission(client, 1) for client in range(MANY)]


@pytest.mark.parametrize("end", KINDS, indirect=True)
def test_a_server_that_reads_late_gets_all_in_order(end):
    (connection,) = end.listener.connections
    count = 20_000
    for client in range(count):
        end.listener.send(connection, 1, m.JobUpdate(client, 1))
    framing, found = m.Framing(), 0

    def read() -> None:
        nonlocal found
        framing.feed(end.server.recv(65536))
        while (frame := framing.next()) is not None:
            assert frame.message == m.JobUpdate(found, 1)
            found += 1
        if found == count:
            end.reactor.stop()

    end.reactor.watch(end.server.fileno(), read)
    end.run()
    assert found == count


@pytest.mark.parametrize("end", KINDS, indirect=True)
def test_a_server_that_never_reads_is_given_up(end):
    (connection,) = end.listener.connections
    while len(end.events) == 1:
        end.listener.send(connection, 1, m.Variable("A", "x" * 60_000))
    assert end.events[1] == j.ConnectionClosed(connection, "it does not read what it is told")
    assert not end.listener.connections
