"""Sockets between processes of one host: descriptors beside a packet, and who the peer is."""

from __future__ import annotations

import _socket  # see pct.host.keeper
import os
import struct
from collections.abc import Iterable

from native.errors import PeerProtocolError

_FD_BYTES = struct.calcsize("i")
_CREDENTIALS = struct.Struct("iII")  # struct ucred: process, user, group
_MSG_CMSG_CLOEXEC = 0x40000000  # linux/socket.h


def send(end: _socket.socket, packet: bytes, fds: tuple[int, ...] = ()) -> None:
    """Send a packet with descriptors, which stay the caller's.

    Raises:
        BlockingIOError: there is no room.
        OSError: the other end is gone, or there is no memory.
    """
    if not fds:
        end.send(packet, _socket.MSG_NOSIGNAL)
        return
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))
    end.sendmsg([packet], [rights], _socket.MSG_NOSIGNAL)


def receive(
    end: _socket.socket, size_bytes: int, fds_count: int
) -> tuple[bytes, tuple[int, ...], bool]:
    """Receive a packet with its descriptors, which are the caller's and are closed by an exec.

    Args:
        size_bytes: the largest packet; what is longer is cut.
        fds_count: the most descriptors.

    Returns:
        The packet, empty where the other end is closed; the descriptors; and whether some are
        missing: there were more, or this process can have no more.

    Raises:
        BlockingIOError: there is no packet.
        OSError: the other end is gone.
    """
    room = _socket.CMSG_SPACE(fds_count * _FD_BYTES)
    packet, ancillary, flags, _ = end.recvmsg(size_bytes, room, _MSG_CMSG_CLOEXEC)
    fds: tuple[int, ...] = ()
    for _, _, data in ancillary:  # few packets have any
        fds += tuple(memoryview(data).cast("i"))
    return packet, fds, bool(flags & _socket.MSG_CTRUNC)


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors that came with a packet, or were to go with one."""
    for fd in fds:
        os.close(fd)


def peer_of(end: _socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a connection, by the kernel's word."""
    data = end.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
    unix_pid, uid, _ = _CREDENTIALS.unpack(data)
    return unix_pid, uid


def pipe_anew(fd: int, access: int, fault: str) -> int:
    """An open file description of our own of a pipe that was handed over; it does not block.

    Whoever shares a description with us can make it block. What the descriptor is of is asked
    without touching a file system. It stays open.

    Args:
        access: ``os.O_RDONLY`` or ``os.O_WRONLY``.
        fault: what is said where it is no pipe.

    Raises:
        PeerProtocolError: it is no pipe.
        OSError: it cannot be opened.
    """
    path = f"/proc/self/fd/{fd}"
    if not os.readlink(path).startswith("pipe:"):
        raise PeerProtocolError(fault)
    return os.open(path, access | os.O_NONBLOCK | os.O_CLOEXEC)
