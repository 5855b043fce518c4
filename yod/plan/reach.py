"""How a bebopd is reached. Apart from the plan of a launch: most that ask bebopd have none."""

from __future__ import annotations

from msgspec import Struct


class Reach(Struct, frozen=True):
    """How bebopd is reached, and how the user is proven to it.

    Attributes:
        address: ``host:port``, numeric, or ``unix:PATH``.
        key: empty: the kernel proves the user, over a Unix socket.
        key_uid: whose key it is; None: the partition's.
        credential: of MUNGE, in which the key is; empty: there is none.
        made: unix time, of the credential.
    """

    address: str
    key: bytes = b""
    key_uid: int | None = None
    credential: bytes = b""
    made: float = 0.0
