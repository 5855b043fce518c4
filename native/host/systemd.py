"""What a daemon says to systemd: that it is ready, and the lines of its log.

Both are datagrams to a Unix socket, as sd_notify(3) and systemd.io/JOURNAL_NATIVE_PROTOCOL say.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import os
from collections.abc import Mapping

JOURNAL_SOCKET = "/run/systemd/journal/socket"
INFO = 6  # syslog's priority


def notify(environment: Mapping[str, str], state: str) -> None:
    """Tell the service manager a state, such as ``READY=1``, if one wants to know."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        sender.sendto(state.encode(), _socket.MSG_DONTWAIT, address)
    except OSError:
        pass  # the manager sees that we are not ready, and says so
    finally:
        sender.close()


def is_journal(environment: Mapping[str, str], fd: int) -> bool:
    """systemd has connected this descriptor to the journal."""
    found = os.fstat(fd)
    return environment.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class Journal:
    """The journal of this host."""

    def __init__(self, path: str = JOURNAL_SOCKET) -> None:
        self._path = path
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK)

    def write(self, **fields: str | int) -> None:
        """Write one entry.

        Raises:
            OSError: it is not there, or does not take it now.
        """
        entry = b"".join(_field(name, str(value)) for name, value in fields.items())
        self._socket.sendto(entry, self._path)

    def close(self) -> None:
        """Take the socket back."""
        self._socket.close()


def _field(name: str, value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    if b"\n" not in data:
        return b"%s=%s\n" % (name.encode(), data)
    return b"%s\n%s%s\n" % (name.encode(), len(data).to_bytes(8, "little"), data)
