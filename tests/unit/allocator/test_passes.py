"""A storm of events is few passes over the line, and nobody waits longer than for the next."""

import pytest

from allocator.queue.backfill import Backfill
from allocator.queue.passes import Passes
from native.ids import PortalId
from native.limits import Limits
from native.wire.alloc import Grant, NodeRequest, Queued, Refused
from tests.unit.allocator.partition_of import ALICE, spec
from tests.unit.allocator.test_backfill import Backfilled
from tests.unit.allocator.test_batch import said

PASS_S = 0.05
SLOTS = 40


def partition_of(slots=SLOTS, **options):
    return Backfilled(1, slots, limits=Limits(silent_s=1e6, pass_s=PASS_S, **options))


def passes(partition):
    return partition.machine._requests._passes.count


def ask(partition, number, **fields):
    """Ask for a launch of one rank; returns what it is told at once."""
    source = PortalId(1, 60_000 + number)
    return said(partition.receive(source, NodeRequest((spec(1),), **fields), ALICE))


def full(partition, waiting, size=1):
    """All slots are taken, and so many jobs wait."""
    running = [partition.job(1, 3600.0) for _ in range(SLOTS)]
    for _ in range(waiting):
        partition.job(size, 3600.0)
    partition.wait(1.0)
    return running


def test_the_first_event_after_a_rest_is_decided_at_once():
    partition = partition_of()
    job_id = partition.job(1, 3600.0)
    assert partition.has_slots(job_id) == [True]


def test_a_storm_of_ends_is_one_pass_in_so_long():
    partition = partition_of()
    running = full(partition, 2 * SLOTS)
    waiting = len(partition.machine.batch) - SLOTS
    before, began = passes(partition), partition.now
    for job_id in running:
        partition.end(job_id)  # three events
        partition.wait(0.005)
    took_s = partition.now - began
    assert passes(partition) - before <= took_s / PASS_S + 1.001
    partition.wait(PASS_S)
    assert len(partition.machine.jobs) == SLOTS
    assert len(list(partition.machine._requests._line)) == waiting - SLOTS


def test_who_waits_has_its_slots_at_the_end_of_the_time_at_the_latest():
    partition = partition_of()
    first, second, *_ = full(partition, 2)
    partition.end(first)
    partition.end(second)
    assert len(partition.machine.jobs) == SLOTS - 1
    assert partition.machine.deadline() == partition.now + PASS_S
    partition.wait(PASS_S)
    assert len(partition.machine.jobs) == SLOTS


def test_a_launch_that_does_not_wait_is_answered_behind_the_pass_that_is_due():
    partition = partition_of()
    first, second, *_ = full(partition, 1)
    partition.end(first)  # the one that waits begins
    partition.end(second)
    third = partition.job(1, 3600.0)  # a pass is due for it
    assert partition.has_slots(third) == [False]
    assert ask(partition, 1) == []
    told = said(partition.wait(PASS_S))
    assert partition.has_slots(third) == [True]
    assert [type(each) for each in told if isinstance(each, (Grant, Refused))] == [Refused]


def test_one_that_has_gone_meanwhile_is_not_answered():
    partition = partition_of()
    first, second, *_ = full(partition, 1)
    partition.end(first)
    partition.end(second)
    partition.job(SLOTS, 3600.0)
    assert ask(partition, 1, time_s=60.0) == []
    partition.lose(PortalId(1, 60_001))
    assert not [each for each in said(partition.wait(PASS_S)) if isinstance(each, (Grant, Queued))]


def test_launches_that_pass_those_that_wait_need_no_new_plan(monkeypatch):
    partition = partition_of()
    running = full(partition, 1, size=SLOTS)
    for job_id in running[:10]:
        partition.end(job_id)
    partition.wait(1.0)
    made, profile = [], Backfill._profile

    def counted(self, *words):
        made.append(words)
        return profile(self, *words)

    monkeypatch.setattr(Backfill, "_profile", counted)
    partition.checks = False  # which makes plans
    began = partition.now
    grants = 0
    for number in range(10):
        told = ask(partition, number, time_s=60.0)
        told += said(partition.wait(PASS_S))
        grants += sum(isinstance(each, Grant) for each in told)
    assert grants == 10
    assert len(made) <= (partition.now - began) / PASS_S + 1.001
    assert ask(partition, 11, time_s=60.0) + said(partition.wait(PASS_S))  # it gets none
    assert len(partition.machine.jobs) == SLOTS


def test_submissions_in_a_storm_make_no_plan_of_their_own(monkeypatch):
    partition = partition_of()
    running = full(partition, 5)
    made, profile = [], Backfill._profile
    monkeypatch.setattr(
        Backfill, "_profile", lambda self, *words: made.append(1) or profile(self, *words)
    )
    partition.checks = False
    began = partition.now
    for job_id in running[:20]:
        partition.end(job_id)
        partition.job(1, 3600.0)
        partition.now += 0.001
    partition.wait(PASS_S)
    assert len(made) <= (partition.now - began) / PASS_S + 1.001


@pytest.mark.parametrize("every_s", [0.0, 0.02])
def test_passes_count_their_time_from_the_begin_of_the_last(every_s):
    passes = Passes(every_s)
    assert passes.put_off(100.0) is None
    assert passes.put_off(100.0) == (100.0 + every_s if every_s else None)
    assert passes.is_put_off == bool(every_s)
    assert passes.put_off(100.0 + every_s) is None
    assert not passes.is_put_off
