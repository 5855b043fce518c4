"""Questions to the history that wait: a user has so many, and others theirs."""

from __future__ import annotations

from allocator.questions import Questions
from native.ids import Principal, PrincipalKind

ALICE = Principal(PrincipalKind.USER, 1000)
BOB = Principal(PrincipalKind.USER, 1001)


def test_a_user_may_have_so_many_and_another_as_many() -> None:
    questions = Questions(2)
    assert [questions.begin(ALICE) for _ in range(3)] == [True, True, False]
    assert questions.begin(BOB)
    questions.end(ALICE)
    assert questions.begin(ALICE)


def test_root_daemons_and_bebopd_itself_may_have_any_number() -> None:
    questions = Questions(1)
    daemon, root = Principal(PrincipalKind.PARTITION, 1000), Principal(PrincipalKind.USER, 0)
    for asker in (daemon, root, None):
        assert all(questions.begin(asker) for _ in range(5))
        questions.end(asker)
    assert questions.begin(ALICE)
