"""yod's end of the process that has the files."""

from __future__ import annotations

import _socket
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from native.host import programs
from native.loop.packets import PacketEnd
from native.loop.reactor import Reactor
from native.waitstatus import how_it_ended
from yod.remote.serve import HEAD, PACKET_BYTES

OnReply = Callable[[int, int, bytes], None]  # place, mount, frame

_PACKETS_PER_TURN = 16
_CODE = "import sys; from yod.remote.serve import main; main(sys.argv[1:])"


class RemoteServer:
    """The process, from its start to its end.

    It is started before others may be told of all children of this one.

    Args:
        directories: as requests number them.

    Attributes:
        unix_pid: its process.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, reactor: Reactor, directories: tuple[bytes, ...]) -> None:
        self._reactor = reactor
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        with_room = 2 * PACKET_BYTES
        for end in (ours, theirs):
            end.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, with_room)
        ours.setblocking(False)
        self._end = ours
        self._packets: PacketEnd | None = None  # until it is told to begin
        self._on_reply: OnReply | None = None
        self._on_lost: Callable[[str], None] | None = None
        try:
            argv = programs.own_python(_CODE, *map(os.fsdecode, directories))
            self.unix_pid = programs.spawn_attached(argv, os.environ, theirs.fileno())
        finally:
            theirs.close()
        self._is_running = True
        reactor.on_child(self.unix_pid, self._ended)

    def begin(self, on_reply: OnReply, on_lost: Callable[[str], None]) -> None:
        """Take replies.

        Args:
            on_lost: called once, with the reason, if it ends before it is told to.
        """
        self._on_reply, self._on_lost = on_reply, on_lost
        self._packets = PacketEnd(
            self._reactor,
            self._end,
            PACKET_BYTES,
            _PACKETS_PER_TURN,
            self._received,
            lambda reason: None,  # its end as a process tells
        )

    def ask(self, place: int, mount: int, directory: int, frame: bytes) -> None:
        """Give it a request; an empty one: the mount is gone. The nodes' windows bound these."""
        if self._packets is not None:
            self._packets.send(HEAD.pack(place, mount, directory) + frame)

    def close(self) -> None:
        """End it, also where a file system hangs."""
        self._on_reply = self._on_lost = None
        if self._packets is None:
            self._end.close()
        else:
            self._packets.close()
        if self._is_running:
            with suppress(ProcessLookupError):
                os.kill(self.unix_pid, signal.SIGKILL)

    def _received(self, packet: bytes) -> None:
        place, mount, _ = HEAD.unpack_from(packet)
        if self._on_reply is not None:
            self._on_reply(place, mount, packet[HEAD.size :])

    def _ended(self, wait_status: int) -> None:
        self._is_running = False
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost(f"--remote-io: the process with the files {how_it_ended(wait_status)}")
