"""The PCT's ends of pipes and sockets of ranks. No read or write blocks."""

from __future__ import annotations

import os
from collections.abc import Callable

from native.loop.reactor import Reactor
from native.wire.base import DATA_MAX
from pct.account import Charge


class OutputPipe:
    """A rank's standard output or error. ``on_data(b"")`` is called at its end."""

    def __init__(self, reactor: Reactor, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._watch = reactor.watch(fd, self._readable)

    def pause(self, is_paused: bool) -> None:
        """Stop or resume reading. A rank that writes to a full pipe waits."""
        if self._fd >= 0:
            self._watch.set(None if is_paused else self._readable, None)

    def close(self) -> None:
        """Stop reading, and close the descriptor."""
        if self._fd >= 0:
            self._watch.close()
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, DATA_MAX)
        except BlockingIOError:
            return
        if not data:
            self.close()
        self._on_data(data)


class InputPipe:
    """The standard input of rank 0. What does not fit into the pipe waits here.

    yod sends no more than it has credit for, so this is bounded.
    """

    def __init__(self, reactor: Reactor, fd: int, on_taken: Callable[[int], None]) -> None:
        self._fd = fd
        self._on_taken = on_taken
        self._waiting = bytearray()
        self._is_ending = False
        self._watch = reactor.watch(fd, None)

    def write(self, data: bytes) -> None:
        """Write data; empty data closes the pipe when all data has been written."""
        if self._fd < 0:
            return
        self._waiting += data
        self._is_ending |= not data
        self._writable()

    def close(self) -> None:
        """Close it now."""
        if self._fd >= 0:
            self._watch.close()
            os.close(self._fd)
            self._fd = -1
            self._waiting.clear()

    def _writable(self) -> None:
        taken = 0
        try:
            while self._waiting:
                count = os.write(self._fd, self._waiting)
                del self._waiting[:count]
                taken += count
        except BlockingIOError:
            pass
        except BrokenPipeError:  # rank 0 has closed it. No credit is given, so yod stops
            self.close()
            return
        if self._waiting:
            self._watch.set(None, self._writable)
        else:
            self._watch.set(None, None)
            if self._is_ending:
                self.close()
        if taken:
            self._on_taken(taken)


class ClientSocket:
    """A client's stream socket. ``on_data(b"")`` is called when the client has hung up.

    Args:
        charge: for the bytes that the client has not read yet.
        is_patient: read nothing while bytes wait to be written. So a client that does not
            read costs no more than the answers to its last requests.
    """

    def __init__(
        self,
        reactor: Reactor,
        fd: int,
        on_data: Callable[[bytes], None],
        charge: Charge,
        *,
        is_patient: bool = True,
    ) -> None:
        self._fd = fd
        self._charge = charge
        self._on_data = on_data
        self._is_patient = is_patient
        self._is_closing = False
        self._on_closed: Callable[[], None] | None = None
        self._unsent = bytearray()
        self._watch = reactor.watch(fd, self._readable)

    def send(self, data: bytes) -> None:
        """Write now, or when the client reads.

        Raises:
            OverLimit: too many bytes wait already. The caller must close the socket.
        """
        if self._fd < 0:
            return
        is_waiting = bool(self._unsent)
        self._unsent += data
        if not is_waiting:
            self._writable()
        if self._fd >= 0:
            self._charge.set(len(self._unsent))

    def hang_up(self, on_closed: Callable[[], None] = lambda: None) -> None:
        """Close it when all has been written, then call ``on_closed``."""
        self._is_closing = True
        self._on_closed = on_closed
        if not self._unsent:
            self.close()

    def close(self) -> None:
        """Close it now."""
        if self._fd >= 0:
            self._watch.close()
            os.close(self._fd)
            self._fd = -1
            self._unsent.clear()
            self._charge.clear()
            if (on_closed := self._on_closed) is not None:
                self._on_closed = None
                on_closed()

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, DATA_MAX)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self.close()
        if not self._is_closing:
            self._on_data(data)

    def _writable(self) -> None:
        try:
            while self._unsent:
                count = os.write(self._fd, self._unsent)
                del self._unsent[:count]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self.close()
            if not self._is_closing:
                self._on_data(b"")
            return
        if len(self._unsent) < self._charge.held_bytes:
            self._charge.set(len(self._unsent))
        if self._unsent:
            self._watch.set(None if self._is_patient else self._readable, self._writable)
        elif self._is_closing:
            self.close()
        elif self._watch.on_writable is not None:
            self._watch.set(self._readable, None)
