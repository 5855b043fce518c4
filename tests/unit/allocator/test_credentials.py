"""Credentials of users of other hosts: judged beside the loop, remembered for a while."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from allocator.host import credentials
from allocator.host.credentials import Credentials
from native.loop.reactor import Reactor
from native.port.losses import Verdict

SECRET = bytes(32)


class Door:
    """Collects the answers."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, object]] = []

    def accept_credential(self, ticket: int, uid: int, secret: bytes) -> None:
        self.answers.append((ticket, uid))

    def refuse_credential(self, ticket: int, verdict: Verdict) -> None:
        self.answers.append((ticket, verdict))


class Office:
    """Credentials, a door and a loop on a clock of the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.door = Door()
        self.asked: list[bytes] = []
        self.lines: list[str] = []
        self.reactor = Reactor(lambda: self.now)
        self.judged = Credentials(self.door, self.reactor, self.lines.append, self._judge)

    def _judge(self, credential: bytes) -> tuple[int, bytes] | Verdict:
        self.asked.append(credential)
        if credential.startswith(b"bad"):
            return Verdict.USED
        if credential == b"silence":
            return Verdict.NOBODY_TELLS
        return int(credential.split(b":")[0]), SECRET

    def take(self, ticket: int, credential: bytes) -> object:
        """The answer to a credential."""
        count = len(self.door.answers)
        self.judged.take(ticket, credential)
        while len(self.door.answers) == count:
            self.reactor.run_once(5.0)
        answered, answer = self.door.answers[-1]
        assert answered == ticket
        return answer


@pytest.fixture
def office() -> Iterator[Office]:
    one = Office()
    yield one
    one.reactor.close()


def test_a_credential_is_opened_once_and_remembered_for_a_while(office: Office) -> None:
    assert [office.take(ticket, b"7:a") for ticket in (1, 2)] == [7, 7]
    assert office.asked == [b"7:a"]
    office.now = credentials.REMEMBERED_S + 1
    assert office.take(3, b"7:a") == 7
    assert office.asked == [b"7:a"] * 2


def test_one_that_is_refused_is_not_remembered(office: Office) -> None:
    assert [office.take(ticket, b"bad") for ticket in (1, 2)] == [Verdict.USED] * 2
    assert office.asked == [b"bad"] * 2
    assert office.lines == []


def test_a_user_who_brings_many_pushes_none_of_others_out(office: Office) -> None:
    office.take(1, b"8:theirs")
    for number in range(credentials.REMEMBERED_EACH_COUNT + 3):
        office.take(number, b"7:%d" % number)
    asked = len(office.asked)
    assert office.take(1, b"8:theirs") == 8
    assert len(office.asked) == asked
    office.take(1, b"7:0")  # the oldest of their own has gone
    assert len(office.asked) == asked + 1


def test_that_munged_does_not_answer_is_one_line_until_it_does(office: Office) -> None:
    for ticket in (1, 2):
        assert office.take(ticket, b"silence") is Verdict.NOBODY_TELLS
    assert len(office.lines) == 1
    office.take(3, b"7:a")
    office.take(4, b"silence")
    assert len(office.lines) == 2
