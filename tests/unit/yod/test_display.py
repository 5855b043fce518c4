"""Output on its way out: all of it, in order, as the reader allows, and the credit for it."""

from __future__ import annotations

import fcntl
import os
import tty

import pytest

from native.limits import Limits
from native.loop.reactor import Reactor
from tests.support.invocations import invocation
from yod.host.display import Display
from yod.host.own import OwnFront
from yod.launch.lines import Lines
from yod.plan.plan import Style

LIMITS = Limits()
F_SETPIPE_SZ = 1031


class Pipe:
    """A display on a small pipe, with a clock that stands until it is moved."""

    def __init__(self, style: Style = Style.WHOLE) -> None:
        self.now = 100.0
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, F_SETPIPE_SZ, 4096)
        os.set_blocking(self.reader, False)
        self.reactor = Reactor(lambda: self.now)
        self.written: list[tuple[int, int]] = []
        self.errors: list[OSError] = []
        self.display = Display(
            self.reactor,
            OwnFront(self.reactor, invocation(), ""),
            self.writer,
            Lines(style, 4, LIMITS),
            lambda stream, count: self.written.append((stream, count)),
            self.errors.append,
        )

    def turn(self) -> None:
        self.reactor.run_once(0)

    def read(self) -> bytes:
        """What comes until nothing more does."""
        text = b""
        while True:
            try:
                data = os.read(self.reader, 65536)
            except BlockingIOError:
                return text
            if not data:
                return text
            text += data
            self.turn()

    def count(self, stream: int) -> int:
        return sum(count for number, count in self.written if number == stream)

    def close(self) -> None:
        self.display.close()
        self.reactor.close()
        for fd in (self.reader, self.writer):
            os.close(fd)


@pytest.fixture
def pipe(request):
    pipe = Pipe(getattr(request, "param", Style.WHOLE))
    yield pipe
    pipe.close()


def test_more_than_a_pipe_holds_comes_out_whole_and_is_credited_as_it_leaves(pipe):
    lines = [b"%05d " % n + b"x" * 93 + b"\n" for n in range(1000)]
    for line in lines:
        pipe.display.show(0, 1, line)
    pipe.display.show(1, 2, b"error\n")
    assert pipe.count(1) < 8192 and pipe.count(2) == 0
    assert not pipe.display.is_empty
    assert pipe.read() == b"".join(lines) + b"error\n"
    assert (pipe.count(1), pipe.count(2)) == (100_000, 6)
    assert pipe.display.is_empty


@pytest.mark.parametrize("pipe", [Style.LABELLED], indirect=True)
def test_what_yod_adds_gives_no_credit(pipe):
    pipe.display.show(3, 1, b"a\nb\n")
    pipe.display.say("yod: word")
    assert pipe.read() == b"3: a\n3: b\nyod: word\n"
    assert pipe.count(1) == 4


def test_the_end_is_heard_of_where_yods_own_words_leave_last(pipe):
    """A loop that waits for all to be written would wait for ever."""
    pipe.display.show(0, 1, b"x" * 4095 + b"\n")
    pipe.display.say("yod: word")
    pipe.written.clear()
    assert pipe.read().endswith(b"x\nyod: word\n")
    assert pipe.written == [(2, 0)] and pipe.display.is_empty


def test_time_stands_still_for_lines_while_the_reader_is_behind(pipe):
    pipe.display.show(0, 1, b"x" * 9999 + b"\n")
    pipe.display.show(1, 1, b"name? ")
    pipe.now += 60.0
    pipe.turn()
    assert pipe.reactor.deadline() is None
    assert pipe.read() == b"x" * 9999 + b"\n"
    assert pipe.reactor.deadline() == pytest.approx(pipe.now + LIMITS.line_quiet_s)
    pipe.now += 2 * LIMITS.line_quiet_s
    pipe.turn()
    assert pipe.read() == b"name? "


def test_a_line_that_stays_open_is_shown_by_the_loop(pipe):
    pipe.display.show(0, 1, b"a\nname? ")
    assert pipe.read() == b"a\n"
    pipe.now += 2 * LIMITS.line_quiet_s
    pipe.turn()
    assert pipe.read() == b"name? " and pipe.display.is_line_open


def test_what_waits_for_a_lines_end_is_shown_before_the_rest_is_dropped(pipe):
    pipe.display.show(0, 1, b"name? ")
    pipe.display.show(1, 1, b"line\n")
    assert pipe.display.drop() == 0
    assert pipe.read() == b"name? \nline\n"
    pipe.display.show(2, 1, b"x" * 9999 + b"\n")
    assert pipe.display.drop() == 10_000 - 4096
    assert pipe.display.is_empty


def test_a_reader_that_is_gone_is_told_once_and_all_is_credited(pipe):
    pipe.display.show(0, 1, b"x" * 9999 + b"\n")
    os.close(pipe.reader)
    pipe.turn()
    pipe.display.show(0, 1, b"more\n")
    assert [type(error) for error in pipe.errors] == [BrokenPipeError]
    assert pipe.count(1) == 10_005
    pipe.reader = os.open(os.devnull, os.O_RDONLY)


class Terminal(Pipe):
    """The same on a terminal."""

    def __init__(self) -> None:
        super().__init__()
        master, slave = os.openpty()
        tty.setraw(slave)
        for old, new in ((self.reader, master), (self.writer, slave)):
            os.dup2(new, old)
            os.close(new)
        os.set_blocking(self.reader, False)
        self.display.close()
        front = OwnFront(self.reactor, invocation(), "")
        lines = Lines(Style.WHOLE, 4, LIMITS)
        self.display = Display(
            *(self.reactor, front, self.writer, lines),
            lambda stream, count: self.written.append((stream, count)),
            self.errors.append,
        )
        self.text = "load, 1 s: much"
        self.display.show_progress(lambda now: self.text, 1.0)

    def later(self, seconds: float) -> bytes:
        self.now += seconds
        self.turn()
        self.turn()
        return self.read()


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


def test_progress_is_one_line_that_is_rewritten_and_gone_before_output(terminal):
    assert terminal.later(0.9) == b""
    assert terminal.later(0.2) == b"\ryod: load, 1 s: much"
    terminal.text = "load, 2 s"
    assert terminal.later(1.1) == b"\r" + b" " * 20 + b"\ryod: load, 2 s"
    terminal.display.show(0, 1, b"out\n")
    assert terminal.later(0) == b"\r" + b" " * 14 + b"\rout\n"
    assert (terminal.count(1), terminal.count(2)) == (4, 0)
    terminal.text = ""
    assert terminal.later(1.1) == b""
    terminal.text = "never again"
    assert terminal.later(10) == b""


def test_progress_goes_when_the_ranks_run_and_waits_behind_a_prompt(terminal):
    terminal.later(1.1)
    terminal.text = ""
    assert terminal.later(1.1) == b"\r" + b" " * 20 + b"\r"


def test_a_line_of_progress_fits_a_terminal(terminal):
    terminal.text = "x" * 200
    assert terminal.later(1.1) == b"\ryod: " + b"x" * 74


def test_a_pipe_gets_no_progress(pipe):
    pipe.display.show_progress(lambda now: "load", 0.0)
    pipe.now += 5
    pipe.turn()
    assert pipe.read() == b""
