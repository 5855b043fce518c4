"""Requests that wait for their turn."""

from __future__ import annotations

import pytest

from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Send
from native.wire.alloc import Freed, Grant, Queued, Refused
from native.wire.codec import decode_credential
from tests.unit.allocator.partition_of import ALICE, BOB, Partition, pct, ranks_by_node, spec

LARGE, SMALL, NAMED = PortalId(1, 70001), PortalId(1, 70002), PortalId(1, 70003)


@pytest.fixture
def partition() -> Partition:
    """Four nodes of one slot; a job has the first two."""
    made = Partition()
    made.grant(spec(2))
    return made


def finish(partition: Partition, job_id: int = 1, *numbers: int) -> list[Send]:
    """A job's nodes are free."""
    return partition.receive(pct(0), Freed.of(job_id, numbers or (0, 1)))


def grants(actions: list[Send]) -> dict[PortalId, Grant]:
    return {
        each.target: each.message
        for each in actions
        if isinstance(each, Send) and isinstance(each.message, Grant)
    }


def test_a_request_that_waits_is_granted_when_slots_are_free(partition):
    queued = partition.request(spec(3), source=LARGE, waits=True)
    text = "3 ranks requested, 2 of 4 slots free now (nodes 0..1 are in use)"
    assert queued == Queued(1, text)
    granted = grants(finish(partition))
    assert ranks_by_node(granted[LARGE]) == [0, 1, 2]


def test_a_request_that_need_not_wait_is_granted_at_once(partition):
    assert isinstance(partition.request(spec(2), source=LARGE, waits=True), Grant)


def test_the_first_that_does_not_fit_holds_back_all_later_ones(partition):
    partition.request(spec(4), source=LARGE, waits=True)
    kept = "2 free slots are kept for alice, who waits for 4 ranks"
    assert partition.request(spec(1), source=SMALL, waits=True) == Queued(2, kept)
    refused = partition.request(spec(1), principal=BOB)
    assert refused == Refused(Refusal.BUSY, kept, -1)
    granted = grants(finish(partition))
    assert list(granted) == [LARGE]


def test_an_exclusive_request_waits_until_nobody_uses_its_nodes():
    partition = Partition(2, slots=2)
    for _ in range(3):
        partition.grant(spec(1))
    queued = partition.request(spec(1, node_count=1), source=LARGE, waits=True, is_exclusive=True)
    assert isinstance(queued, Queued)
    assert not grants(partition.receive(pct(0), Freed.of(1, (0,))))
    granted = grants(partition.receive(pct(1), Freed.of(3, (1,))))
    assert ranks_by_node(granted[LARGE]) == [1]
    assert partition.free() == {0: 1, 1: 0}


def test_an_exclusive_step_in_a_step_waits_for_no_node_of_that_step(steps):
    refused = steps.request(spec(3), waits=True, asker=1, is_exclusive=True)
    assert "only the end of job 17.1, which asks, could make room" in refused.text
    assert isinstance(steps.request(spec(2), asker=1, is_exclusive=True), Grant)


def test_a_step_cannot_both_share_and_be_alone(steps):
    refused = steps.request(spec(1), overlaps=True, is_exclusive=True)
    assert refused == Refused(Refusal.BAD_REQUEST, "a step that overlaps has no node alone", -1)


def test_who_becomes_the_first_is_told_so(partition):
    partition.request(spec(4), source=LARGE, waits=True)
    partition.request(spec(1), source=SMALL, waits=True)
    sent = [each for each in finish(partition) if isinstance(each, Send)]
    told = [each.message for each in sent if each.target == SMALL]
    text = "1 rank requested, 0 of 4 slots free now (nodes 0..3 are in use)"
    assert told == [Queued(1, text)]


def test_a_request_that_names_nodes_holds_back_nobody(partition):
    partition.request(spec(1, 0), source=NAMED, waits=True)
    assert isinstance(partition.request(spec(2), source=SMALL, principal=BOB), Grant)
    assert list(grants(finish(partition))) == [NAMED]


def test_who_leaves_holds_back_nobody_any_more(partition):
    partition.request(spec(4), source=LARGE, waits=True)
    partition.request(spec(2), source=SMALL, waits=True)
    assert list(grants(partition.lose(LARGE))) == [SMALL]


def test_a_node_that_comes_back_ends_the_wait_for_it():
    partition = Partition()
    partition.lose(pct(3))
    partition.request(spec(4), source=LARGE, waits=True)
    answered = partition.announce(3, incarnation=1)
    assert list(grants(answered)) == [LARGE]


def test_what_can_never_be_met_does_not_wait(partition):
    refused = partition.request(spec(5), source=LARGE, waits=True)
    assert refused.code is Refusal.NOT_ENOUGH_NODES


def test_places_in_the_line_have_a_limit_for_all_and_one_for_each_user():
    partition = Partition(limits=Limits(silent_s=1e6, waiting_count=3, waiting_each_count=2))
    partition.grant(spec(4))
    for number in range(2):
        assert isinstance(
            partition.request(spec(1), source=PortalId(1, number), waits=True), Queued
        )
    refused = partition.request(spec(1), source=LARGE, waits=True)
    assert refused.code is Refusal.BUSY
    assert refused.text.endswith("2 requests of alice wait already (YOD_WAITING_EACH_COUNT)")
    assert isinstance(partition.request(spec(1), principal=BOB, waits=True), Queued)
    refused = partition.request(spec(1), source=LARGE, principal=BOB, waits=True)
    assert refused.text.endswith("3 requests wait already (YOD_WAITING_COUNT)")


def test_the_state_names_who_waits(partition):
    partition.request(spec(4), source=LARGE, principal=ALICE, waits=True)
    partition.now += 5
    assert partition.machine.state(partition.now)[-1] == "alice waits for 4 ranks, for 5 s"


@pytest.fixture
def steps() -> Partition:
    """An allocation of four nodes of one slot; a step has the first two."""
    made = Partition(allocation="17")
    made.grant(spec(2))
    return made


def test_a_step_that_only_the_one_it_runs_in_could_make_room_for_is_refused(steps):
    steps.grant(spec(1), asker=1)  # step 2 runs in step 1
    refused = steps.request(spec(2), waits=True, asker=2)
    assert refused.code is Refusal.BUSY
    assert refused.text == (
        "2 ranks requested, 1 of 4 slots free now (nodes 0..2 are in use); only the end of job"
        " 17.2, which asks, could make room; with --overlap it runs beside it"
    )


def test_a_step_waits_where_others_than_the_one_it_runs_in_could_make_room(steps):
    steps.grant(spec(1))
    assert isinstance(steps.request(spec(2), waits=True, asker=1), Queued)


def test_an_asker_that_is_no_job_means_nothing(steps):
    steps.grant(spec(1), asker=4)  # itself becomes job 2, and 4 comes later
    assert steps.machine.jobs[2].asker == 0
    assert isinstance(steps.request(spec(3), waits=True, asker=99), Queued)


def test_a_step_that_overlaps_takes_no_slot_and_passes_all_others(steps):
    steps.request(spec(4), source=LARGE, waits=True)
    granted = steps.grant(spec(4), overlaps=True)
    assert ranks_by_node(granted) == [0, 1, 2, 3]
    assert decode_credential(granted.credential).overlaps
    assert steps.free() == {0: 0, 1: 0, 2: 1, 3: 1}
    steps.receive(pct(0), Freed.of(granted.job_id, (0, 1, 2, 3)))
    assert list(grants(finish(steps))) == [LARGE]


def test_a_step_that_overlaps_still_fits_into_the_allocation(steps):
    refused = steps.request(spec(5), overlaps=True)
    assert refused.code is Refusal.NOT_ENOUGH_NODES


def test_a_step_that_overlaps_waits_for_a_node_that_is_down_and_for_no_slot(steps):
    steps.lose(pct(3))
    queued = steps.request(spec(4), source=LARGE, waits=True, overlaps=True, asker=1)
    text = "4 ranks requested, 3 of 4 slots free now (node 3 (node3) is down)"
    assert queued == Queued(1, text)
    assert isinstance(steps.request(spec(1), source=SMALL), Grant)  # it holds back nobody
    granted = grants(steps.announce(3))  # steps have the slots of three nodes
    assert ranks_by_node(granted[LARGE]) == [0, 1, 2, 3]


def test_a_step_that_overlaps_passes_those_that_wait_for_slots(steps):
    steps.lose(pct(3))
    steps.request(spec(3), source=SMALL, waits=True)
    assert isinstance(steps.request(spec(4), source=LARGE, waits=True, overlaps=True), Queued)
    assert list(grants(steps.announce(3))) == [LARGE]


def test_only_steps_can_overlap(partition):
    refused = partition.request(spec(1), overlaps=True)
    assert refused == Refused(Refusal.BAD_REQUEST, "only steps of an allocation can overlap", -1)
