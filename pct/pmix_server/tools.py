"""Which tools may connect to a PMIx server: those whose user, as the kernel says, is the job's.

libpmix believes the user id that a tool claims, its port is open to every user of the host,
and it does not say to which of its connections a tool belongs. So a tool is admitted when all
connections of this process belong to the job's user or to root: until the tool is answered,
its own connection is among them.

A tool that is not admitted gets no answer, because libpmix 4 and 5 crash when they refuse a
tool, or when the tool has gone meanwhile. The remains of such a connection keep later tools
out.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import os

RETRY_S = 0.1  # after which it is looked again for connections that were about to go
RETRIES_MAX = 100
_ROOT = 0


class Doubtful(Exception):
    """The user of a connection is unknown; the connection may be closing."""


def stranger(uid: int) -> int | None:
    """Look for a connection of another user, and shut it down; None: there is none.

    Args:
        uid: of the job.

    Raises:
        Doubtful: the user of a connection is unknown.
    """
    is_doubtful = False
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = os.dup(int(name))
        except OSError:  # libpmix has closed it
            continue
        try:
            connection = _socket.socket(fileno=copy)
        except OSError:  # it is no socket
            os.close(copy)
            continue
        try:
            found = _user_of(connection, uid)
            if found not in (uid, _ROOT):
                connection.shutdown(_socket.SHUT_RDWR)
                return found
        except (Doubtful, OSError):
            is_doubtful = True
        finally:
            connection.close()
    if is_doubtful:
        raise Doubtful
    return None


def _user_of(connection: _socket.socket, uid: int) -> int:
    """The user of a connection.

    Raises:
        OSError: its other end has gone.
        Doubtful: as :func:`stranger` has it.
    """
    if connection.family not in (_socket.AF_INET, _socket.AF_INET6):
        return uid
    if connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN):
        return uid
    peer, own = connection.getpeername(), connection.getsockname()
    if connection.family == _socket.AF_INET6:
        raise Doubtful
    from pct.host.pmi_port import owner  # few jobs are visited by tools

    if (found := owner(peer, own)) is None:
        raise Doubtful
    return found
