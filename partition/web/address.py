"""Where the page is served, from the word of a user. Pure."""

from __future__ import annotations

from typing import NamedTuple

from native.errors import UsageError
from native.text import shown

LOOPBACK = "127.0.0.1"


class Address(NamedTuple):
    """A host and a port to listen at.

    Attributes:
        host: a name or a number.
        port: 0: a free one.
    """

    host: str
    port: int


def parse(text: str) -> Address:
    """``HOST:PORT``, ``HOST``, ``:PORT`` or ``PORT``; empty: this host alone, and a free port.

    Raises:
        UsageError: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if text.endswith("]") or (not colon and not text.isdecimal()):
        host, port = text, ""
    host = host.removeprefix("[").removesuffix("]")
    if port and not (port.isdecimal() and len(port) <= 5 and int(port) < 65536):
        raise UsageError(f"--web={shown(text)}: the port must be from 0 to 65535")
    if not host.isprintable() or any(c.isspace() or c in "/?#@" for c in host):
        raise UsageError(f"--web={shown(text)}: must be HOST:PORT, as 127.0.0.1:8080")
    return Address(host or LOOPBACK, int(port or 0))


def url(host: str, port: int, token: str) -> str:
    """What a user opens."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/?token={token}"
