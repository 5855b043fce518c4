"""One browser's connection: its request, what is sent to it, and when it is given up."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Callable

from native.limits import Limits
from native.loop.reactor import Reactor
from partition.web.exchange import BadRequest, Exchange, Request

READ_BYTES = 16 * 1024
GZIP_BITS = 31  # zlib's: deflate in gzip's frame
GZIP_LEVEL = 1


class Connection:
    """A connection from its first byte to its end.

    Attributes:
        is_stream: it waits for changes, and has shown the token.

    Args:
        sock: does not block.
        on_request: answers a request by :meth:`answer` or :meth:`stream`.
        on_end: called when the connection is no more.
    """

    def __init__(
        self,
        sock: socket.socket,
        reactor: Reactor,
        limits: Limits,
        on_request: Callable[[Connection, Request], None],
        on_end: Callable[[Connection], None],
    ) -> None:
        self.is_stream = False
        self._sock = sock
        self._reactor = reactor
        self._limits = limits
        self._on_request = on_request
        self._on_end = on_end
        self._exchange = Exchange()
        self._has_asked = False
        self._out = bytearray()
        self._gzip: zlib._Compress | None = None
        self._is_last = False  # the connection ends when all is sent
        self._is_open = True
        self._watch = reactor.watch(sock.fileno(), self._readable)
        self._timer = reactor.timer(self.close)
        self._timer.set(reactor.monotonic() + limits.web_request_s)

    def close(self) -> None:
        """End it at once; calling twice is harmless."""
        if not self._is_open:
            return
        self._is_open = False
        self._watch.close()
        self._timer.close()
        self._sock.close()
        self._on_end(self)

    def finish(self) -> None:
        """End a stream as whole, then the connection, without waiting for the client.

        A browser may drop pieces that it has read before an end that is none.
        """
        if self._is_open and self.is_stream:
            if self._gzip is not None:
                self._out += self._exchange.body(self._gzip.flush())
            self._out += self._exchange.end()
            self._is_last = True
            self._write()
        self.close()

    def answer(
        self, status: int, kind: str, data: bytes, *more: tuple[str, str], is_head: bool = False
    ) -> None:
        """Send an answer, and end the connection behind it."""
        headers = [("Content-Type", kind), ("Content-Length", str(len(data))), *more]
        self._out += self._exchange.head(status, headers)
        if not is_head:
            self._out += self._exchange.body(data) + self._exchange.end()
        self._is_last = True
        self._write()

    def stream(self, takes_gzip: bool) -> None:
        """Begin an answer that goes on; :meth:`send` sends its pieces."""
        self.is_stream = True
        headers = [("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no")]
        if takes_gzip:
            self._gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_BITS)
            headers.append(("Content-Encoding", "gzip"))
        self._out += self._exchange.head(200, headers)
        self._write()

    def send(self, data: bytes) -> None:
        """Send a piece; a client that has left too much unread is given up."""
        if not self._is_open:
            return
        if len(self._out) > self._limits.web_unread_bytes:
            self.close()
            return
        if self._gzip is not None:
            data = self._gzip.compress(data) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        self._out += self._exchange.body(data)
        self._write()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:  # whoever shuts this direction down does not wait for an answer
            self.close()
        elif not self._has_asked:
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            request = self._exchange.receive(data)
        except BadRequest as error:
            self._has_asked = True
            self.answer(error.status, "text/plain; charset=utf-8", f"{error}\n".encode())
            return
        if request is not None:
            self._has_asked = True
            self._on_request(self, request)

    def _write(self) -> None:
        try:
            sent = self._sock.send(self._out) if self._out else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._out[:sent]
        if not self._out:
            self._timer.set(None)
            self._watch.set(self._readable, None)
            if self._is_last:
                self.close()
            return
        if sent or self._timer.at is None or not self._watch.on_writable:
            self._timer.set(self._reactor.monotonic() + self._limits.web_stall_s)
        self._watch.set(self._readable, self._write)
