"""One connection, whose messages are of :mod:`yod.pilot.wire.messages`."""

from __future__ import annotations

import _socket  # `socket` takes 10 ms to import and adds nothing that is used here
import os
import signal
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from native.errors import PeerProtocolError, YodError
from native.frames import Frames
from native.host import unixsockets
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor, Watch
from yod.pilot.link.greeting import SUFFIX, Address, Door, call
from yod.pilot.wire.messages import MESSAGE_BYTES_MAX, FromAgent, FromClient, frame

_READ_BYTES = 1 << 16  # more would be a mapping of its own each time
_BACKLOG = 16
_ACCEPTS_A_TURN = 16
_LAST_S = 5.0  # for what is said last
_PATH_BYTES_MAX = 107  # sun_path


class Link:
    """Sends and takes messages; what is said in one turn leaves together.

    Args:
        end: a connected stream socket, which is the link's from now on.
        on_message: takes the bytes of one message.
            Where it raises, the connection is lost, and no other one.
        on_lost: called once with a reason, when the other end has gone. Not after :meth:`close`.
        most_bytes: of a message, until it is redirected: of one that nobody knows yet.

    Attributes:
        moved: grows with whatever the other end has sent, or has made room for.
    """

    def __init__(
        self,
        end: _socket.socket,
        reactor: Reactor,
        on_message: Callable[[bytes], None],
        on_lost: Callable[[str], None],
        most_bytes: int = MESSAGE_BYTES_MAX,
    ) -> None:
        end.setblocking(False)
        self._end = end
        self._reactor = reactor
        self._on_message = on_message
        self._on_lost = on_lost
        self._frames = Frames(most_bytes)
        self._unsent: deque[memoryview] = deque()
        self._is_asked = False
        self._is_full = False
        self.moved = 0
        self._watch: Watch | None = reactor.watch(end.fileno(), self._receive)

    @property
    def is_open(self) -> bool:
        """The other end is there, as far as is known."""
        return self._watch is not None

    @property
    def is_near(self) -> bool:
        """The other end is a process of this host."""
        return self._end.family == _socket.AF_UNIX

    def redirect(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Have what comes from now on taken by somebody else."""
        self._on_message, self._on_lost = on_message, on_lost
        self._frames.most_bytes = MESSAGE_BYTES_MAX

    def send(self, message: FromClient | FromAgent) -> None:
        """Say something; it leaves at the end of the turn."""
        self.send_frame(frame(message))

    def send_frame(self, whole: bytes) -> None:
        """Send what has its length in front already."""
        if self._watch is None:
            return
        self._unsent.append(memoryview(whole))
        if not self._is_asked:
            self._is_asked = True
            self._reactor.call_soon(self._flush)

    def finish(self) -> None:
        """Send what is left, which the other end has a moment to take, and close."""
        if self._watch is not None:
            with suppress(OSError):
                self._end.settimeout(_LAST_S)
                self._end.sendall(b"".join(self._unsent))
        self.close()

    def close(self) -> None:
        """Hang up. Calling twice is harmless."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            self._end.close()

    def kill(self) -> None:
        """Kill the process at the other end, where it is another one of this host, and hang up."""
        if self._watch is not None and self.is_near:
            unix_pid, _ = unixsockets.peer_of(self._end)
            if unix_pid not in (0, os.getpid()):
                with suppress(OSError):
                    os.kill(unix_pid, signal.SIGKILL)
        self.close()

    def give(self) -> _socket.socket:
        """Its socket, which is the caller's from now on; the link is closed."""
        assert self._watch is not None
        self._watch.close()
        self._watch = None
        return self._end

    def _flush(self) -> None:
        self._is_asked = False
        if self._watch is None:
            return
        try:
            while self._unsent:
                parts = [self._unsent.popleft() for _ in range(min(64, len(self._unsent)))]
                whole = memoryview(b"".join(parts)) if len(parts) > 1 else parts[0]
                self._unsent.appendleft(whole)
                sent = self._end.send(whole, _socket.MSG_NOSIGNAL)
                self._unsent.popleft()
                self.moved += self._is_full
                if sent < len(whole):
                    self._unsent.appendleft(whole[sent:])
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(error.strerror or str(error))
            return
        self._is_full = bool(self._unsent)
        self._watch.set(self._receive, self._flush if self._unsent else None)

    def _receive(self) -> None:
        try:
            data = self._end.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error.strerror or str(error))
            return
        if not data:
            self._lose("it has closed the connection")
            return
        self.moved += 1
        try:
            for body in self._frames.add(data):
                if self._watch is None:
                    return  # it was closed, or given away, with what comes behind
                self._on_message(body)
        except PeerProtocolError as error:
            self._lose(str(error))
        except Exception as error:  # a bug of ours, or a lie that no check has found
            self._lose(_fault(error))

    def _lose(self, reason: str) -> None:
        if self._watch is not None:
            self.close()
            self._on_lost(reason)


class Listener:
    """A Unix socket at which processes of the same user are let in, also from other hosts.

    Args:
        path: where it is; it is made anew, and removed by :meth:`close`.
    """

    def __init__(
        self, path: str, reactor: Reactor, on_connected: Callable[[_socket.socket], None]
    ) -> None:
        self.path = path
        self._on_connected = on_connected
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                os.unlink(path)
        self._end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        with _Near(path) as near:
            self._end.bind(near)
        os.chmod(path, 0o600)
        self._end.listen(_BACKLOG)
        self._end.setblocking(False)
        self._acceptor = Acceptor(reactor, self._end, _ACCEPTS_A_TURN, self._came)
        self._reactor = reactor
        self._door: Door | None = None

    def reach(self, host: str = "") -> Address:
        """Let processes on other hosts in, too, which find the address in a file beside.

        Args:
            host: the address of this one; empty: it is found out.

        Raises:
            YodError: it is not possible.
        """
        if self._door is None:
            self._door = Door(self.path + SUFFIX, host, self._reactor, self._on_connected)
        return self._door.address

    def close(self, *, comes_again: bool = False) -> None:
        """Let nobody in any more.

        Args:
            comes_again: from other hosts a later one is to be found at the same address.
        """
        if self._door is not None:
            self._door.close(comes_again=comes_again)
        self._acceptor.close()
        self._end.close()
        with suppress(OSError):
            os.unlink(self.path)

    def _came(self, fd: int, peer: object) -> None:
        end = _socket.socket(fileno=fd)
        _, uid = unixsockets.peer_of(end)
        if uid == os.geteuid():
            self._on_connected(end)
        else:
            end.close()


def connect(path: str) -> _socket.socket:
    """A connection to who listens at a path, perhaps on another host that has the same files.

    Raises:
        YodError: nobody does.
    """
    if os.path.exists(path + SUFFIX):
        with suppress(YodError):
            return _connect(path)
        return call(path + SUFFIX)
    return _connect(path)


def _connect(path: str) -> _socket.socket:
    end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        with _Near(path) as near:
            end.connect(near)
    except OSError as error:
        end.close()
        raise YodError(f"{path}: {error.strerror or error}") from None
    return end


def _fault(error: Exception) -> str:
    """Log what a peer's message has raised; it in a line."""
    import logging

    from native.machine import fault_text

    logging.getLogger("yod.pilot").error("what a peer has said", exc_info=error)
    return fault_text(error)


class _Near:
    """A name for a socket's path that is short enough, while it is used."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= _PATH_BYTES_MAX:
            return self._path
        directory, name = os.path.split(self._path)
        self._fd = os.open(directory, os.O_PATH | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}/{name}"

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
