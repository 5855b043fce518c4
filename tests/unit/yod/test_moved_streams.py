"""The streams of a yod whose user leaves: what was not taken moves, and nothing twice."""

from __future__ import annotations

import os
import pty
import termios

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.loop.reactor import Reactor
from partition.attach import spool
from yod.host.front import TerminalGone
from yod.host.terminal import InputStream, OutputStream

ROOM = 4096  # bytes of the pipe


class Output:
    """An output stream to a pipe, and what has become of its bytes."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.reading, self.writing = os.pipe2(os.O_NONBLOCK)
        self.shown, self.kept, self.credited = b"", b"", 0
        self.errors: list[OSError] = []
        self.stream = OutputStream(
            self.reactor, self.writing, self._written, lambda: None, self.errors.append
        )

    def _written(self, stream: int, count: int) -> None:
        self.credited += count

    def keep(self, stream: int, data: bytes | bytearray | memoryview) -> None:
        assert stream == 1
        self.kept += bytes(data)

    def read(self, count: int) -> None:
        try:
            self.shown += os.read(self.reading, count)
        except BlockingIOError:
            pass
        self.reactor.run_once(0)

    def close(self) -> None:
        self.read(1 << 20)
        self.stream.close()
        self.reactor.close()
        os.close(self.reading)
        os.close(self.writing)


STEPS = st.lists(
    st.one_of(
        st.integers(1, 40_000).map(lambda size: ("write", size)),
        st.integers(1, 60_000).map(lambda size: ("read", size)),
    ),
    max_size=12,
)


@given(STEPS, STEPS)
def test_what_the_reader_has_and_what_is_kept_are_the_whole_output_once(before, after):
    output, sent = Output(), b""
    for is_moved, steps in ((False, before), (True, after)):
        if is_moved:
            output.stream.move(output.keep)
            assert output.stream.is_empty
        for what, size in steps:
            if what == "read":
                output.read(size)
                continue
            data = (b"%d " % len(sent) * size)[:size]
            output.stream.write([(data, 1, size)])
            sent += data
    output.close()
    assert output.shown + output.kept == sent
    assert output.credited == len(sent)
    assert not output.errors


def test_a_regular_file_goes_on_to_get_the_output(tmp_path):
    reactor = Reactor()
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    stream = OutputStream(reactor, fd, lambda *_: None, lambda: None, lambda _: None)
    stream.write([(b"one ", 1, 4)])
    stream.move(lambda *_: pytest.fail("it has moved"))
    stream.write([(b"two", 1, 3)])
    stream.close()
    reactor.close()
    os.close(fd)
    assert (tmp_path / "out").read_bytes() == b"one two"


def test_what_cannot_be_written_to_a_lost_terminal_moves_where_its_loss_is_told():
    reactor, kept = Reactor(), []
    ours, theirs = pty.openpty()

    def broken(error: OSError) -> None:
        assert isinstance(error, TerminalGone)
        stream.move(lambda number, data: kept.append(bytes(data)))

    stream = OutputStream(reactor, theirs, lambda *_: None, lambda: None, broken)
    os.close(ours)
    stream.write([(b"one", 1, 3), (b"two", 1, 3)])
    stream.write([(b"three", 1, 5)])
    stream.close()
    reactor.close()
    os.close(theirs)
    assert kept == [b"one", b"two", b"three"]


class Typed:
    """An input stream from a terminal."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.ours, self.theirs = pty.openpty()
        self.data: list[bytes] = []
        self.calls: list[str] = []
        self.stream = InputStream(self.reactor, self.theirs, self.data.append)
        self.stream.watch_terminal(lambda: self.calls.append("asked"), self.gone)

    def gone(self) -> None:
        self.calls.append("gone")

    def turn(self) -> None:
        self.reactor.run_once(1.0)

    def close(self) -> None:
        self.stream.close()
        self.reactor.close()
        os.close(self.theirs)


def test_what_is_typed_beside_the_line_is_the_jobs_and_costs_its_room():
    typed = Typed()
    typed.stream.allow(6)
    os.write(typed.ours, b"one\n~d\ntwo\n")
    while typed.data != [b"one\n", b"tw"]:
        typed.turn()
    assert typed.calls == ["asked"]
    typed.close()
    os.close(typed.ours)


def test_ctrl_d_ends_the_input_and_a_lost_terminal_moves_it():
    typed = Typed()
    typed.stream.allow(100)
    os.write(typed.ours, b"x\n")
    typed.turn()
    reading, writing = os.pipe2(os.O_NONBLOCK)

    def gone() -> None:
        typed.calls.append("gone")
        typed.stream.move(reading)

    typed.gone = gone  # type: ignore[method-assign]
    typed.stream.watch_terminal(None, gone)
    os.close(typed.ours)
    typed.turn()
    assert (typed.calls, typed.data) == (["gone"], [b"x\n"])
    os.write(writing, b"~d\n")
    typed.turn()
    assert typed.data == [b"x\n", b"~d\n"]  # a pipe has no escape
    typed.close()
    os.close(reading)
    os.close(writing)

    ended = Typed()
    ended.stream.allow(100)
    os.write(ended.ours, termios.tcgetattr(ended.theirs)[6][termios.VEOF])
    ended.turn()
    assert (ended.calls, ended.data) == ([], [b""])
    ended.close()
    os.close(ended.ours)


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(min_size=1, max_size=50))))
def test_a_spool_gives_back_what_was_kept_in_its_order(tmp_path_factory, pieces):
    kept = spool.make(str(tmp_path_factory.mktemp("state")), "1@here", 1 << 20)
    for stream, data in pieces:
        kept.write(stream, data)
    cursor = kept.cursor()
    assert [(piece.stream, piece.data) for piece in iter(cursor.read, None)] == pieces
    kept.close()
