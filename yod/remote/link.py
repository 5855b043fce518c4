"""yod's end of the process that has the files."""

from __future__ import annotations

import _socket
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from native.loop.reactor import Reactor, Watch
from native.waitstatus import how_it_ended
from yod.remote.serve import HEAD, PACKET_BYTES, SOCKET_FD

OnReply = Callable[[int, int, bytes], None]  # place, mount, frame

_PACKETS_PER_TURN = 16
_CODE = """\
import sys
end = sys.argv.index("--")
sys.path[:] = sys.argv[1:end]
from yod.remote.serve import main
main(sys.argv[end + 1 :])
"""


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
        self._unsent: deque[bytes] = deque()
        self._watch: Watch | None = None
        self._on_reply: OnReply | None = None
        self._on_lost: Callable[[str], None] | None = None
        try:
            self.unix_pid = _spawn(theirs.fileno(), directories)
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
        self._watch = self._reactor.watch(self._end.fileno(), self._readable)

    def ask(self, place: int, mount: int, directory: int, frame: bytes) -> None:
        """Give it a request; an empty one: the mount is gone. The nodes' windows bound these."""
        if self._watch is None:
            return
        self._unsent.append(HEAD.pack(place, mount, directory) + frame)
        self._writable()

    def close(self) -> None:
        """End it, also where a file system hangs."""
        self._on_reply = self._on_lost = None
        self._hang_up()
        if self._is_running:
            with suppress(ProcessLookupError):
                os.kill(self.unix_pid, signal.SIGKILL)

    def _hang_up(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._end.close()
        self._unsent.clear()

    def _writable(self) -> None:
        assert self._watch is not None
        try:
            while self._unsent:
                self._end.send(self._unsent[0], _socket.MSG_NOSIGNAL)
                self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it has ended: its status is told
            self._unsent.clear()
        self._watch.set(self._readable, self._writable if self._unsent else None)

    def _readable(self) -> None:
        for _ in range(_PACKETS_PER_TURN):
            if self._watch is None:
                return
            try:
                packet = self._end.recv(PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._hang_up()
                return
            place, mount, _ = HEAD.unpack_from(packet)
            assert self._on_reply is not None
            self._on_reply(place, mount, packet[HEAD.size :])

    def _ended(self, wait_status: int) -> None:
        self._is_running = False
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost(f"--remote-io: the process with the files {how_it_ended(wait_status)}")


def _spawn(fd: int, directories: tuple[bytes, ...]) -> int:
    # It is given our module path, so `site` need not run again.
    path = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    words = [sys.executable, "-EPS", "-c", _CODE, *path, "--", *map(os.fsdecode, directories)]
    held = fd
    if fd == SOCKET_FD:  # a copy onto itself would not survive
        held = os.dup(fd)
    try:
        return os.posix_spawn(
            words[0],
            words,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, held, SOCKET_FD),
            ],
            setpgroup=0,  # Ctrl-C on a terminal is for yod
            setsigmask=(),
        )
    finally:
        if held != fd:
            os.close(held)
