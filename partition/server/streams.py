"""The streams of a launch whose user is a client of the launch server."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from enum import Enum

from native.loop.reactor import Reactor
from native.wire import client
from native.wire.client import (
    DATA_MAX,
    GIVE_AFTER_BYTES,
    GIVE_AFTER_PACKETS,
    OUTPUT_WINDOW_BYTES,
)
from partition.server.channel import Channel
from yod.host.escape import Escape
from yod.host.front import OnBroken, OnWritten, Sink, TerminalGone, tell_written
from yod.host.terminal import InputStream, OutputStream
from yod.launch.lines import Piece

_PIECES_SENT_MAX = 1024  # of one stream; a packet has one at least, and the channel has a bound


class Writer(Enum):
    """Who writes to a client's stream."""

    CLIENT = "client"
    ASKED = "client, which is asked for the stream and sent nothing more"
    CLIENT_ALONE = "client, to the end"
    SERVER = "server"


class ClientOutput:
    """Standard output or error of a client, with a queue for what has not been sent.

    Once much has been sent, the client is asked for the stream: we write to it by ourselves then,
    if it is one that can be given away.
    """

    def __init__(
        self,
        reactor: Reactor,
        channel: Channel,
        number: int,
        is_terminal: bool,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: OnBroken,
    ) -> None:
        self._reactor = reactor
        self._channel = channel
        self._number = number
        self.is_terminal = is_terminal
        self._writer = Writer.CLIENT_ALONE if is_terminal else Writer.CLIENT
        self._direct: OutputStream | None = None  # the server writes
        self._ever_sent_bytes = self._ever_sent_packets = 0
        self._on_written = on_written
        self._on_taken = on_taken
        self._on_broken = on_broken
        self._queue: deque[Piece] = deque()
        self._sent: deque[Piece] = deque()
        self._sent_bytes = 0
        self._sink: Sink | None = None
        self._is_paused = False
        self._is_suspended = False
        self._is_broken = False

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written, here or at the client."""
        return (
            not self._queue and not self._sent and (self._direct is None or self._direct.is_empty)
        )

    @property
    def may_be_given(self) -> bool:
        """The client has been asked for the stream, and has written all that it was sent."""
        return self.is_asked and not self._sent

    @property
    def is_asked(self) -> bool:
        """The client has been asked for the stream, and has not answered."""
        return self._writer is Writer.ASKED and self._sink is None

    @property
    def _is_much(self) -> bool:
        """So much has been sent that a socket less is worth a question."""
        return (
            self._ever_sent_packets >= GIVE_AFTER_PACKETS
            or self._ever_sent_bytes >= GIVE_AFTER_BYTES
        )

    def write(self, pieces: list[Piece]) -> None:
        """Send now, or when the client has written what it has."""
        if self._sink is not None:
            self._give(self._sink, pieces)
            return
        if self._is_broken and not self._is_paused:
            tell_written(pieces, self._on_written)
            return
        if self._direct is not None:
            self._direct.write(pieces)
            return
        self._queue.extend(pieces)
        self._send()

    def given(self, fd: int) -> None:
        """The client has answered: we write, or, with -1, the client does, to the end.

        Args:
            fd: becomes ours. It does not block, and nobody else has its description.
        """
        if fd < 0:
            self._writer = Writer.CLIENT_ALONE
            self._send()
            return
        self._writer = Writer.SERVER
        self._direct = OutputStream(
            self._reactor, fd, self._on_written, self._on_taken, self._on_broken, is_own=True
        )
        if self._is_paused or self._is_suspended:
            self._direct.pause()
        waiting = list(self._queue)
        self._queue.clear()
        self._direct.write(waiting)
        if waiting and self.is_empty:
            self._on_taken()

    def suspend(self, is_suspended: bool) -> None:
        """The client is stopped, or goes on: the server does as much."""
        self._is_suspended = is_suspended
        if self._direct is not None and not self._is_paused:
            if is_suspended:
                self._direct.pause()
            else:
                self._direct.resume()

    def written(self, count_bytes: int) -> None:
        """The client has written so much, or dropped it."""
        count_bytes = min(count_bytes, self._sent_bytes)  # no more than it was sent
        self._sent_bytes -= count_bytes
        told: list[Piece] = []
        while count_bytes and self._sent:
            data, stream, of_rank = self._sent.popleft()
            if len(data) > count_bytes:
                part = min(count_bytes, of_rank)
                told.append((b"", stream, part))
                self._sent.appendleft((data[count_bytes:], stream, of_rank - part))
                break
            count_bytes -= len(data)
            told.append((b"", stream, of_rank))
        self._send()
        is_taken = self.is_empty
        tell_written(told, self._on_written)
        if is_taken:
            self._on_taken()

    def failed(self, number: int) -> None:
        """The client cannot write any more. What has not been sent yet counts as written."""
        if self._is_broken or self._direct is not None:
            return
        self._is_broken, is_gone = True, False
        error = OSError(number, os.strerror(number))
        if number == errno.EPIPE:
            error = BrokenPipeError(number, os.strerror(number))
        elif is_gone := number == errno.EIO and self.is_terminal:
            error = TerminalGone(number, os.strerror(number))
            self._on_broken(error)  # the user may leave now
        if self._is_paused:  # a sink gets what the client drops
            self._sent_bytes = 0
            return
        dropped = list(self._queue)
        self._queue.clear()
        if not is_gone:
            self._on_broken(error)
        tell_written(dropped, self._on_written)

    def drop(self) -> int:
        """Drop what the client has not said to be written."""
        dropped = [count for _, _, count in (*self._queue, *self._sent)]
        self._queue.clear()
        self._sent.clear()
        return sum(dropped) + (0 if self._direct is None else self._direct.drop())

    def pause(self) -> None:
        """Send nothing, and write nothing."""
        self._is_paused = True
        if self._direct is not None:
            self._direct.pause()

    def resume(self) -> None:
        """Send or write what waits."""
        self._is_paused = False
        if self._direct is not None:
            if not self._is_suspended:
                self._direct.resume()
            return
        if self._is_broken:
            dropped = [*self._sent, *self._queue]
            self._sent.clear()
            self._queue.clear()
            tell_written(dropped, self._on_written)
        self._send()

    def move(self, sink: Sink) -> None:
        """Give a sink what the client has not written, and what comes."""
        self._sink = sink
        left = [*self._sent, *self._queue]
        self._sent.clear()
        self._queue.clear()
        if self._direct is not None:
            left = self._direct.take()
            self._direct.close()
            self._direct = None
        self._give(sink, left)
        self._on_taken()

    def _give(self, sink: Sink, pieces: list[Piece]) -> None:
        for data, stream, _ in pieces:
            sink(stream, data)
        tell_written(pieces, self._on_written)

    def close(self) -> None:
        """Stop. Those who are told are forgotten, since they hold this object."""
        self._is_broken = True
        self._queue.clear()
        self._sent.clear()
        self._on_written, self._on_taken, self._on_broken = _nobody, _nothing, _nobody
        if self._direct is not None:
            self._direct.close()
            self._direct = None

    def _ask(self) -> None:
        """Ask the client for the stream: nothing is sent until it answers."""
        self._writer = Writer.ASKED
        self._channel.send(client.Give(self._number))

    def _send(self) -> None:
        """Send what the window allows, many pieces in a packet."""
        while (
            self._queue
            and not self._is_paused
            and not self.is_asked
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
                self._sent.append((part, stream, of_part))
                self._sent_bytes += size
                room -= size
            data = b"".join(packet)
            self._channel.send(client.Output(self._number, data))
            self._ever_sent_bytes += len(data)
            self._ever_sent_packets += 1
            if self._writer is Writer.CLIENT and self._is_much:
                self._ask()


def _nobody(*told: object) -> None:
    """Is told of output behind the end."""


def _nothing() -> None:
    """Is told behind the end that output was taken."""


class ClientInput:
    """Standard input of a client; of one that its user has left, what is typed who attaches."""

    def __init__(
        self, reactor: Reactor, channel: Channel, on_data: Callable[[bytes], None]
    ) -> None:
        self._reactor = reactor
        self._channel = channel
        self._on_data: Callable[[bytes], None] | None = on_data
        self._on_asked: Callable[[], None] | None = None
        self._on_gone: Callable[[], None] | None = None
        self._escape = Escape()
        self._moved: InputStream | None = None
        self._fd = -1
        self._allowed = 0

    def allow(self, count_bytes: int) -> None:
        """Let the client send so many bytes more."""
        if self._moved is not None:
            self._moved.allow(count_bytes)
            return
        self._allowed += count_bytes
        if self._fd < 0:
            self._channel.send(client.Read(count_bytes))

    def resume(self) -> None:
        """Do nothing: the client knows by itself when it is in the foreground."""

    def watch_terminal(self, asked: Callable[[], None] | None, gone: Callable[[], None]) -> None:
        """Call when the user asks to leave, and when the terminal is lost."""
        self._on_asked, self._on_gone = asked, gone

    def move(self, fd: int) -> None:
        """The client is told to leave: read from a pipe, which becomes ours, once it has left."""
        self._on_asked, self._fd = None, fd

    def left(self) -> None:
        """The client sends no more."""
        if self._on_data is not None:
            self._moved = InputStream(self._reactor, self._fd, self._on_data)
            self._moved.allow(self._allowed)
        self._allowed = 0

    def arrived(self, data: bytes, is_gone: bool) -> None:
        """The client has sent input; bytes beyond what it was allowed are dropped."""
        if is_gone and self._on_gone is not None:
            self._on_gone()
            if self._fd >= 0:
                return
        data, is_end = data[: self._allowed], not data
        self._allowed -= len(data)
        on_data, on_asked, is_asked = self._on_data, self._on_asked, False
        if on_asked is not None:
            count_bytes = len(data)
            data, asked = self._escape.take(data)
            is_asked = asked is not None
            if count_bytes > len(data) and on_data is not None and not is_asked:
                self.allow(count_bytes - len(data))
            else:
                self._allowed += count_bytes - len(data)
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
        if self._moved is not None:
            self._moved.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
