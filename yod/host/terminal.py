"""The standard streams of yod. A slow reader or writer never blocks the loop."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from native.loop.reactor import Reactor
from native.wire.base import DATA_MAX
from yod.host.front import OnWritten, Sink, TerminalGone, tell_written
from yod.launch.lines import Piece

if TYPE_CHECKING:  # few launches are at a terminal
    from yod.host.escape import Asked, Escape
    from yod.host.foreground import Foreground

PIPE_BUF = 4096  # POSIX: a pipe that is writable takes this much without blocking
PIECES_MAX = 256  # in one write; POSIX allows at least 16, Linux 1024


class OutputStream:
    """Standard output or error, with a queue for what its reader has not taken yet.

    The open file description is shared with the process that started yod, so it is not made
    non-blocking. A description of our own is, if the system gives us one.

    Args:
        on_written: called with the stream and how many of the ranks' bytes were written;
            0 for a line of yod itself.
        on_taken: called when the queue has become empty.
        on_broken: called once, with the error that ended the stream.
        is_own: the description is our own already and does not block, and we close it.
    """

    def __init__(
        self,
        reactor: Reactor,
        fd: int,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: Callable[[OSError], None],
        *,
        is_own: bool = False,
    ) -> None:
        self._fd = -1 if is_own else fd
        self._on_written = on_written
        self._on_taken = on_taken
        self._on_broken = on_broken
        self._queue: deque[Piece] = deque()
        self._sink: Sink | None = None
        self._is_broken = False
        self._is_paused = False
        self._is_always_ready = False
        self.is_terminal = os.isatty(fd)
        self._own_fd = fd if is_own else _own_description(fd)
        self._watch = None
        try:
            self._watch = reactor.watch(self._target, None, self._writable)
            self._watch.set(None, None)
        except PermissionError:  # a regular file: always ready
            self._is_always_ready = True
        except OSError:  # closed: the first write says so
            self._is_always_ready = True
        # Else a write of more than PIPE_BUF might block.
        self._takes_much = self._own_fd >= 0 or self._is_always_ready

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written."""
        return not self._queue

    def write(self, pieces: list[Piece]) -> None:
        """Write now, or when there is room."""
        if self._sink is not None:
            self._give(self._sink, pieces)
            return
        if self._is_broken:
            tell_written(pieces, self._on_written)
            return
        was_empty = not self._queue
        self._queue.extend(pieces)
        if self._is_paused:
            return
        if self._takes_much:
            if was_empty or self._is_always_ready:
                self._drain()
        elif self._watch is not None:
            self._watch.set(None, self._writable)

    def pause(self) -> None:
        """Write nothing."""
        self._is_paused = True
        if self._watch is not None:
            self._watch.set(None, None)

    def resume(self) -> None:
        """Write on."""
        self._is_paused = False
        if self._queue:
            self._writable()

    def drop(self) -> int:
        """Drop what is queued.

        Returns:
            How many of the ranks' bytes that were.
        """
        return sum(count for _, _, count in self.take())

    def take(self) -> list[Piece]:
        """Remove what is queued and has not been written, and return it."""
        left = list(self._queue)
        self._queue.clear()
        if self._watch is not None:
            self._watch.set(None, None)
        return left

    def move(self, sink: Sink) -> None:
        """Give a sink what is queued and what comes. A regular file goes on: nobody leaves it."""
        if self._is_always_ready and not self._is_broken:
            return
        self._sink = sink
        left = self.take()
        self._release()
        self._give(sink, left)
        self._on_taken()

    def _give(self, sink: Sink, pieces: list[Piece]) -> None:
        for data, stream, _ in pieces:
            sink(stream, data)
        tell_written(pieces, self._on_written)

    def close(self) -> None:
        """Stop; what is queued is dropped."""
        self._release()

    def _release(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._own_fd >= 0:
            os.close(self._own_fd)
            self._own_fd = -1

    @property
    def _target(self) -> int:
        return self._own_fd if self._own_fd >= 0 else self._fd

    def _writable(self) -> None:
        self._drain()
        if not self._queue:
            self._on_taken()

    def _drain(self) -> None:
        written: list[Piece] = []
        try:
            while self._queue:
                written += self._write_some()
                if not self._takes_much:
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            self._break(error)
        if self._watch is not None:
            self._watch.set(None, self._writable if self._queue else None)
        tell_written(written, self._on_written)

    def _write_some(self) -> list[Piece]:
        """Write once.

        Returns:
            The pieces that were written; of the last, maybe a part.
        """
        queue = self._queue
        if self._takes_much:
            buffers = [buffer for buffer, _, _ in islice(queue, PIECES_MAX)]
        else:
            buffers = [memoryview(queue[0][0])[:PIPE_BUF]]
        count = os.writev(self._target, buffers)
        written = []
        while queue and count >= len(queue[0][0]):
            count -= len(queue[0][0])
            written.append(queue.popleft())
        if count:
            buffer, stream, of_rank = queue[0]
            part = min(count, of_rank)
            queue[0] = (memoryview(buffer)[count:], stream, of_rank - part)
            written.append((b"", stream, part))
        return written

    def _break(self, error: OSError) -> None:
        self._is_broken = True
        if is_gone := self.is_terminal and error.errno == errno.EIO:
            self._on_broken(TerminalGone(*error.args))  # what is queued may move elsewhere
        dropped = list(self._queue)
        self._queue.clear()
        if not is_gone:
            self._on_broken(error)
        tell_written(dropped, self._on_written)


def _own_description(fd: int) -> int:
    """Open the same pipe or terminal again, non-blocking; -1: that is not possible."""
    try:
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            return -1
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return -1


class InputStream:
    """Standard input, read only as far as rank 0 has room for it.

    A terminal is not read in the background: that would stop yod (SIGTTIN). It is read again when
    yod has come to the foreground.
    """

    def __init__(self, reactor: Reactor, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._reactor = reactor
        self._fd = fd
        self._on_data = on_data
        self._allowed = 0
        self._is_over = False
        self._is_file = False
        self._is_terminal = os.isatty(fd)
        self._foreground: Foreground | None = None  # in the background, while input is wanted
        self._escape: Escape | None = None
        self._on_asked: Callable[[], None] | None = None
        self._on_gone: Callable[[], None] | None = None
        self._on_key: Callable[[Asked], None] | None = None
        self._on_come: Callable[[], None] | None = None
        self._watch = None
        try:
            self._watch = reactor.watch(fd, self._readable)
            self._watch.set(None, None)
        except PermissionError:  # a regular file or /dev/null: always ready
            self._is_file = True
        except OSError:  # closed
            self._is_file = True

    def watch_terminal(
        self, asked: Callable[[], None] | None, gone: Callable[[], None] | None = None
    ) -> None:
        """It is a terminal: call when the user asks to leave, and when it is lost.

        Who is told of the loss may move the input; else it ends.
        """
        if asked is not None:
            from yod.host.escape import Escape

            self._escape = Escape()
        self._on_asked, self._on_gone = asked, gone

    def be_raw(self, on_key: Callable[[Asked], None], on_come: Callable[[], None]) -> None:
        """Its keys come one by one.

        Args:
            on_key: called with what they ask of yod, but for leaving.
            on_come: called when yod has come to the foreground.
        """
        from yod.host.escape import Escape

        self._escape, self._on_key, self._on_come = Escape(is_raw=True), on_key, on_come
        self.resume()

    def allow(self, count_bytes: int) -> None:
        """Read this many more bytes."""
        self._allowed += count_bytes
        self.resume()

    def resume(self) -> None:
        """Read on, after yod has come to the foreground or may read more."""
        was_away = self._foreground is not None
        self._stay()
        if self._is_over or not (self._allowed or self._on_come):
            return
        if self._go_away():
            return
        if was_away and self._on_come is not None:
            self._on_come()
        if not self._allowed:
            return
        if self._is_file:
            self._reactor.call_soon(self._readable)
        elif self._watch is not None:
            self._watch.set(self._readable, None)

    def move(self, fd: int) -> None:
        """Read from a pipe instead, unless the input has ended."""
        if self._is_over:
            return
        self._stay()
        if self._watch is not None:
            self._watch.close()
        self._escape = self._on_gone = None
        self._fd, self._is_file, self._is_terminal = fd, False, False
        self._watch = self._reactor.watch(fd, self._readable)
        self._watch.set(None, None)
        self.resume()

    def close(self) -> None:
        """Stop reading."""
        self._is_over = True
        self._stay()
        if self._watch is not None:
            self._watch.close()

    def _readable(self) -> None:
        if self._is_over:
            return
        if not self._allowed:
            if self._watch is not None:
                self._watch.set(None, None)
            return
        if self._go_away():
            return
        try:
            data = os.read(self._fd, min(self._allowed, DATA_MAX))
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EBADF, errno.EISDIR):
                raise
            data = b""
        fd = self._fd
        if not data and self._on_gone is not None and _has_gone(fd):
            self._on_gone()
            if self._fd != fd:
                return
        self._allowed -= len(data)
        if not data:
            self.close()
        self._pass(data)
        if data and self._is_file and self._allowed:
            self._reactor.call_soon(self._readable)

    def _go_away(self) -> bool:
        """Whether we are in the background, where nothing is read until we are back."""
        if not self._is_terminal or self._watch is None:
            return False
        from yod.host import foreground  # at a terminal

        if not foreground.is_in_background(self._fd):
            return False
        self._watch.set(None, None)
        self._foreground = foreground.Foreground(
            self._reactor, self._fd, self.resume, has_shown=self._on_come is not None
        )
        return True

    def _stay(self) -> None:
        """Wait for the foreground no more."""
        if self._foreground is not None:
            self._foreground.close()
            self._foreground = None

    def _pass(self, data: bytes) -> None:
        if self._escape is None:
            self._on_data(data)
            return
        passed, asked = self._escape.take(data)
        self._allowed += len(data) - len(passed)
        if passed:
            self._on_data(passed)
        if not data:
            self._on_data(b"")
        if asked is not None:
            self._ask(asked)

    def _ask(self, asked: Asked) -> None:
        if asked.is_leave and self._on_asked is not None:
            self._on_asked()
        elif self._on_key is not None:
            self._on_key(asked)


def _has_gone(fd: int) -> bool:
    """Whether a terminal has hung up, and not only given an end of file (Ctrl-D)."""
    import termios  # at an end of input only

    try:
        termios.tcgetattr(fd)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False
