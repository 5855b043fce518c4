"""Which tools may connect to a PMIx server: those of the job's user, on the kernel's word.

libpmix believes what a tool says of its user, and its port is open to everybody on the
host. By which of its connections a tool has come it does not tell. So a tool is let in
when all of them are the user's, or root's: its own is among them until it is answered.

A tool that is not let in gets no answer, as libpmix 4 and 5 crash when they are to say
no, or when the tool has gone meanwhile. What is left of such a connection keeps further
tools out.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import os

RETRY_S = 0.1  # after which it is looked again for connections that were about to go
RETRIES_MAX = 100
_ROOT = 0


class Doubtful(Exception):
    """It cannot be told whose a connection is; it may be about to go."""


def stranger(uid: int) -> int | None:
    """Another user who has a connection to this process, which is shut down; None: there is none.

    Args:
        uid: of the job.

    Raises:
        Doubtful: nobody can tell.
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
    """Whose a connection is.

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
