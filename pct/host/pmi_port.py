"""The listener that PMI_PORT names, for the ranks of one job on one node.

The protocol has no authentication. So before a byte is read, the kernel is asked whose
process is at the other end: it must be one of the job's user, or of root.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import errno
import os
import struct
from collections.abc import Callable

from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor

CONNECTIONS_PER_RANK = 4  # at once: a rank, and programs that it starts
REPORTS_MAX = 8  # refused connections that are logged; further ones are only closed
_BACKLOG = 1024
_ACCEPTS_AT_ONCE = 64  # in one turn of the loop
_LOOPBACK = "127.0.0.1"

# From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, pad, states
_SOCKET_ID = struct.Struct("!HH16s16s4s8s")  # ports, addresses, interface, cookie
_ANSWER = struct.Struct("=BBBB48sIIIII")  # family, state, -, -, id, -, -, -, uid, inode
_ANY_COOKIE = b"\xff" * 8
_ESTABLISHED = 1

Address = tuple[str, int]


class PmiPort:
    """Listens on loopback, and hands over connections of the job's user.

    Args:
        uid: of the job.
        room: how many connections there may be at once.
        on_connection: takes over a non-blocking descriptor. :meth:`ended` must be called
            when it has been closed.
        on_refused: takes the reason why a connection was closed.

    Attributes:
        address: ``127.0.0.1:PORT``, the value of PMI_PORT.

    Raises:
        OSError: no port can be opened.
    """

    def __init__(
        self,
        reactor: Reactor,
        uid: int,
        room: int,
        on_connection: Callable[[int], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self._uid = uid
        self._room = room
        self._on_connection = on_connection
        self._on_refused = on_refused
        self._reports = 0
        self._socket = _socket.socket(
            _socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
        )
        try:
            # Accepted connections inherit this option.
            self._socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            self._socket.bind((_LOOPBACK, 0))
            self._socket.listen(_BACKLOG)
            self._own: Address = self._socket.getsockname()
        except OSError:
            self._socket.close()
            raise
        self.address = f"{_LOOPBACK}:{self._own[1]}"
        self._acceptor = Acceptor(
            reactor, self._socket, _ACCEPTS_AT_ONCE, self._judge, self._turned_away
        )

    def ended(self) -> None:
        """A connection that was handed over has been closed: there is room for another."""
        self._room += 1

    def close(self) -> None:
        """Stop listening; connections that were handed over stay. Twice is harmless."""
        if self._socket.fileno() < 0:
            return
        self._acceptor.close()
        self._socket.close()

    def _judge(self, fd: int, peer: Address) -> None:
        if refusal := self._refusal(peer):
            os.close(fd)
            self._report(f"{peer[0]}:{peer[1]}: {refusal}")
            return
        os.set_blocking(fd, False)
        self._room -= 1
        self._on_connection(fd)

    def _refusal(self, peer: Address) -> str:
        """Why this connection is refused; empty: it is accepted."""
        uid = owner(peer, self._own)
        if uid is None:
            return "nobody is known to have it"
        if uid not in (self._uid, 0):
            return f"of user {uid}; the job is of user {self._uid}"
        if self._room <= 0:
            return "too many connections at once"
        return ""

    def _turned_away(self, peer: Address) -> None:
        self._report(f"{peer[0]}:{peer[1]}: no descriptor is left")

    def _report(self, text: str) -> None:
        self._reports += 1
        if self._reports == REPORTS_MAX:
            text += "; more are not told"
        if self._reports <= REPORTS_MAX:
            self._on_refused(f"a connection to PMI was refused: {text}")


def owner(peer: Address, own: Address) -> int | None:
    """User id of the process at the other end of a connection over loopback.

    Args:
        peer, own: addresses of the two ends.

    Returns:
        None where it is not known. A socket that has been closed counts as such, because
        the kernel shows it as root's.
    """
    try:
        found = _ask_kernel(peer, own)
    except OSError:
        found = _look_up(peer, own)  # netlink is forbidden, or the kernel lacks its module
    if found is None:
        return None
    state, uid, inode = found
    return uid if state == _ESTABLISHED and inode else None


def _ask_kernel(peer: Address, own: Address) -> tuple[int, int, int] | None:
    """State, uid and inode of the socket at ``peer``.

    Raises:
        OSError: the kernel does not answer.
    """
    request = _REQUEST.pack(_socket.AF_INET, _socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    request += _SOCKET_ID.pack(
        peer[1],
        own[1],
        _socket.inet_aton(peer[0]),
        _socket.inet_aton(own[0]),
        bytes(4),
        _ANY_COOKIE,
    )
    header = _NLMSG_HEADER.pack(
        _NLMSG_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0
    )
    netlink = _socket.socket(
        _socket.AF_NETLINK, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
    )
    try:
        netlink.sendto(header + request, (0, 0))
        answer = netlink.recv(
            4096, _socket.MSG_DONTWAIT
        )  # the answer has arrived when sendto returns
    finally:
        netlink.close()
    return _parse_answer(answer, peer, own)


def _parse_answer(answer: bytes, peer: Address, own: Address) -> tuple[int, int, int] | None:
    """Raises:
    OSError: the answer is an error.
    """
    if len(answer) < _NLMSG_HEADER.size + 4:
        raise OSError(errno.EPROTO, "a short answer of netlink")
    if _NLMSG_HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        (code,) = struct.unpack_from("=i", answer, _NLMSG_HEADER.size)
        raise OSError(-code, os.strerror(-code))
    if len(answer) < _NLMSG_HEADER.size + _ANSWER.size:
        raise OSError(errno.EPROTO, "a short answer of netlink")
    _, state, _, _, id_, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _NLMSG_HEADER.size)
    port, own_port, address, own_address, _, _ = _SOCKET_ID.unpack(id_)
    ends = (_socket.inet_ntoa(address[:4]), port), (_socket.inet_ntoa(own_address[:4]), own_port)
    return (state, uid, inode) if ends == (peer, own) else None


def _look_up(peer: Address, own: Address) -> tuple[int, int, int] | None:
    """The same from /proc/net/tcp, which lists all connections."""
    ends = [_proc_form(peer), _proc_form(own)]
    try:
        with open("/proc/self/net/tcp", "rb", buffering=1 << 16) as table:
            for line in table:
                fields = line.split()
                if fields[1:3] == ends:
                    return int(fields[3], 16), int(fields[7]), int(fields[9])
    except OSError:
        pass
    return None


def _proc_form(address: Address) -> bytes:
    (number,) = struct.unpack("=I", _socket.inet_aton(address[0]))
    return b"%08X:%04X" % (number, address[1])
