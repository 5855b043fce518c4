"""The connection of a launch server with one client: packets, and descriptors beside them."""

from __future__ import annotations

import _socket
from collections import deque
from collections.abc import Callable

from native.errors import PeerProtocolError
from native.host import unixsockets
from native.loop.reactor import Reactor, Watch
from native.wire import client, client_codec
from native.wire.client import FromClient, FromServer

PACKETS_A_TURN = 64  # that are read of one client before others have their turn
QUEUE_MAX = 4096  # packets that a client has not taken; output has a window of its own
FDS_MAX = 4  # that may come with a packet


class Channel:
    """Packets to and from one client.

    Args:
        on_message: takes each message and its descriptors, which the callee closes. There are
            none where this process could not have them.
        on_gone: called once, when the client has ended or broken the protocol.
    """

    def __init__(
        self,
        reactor: Reactor,
        connection: _socket.socket,
        on_message: Callable[[FromClient, tuple[int, ...]], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._connection = connection
        self._on_message = on_message
        self._on_gone = on_gone
        self._queue: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._watch: Watch | None = None

    def open(self) -> None:
        """Begin to take messages, on behalf of the present owner.

        Raises:
            OSError: the kernel has no memory.
        """
        self._watch = self._reactor.watch(self._connection.fileno(), self._receive)

    def send(self, message: FromServer, fds: tuple[int, ...] = ()) -> None:
        """Send a message now, or when the client has room.

        Args:
            fds: go with it; they are closed here.
        """
        if self._watch is None:
            unixsockets.close_all(fds)
            return
        self._queue.append((client_codec.encode(message), fds))
        if len(self._queue) > QUEUE_MAX:
            on_gone = self._on_gone
            self.close()
            self._reactor.call_soon(lambda: on_gone("the client does not read"))
        elif len(self._queue) == 1:
            self._flush()

    def close(self) -> None:
        """Hang up; what is queued is dropped, and who listens is forgotten, as it holds this."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._connection.close()
        for _, fds in self._queue:
            unixsockets.close_all(fds)
        self._queue.clear()
        self._on_message, self._on_gone = _no_message, _nobody

    def _flush(self) -> None:
        assert self._watch is not None
        try:
            while self._queue:
                packet, fds = self._queue[0]
                unixsockets.send(self._connection, packet, fds)
                self._queue.popleft()
                unixsockets.close_all(fds)
        except BlockingIOError:
            pass
        except OSError:  # it has ended: reading tells, after what it has sent
            for _, fds in self._queue:
                unixsockets.close_all(fds)
            self._queue.clear()
        if self._queue or self._watch.on_writable is not None:
            self._watch.set(self._receive, self._flush if self._queue else None)

    def _receive(self) -> None:
        for _ in range(PACKETS_A_TURN):
            if self._watch is None:
                return
            try:
                packet, fds, is_cut = unixsockets.receive(
                    self._connection, client.PACKET_MAX_BYTES + 1, FDS_MAX
                )
            except BlockingIOError:
                return
            except OSError:
                self._end("the client has ended")
                return
            if not packet:
                unixsockets.close_all(fds)
                self._end("the client has ended")
                return
            self._take(packet, fds, is_cut)

    def _take(self, packet: bytes, fds: tuple[int, ...], is_cut: bool) -> None:
        try:
            message = client_codec.decode_from_client(packet)
            count = client_codec.descriptors(message)
            if is_cut and len(fds) < count:  # no descriptor was left for them
                unixsockets.close_all(fds)
                fds = ()
            elif is_cut or len(fds) != count:
                raise PeerProtocolError("client: not the descriptors of its packet")
        except PeerProtocolError as error:
            unixsockets.close_all(fds)
            self._end(str(error))
            return
        try:
            self._on_message(message, fds)
        except PeerProtocolError as error:
            self._end(str(error))

    def _end(self, why: str) -> None:
        on_gone = self._on_gone
        self.close()
        on_gone(why)


def _no_message(message: FromClient, fds: tuple[int, ...]) -> None:
    """Takes a message behind the end: there is none."""


def _nobody(why: str) -> None:
    """Is told of an end behind the end."""
