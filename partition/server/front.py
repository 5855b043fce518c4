"""The front of a launch whose user is a client of the launch server.

The client has the streams and signals, and adds to the user's files. All else that touches the
user's files is a helper's errand.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable

from native.wire import client
from native.wire.base import PATH_MAX
from native.wire.client import DATA_MAX, OUTPUT_WINDOW_BYTES, Stdio
from native.wire.load import ShippedObject
from partition.server import errands
from partition.server.channel import Channel
from partition.server.errands import Answer, Given
from partition.server.helpers import Helpers, Ticket
from yod.host.escape import Escape
from yod.host.front import OnBroken, OnWritten, Sink, TerminalGone, tell_written
from yod.host.own import append_fault
from yod.host.shared import SharedCopies
from yod.launch.closing import Append
from yod.launch.lines import Piece

_APPEND_BYTES = DATA_MAX // 2  # of data in one packet; a path has room beside it
_PIECES_SENT_MAX = 1024  # of one stream; a packet has one at least, and the channel has a bound
_TERMINALS = {1: Stdio.STDOUT_TERMINAL, 2: Stdio.STDERR_TERMINAL}


class ClientFront:
    """The streams, signals and files of a client.

    Args:
        given: what the client has sent of its process.
        invocation_fds: of its strings and its directory; they stay the caller's.
    """

    def __init__(
        self,
        channel: Channel,
        helpers: Helpers,
        stdio: Stdio,
        given: Given,
        invocation_fds: tuple[int, int],
        shared_directory: str,
    ) -> None:
        self._channel = channel
        self._helpers = helpers
        self._stdio = stdio
        self._given = given
        self._invocation_fds = invocation_fds
        self._outputs: dict[int, ClientOutput] = {}
        self._input: ClientInput | None = None
        self._signals: dict[int, Callable[[], None]] = {}
        self._appends: dict[int, tuple[Append, Callable[[str], None]]] = {}
        self._last_token = 0
        self._tickets: set[Ticket] = set()
        self._copies = SharedCopies(shared_directory, self._copy)

    # -- what the client says ---------------------------------------------

    def take(self, message: client.FromClient) -> None:
        """A message about a stream or a file."""
        match message:
            case client.Written(stream, count_bytes):
                if stream in self._outputs:
                    self._outputs[stream].written(count_bytes)
            case client.OutputFailed(stream, number):
                if stream in self._outputs:
                    self._outputs[stream].failed(number)
            case client.Input(data):
                if self._input is not None:
                    self._input.arrived(data)
            case client.Appended(token, number):
                if token in self._appends:
                    append, done = self._appends.pop(token)
                    done(append_fault(append, number) if number else "")

    def signalled(self, number: int) -> None:
        """The client has got a signal."""
        if number in self._signals:
            self._signals[number]()

    # -- what the launch asks ---------------------------------------------

    @property
    def are_outputs_same(self) -> bool:
        """Whether the client says that they are the same."""
        return Stdio.SAME_OUTPUT in self._stdio

    def output(
        self,
        number: int,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: OnBroken,
    ) -> ClientOutput:
        """The client's standard output or error."""
        is_terminal = _TERMINALS[number] in self._stdio
        output = ClientOutput(self._channel, number, is_terminal, on_written, on_taken, on_broken)
        self._outputs[number] = output
        return output

    def input(self, on_data: Callable[[bytes], None]) -> ClientInput:
        """The client's standard input."""
        self._input = ClientInput(self._channel, on_data)
        return self._input

    def on_signal(self, number: int, call: Callable[[], None]) -> None:
        """Call when the client has got a signal; it tells of none that it ignores."""
        self._signals[number] = call

    def suspend(self) -> None:
        """Stop the client."""
        self._channel.send(client.Suspend())

    def on_leave(self, asked: Callable[[], None], gone: Callable[[], None]) -> None:
        """Call as said; the client itself hears of a lost terminal."""
        if self._input is not None and Stdio.STDIN_TERMINAL in self._stdio:
            self._input.watch_terminal(asked)

    @property
    def why_attached(self) -> str:
        """The job's keepers are children of the client."""
        return (
            "a launch server runs this launch, which its client cannot leave; "
            "with --detach-on-hangup yod runs it itself"
        )

    def detach(self, sink: Sink, stdin_fd: int, text: str) -> None:
        """Nobody does."""
        raise AssertionError(self.why_attached)

    def open_object(self, shipped: ShippedObject, done: Callable[[int, str], None]) -> None:
        """Have a helper read the file: a read here could hold up all launches."""

        def answered(answer: Answer, fds: tuple[int, ...]) -> None:
            if fds:
                done(fds[0], "")
            else:
                done(-1, _why(answer))

        self._ask(errands.Read(shipped.path, shipped.size), (), answered)

    def find_programs(
        self,
        programs: list[tuple[str, str]],
        done: Callable[[tuple[bytes, ...], str], None],
    ) -> None:
        """Have a helper look for programs."""

        def answered(answer: Answer, fds: tuple[int, ...]) -> None:
            if isinstance(answer, errands.Found):
                done(answer.paths, "")
            else:
                done((), _why(answer))

        errand = errands.Find(self._given, tuple(programs))
        self._ask(errand, self._invocation_fds, answered)

    def copy_to_shared(
        self,
        shipped: ShippedObject,
        number: int,
        job_id: int,
        on_copied: Callable[[bytes], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Have a helper copy an object."""
        self._copies.make(shipped, number, job_id, on_copied, on_failed)

    def append(self, append: Append, done: Callable[[str], None]) -> None:
        """Have the client add to a file."""
        path, data = os.fsencode(append.path), append.data
        if len(path) >= PATH_MAX:  # the kernel takes none, and no packet
            done(append_fault(append, errno.ENAMETOOLONG))
            return
        self._last_token += 1
        if append.is_awaited:
            self._appends[self._last_token] = append, done
        flags = client.AppendFlag.LOG if append.is_log else client.AppendFlag(0)
        for start in range(0, len(data), _APPEND_BYTES):
            is_last = start + _APPEND_BYTES >= len(data)
            more = client.AppendFlag(0) if is_last else client.AppendFlag.MORE
            piece = data[start : start + _APPEND_BYTES]
            self._channel.send(client.Append(self._last_token, path, piece, flags | more))
        if not append.is_awaited:  # the client does it before it obeys what comes next
            done("")

    def close(self) -> None:
        """Cancel what helpers do for the launch, and have its copies removed."""
        self._outputs.clear()
        self._signals.clear()
        self._appends.clear()
        for ticket in list(self._tickets):
            self._helpers.cancel(ticket)
        self._tickets.clear()
        if self._copies.paths:
            self._helpers.ask(errands.Remove(tuple(self._copies.paths)), (), _nothing)

    def _copy(self, shipped: ShippedObject, path: str, done: Callable[[str], None]) -> None:
        errand = errands.Share(shipped.path, shipped.size, shipped.mode, path)
        self._ask(errand, (), lambda answer, fds: done(_why(answer)))

    def _ask(
        self,
        errand: errands.Errand,
        fds: tuple[int, ...],
        on_answer: Callable[[Answer, tuple[int, ...]], None],
    ) -> None:
        ticket: Ticket | None = None

        def answered(answer: Answer, answer_fds: tuple[int, ...]) -> None:
            if ticket is not None:
                self._tickets.discard(ticket)
            on_answer(answer, answer_fds)

        ticket = self._helpers.ask(errand, fds, answered)
        self._tickets.add(ticket)


class ClientOutput:
    """Standard output or error of a client, with a queue for what has not been sent."""

    def __init__(
        self,
        channel: Channel,
        number: int,
        is_terminal: bool,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: OnBroken,
    ) -> None:
        self._channel = channel
        self._number = number
        self._is_terminal = is_terminal
        self._on_written = on_written
        self._on_taken = on_taken
        self._on_broken = on_broken
        self._queue: deque[Piece] = deque()
        self._sent: deque[tuple[int, int, int]] = deque()  # bytes, stream, bytes of the rank
        self._sent_bytes = 0
        self._is_broken = False

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written, here or at the client."""
        return not self._queue and not self._sent

    def write(self, pieces: list[Piece]) -> None:
        """Send now, or when the client has written what it has."""
        if self._is_broken:
            tell_written(pieces, self._on_written)
            return
        self._queue.extend(pieces)
        self._send()

    def written(self, count_bytes: int) -> None:
        """The client has written so much, or dropped it."""
        count_bytes = min(count_bytes, self._sent_bytes)  # no more than it was sent
        self._sent_bytes -= count_bytes
        told: list[Piece] = []
        while count_bytes and self._sent:
            size, stream, of_rank = self._sent.popleft()
            if size > count_bytes:
                part = min(count_bytes, of_rank)
                told.append((b"", stream, part))
                self._sent.appendleft((size - count_bytes, stream, of_rank - part))
                break
            count_bytes -= size
            told.append((b"", stream, of_rank))
        self._send()
        is_taken = self.is_empty
        tell_written(told, self._on_written)
        if is_taken:
            self._on_taken()

    def failed(self, number: int) -> None:
        """The client cannot write any more. What has not been sent yet counts as written."""
        if self._is_broken:
            return
        self._is_broken = True
        error = OSError(number, os.strerror(number))
        if number == errno.EPIPE:
            error = BrokenPipeError(number, os.strerror(number))
        elif number == errno.EIO and self._is_terminal:
            error = TerminalGone(number, os.strerror(number))
        dropped = list(self._queue)
        self._queue.clear()
        self._on_broken(error)
        tell_written(dropped, self._on_written)

    def drop(self) -> int:
        """Drop what the client has not said to be written."""
        dropped = [count for _, _, count in (*self._queue, *self._sent)]
        self._queue.clear()
        self._sent.clear()
        return sum(dropped)

    def close(self) -> None:
        """Stop."""
        self._is_broken = True
        self._queue.clear()
        self._sent.clear()

    def _send(self) -> None:
        """Send what the window allows, many pieces in a packet."""
        while (
            self._queue
            and self._sent_bytes < OUTPUT_WINDOW_BYTES
            and len(self._sent) < _PIECES_SENT_MAX
        ):
            room = min(DATA_MAX, OUTPUT_WINDOW_BYTES - self._sent_bytes)
            packet: list[bytes | memoryview] = []
            while self._queue and room:
                data, stream, of_rank = self._queue.popleft()
                part = memoryview(data)[:room]
                size = len(part)
                of_part = min(size, of_rank)
                if size < len(data):
                    self._queue.appendleft((memoryview(data)[size:], stream, of_rank - of_part))
                packet.append(part)
                self._sent.append((size, stream, of_part))
                self._sent_bytes += size
                room -= size
            self._channel.send(client.Output(self._number, b"".join(packet)))


class ClientInput:
    """Standard input of a client."""

    def __init__(self, channel: Channel, on_data: Callable[[bytes], None]) -> None:
        self._channel = channel
        self._on_data: Callable[[bytes], None] | None = on_data
        self._on_asked: Callable[[], None] | None = None
        self._escape = Escape()
        self._allowed = 0

    def allow(self, count_bytes: int) -> None:
        """Let the client send so many bytes more."""
        self._allowed += count_bytes
        self._channel.send(client.Read(count_bytes))

    def resume(self) -> None:
        """Do nothing: the client knows by itself when it is in the foreground."""

    def watch_terminal(self, asked: Callable[[], None]) -> None:
        """Call when the user asks to leave."""
        self._on_asked = asked

    def arrived(self, data: bytes) -> None:
        """The client has sent input; bytes beyond what it was allowed are dropped."""
        data, is_end = data[: self._allowed], not data
        self._allowed -= len(data)
        on_data, on_asked, is_asked = self._on_data, self._on_asked, False
        if on_asked is not None:
            count_bytes = len(data)
            data, is_asked = self._escape.take(data)
            if count_bytes > len(data) and on_data is not None:
                self.allow(count_bytes - len(data))
            self._allowed -= max(0, len(data) - count_bytes)
        if is_end:
            self.close()
        if on_data is not None and data:
            on_data(data)
        if on_data is not None and is_end:
            on_data(b"")
        if on_asked is not None and is_asked:
            on_asked()

    def close(self) -> None:
        """Take nothing any more."""
        self._on_data = None


def _why(answer: Answer) -> str:
    return answer.text if isinstance(answer, errands.Failed) else ""


def _nothing(answer: Answer, fds: tuple[int, ...]) -> None:
    """Nobody waits for this one."""
