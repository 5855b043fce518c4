"""A terminal attaches to a detached job: its output from the beginning, and its input."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from native.errors import PartitionError
from native.host import stdio
from native.ids import PortalId
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import PeerLost, Received
from native.port.portals import PortalsPort, UserKey
from native.waitstatus import exit_status
from native.wire.attach import (
    Attach,
    Attached,
    Interrupt,
    OutputEnded,
    SpooledCredit,
    SpooledOutput,
    TypedCredit,
    TypedInput,
)
from native.wire.base import Message
from native.wire.batch import Reach
from partition.attach.spool import Piece, Spool
from yod.host.terminal import InputStream, OutputStream

LEAVES = (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)  # the job goes on


class Screen:
    """Our standard output and error.

    Args:
        on_shown: called with how many bytes of the job were written.
        on_empty: called when nothing waits to be written any more.
    """

    def __init__(
        self, reactor: Reactor, on_shown: Callable[[int], None], on_empty: Callable[[], None]
    ) -> None:
        self._at = 0  # the offset of the next byte
        self._on_empty = on_empty
        self._streams = {
            number: OutputStream(
                reactor, number, lambda stream, count: on_shown(count), self._taken, self._broken
            )
            for number in (1, 2)
        }

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written."""
        return all(stream.is_empty for stream in self._streams.values())

    def show(self, piece: Piece) -> None:
        """Show a piece of the output, and a mark where some was dropped."""
        if piece.offset > self._at:
            self.say(f"{piece.offset - self._at} bytes of output were dropped here")
        self._at = piece.end
        self._streams[piece.stream].write([(piece.data, piece.stream, len(piece.data))])

    def say(self, text: str) -> None:
        """Show a line of our own."""
        line = f"yodjob: {text}\n".encode()
        self._streams[2].write([(line, 2, 0)])

    def close(self) -> None:
        """Stop."""
        for stream in self._streams.values():
            stream.close()

    def _taken(self) -> None:
        if self.is_empty:
            self._on_empty()

    def _broken(self, error: OSError) -> None:
        """Nobody reads: what follows is dropped, as by a program that ignores SIGPIPE."""


def follow(reach: Reach, limits: Limits, name: str) -> int | None:
    """Attach to a job that runs, until it ends or the user leaves.

    Args:
        name: of the job, for texts.

    Returns:
        The job's exit status; None: the user has left.

    Raises:
        PartitionError: the connection was lost.
    """
    with ExitStack() as stack:
        reactor = Reactor()
        stack.callback(reactor.close)
        terminal = _Terminal(reach, limits, name, reactor, stack)
        reactor.run()
        return terminal.result()


def replay(spool: Spool) -> None:
    """Show the output of a job that has ended."""
    with ExitStack() as stack:
        reactor = Reactor()
        stack.callback(reactor.close)
        screen = Screen(reactor, lambda count: None, reactor.stop)
        stack.callback(screen.close)
        cursor = spool.cursor()
        while (piece := cursor.read()) is not None:
            screen.show(piece)
            if not screen.is_empty:  # a slow reader: go on when it has all
                reactor.run()


class _Terminal:
    """This process, attached."""

    def __init__(
        self, reach: Reach, limits: Limits, name: str, reactor: Reactor, stack: ExitStack
    ) -> None:
        self._job_id = reach.job_id
        self._name = name
        self._reactor = reactor
        self._wait_status: int | None = None
        self._has_left = False
        self._failure = ""
        self._port = PortalsPort(connect_timeout_s=limits.connect_s, liveness_s=limits.liveness_s)
        stack.callback(self._port.close)
        self._broker: PortalId = self._port.resolve(reach.address)
        self._port.use_key(self._broker, UserKey(reach.uid, reach.key))
        self._screen = Screen(reactor, self._shown, self._look_at_end)
        stack.callback(self._screen.close)
        self._input = InputStream(reactor, 0, self._typed)
        stack.callback(self._input.close)
        if os.isatty(0):
            self._input.watch_terminal(self._leave)
        watch = self._port.listen(reactor, self._ready)
        stack.callback(watch.close)
        reactor.on_signal(signal.SIGINT, partial(self._interrupted, signal.SIGINT))
        reactor.on_signal(signal.SIGCONT, self._input.resume)
        for number in LEAVES:
            if signal.getsignal(number) is not signal.SIG_IGN:
                reactor.on_signal(number, self._leave)
        self._port.send(self._broker, Attach(self._job_id))

    def result(self) -> int | None:
        """How it has ended."""
        if self._failure:
            raise PartitionError(self._failure)
        if self._has_left:
            stdio.say(f"yodjob: left; job {self._name} goes on")
            return None
        assert self._wait_status is not None
        return exit_status(self._wait_status)

    def _ready(self) -> None:
        for event in self._port.events():
            match event:
                case Received(source, _, message) if source == self._broker:
                    self._received(message)
                case PeerLost(peer, _, text) if peer == self._broker and self._wait_status is None:
                    self._failure = f"the broker of job {self._name} {text}"
                    self._reactor.stop()

    def _received(self, message: Message) -> None:
        match message:
            case Attached(_, has_input):
                if os.isatty(2):
                    more = "" if has_input else "; another terminal has its input"
                    keys = "Ctrl-C interrupts it, Ctrl-\\ or a line ~d leaves"
                    self._screen.say(f"attached to job {self._name}{more}; {keys}")
            case SpooledOutput(_, offset, stream, data):
                self._screen.show(Piece(offset, stream, data))
            case TypedCredit(_, count):
                self._input.allow(count)
            case OutputEnded(_, wait_status):
                self._wait_status = wait_status
                self._look_at_end()

    def _shown(self, count_bytes: int) -> None:
        if count_bytes and self._wait_status is None:
            self._port.send(self._broker, SpooledCredit(self._job_id, count_bytes))

    def _typed(self, data: bytes) -> None:
        self._port.send(self._broker, TypedInput(self._job_id, data))

    def _interrupted(self, number: int) -> None:
        self._port.send(self._broker, Interrupt(self._job_id, number))

    def _leave(self) -> None:
        self._has_left = True
        self._reactor.stop()

    def _look_at_end(self) -> None:
        if self._wait_status is not None and self._screen.is_empty:
            self._reactor.stop()
