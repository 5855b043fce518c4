"""Addresses as users write them, made numeric before there is a loop to block."""

from __future__ import annotations

from native.errors import UsageError
from native.text import shown

UNIX = "unix:"


def numeric(address: str, what: str = "address") -> str:
    """``host:port`` with the host as an IPv4 number; ``unix:PATH`` as it is.

    A name is looked up, which may block: call it before the loop runs.

    Args:
        what: names the address in the error, as ``--bebopd``.

    Raises:
        UsageError: neither of the two forms, or the name is not known.
    """
    if address.startswith(UNIX):
        return address
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise UsageError(f"{what} {shown(address)}: must be HOST:PORT")
    if all(part.isdecimal() for part in host.split(".")):
        return address
    import socket  # takes 3 ms to import; most addresses are numeric

    try:
        return f"{socket.gethostbyname(host)}:{port}"
    except OSError as error:
        raise UsageError(
            f"{what} {shown(address)}: {shown(host)}: {error.strerror or error}"
        ) from None


def advertised(host: str, what: str = "--advertise") -> str:
    """The IPv4 number of this host that peers are told.

    Raises:
        UsageError: the name is not known, or is this host's word for itself: Debian's
            /etc/hosts gives a host's own name 127.0.1.1.
    """
    found = numeric(f"{host}:0", what).removesuffix(":0")
    if found.startswith("127.") and host not in (found, "localhost"):
        text = f"{what} {shown(host)}: {found} is reached from this host alone"
        raise UsageError(f"{text}; name an address of a network, or mend /etc/hosts")
    return found


def facing(address: str) -> str:
    """The address of this host that a peer sees: that of the interface which leads there.

    Args:
        address: of the peer, numeric; ``unix:PATH`` is on this host.
    """
    if address.startswith(UNIX):
        return "127.0.0.1"
    import socket

    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, int(port)))  # sends nothing
        except OSError as error:
            raise UsageError(f"{address}: {error.strerror}") from None
        name: str = probe.getsockname()[0]
    return name
