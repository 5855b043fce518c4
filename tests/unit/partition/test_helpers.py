"""Helpers of a launch server: who asks is answered once, whatever becomes of the processes."""

from __future__ import annotations

import _socket
import errno
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from native.loop.reactor import Reactor
from partition.server import helpers as module
from partition.server.errands import Answer, Done, Errand, Failed, Line, Remove
from partition.server.helpers import ENDED_TEXT, Helpers
from tests.support.wait import LIMIT_S, wait_until

ERRAND = Remove(())


class Process:
    """A process that does nothing, and the end of the line that a helper would have."""

    def __init__(self, fd: int) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        self.line = Line(_socket.socket(fileno=os.dup(fd)))

    def take(self) -> Errand:
        received = self.line.receive_errand()
        assert received is not None
        return received[0]

    def answer(self) -> None:
        self.take()
        self.line.send(Done())

    def close(self) -> None:
        self.line.connection.close()
        self.process.kill()
        try:
            self.process.wait()
        except ChildProcessError:  # the loop has reaped it
            pass


class Place:
    """Helpers whose processes are the test's."""

    def __init__(self, count: int = 2) -> None:
        self.now = 100.0
        self.reactor = Reactor(lambda: self.now)
        self.processes: list[Process] = []
        self.lacks = 0  # errno of the next starts
        self.answers: list[tuple[int, Answer]] = []
        self.helpers = Helpers(self.reactor, count, self._spawn)

    def _spawn(self, fd: int) -> int:
        if self.lacks:
            raise OSError(self.lacks, os.strerror(self.lacks))
        self.processes.append(Process(fd))
        return self.processes[-1].process.pid

    def ask(self, number: int) -> module.Ticket:
        return self.helpers.ask(ERRAND, (), lambda answer, fds: self._answered(number, answer))

    def _answered(self, number: int, answer: Answer) -> None:
        self.answers.append((number, answer))

    def turn(self, count: int = 1) -> list[tuple[int, Answer]]:
        """Serve the loop until so many have been answered; gives and forgets the answers."""
        until = os.times().elapsed + LIMIT_S
        self.reactor.run_once(0.0)
        while len(self.answers) < count and os.times().elapsed < until:
            self.reactor.run_once(0.05)
        answers, self.answers = self.answers, []
        return answers

    def close(self) -> None:
        self.helpers.close()
        for process in self.processes:
            process.close()
        self.reactor.close()


@pytest.fixture
def place() -> Iterator[Place]:
    before = signal.getsignal(signal.SIGCHLD)
    place = Place()
    yield place
    place.close()
    signal.signal(signal.SIGCHLD, before)


def test_errands_are_done_by_as_many_as_there_are_one_each(place: Place):
    for number in range(3):
        place.ask(number)
    assert len(place.processes) == 2
    first, second = place.processes
    first.answer()
    assert place.turn() == [(0, Done())]
    first.answer()
    second.answer()
    assert sorted(place.turn(2)) == [(1, Done()), (2, Done())]
    assert len(place.processes) == 2


def test_one_that_ends_has_failed_at_its_errand_and_another_takes_its_place(place: Place):
    place.ask(0)
    place.processes[0].close()
    assert place.turn() == [(0, Failed(ENDED_TEXT))]
    place.ask(1)
    place.processes[1].answer()
    assert place.turn() == [(1, Done())]


def test_who_has_cancelled_is_not_answered_and_the_helper_is_killed(place: Place):
    ticket = place.ask(0)
    place.helpers.cancel(ticket)
    assert place.processes[0].process.wait(LIMIT_S) == -signal.SIGKILL
    assert place.turn(0) == []
    place.ask(1)
    place.processes[1].answer()
    assert place.turn() == [(1, Done())]


def test_a_killed_one_that_does_not_go_holds_up_nobody(place: Place):
    tickets = [place.ask(0), place.ask(1)]
    place.ask(2)
    for ticket in tickets:
        place.helpers.cancel(ticket)
    # The ends of their lines stay open, as those of processes that wait for a file system do.
    place.processes[2].answer()
    assert place.turn() == [(2, Done())]


def test_slow_ones_are_joined_by_others_up_to_a_bound(place: Place):
    for number in range(20):
        place.ask(number)
    for count in (2, 4, 6, module.HELPERS_MAX, module.HELPERS_MAX):
        assert len(place.processes) == count
        place.now += module.SLOW_S
        place.reactor.run_once(0)
    for process in place.processes:
        process.answer()
    answers = place.turn(module.HELPERS_MAX)
    assert [answer for _, answer in answers] == [Done()] * module.HELPERS_MAX


def test_those_who_joined_go_again(place: Place):
    for number in range(3):
        place.ask(number)
    place.now += module.SLOW_S
    place.reactor.run_once(0)
    for process in place.processes:
        process.answer()
    place.turn(3)
    assert len(place.processes) == 3
    wait_until(lambda: place.turn(0) == [] and len(place.helpers.unix_pids) == 2)


def test_an_errand_for_which_no_helper_can_be_started_fails_later(place: Place):
    place.lacks = errno.EMFILE
    place.ask(0)
    assert place.answers == []
    assert place.turn() == [(0, Failed("Too many open files"))]
    place.lacks = 0
    place.ask(1)
    place.processes[0].answer()
    assert place.turn() == [(1, Done())]


def test_an_errand_waits_for_a_busy_helper_where_no_other_can_be_started(place: Place):
    place.ask(0)
    place.lacks = errno.ENOMEM
    place.ask(1)
    (only,) = place.processes
    only.answer()
    assert place.turn() == [(0, Done())]
    only.answer()
    assert place.turn() == [(1, Done())]


def test_an_errand_that_cannot_be_sent_fails(place: Place):
    closed = 1 << 20
    place.helpers.ask(ERRAND, (closed,), lambda answer, fds: place._answered(0, answer))
    assert place.processes[0].process.wait(LIMIT_S) == -signal.SIGKILL
    place.processes[0].close()
    assert place.turn() == [(0, Failed(ENDED_TEXT))]
