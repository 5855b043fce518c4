"""One end of a socket that carries packets both ways, to a process beside this one."""

from __future__ import annotations

import _socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from native.loop.reactor import Reactor, Watch


class PacketEnd:
    """Sends packets in their order as there is room, and takes those of the other end.

    Args:
        end: does not block, and is this one's to close.
        most_bytes: of a packet that comes.
        per_turn: so many packets are taken in one turn of the loop.
        on_end: called once, with the reason, when the other end has hung up. This one is closed.
    """

    def __init__(
        self,
        reactor: Reactor,
        end: _socket.socket,
        most_bytes: int,
        per_turn: int,
        on_packet: Callable[[bytes], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._end = end
        self._most_bytes = most_bytes
        self._per_turn = per_turn
        self._on_packet = on_packet
        self._on_end = on_end
        self._unsent: deque[bytes] = deque()
        self._watch: Watch | None = reactor.watch(end.fileno(), self._receive)

    def send(self, packet: bytes) -> None:
        """Send a packet. Who sends bounds what may wait here."""
        if self._watch is None:
            return
        self._unsent.append(packet)
        if len(self._unsent) == 1:
            self._flush()

    def close(self) -> None:
        """Hang up; twice is harmless."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            self._unsent.clear()
            with suppress(OSError):
                self._end.close()

    def _flush(self) -> None:
        if self._watch is None:
            return
        try:
            while self._unsent:
                self._end.send(self._unsent[0], _socket.MSG_NOSIGNAL)
                self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # reading tells
            self._unsent.clear()
        self._watch.set(self._receive, self._flush if self._unsent else None)

    def _receive(self) -> None:
        for _ in range(self._per_turn):
            if self._watch is None:
                return
            try:
                packet = self._end.recv(self._most_bytes)
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(error.strerror or str(error))
                return
            if not packet:
                self._lose("it has ended")
                return
            self._on_packet(packet)

    def _lose(self, reason: str) -> None:
        self.close()
        self._on_end(reason)
