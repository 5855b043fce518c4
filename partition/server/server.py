"""The launch server: takes clients, and has one session for each.

Its socket is in the user's run directory. Beside it is a file on which the server holds a lock
as long as it lives, so that there is one server, and whoever wants to end it finds its process
id there; see :mod:`partition.find.warm`.
"""

from __future__ import annotations

import _socket
import fcntl
import os
from collections.abc import Callable

from native.errors import PartitionError
from native.host.unixsockets import peer_of
from native.limits import Limits
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor
from native.text import shown
from native.wire import client, client_codec
from partition.find import warm
from partition.find.kept import KeptPartitions
from partition.server.helpers import Helpers
from partition.server.session import ClientSession
from partition.session import events
from partition.up.embedded import EmbeddedPartition

BACKLOG = 4096  # clients that wait to be taken; the kernel may allow fewer
ACCEPTS_A_TURN = 16


class Server:
    """All sessions of one launch server.

    Args:
        directory: the user's run directory.
        say: takes a line for the log.
        on_idle: called when the last session has ended.
    """

    def __init__(
        self,
        directory: str,
        reactor: Reactor,
        limits: Limits,
        partition: EmbeddedPartition,
        helpers: Helpers,
        greeting: client.Hello,
        say: Callable[[str], None],
        on_idle: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._limits = limits
        self._partition = partition
        self._others = KeptPartitions(reactor)
        self._helpers = helpers
        self._greeting = client_codec.encode(greeting)
        self._say = say
        self._on_idle = on_idle
        self._sessions: set[ClientSession] = set()
        self._is_ending = False
        self._refusals: dict[str, int] = {}  # why clients were hung up on -> how many
        self._path = os.path.join(directory, warm.socket_name())
        self._lock_path = os.path.join(directory, warm.lock_name())
        self._lock_fd = _lock(self._lock_path)
        self._listener = _listen(directory)
        self._acceptor = Acceptor(reactor, self._listener, ACCEPTS_A_TURN, self._take, self._closed)
        self._is_listening = True

    @property
    def count(self) -> int:
        """Sessions."""
        return len(self._sessions)

    def state(self) -> list[str]:
        """A line for the server, and one for each session."""
        lines = [f"{self.count} clients"]
        return lines + [f"client {each.unix_pid}: {each.state.value}" for each in self._sessions]

    def retire(self) -> None:
        """Take nothing new; the launches that have begun go on."""
        if not self._is_ending:
            self._is_ending = True
            self._say("yod was replaced: takes nothing new, and ends with its last launch")
            self._stop_listening()
            self._look_idle()

    def end(self) -> None:
        """End all launches."""
        self._is_ending = True
        self._stop_listening()
        for session in list(self._sessions):
            session.handle(events.ServerEnds())
        self._look_idle()

    def close(self) -> None:
        """Close what is left."""
        self._stop_listening()
        for session in list(self._sessions):
            session.handle(events.ClientGone())
        self._others.close()
        _unlink(self._lock_path)
        os.close(self._lock_fd)

    def _stop_listening(self) -> None:
        if not self._is_listening:
            return
        self._is_listening = False
        self._acceptor.close()
        _unlink(self._path)
        self._listener.close()

    def _take(self, fd: int, peer: object) -> None:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)
        unix_pid, uid = peer_of(connection)
        connection.setblocking(False)
        if why := self._lack(uid):
            connection.close()  # the client goes cold
            self._refused(why)
            return
        try:
            connection.send(self._greeting, _socket.MSG_NOSIGNAL)  # it reads on while we do
        except OSError:
            connection.close()  # the client has gone, or goes cold
            return
        session = ClientSession(
            connection,
            unix_pid,
            self._reactor,
            self._limits,
            self._partition,
            self._others,
            self._helpers,
            self._over,
            self.retire,
            self._say,
        )
        self._sessions.add(session)
        session.open()

    def _lack(self, uid: int) -> str:
        """Why a client of this user is not taken; empty: it is."""
        if uid != os.getuid():
            return "they are of another user"
        most = self._limits.launches_count
        if len(self._sessions) >= most:
            return f"{most} launches run (YOD_LAUNCHES_COUNT)"
        return ""

    def _refused(self, why: str) -> None:
        """A client was hung up on. Many may be, so the log has the first, and their number."""
        self._refusals[why] = self._refusals.get(why, 0) + 1
        if self._refusals[why] == 1:
            self._say(f"clients run cold: {why}")

    def _count_refused(self) -> None:
        for why, count in self._refusals.items():
            if count > 1:
                self._say(f"{count} clients ran cold: {why}")
        self._refusals.clear()

    def _closed(self, peer: object) -> None:
        self._refused("no descriptor is left (ulimit -n)")  # the client goes cold

    def _over(self, session: ClientSession) -> None:
        self._sessions.discard(session)
        self._look_idle()

    def _look_idle(self) -> None:
        if not self._sessions:
            self._count_refused()
            self._on_idle()

    @property
    def is_ending(self) -> bool:
        """It takes nothing new."""
        return self._is_ending


def _lock(path: str) -> int:
    """Become the user's one launch server on this host.

    Raises:
        PartitionError: there is one, or the file cannot be written.
    """
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PartitionError(f"{shown(path)}: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise PartitionError("a launch server of yours runs on this host already") from None
        if _is_at(fd, path):
            break
        os.close(fd)  # it was that of a server which has ended in the meantime
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # somebody has removed it
        pass


def _listen(directory: str) -> _socket.socket:
    """Listen at the socket in a directory, whose path may be too long for an address.

    Raises:
        PartitionError: that is not possible.
    """
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    listener.setblocking(False)
    try:
        directory_fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            path = f"/proc/self/fd/{directory_fd}/{warm.socket_name()}"
            try:
                os.unlink(path)  # of a server that was killed: we have the lock
            except FileNotFoundError:
                pass
            listener.bind(path)
            os.chmod(path, 0o600)
        finally:
            os.close(directory_fd)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise PartitionError(f"{shown(directory)}: no socket: {error.strerror}") from None
    return listener
