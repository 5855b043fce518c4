"""A client's stream in the launch server: it is asked for when it has had much, and then ours."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import partition.server.streams
from native.loop.reactor import Reactor
from native.wire import client
from partition.server.streams import ClientOutput

LIMIT = client.GIVE_AFTER_BYTES
LINE = b"x" * 65_535 + b"\n"


class World:
    """A stream, what its client is sent, and a pipe that it may give."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        self.reactor = Reactor()
        self.reading, self.writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.sent: list[client.FromServer] = []
        self.credited, self.taken = 0, 0
        self.errors: list[OSError] = []
        self.kept = b""
        self.shown = b""
        channel: Any = self
        self.output = ClientOutput(
            self.reactor, channel, 1, is_terminal, self._written, self._taken, self.errors.append
        )

    def send(self, message: client.FromServer) -> None:
        self.sent.append(message)

    def _written(self, stream: int, count: int) -> None:
        self.credited += count

    def _taken(self) -> None:
        self.taken += 1

    def keep(self, stream: int, data: bytes | bytearray | memoryview) -> None:
        self.kept += bytes(data)

    def write(self, data: bytes) -> None:
        self.output.write([(data, 1, len(data))])

    def client_writes(self) -> None:
        """The client writes what it was sent."""
        while True:
            sent = [each for each in self.sent if isinstance(each, client.Output)]
            count = sum(len(each.data) for each in sent)
            self.shown += b"".join(each.data for each in sent)
            self.sent = [each for each in self.sent if not isinstance(each, client.Output)]
            if not count:
                return
            self.output.written(count)

    def ask(self) -> None:
        """Let so much be written that the client is asked, and has written all."""
        while client.Give(1) not in self.sent:
            self.write(LINE)
            self.client_writes()

    def give(self) -> None:
        """The client gives the pipe."""
        assert self.output.may_be_given
        self.output.given(os.open(f"/proc/self/fd/{self.writing}", os.O_WRONLY | os.O_NONBLOCK))
        os.close(self.writing)
        self.writing = -1

    def read(self, count: int = 1 << 20) -> None:
        try:
            self.shown += os.read(self.reading, count)
        except BlockingIOError:
            pass
        self.reactor.run_once(0)

    def read_all(self) -> None:
        before = -1
        while before != len(self.shown):
            before = len(self.shown)
            self.read()

    def close(self) -> None:
        self.output.close()
        self.reactor.close()
        for fd in (self.reading, self.writing):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def test_a_stream_with_little_output_costs_no_packet_more(world: World):
    for _ in range(LIMIT // len(LINE) - 1):
        world.write(LINE)
        world.client_writes()
    assert world.sent == []


@pytest.mark.parametrize("more, is_much", [(0, False), (1, True)])
def test_many_short_pieces_are_much_output(world: World, more: int, is_much: bool):
    for _ in range(client.GIVE_AFTER_PACKETS - 1 + more):
        world.write(b".")
        world.client_writes()
    assert world.sent == ([client.Give(1)] if is_much else [])


def test_the_terminal_is_never_asked_for():
    world = World(is_terminal=True)
    for _ in range(3 * client.GIVE_AFTER_PACKETS):
        world.write(LINE)
        world.client_writes()
    assert world.sent == []
    world.close()


def test_nothing_is_sent_from_the_question_to_the_answer(world: World):
    world.ask()
    world.write(b"waits ")
    assert world.sent == [client.Give(1)]
    assert not world.output.is_empty
    world.output.given(-1)
    world.write(b"on")
    assert world.sent == [client.Give(1), client.Output(1, b"waits "), client.Output(1, b"on")]
    for _ in range(2 * LIMIT // len(LINE)):
        world.write(LINE)
        world.client_writes()
    assert world.sent == [client.Give(1)]  # it is not asked again


def test_a_client_that_has_still_to_write_may_not_give(world: World):
    while client.Give(1) not in world.sent:
        world.write(LINE)
        if client.Give(1) not in world.sent:
            world.client_writes()
    assert not world.output.may_be_given
    world.client_writes()
    assert world.output.may_be_given


def test_what_has_waited_is_written_first_and_credited(world: World):
    world.ask()
    before, taken = world.credited, world.taken
    world.write(b"one ")
    world.give()
    assert world.taken == taken + 1
    world.write(b"two")
    assert world.output.is_empty
    assert world.credited == before + 7
    assert os.read(world.reading, 100) == b"one two"
    assert not [each for each in world.sent if isinstance(each, client.Output)]


def test_a_reader_that_is_slow_is_waited_for(world: World):
    world.ask()
    world.give()
    taken, start = world.taken, len(world.shown)
    for _ in range(10):
        world.write(LINE)
    assert not world.output.is_empty
    world.read_all()
    assert world.output.is_empty
    assert world.taken == taken + 1
    assert world.shown[start:] == 10 * LINE


def test_a_reader_that_has_gone_is_told_once(world: World):
    world.ask()
    world.give()
    os.close(world.reading)
    world.reading = -1
    before = world.credited
    for _ in range(3):
        world.write(LINE)
    assert [error.errno for error in world.errors] == [errno.EPIPE]
    assert isinstance(world.errors[0], BrokenPipeError)
    assert world.credited == before + 3 * len(LINE)
    world.output.failed(errno.EPIPE)
    assert len(world.errors) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_nothing_is_written_while_the_client_is_stopped(world: World, when: str):
    world.ask()
    if when == "before":
        world.output.suspend(True)
    world.give()
    world.output.suspend(True)
    world.write(b"later")
    world.reactor.run_once(0)
    with pytest.raises(BlockingIOError):
        os.read(world.reading, 10)
    assert not world.output.is_empty
    world.output.suspend(False)
    assert os.read(world.reading, 10) == b"later"
    assert world.output.is_empty


def test_what_is_not_read_can_be_dropped(world: World):
    world.ask()
    world.give()
    for _ in range(4):
        world.write(LINE)
    dropped = world.output.drop()
    assert 0 < dropped <= 3 * len(LINE)
    assert world.output.is_empty
    start = len(world.shown)
    world.read_all()
    assert len(world.shown) - start == 4 * len(LINE) - dropped


def test_its_reader_sees_the_end_when_it_is_closed(world: World):
    world.ask()
    world.give()
    world.write(b"last")
    world.output.close()
    assert os.read(world.reading, 10) == b"last"
    assert os.read(world.reading, 10) == b""
    world.write(b"too late")


STEPS = st.lists(
    st.one_of(
        st.integers(1, 90_000).map(lambda size: ("write", size)),
        st.integers(1, 60_000).map(lambda size: ("read", size)),
    ),
    max_size=8,
)


@given(STEPS, STEPS, STEPS, st.booleans(), st.booleans())
def test_client_server_and_sink_have_the_whole_output_in_order(
    before, between, after, is_given, is_left
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition.server.streams, "GIVE_AFTER_BYTES", 100_000)
        world, sent = World(), b""

        def play(steps: list[tuple[str, int]]) -> None:
            nonlocal sent
            for what, size in steps:
                if what == "write":
                    data = (b"%d " % len(sent) * size)[:size]
                    world.write(data)
                    sent += data
                elif world.writing >= 0:
                    world.client_writes()
                else:
                    world.read(size)

        play(before)
        if world.output.is_asked:
            world.client_writes()
            if is_given:
                world.give()
            else:
                world.output.given(-1)
        play(between)
        if is_left:
            world.output.pause()
            play([step for step in after if step[0] == "write"])
            if world.writing < 0:
                world.read_all()
            world.output.move(world.keep)
            assert world.output.is_empty
        play(after)
        if world.writing >= 0:
            if not is_left:
                world.client_writes()
        else:
            world.read_all()
        asked = world.output.is_asked
        world.close()
    if asked and not is_left:
        assert sent.startswith(world.shown)
    elif not is_left or world.writing < 0:
        assert world.shown + world.kept == sent
        assert world.credited == len(sent)
    assert not world.errors
