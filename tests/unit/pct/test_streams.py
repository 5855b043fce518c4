"""The pipes and sockets of a rank: bounded, never blocking, closed once."""

import os
import socket

import pytest

from native.reactor import Reactor
from pct.pmi1 import LINE_MAX
from pct.streams import InputPipe, OutputPipe, PmiSocket


@pytest.fixture
def reactor():
    loop = Reactor()
    yield loop
    loop.close()


@pytest.fixture
def pipe():
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            pass


@pytest.fixture
def ends():
    """(ours, the rank's): ours is given away as a descriptor."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield ours.detach(), theirs
    theirs.close()


def drain(reactor, times=8):
    for _ in range(times):
        reactor.run_once(0)


# -- PMI -------------------------------------------------------------------


def test_lines_come_one_by_one_however_they_are_cut(reactor, ends):
    ours, theirs = ends
    lines = []
    pmi = PmiSocket(reactor, ours, lines.append)
    for piece in (b"cmd=in", b"it\ncmd=get_maxes\n\ncmd", b"=finalize\n"):
        theirs.send(piece)
        drain(reactor)
    assert lines == [b"cmd=init", b"cmd=get_maxes", b"cmd=finalize"]
    pmi.close()


def test_a_line_without_end_ends_the_conversation(reactor, ends):
    ours, theirs = ends
    lines = []
    PmiSocket(reactor, ours, lines.append)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(1000):
            theirs.send(b"x" * 4096)
            drain(reactor, 1)
    assert lines == []


def test_the_longest_line_is_taken(reactor, ends):
    ours, theirs = ends
    lines = []
    pmi = PmiSocket(reactor, ours, lines.append)
    line = b"x" * LINE_MAX
    for start in range(0, LINE_MAX, 4096):
        theirs.send(line[start : start + 4096])
        drain(reactor, 2)
    theirs.send(b"\n")
    drain(reactor)
    assert lines == [line]
    pmi.close()


def test_a_client_that_does_not_listen_is_not_heard_either(reactor, ends):
    """Its answers would fill the PCT's memory."""
    ours, theirs = ends
    seen = []

    def answer(line):
        seen.append(line)
        pmi.reply(b"a" * 4096)

    pmi = PmiSocket(reactor, ours, answer)
    sent = 0
    try:
        while sent < 1 << 22:
            sent += theirs.send(b"get\n" * 1024)
            drain(reactor, 1)
    except BlockingIOError:
        pass
    heard = len(seen)
    assert sent < 1 << 22 and len(pmi._answers) < 4096 * (LINE_MAX // 4 + 1)
    drain(reactor)
    assert len(seen) == heard
    while pmi._answers:  # it listens again
        theirs.recv(1 << 20)
        drain(reactor, 1)
    drain(reactor)
    assert len(seen) > heard
    pmi.close()


def test_a_client_that_is_gone_is_closed(reactor, ends):
    ours, theirs = ends
    pmi = PmiSocket(reactor, ours, lambda line: None)
    theirs.close()
    drain(reactor)
    pmi.reply(b"late")
    pmi.close()
    with pytest.raises(OSError):
        os.fstat(ours)


def test_a_conversation_closed_by_a_line_hears_no_more_of_the_same_packet(reactor, ends):
    ours, theirs = ends
    lines = []

    def hear(line):
        lines.append(line)
        pmi.close()

    pmi = PmiSocket(reactor, ours, hear)
    theirs.send(b"one\ntwo\n")
    drain(reactor)
    assert lines == [b"one"]


# -- output and input ------------------------------------------------------


def test_output_is_read_until_its_end_which_is_told_once(reactor, pipe):
    read, write = pipe
    seen = []
    OutputPipe(reactor, read, seen.append)
    os.write(write, b"one")
    drain(reactor)
    os.close(write)
    drain(reactor)
    assert seen == [b"one", b""]


def test_a_paused_output_is_not_read(reactor, pipe):
    read, write = pipe
    seen = []
    output = OutputPipe(reactor, read, seen.append)
    output.pause(True)
    os.write(write, b"one")
    drain(reactor)
    assert seen == []
    output.pause(False)
    drain(reactor)
    assert seen == [b"one"]
    output.close()
    output.pause(False)  # too late is harmless


def test_input_goes_as_far_as_the_rank_takes_it_and_is_acknowledged(reactor, pipe):
    read, write = pipe
    taken = []
    stdin = InputPipe(reactor, write, taken.append)
    data = os.urandom(200_000)
    stdin.write(data)
    stdin.write(b"")  # the end, behind what waits
    assert 0 < sum(taken) < len(data)
    got = b""
    while part := _read(read):
        got += part
        drain(reactor, 1)
    assert got == data and sum(taken) == len(data)
    with pytest.raises(OSError):
        os.fstat(write)


def _read(fd):
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return b""


def test_input_for_a_rank_that_reads_no_more_is_dropped(reactor, pipe):
    read, write = pipe
    taken = []
    stdin = InputPipe(reactor, write, taken.append)
    os.close(read)
    stdin.write(b"x")
    stdin.write(b"y")
    drain(reactor)
    stdin.close()
    assert taken == []
