"""What a client lets the launch server write to by itself.

The client is the server's own user and may lie. So nothing here touches a file system, and nobody
else has the open file descriptions that are written to: no write can be made to wait.
"""

from __future__ import annotations

import os

from native.host import unixsockets
from native.wire.client import Gift


def own_description(gift: Gift, fds: tuple[int, ...]) -> int:
    """A descriptor of our own, non-blocking, of what was given; -1: there is none.

    Args:
        fds: came with it; they are closed. None where this process could not have them.

    Raises:
        PeerProtocolError: it is no pipe, and should be.
    """
    try:
        if gift is Gift.NULL:
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        if not fds:
            return -1
        fault = "client: an output that is no pipe"
        return unixsockets.pipe_anew(fds[0], os.O_WRONLY, fault)
    except OSError:  # it is another user's, or we can have no more
        return -1
    finally:
        unixsockets.close_all(fds)
