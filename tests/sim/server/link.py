"""The connection of a launch server and a client: bounded, in order, and it may end.

Written after :mod:`partition.server.channel`, whose place :class:`Channel` takes. What is sent is
encoded and decoded, so each packet is one that the other end would read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from native.loop.reactor import Owner, Reactor
from native.wire import client, client_codec
from native.wire.client import FromClient, FromServer
from partition.server.channel import QUEUE_MAX
from tests.sim.clock import Violation

if TYPE_CHECKING:
    from tests.sim.server.client import Client

PACKET_S = (1e-6, 1e-4)


class Channel:
    """The server's end; see :class:`partition.server.channel.Channel`."""

    def __init__(
        self,
        reactor: Reactor,
        connection: Client,
        on_message: Callable[[FromClient, tuple[int, ...]], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._client = connection
        self._on_message = on_message
        self._on_gone = on_gone
        self._queue: deque[FromServer] = deque()
        self._owner: Owner | None = None
        self._is_open = False
        self._last_due = 0.0
        self.record = connection.record
        connection.channel = self

    def open(self) -> None:
        """Begin to take messages."""
        self._is_open = True
        self._owner = self._reactor.owner

    def send(self, message: FromServer, fds: tuple[int, ...] = ()) -> None:
        """Send now, or when the client has room."""
        if not self._is_open:
            return
        self.record.tells(message)
        if isinstance(message, client.Start):
            self._client.sim.told_to_start(self._client, message)
        self._queue.append(client_codec.decode_from_server(client_codec.encode(message)))
        if len(self._queue) > QUEUE_MAX:
            self.close()
            self._reactor.call_soon(lambda: self._on_gone("the client does not read"))
        else:
            self.flush()

    def close(self) -> None:
        """Hang up; what is queued is dropped, what the socket has is read."""
        if self._is_open:
            self._is_open = False
            self._drop()
            self._client.hung_up()

    # -- the kernel, and the other end ------------------------------------------

    def flush(self) -> None:
        """Put into the socket what it takes."""
        if not self._client.is_alive:
            self._drop()  # the end is told behind what the client has sent
        while self._queue and self._client.has_room:
            self._client.put(self._queue.popleft())

    def _drop(self) -> None:
        self._client.drop_starts(self._queue)
        self._queue.clear()

    def from_client(self, message: FromClient | None) -> None:
        """The client has sent a packet; None: its end of the connection is closed."""
        sim = self._client.sim
        if message is not None:
            message = client_codec.decode_from_client(client_codec.encode(message))
        soon = sim.clock.now + sim.clock.rng.uniform(*PACKET_S)
        self._last_due = max(self._last_due, soon)
        sim.clock.at(self._last_due, lambda: self._arrive(message))

    def _arrive(self, message: FromClient | None) -> None:
        if self._is_open:
            self._client.sim.clock.note(f"from {self._client.name}", message)
            self._client.sim.loop.enter(self._owner, self._take, message)

    def _take(self, message: FromClient | None) -> None:
        if message is None:
            self.close()
            self._on_gone("the client has ended")
            return
        fds = self._client.descriptors(message)
        try:
            self._on_message(message, fds)
        except Violation:
            raise
        except Exception as error:
            raise Violation(
                f"{self._client.name}: the server refuses {message}: {error}"
            ) from error
