"""The PCT's ends of pipes and sockets of ranks. No read or write blocks.

Keepers make them, as the owners of their jobs: a file of another kind may come instead, and
whoever shares an open file description with us can make it block.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from native.errors import PeerProtocolError
from native.host import unixsockets
from native.loop.reactor import Reactor, Watch
from native.wire.io import OUTPUT_MAX_BYTES

_FIONREAD = 0x541B  # asm-generic/ioctls.h
_PIPE_BYTES = 65536  # that a pipe holds, where nobody has said otherwise
_WIDE_BYTES = 512 * 1024  # of one that is found full: two reads
_PAGE_BYTES = 4096  # of the least pipe, where pages are of that size; else less than one


def own_pipe(fd: int, access: int) -> int:
    """Open a rank's pipe anew, so that nobody shares our description; close the descriptor.

    Args:
        access: ``os.O_RDONLY`` or ``os.O_WRONLY``.

    Raises:
        PeerProtocolError: it is no pipe, or it cannot be opened.
    """
    try:
        return unixsockets.pipe_anew(fd, access, "keeper: a stream that is no pipe")
    except OSError as error:
        if error.errno == errno.ENXIO:  # the rank has closed its end already
            return _unread_pipe()
        raise PeerProtocolError(f"keeper: a stream cannot be opened: {error.strerror}") from None
    finally:
        os.close(fd)


def own_socket(fd: int) -> int:
    """A socket that was handed over, which it must be. It is closed if it is not.

    Raises:
        PeerProtocolError: it is none.
    """
    if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
        return fd
    os.close(fd)
    raise PeerProtocolError("keeper: a PMI connection that is no socket")


def _is_broken(fd: int) -> bool:
    """Nobody has the other end of this pipe."""
    looking = select.poll()
    looking.register(fd, 0)
    return bool(looking.poll(0))


def _resize(fd: int, count_bytes: int) -> None:
    """Change the room in a pipe; it stays where a user has no more for pipes."""
    import fcntl

    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, count_bytes)


def _unread_bytes(fd: int) -> int:
    import fcntl

    answer = fcntl.ioctl(fd, _FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def _unread_pipe() -> int:
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.close(reading)
    return writing


class OutputPipe:
    """A rank's standard output or error. ``on_data(b"")`` is called at its end."""

    def __init__(self, reactor: Reactor, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._reactor = reactor
        self._is_paused = self._is_held = False
        self._left: int | None = None  # bytes until its end, where that is known
        self._is_wide = False
        self._watch = reactor.watch(fd, self._readable)

    def pause(self, is_paused: bool) -> None:
        """Stop or resume reading. A rank that writes to a full pipe waits."""
        if self._fd >= 0:
            self._is_paused = is_paused
            self._look()
            self._read_soon()

    def hold(self) -> None:
        """Read what is in the pipe now, and nothing more until :meth:`let_go`."""
        if self._fd < 0 or self._is_held or self._left is not None:
            return
        self._is_held = True
        self._look()
        left = _unread_bytes(self._fd)
        while left > 0:
            data = os.read(self._fd, min(OUTPUT_MAX_BYTES, left))
            left -= len(data)
            self._on_data(data)

    def let_go(self) -> None:
        """Read on."""
        if self._fd >= 0 and self._is_held:
            self._is_held = False
            self._look()

    def _look(self) -> None:
        is_read = not (self._is_paused or self._is_held)
        self._watch.set(self._readable if is_read else None, None)

    def finish(self) -> None:
        """What is in the pipe now is the last: who may still write is not waited for."""
        if self._fd >= 0:
            self.let_go()
            self._left = _unread_bytes(self._fd)
            self._read_soon()

    def _read_soon(self) -> None:
        """Where the end is known, nothing need come that makes the pipe readable."""
        if self._left is not None:
            self._reactor.call_soon(self._read_last)

    def _read_last(self) -> None:
        if self._fd >= 0 and not self._is_paused:
            self._readable()

    def close(self) -> None:
        """Stop reading, and close the descriptor."""
        if self._fd >= 0:
            self._watch.close()
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        left = self._left
        try:
            most = OUTPUT_MAX_BYTES if left is None else min(OUTPUT_MAX_BYTES, left)
            data = os.read(self._fd, most)
        except BlockingIOError:
            if left is None:
                return
            data = b""
        if left is not None:
            self._left = left - len(data)
            self._read_soon()
        if not data:
            self.close()
        elif len(data) == _PIPE_BYTES and not self._is_wide:
            self._is_wide = True
            _resize(self._fd, _WIDE_BYTES)
        self._on_data(data)


class InputPipe:
    """The standard input of a process. What does not fit into the pipe waits here.

    yod sends no more than it has credit for, so this is bounded.
    """

    def __init__(
        self,
        reactor: Reactor,
        fd: int,
        on_taken: Callable[[int], None],
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_closed = on_closed
        self._fd = fd
        self._on_taken = on_taken
        self._waiting = bytearray()
        self._is_ending = False
        self._watch = reactor.watch(fd, None)

    def write(self, data: bytes) -> None:
        """Write data; empty data closes the pipe when all data has been written."""
        if self._fd < 0:
            return
        self._waiting += data
        self._is_ending |= not data
        self._writable()

    def close(self) -> None:
        """Close it now."""
        if self._fd >= 0:
            self._watch.close()
            os.close(self._fd)
            self._fd = -1
            self._waiting.clear()

    def hand_over(self) -> int:
        """Its descriptor, which is the caller's; -1: it is closed."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._watch.close()
        return fd

    def _writable(self) -> None:
        taken = 0
        try:
            while self._waiting:
                count = os.write(self._fd, self._waiting)
                del self._waiting[:count]
                taken += count
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the process has closed it
            self.close()
            self._on_closed()
            return
        if self._waiting:
            self._watch.set(None, self._writable)
        else:
            self._watch.set(None, None)
            if self._is_ending:
                self.close()
        if taken:
            self._on_taken(taken)


class Inputs:
    """The standard input of the ranks of one node: all get the same, and the slowest counts.

    Args:
        on_taken: is told how many bytes more all of them have taken.
        on_closed: the last of them has closed its pipe.
    """

    def __init__(self, on_taken: Callable[[int], None], on_closed: Callable[[], None]) -> None:
        self._on_taken = on_taken
        self._on_closed = on_closed
        self._pipes: dict[int, InputPipe] = {}
        self._taken: dict[int, int] = {}  # bytes by rank
        self._told = 0

    def add(
        self, rank: int, make: Callable[[Callable[[int], None], Callable[[], None]], InputPipe]
    ) -> None:
        """A rank has been started.

        Args:
            make: its pipe, which tells what it has taken, and that it is closed.
        """
        self._taken[rank] = 0
        self._pipes[rank] = make(partial(self._took, rank), partial(self._closed, rank))

    def write(self, data: bytes) -> None:
        """Write data to each; empty data closes them when all data has been written."""
        for pipe in list(self._pipes.values()):
            pipe.write(data)

    def close(self) -> None:
        """Close them now; nobody is told."""
        for pipe in self._pipes.values():
            pipe.close()
        self._pipes.clear()
        self._on_taken, self._on_closed = _nobody, _nothing

    def hand_over(self, rank: int) -> int:
        """The descriptor of a rank's pipe, which is the caller's; -1: it is closed."""
        self._taken.pop(rank, None)
        pipe = self._pipes.pop(rank, None)
        return -1 if pipe is None else pipe.hand_over()

    def _took(self, rank: int, count_bytes: int) -> None:
        self._taken[rank] += count_bytes
        self._tell()

    def _closed(self, rank: int) -> None:
        del self._pipes[rank], self._taken[rank]
        if self._pipes:
            self._tell()
        else:
            self._on_closed()

    def _tell(self) -> None:
        fresh = min(self._taken.values()) - self._told
        if fresh > 0:
            self._told += fresh
            self._on_taken(fresh)


def _nobody(count_bytes: int) -> None:
    """Is told of input that is taken behind the end."""


def _nothing() -> None:
    """Is told that input is closed behind the end."""


class SharedPipe:
    """The standard input of a rank that shares it with others: a line comes when it is empty.

    A pipe of one page can be written to only when nothing is left in it. So the rank has read
    what it was given when the pipe is writable again.

    Args:
        fd: is ours; -1: the rank has closed its end.
        on_wanted: is told that all has been read; or, with True, that nothing more will be, and
            what was given last, if the rank has read nothing of it.
    """

    def __init__(self, reactor: Reactor, fd: int, on_wanted: Callable[[bytes, bool], None]) -> None:
        self._fd = fd
        self._on_wanted = on_wanted
        self._given = b""
        self._waiting = b""  # what of it is not in the pipe yet
        self._watch: Watch | None = None
        if fd >= 0:
            _resize(fd, _PAGE_BYTES)  # else lines may be given early
            self._watch = reactor.watch(fd, None)

    def give(self, data: bytes) -> None:
        """A line, or a piece of one; empty data: the end."""
        if self._watch is None:
            if data:
                self._on_wanted(data, True)
        elif not data:
            self.close()
        else:
            self._given = self._waiting = data
            self._writable()

    def close(self) -> None:
        """Close it now."""
        if self._watch is not None:
            self._watch.close()
            os.close(self._fd)
            self._watch = None

    def _writable(self) -> None:
        assert self._watch is not None
        if _is_broken(self._fd):
            self._give_back()
            return
        if not self._waiting:
            self._watch.set(None, None)
            self._on_wanted(b"", False)
            return
        try:
            count = os.write(self._fd, self._waiting[:_PAGE_BYTES])
            self._waiting = self._waiting[count:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._give_back()
            return
        self._watch.set(None, self._writable)

    def _give_back(self) -> None:
        """The rank has closed its end, or has ended."""
        left = len(self._waiting) + _unread_bytes(self._fd)
        self.close()
        self._on_wanted(self._given if left == len(self._given) else b"", True)
