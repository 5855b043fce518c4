"""The front of a launch: the user's streams, signals and files, wherever they are.

The driver of a launch reaches the user by a :class:`Front` only. In a process that the user has
started it is :class:`yod.host.own.OwnFront`. A launch server has one for each client, which
reaches the user over the client's connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from native.machine import Event
from native.wire.load import ShippedObject
from yod.launch.closing import Append
from yod.launch.events import RemoteServed
from yod.launch.lines import Piece, Ranks

OnWritten = Callable[[int, int], None]
OnBroken = Callable[[OSError], None]
Sink = Callable[[int, bytes | bytearray | memoryview], None]  # takes a stream, and its bytes


class TerminalGone(OSError):
    """The terminal that an output went to has been closed."""


def tell_written(pieces: Iterable[Piece], on_written: OnWritten) -> None:
    """Tell how much of each stream of the ranks these pieces are, once for a stream."""
    counts: dict[int, int] = {}
    for _, stream, count in pieces:
        counts[stream] = counts.get(stream, 0) + count
    for stream, count in counts.items():
        on_written(stream, count)


class Output(Protocol):
    """Standard output or error, with a queue for what its reader has not taken yet."""

    @property
    def is_terminal(self) -> bool:
        """It was a terminal when the launch began."""

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written."""

    def write(self, pieces: list[Piece]) -> None:
        """Write now, or when there is room."""

    def drop(self) -> int:
        """Drop what is queued.

        Returns:
            How many of the ranks' bytes that were.
        """

    def close(self) -> None:
        """Stop; what is queued is dropped."""


class Screen(Protocol):
    """Where the output of the ranks is shown, or goes to, with the lines of yod itself."""

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written, or taken."""

    def show(self, rank: int, stream: int, data: bytes) -> None:
        """Show what a rank has written."""

    def show_lines(self, ranks: Ranks, stream: int, data: bytes) -> None:
        """Show lines that each of some ranks has written."""

    def say(self, text: str) -> None:
        """Show a line of yod itself."""

    def finish(self) -> None:
        """No rank will write any more."""

    def drop(self) -> int:
        """Drop what its reader does not take now.

        Returns:
            How many of the ranks' bytes that were.
        """

    def close(self) -> None:
        """Stop; what is left is dropped."""


class Input(Protocol):
    """Standard input, read only as far as rank 0 has room for it."""

    def allow(self, count_bytes: int) -> None:
        """Read this many more bytes."""

    def resume(self) -> None:
        """Read on, after the user's process has come to the foreground."""

    def close(self) -> None:
        """Stop reading."""


class Front(Protocol):
    """The user's end of a launch.

    Where the user's files fail, nothing here raises: the callback gets the reason.
    """

    @property
    def are_outputs_same(self) -> bool:
        """Standard output and error are the same terminal, pipe or file."""

    def output(
        self,
        number: int,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: OnBroken,
    ) -> Output:
        """Standard output (1) or error (2).

        Args:
            on_written: called with the stream of the ranks and how many of their bytes were
                written; 0 for a line of yod itself.
            on_taken: called when the queue has become empty.
            on_broken: called once, with the error that ended the stream.
        """

    def input(self, on_data: Callable[[bytes], None]) -> Input:
        """Standard input; ``on_data`` takes what was read, empty: end of file."""

    def on_signal(self, number: int, call: Callable[[], None]) -> None:
        """Call when the user's process has got a signal."""

    def suspend(self) -> None:
        """Stop the user's process as Ctrl-Z does. SIGCONT is told in any case."""

    def on_leave(self, asked: Callable[[], None], gone: Callable[[], None]) -> None:
        """Call when the user asks to leave, or when the terminal of the input is lost."""

    def use_terminal(self, handle: Callable[[Event], None] | None) -> None:
        """The terminal of the input stands for that of a rank, or, with None, no more.

        Args:
            handle: takes its sizes, and what the user asks there of the launch.
        """

    @property
    def is_terminal_raw(self) -> bool:
        """It stands for that of a rank, and is raw now."""

    @property
    def why_attached(self) -> str:
        """Why the user cannot leave; empty: they can."""

    def detach(self, sink: Sink, stdin_fd: int, text: str) -> None:
        """Let the user go.

        Args:
            sink: takes what terminals and pipes have not taken of the output, and what comes.
            stdin_fd: a pipe that the input comes from; it becomes the front's.
            text: for the user; empty: there is nobody.
        """

    def open_object(self, shipped: ShippedObject, done: Callable[[int, str], None]) -> None:
        """Open the file of an object.

        Args:
            done: called with the descriptor, which the callee closes; or -1 and the reason.
        """

    def find_programs(
        self,
        programs: list[tuple[str, str]],
        done: Callable[[tuple[bytes, ...], str], None],
    ) -> None:
        """Look for programs as a shell does.

        Args:
            programs: each a name and the directory that is current for it.
            done: called with the paths; or with why one cannot be started.
        """

    def copy_to_shared(
        self,
        shipped: ShippedObject,
        number: int,
        job_id: int,
        on_copied: Callable[[bytes], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Copy an object into the shared file system; the copy is removed at :meth:`close`.

        Args:
            number: of the object, in the plan.
            on_copied: called with the path of the copy, once it is whole.
            on_failed: called with the reason, and what the user can do about it.
        """

    def begin_remote(
        self,
        directories: tuple[bytes, ...],
        on_served: Callable[[RemoteServed], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Serve the directories of ``--remote-io``.

        Args:
            on_served: called with each reply.
            on_lost: called once, with the reason, when they cannot be served any more.
        """

    def serve_remote(self, place: int, mount: int, directory: int, frame: bytes) -> None:
        """Carry out a request of a node's kernel; an empty one: the mount is gone."""

    def append(self, append: Append, done: Callable[[str], None]) -> None:
        """Add to a file. ``done`` is called with the reason why that failed; empty: it has not.

        For one that is not awaited it may be called before, always with nothing.
        """

    def close(self) -> None:
        """Give everything back; no callback is called any more."""
