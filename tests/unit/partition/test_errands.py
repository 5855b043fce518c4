"""What goes between a launch server and a helper comes as it was, whatever bytes names have."""

from __future__ import annotations

import _socket
from collections.abc import Iterator

import pytest

from native.limits import Limits
from partition.server import errands
from partition.server.errands import Errand, Line
from tests.unit.yod.launch_of import plan
from yod.plan.prepared import Prepared, Records

GIVEN = errands.Given(0o22, (1, 15), 2, 3, ((7, -1),), 2)
NAMES = ("plain", "caf\udce9", "\udc80\udcff\0\0\udc80", "\0", "a\0\x80b", "\U0010ffff\x80", "")


@pytest.fixture
def ends() -> Iterator[tuple[Line, Line]]:
    """Both ends of a line."""
    pair = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    yield Line(pair[0]), Line(pair[1])
    for end in pair:
        end.close()


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("length", [1, errands.INLINE_BYTES], ids=["short", "long"])
def test_a_name_comes_as_it_was(ends: tuple[Line, Line], name: str, length: int) -> None:
    records = Records(report_file=name * length, command=name)
    prepared = Prepared(plan(3), b"\xff\0", Limits(), name, None, name, records)
    for answer in (errands.Launch(prepared), errands.NoLaunch(name * length, 127)):
        ends[0].send(answer)
        assert ends[1].receive_answer() == (answer, ())
    asked: tuple[Errand, ...] = (
        errands.Find(GIVEN, ((name, "/"), ("b", name * length))),
        errands.Share(b"\xff", 3, 0o755, name),
    )
    for errand in asked:
        ends[1].send(errand)
        assert ends[0].receive_errand() == (errand, ())


def test_an_answer_that_comes_again_is_read_once(ends: tuple[Line, Line]) -> None:
    prepared = Prepared(plan(3), b"", Limits(), "", None, "", Records())
    answers = []
    for answer in (errands.Launch(prepared), errands.Launch(prepared), errands.NoLaunch("no", 1)):
        ends[0].send(answer)
        received = ends[1].receive_answer()
        assert received == (answer, ())
        answers.append(received[0])
    assert answers[0] is answers[1]


def test_the_same_bytes_that_are_escaped_are_another_answer(ends: tuple[Line, Line]) -> None:
    """A NUL before a letter is itself in the one, and stands for a byte in the other."""
    plain = errands.NoLaunch("\0\xe9", 1)
    escaped = errands.NoLaunch("\udce9", 1)
    for answer in (plain, escaped, plain):
        ends[0].send(answer)
        assert ends[1].receive_answer() == (answer, ())
