"""Yods that wait for other jobs before they wait for nodes."""

from __future__ import annotations

import pytest

from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Send
from native.wire.alloc import Freed, Grant, Hosting, NodeRequest, Queued, Refused, Release, Released
from native.wire.base import After, AfterKind, Dependency, JobEnd, State
from tests.unit.allocator.partition_of import ALICE, BOB, YOD, Partition, pct, spec

WELL = JobEnd(State.COMPLETED, 0, 0, "")
FAILED = JobEnd(State.FAILED, 3, 0, "")
YODS = [PortalId(1, 71000 + number) for number in range(9)]


def after(*on: tuple[AfterKind, int], is_any: bool = False) -> Dependency:
    return Dependency(tuple(After(kind, job_id) for kind, job_id in on), is_any)


OK_1 = after((AfterKind.OK, 1))


class Steps(Partition):
    """The broker of allocation 17: two nodes of a slot each. Step 1 has both, from YOD."""

    def __init__(self, **options) -> None:
        super().__init__(2, **{"allocation": "17", **options})
        self.grant(spec(2), waits=True)

    def ask(self, yod: PortalId, on: Dependency, *, principal=ALICE, size=1, **fields):
        """What a yod with --after is told at once."""
        request = NodeRequest((spec(size),), **{"waits": True, **fields}, after=on)
        return self.sent(self.receive(yod, request, principal), yod)

    def sent(self, actions, yod):
        found = [each.message for each in actions if isinstance(each, Send) and each.target == yod]
        return found[0] if found else None

    def begin(self, job_id: int):
        return self.receive(pct(0), Hosting(job_id))

    def end(self, job_id: int, end: JobEnd | None, yod: PortalId = YOD):
        """Its ranks have ended, and its yod says how."""
        freed = self.receive(pct(0), Freed.of(job_id, (0, 1)))
        return [*freed, *self.receive(yod, Release(job_id, end), ALICE)]


@pytest.fixture
def steps() -> Steps:
    return Steps()


def test_a_step_that_waits_for_the_good_end_of_another_gets_its_slots_then(steps):
    steps.begin(1)
    assert steps.ask(YODS[0], OK_1) == Queued(0, "job 17.1 is to end well first")
    actions = steps.end(1, WELL)
    assert isinstance(steps.sent(actions, YODS[0]), Grant)
    assert steps.sent(actions, YOD) == Released(1)


def test_one_that_can_never_begin_any_more_ends_at_once_with_the_reason(steps):
    steps.begin(1)
    steps.ask(YODS[0], OK_1)
    text = "job 17.1 has ended and was to end well (afterok:17.1)"
    assert steps.sent(steps.end(1, FAILED), YODS[0]) == Refused(Refusal.BAD_REQUEST, text)
    assert steps.ask(YODS[1], OK_1) == Refused(Refusal.BAD_REQUEST, text)


def test_a_step_whose_yod_was_killed_has_not_ended_well(steps):
    steps.begin(1)
    steps.ask(YODS[0], OK_1)
    steps.ask(YODS[1], after((AfterKind.NOT_OK, 1)))
    steps.lose(YOD)
    actions = steps.receive(pct(0), Freed.of(1, (0, 1)))
    assert isinstance(steps.sent(actions, YODS[0]), Refused)
    assert isinstance(steps.sent(actions, YODS[1]), Grant)


def test_a_step_that_waits_for_the_beginning_of_another_waits_for_slots_then(steps):
    begun = after((AfterKind.BEGUN, 1))
    assert steps.ask(YODS[0], begun) == Queued(0, "job 17.1 is to begin first")
    queued = steps.sent(steps.begin(1), YODS[0])
    assert (queued.place, queued.text[:16]) == (1, "1 rank requested")


def test_it_holds_back_nobody_while_it_waits_for_others(steps):
    steps.ask(YODS[0], OK_1, size=2)
    steps.receive(pct(0), Freed.of(1, (0, 1)))  # the yod of step 1 has not said how it ended
    assert isinstance(steps.request(spec(2), source=YODS[1]), Grant)
    queued = steps.sent(steps.receive(YOD, Release(1, WELL), ALICE), YODS[0])
    assert queued.place == 1


def test_those_that_become_ready_together_wait_in_the_order_in_which_they_came(steps):
    for yod in YODS[:3]:
        steps.ask(yod, OK_1)
    actions = steps.end(1, WELL)
    assert [isinstance(steps.sent(actions, yod), Grant) for yod in YODS[:3]] == [True, True, False]
    assert steps.sent(actions, YODS[2]).place == 1


def test_who_waits_for_several_keeps_the_turn_of_the_beginning(steps):
    steps.end(1, WELL)
    for _ in range(2):
        steps.grant(spec(1))  # steps 2 and 3
    steps.ask(YODS[0], after((AfterKind.OK, 2), (AfterKind.OK, 3)))
    steps.ask(YODS[1], after((AfterKind.OK, 3)))
    steps.receive(pct(0), Freed.of(2, (0,)))
    steps.receive(YOD, Release(2, WELL), ALICE)
    assert isinstance(steps.request(spec(1), source=YODS[2]), Grant)
    steps.receive(pct(1), Freed.of(3, (1,)))
    actions = steps.receive(YOD, Release(3, WELL), ALICE)
    assert isinstance(steps.sent(actions, YODS[0]), Grant)
    assert steps.sent(actions, YODS[1]).place == 1


def test_all_are_needed_or_one_is_enough(steps):
    steps.end(1, WELL)
    for _ in range(2):
        steps.grant(spec(1))  # steps 2 and 3
    both = after((AfterKind.OK, 2), (AfterKind.OK, 3))
    one = after((AfterKind.OK, 2), (AfterKind.OK, 3), is_any=True)
    assert steps.ask(YODS[0], both).text == "job 17.2 is to end well first"
    assert steps.ask(YODS[1], one).text == "job 17.2 is to end well first"
    steps.receive(pct(0), Freed.of(2, (0,)))
    actions = steps.receive(YOD, Release(2, FAILED), ALICE)
    assert isinstance(steps.sent(actions, YODS[0]), Refused)
    assert steps.sent(actions, YODS[1]) is None
    steps.receive(pct(1), Freed.of(3, (1,)))
    actions = steps.receive(YOD, Release(3, WELL), ALICE)
    assert isinstance(steps.sent(actions, YODS[1]), Grant)


def test_what_was_met_once_is_not_asked_for_again(steps):
    """Its end may be forgotten while another one is waited for."""
    steps = Steps(limits=Limits(silent_s=1e6, ended_count=1))
    steps.end(1, WELL)
    for _ in range(2):
        steps.grant(spec(1))  # steps 2 and 3
    steps.ask(YODS[0], after((AfterKind.OK, 2), (AfterKind.OK, 3)))
    steps.receive(pct(0), Freed.of(2, (0,)))
    steps.receive(YOD, Release(2, WELL), ALICE)
    steps.grant(spec(1, 0))  # step 4
    steps.receive(pct(0), Freed.of(4, (0,)))
    steps.receive(YOD, Release(4, WELL), ALICE)
    steps.receive(pct(1), Freed.of(3, (1,)))
    actions = steps.receive(YOD, Release(3, WELL), ALICE)
    assert isinstance(steps.sent(actions, YODS[0]), Grant)


def test_an_id_that_nobody_has_had_is_refused_with_one_line(steps):
    refused = steps.ask(YODS[0], after((AfterKind.OK, 9)))
    assert refused == Refused(
        Refusal.UNKNOWN_JOB,
        "afterok:17.9: no job 17.9 waits for slots, runs, or is among the last 20000 that have"
        " ended (YOD_ENDED_COUNT)",
    )


def test_one_that_does_not_wait_is_refused_with_what_it_would_wait_for(steps):
    refused = steps.ask(YODS[0], OK_1, waits=False)
    assert refused == Refused(Refusal.BUSY, "job 17.1 is to end well first")


def test_what_the_allocation_can_never_give_is_refused_before_the_wait(steps):
    refused = steps.ask(YODS[0], OK_1, size=3)
    assert refused.code is Refusal.NOT_ENOUGH_NODES


def test_a_yod_in_a_step_cannot_wait_for_the_end_of_that_step(steps):
    refused = steps.ask(YODS[0], OK_1, asker=1)
    assert refused == Refused(
        Refusal.BAD_REQUEST,
        "job 17.1 is to end well first (afterok:17.1), and the yod that asks runs in it",
    )


def test_who_leaves_waits_for_nothing(steps):
    steps.ask(YODS[0], OK_1)
    steps.lose(YODS[0])
    assert steps.sent(steps.end(1, WELL), YODS[0]) is None
    assert steps.free() == {0: 1, 1: 1}


def test_a_user_who_waits_too_often_is_refused_and_others_are_not():
    steps = Steps(limits=Limits(silent_s=1e6, waiting_each_count=2))
    for yod in YODS[:2]:
        steps.ask(yod, OK_1)
    text = (
        "job 17.1 is to end well first; 2 requests of alice wait for jobs already"
        " (YOD_WAITING_EACH_COUNT)"
    )
    assert steps.ask(YODS[2], OK_1) == Refused(Refusal.BUSY, text)
    assert steps.ask(YODS[3], OK_1, principal=BOB).place == 0


def test_behind_the_end_of_the_allocation_no_step_begins_though_its_job_has_ended(steps):
    steps.ask(YODS[0], after((AfterKind.ENDED, 1)))
    steps.machine.refuses = "the allocation ends"
    refused = steps.sent(steps.end(1, FAILED), YODS[0])
    assert refused == Refused(Refusal.NOT_PERMITTED, "the allocation ends")
    assert steps.ask(YODS[1], OK_1) == refused


def test_another_user_does_not_say_how_a_job_ended(steps):
    steps.ask(YODS[0], OK_1)
    steps.receive(pct(0), Freed.of(1, (0, 1)))
    assert steps.sent(steps.receive(YODS[1], Release(1, WELL), BOB), YODS[0]) is None
    assert steps.sent(steps.receive(YOD, Release(1, FAILED), ALICE), YODS[0]).code == 9


def test_a_launch_outside_of_an_allocation_waits_for_other_launches():
    partition = Steps(allocation="")
    assert partition.ask(YODS[0], OK_1) == Queued(0, "job 1 is to end well first")
    assert isinstance(partition.sent(partition.end(1, WELL), YODS[0]), Grant)
