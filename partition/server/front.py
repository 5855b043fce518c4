"""The front of a launch whose user is a client of the launch server.

The client has the streams and signals, and adds to the user's files. All else that touches the
user's files is a helper's errand.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from functools import partial

from native.errors import PeerProtocolError
from native.host import unixsockets
from native.loop.reactor import Reactor
from native.machine import Event
from native.wire import client
from native.wire.base import PATH_MAX
from native.wire.client import DATA_MAX, Stdio
from native.wire.load import ShippedObject
from partition.server import errands, gifts
from partition.server.channel import Channel
from partition.server.errands import Answer, Given
from partition.server.helpers import Helpers, Ticket
from partition.server.streams import ClientInput, ClientOutput
from yod.host.front import OnBroken, OnWritten, Sink
from yod.host.own import append_fault, as_stream
from yod.host.shared import SharedCopies
from yod.launch.closing import Append
from yod.launch.events import RemoteServed
from yod.remote.link import RemoteServer

_APPEND_BYTES = DATA_MAX // 2  # of data in one packet; a path has room beside it
_TERMINALS = {1: Stdio.STDOUT_TERMINAL, 2: Stdio.STDERR_TERMINAL}


class ClientFront:
    """The streams, signals and files of a client.

    Args:
        given: what the client has sent of its process.
        invocation_fds: of its strings and its directory; they stay the caller's.
    """

    def __init__(
        self,
        reactor: Reactor,
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
        self._reactor = reactor
        self._signals: dict[int, Callable[[], None]] = {}
        self._remote: RemoteServer | None = None
        self._sink: Sink | None = None  # from LEAVE to LEFT
        self._is_closed = False
        self._appends: dict[int, tuple[Append, Callable[[str], None]]] = {}
        self._last_token = 0
        self._tickets: set[Ticket] = set()
        self._shared_directory = shared_directory
        self._copies: SharedCopies | None = None

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
            case client.Input(data, is_gone):
                if self._input is not None:
                    self._input.arrived(data, is_gone)
            case client.Appended(token, number):
                if token in self._appends:
                    append, done = self._appends.pop(token)
                    done(append_fault(append, number) if number else "")

    def own_gift(self, message: client.Given, fds: tuple[int, ...]) -> int:
        """A descriptor of our own of what the client has given; -1: there is none.

        Args:
            fds: came with the message; they are closed.

        Raises:
            PeerProtocolError: it was not asked for that, or has still to write, or it is no pipe.
        """
        output = self._outputs.get(message.stream)
        if self._is_closed:  # it did not know yet
            unixsockets.close_all(fds)
            return -1
        if output is None or not output.may_be_given:
            unixsockets.close_all(fds)
            raise PeerProtocolError("client: it has given a stream out of turn")
        return gifts.own_description(message.gift, fds)

    def given(self, stream: int, fd: int) -> None:
        """Write to a stream by a descriptor, which becomes ours; -1: the client writes on."""
        if stream in self._outputs:
            self._outputs[stream].given(fd)

    def let_go(self) -> None:
        """Close what the client has given: its reader sees the end when the client ends."""
        for output in self._outputs.values():
            output.close()

    def ignore_signals(self) -> None:
        """Nothing comes of signals any more."""
        self._signals.clear()

    def signalled(self, number: int) -> None:
        """The client has got a signal."""
        if number == signal.SIGCONT:
            for output in self._outputs.values():
                output.suspend(False)
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
        output = ClientOutput(
            self._reactor, self._channel, number, is_terminal, on_written, on_taken, on_broken
        )
        self._outputs[number] = output
        return output

    def input(self, on_data: Callable[[bytes], None]) -> ClientInput:
        """The client's standard input."""
        self._input = ClientInput(self._reactor, self._channel, on_data)
        return self._input

    def on_signal(self, number: int, call: Callable[[], None]) -> None:
        """Call when the client has got a signal; it tells of none that it ignores."""
        self._signals[number] = call

    def suspend(self) -> None:
        """Stop the client, and what is written in its place."""
        for output in self._outputs.values():
            output.suspend(True)
        self._channel.send(client.Suspend())

    def on_leave(self, asked: Callable[[], None], gone: Callable[[], None]) -> None:
        """Call as said; by the line only where somebody ends for the client when it is left."""
        if self._input is not None and Stdio.STDIN_TERMINAL in self._stdio:
            self._input.watch_terminal(asked if Stdio.STAND_IN in self._stdio else None, gone)

    def use_terminal(self, handle: Callable[[Event], None] | None) -> None:
        """Do nothing: such a launch is not the server's."""

    @property
    def is_terminal_raw(self) -> bool:
        """False: likewise."""
        return False

    @property
    def why_attached(self) -> str:
        """Empty: where nobody ends in its place, the client goes on as under nohup."""
        return ""

    def detach(self, sink: Sink, stdin_fd: int, text: str) -> None:
        """Have the client let its user go. It stays: keepers are its children."""
        for output in self._outputs.values():
            output.pause()
        if self._input is not None:
            self._input.move(stdin_fd)
        self._sink = sink
        self._channel.send(client.Leave(text))

    @property
    def is_leaving(self) -> bool:
        """The client has been told to let its user go, and has not answered."""
        return self._sink is not None

    def left(self, streams: tuple[int, ...]) -> None:
        """The user has gone; the client writes to files only."""
        assert self._sink is not None
        sink, self._sink = self._sink, None
        if self._input is not None:
            self._input.left()
        is_one = len(self._outputs) == 1
        for number, output in list(self._outputs.items()):
            if number in streams:
                output.move(sink if is_one else partial(as_stream, sink, number))
            else:
                output.resume()

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
        if self._copies is None:
            self._copies = SharedCopies(self._shared_directory, self._copy)
        self._copies.make(shipped, number, job_id, on_copied, on_failed)

    def begin_remote(
        self,
        directories: tuple[bytes, ...],
        on_served: Callable[[RemoteServed], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Start a process with the files."""
        try:
            self._remote = self._helpers.serve_files(directories)
        except OSError as error:
            why = f"--remote-io: {error.strerror}"
            self._reactor.call_soon(lambda: on_lost(why))
        else:
            self._remote.begin(lambda *served: on_served(RemoteServed(*served)), on_lost)

    def serve_remote(self, place: int, mount: int, directory: int, frame: bytes) -> None:
        """Give it a request."""
        if self._remote is not None:
            self._remote.ask(place, mount, directory, frame)

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
        if append.empties:
            flags |= client.AppendFlag.EMPTIES
        for start in range(0, max(1, len(data)), _APPEND_BYTES):
            is_last = start + _APPEND_BYTES >= len(data)
            more = client.AppendFlag(0) if is_last else client.AppendFlag.MORE
            piece = data[start : start + _APPEND_BYTES]
            self._channel.send(client.Append(self._last_token, path, piece, flags | more))
        if not append.is_awaited:  # the client does it before it obeys what comes next
            done("")

    def close(self) -> None:
        """Cancel what helpers do for the launch, and have its copies removed."""
        self._is_closed = True
        if self._remote is not None:
            self._remote.close()
        self.let_go()
        self._outputs.clear()
        self._signals.clear()
        self._appends.clear()
        if self._input is not None:
            self._input.close()
        for ticket in list(self._tickets):
            self._helpers.cancel(ticket)
        self._tickets.clear()
        copies, self._copies = self._copies, None  # it holds this
        if copies is not None:
            self._helpers.ask(errands.Remove(tuple(copies.paths)), (), _nothing)

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


def _why(answer: Answer) -> str:
    return answer.text if isinstance(answer, errands.Failed) else ""


def _nothing(answer: Answer, fds: tuple[int, ...]) -> None:
    """Nobody waits for this one."""
