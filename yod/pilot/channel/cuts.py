"""Says what is lost where ZeroMQ hangs up on a program: it tells neither end why.

It does so at a message that is larger than an end takes, and the program connects again and goes
on behind it. That a connection was closed is told by events of the end. Who closed it is seen from
a duplicate of its descriptor: where the program's end is still open, or what it has written was not
read to its end, ZeroMQ did. The duplicate is made while ZeroMQ asks whether the program may come
in (ZAP, rfc.zeromq.org/spec/27), so that no message can have come before.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import zmq

_LIMIT = "YOD_CHANNEL_BYTES"
_DOOR = "inproc://zeromq.zap.01"
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
_EVENT = struct.Struct("=HI")  # which, and the descriptor
_CREDENTIALS = struct.Struct("3i")  # process, user, group

Watch = Callable[[zmq.Socket[bytes], Callable[[], None]], None]


class Cuts:
    """Watches the ends into which programs put.

    Args:
        most_bytes: of a message.
        watch: has a handler called when a socket can be read.
        say: takes a line.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        most_bytes: int,
        watch: Watch,
        say: Callable[[str], None],
    ) -> None:
        self._most_bytes = most_bytes
        self._watch = watch
        self._say = say
        self._looks: dict[bytes, Callable[[], None]] = {}  # by the name of the channel
        self._door = context.socket(zmq.REP)
        self._door.bind(_DOOR)
        watch(self._door, self._let_in)

    def add(self, name: str, end: zmq.Socket[bytes]) -> None:
        """Watch an end, which is not bound yet."""
        events = end.get_monitor_socket(_EVENTS)
        look = partial(self._look, name, events, {})
        self._looks[name.encode()] = look
        end.set(zmq.ZAP_DOMAIN, name.encode())
        self._watch(events, look)

    def _let_in(self) -> None:
        """A program connects. All may come in for whom the socket can be opened."""
        version, request, domain, *_ = self._door.recv_multipart()
        self._looks[domain]()
        self._door.send_multipart([version, request, b"200", b"", b"", b""])

    def _look(
        self, name: str, events: zmq.Socket[bytes], connections: dict[int, socket.socket]
    ) -> None:
        with suppress(zmq.Again):
            while True:
                event, _ = events.recv_multipart(zmq.NOBLOCK)
                kind, fd = _EVENT.unpack(event)
                if (connection := connections.pop(fd, None)) is not None:
                    with connection:  # the program connects again when this is closed, too
                        lost, unix_pid = self._lost(connection), _process_of(connection)
                    if lost:
                        self._say(f"{name}: process {unix_pid} {lost}")
                if kind == zmq.EVENT_ACCEPTED:
                    with suppress(OSError):  # it has gone, or no descriptor is left
                        connections[fd] = socket.socket(fileno=os.dup(fd))

    def _lost(self, connection: socket.socket) -> str:
        """What is lost with a connection that ZeroMQ has closed; empty: nothing."""
        is_open, is_read = _left(connection)
        most = f"more than {self._most_bytes} bytes at once ({_LIMIT})"
        if is_open:
            return f"has put {most}: they are lost"
        if not is_read:
            return f"has ended, and what it put last is lost: {most}, or the channel was full"
        return ""


def _process_of(connection: socket.socket) -> int:
    """The process at the other end."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    unix_pid: int = _CREDENTIALS.unpack(data)[0]
    return unix_pid


def _left(connection: socket.socket) -> tuple[bool, bool]:
    """Whether the other end is open, and whether all that it has written was read."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    found = dict(poll.poll(0)).get(connection.fileno(), 0)
    try:
        data = connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        data = b""
    return not found & (select.POLLHUP | select.POLLERR), not data
