"""One request and its answer, in HTTP/1.1, by the library h11. Pure.

A connection serves one request: so nothing that a client sends behind it is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import h11

HEADERS_MAX_BYTES = 16 * 1024
_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}
# Nothing of another origin is loaded, nothing of ours is kept, framed or told to others.
SAFE = (
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)


class Request(NamedTuple):
    """What a client asks.

    Attributes:
        token: of the address, or of the header of this name; empty: it has none.
        takes_gzip: the answer may be compressed.
    """

    method: str
    path: str
    host: str
    token: str
    authorization: str
    takes_gzip: bool


class BadRequest(Exception):
    """No request that can be answered otherwise than with this status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Exchange:
    """The server's end of one request."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADERS_MAX_BYTES)

    def receive(self, data: bytes) -> Request | None:
        """Take bytes of the client; the request, when its headers are whole.

        Raises:
            BadRequest: it is no HTTP, or has too much of it.
        """
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, "no request in HTTP/1.1") from None
        if isinstance(event, h11.Request):
            return _request(event)
        if isinstance(event, h11.ConnectionClosed):
            raise BadRequest(400, "no request")
        return None

    def head(self, status: int, headers: Sequence[tuple[str, str]]) -> bytes:
        """The beginning of an answer."""
        every = [*headers, *SAFE, ("Connection", "close")]
        response = h11.Response(status_code=status, reason=_REASONS[status], headers=every)
        return self._http.send(response) or b""

    def body(self, data: bytes) -> bytes:
        """A piece of its body."""
        return self._http.send(h11.Data(data=data)) or b""

    def end(self) -> bytes:
        """The end of its body."""
        return self._http.send(h11.EndOfMessage()) or b""


def _request(event: h11.Request) -> Request:
    from urllib.parse import parse_qs, urlsplit

    headers = {name: value.decode("latin-1") for name, value in event.headers}
    target = event.target.decode("latin-1")
    try:
        parts = urlsplit(target)
        query = parse_qs(parts.query, max_num_fields=8)
    except ValueError:
        raise BadRequest(400, "no address that could be read") from None
    return Request(
        method=event.method.decode("latin-1"),
        path=parts.path,
        host=headers.get(b"host", ""),
        token=query.get("token", [""])[-1] or headers.get(b"token", ""),
        authorization=headers.get(b"authorization", ""),
        takes_gzip="gzip" in headers.get(b"accept-encoding", "").lower(),
    )
