"""The wall clock of bebopd's host is set while something is timed: times are as if it were not."""

from __future__ import annotations

import pytest

from allocator.host.site_logs import user_line
from native.limits import Limits
from native.wire import batch, codec
from native.wire import nodes as wire
from native.wire.alloc import Freed, Grant, Hosting, Queued, Revoke
from native.wire.base import JobEnd, State
from native.wire.load import Reset
from native.wire.nodes import Ending
from partition.batch.show import record
from tests.unit.allocator.partition_of import ALICE, YOD, Partition, pct, spec
from tests.unit.allocator.test_ending import PINGD, ROOT

HOUR_S = 3600.0
LIMITS = Limits(silent_s=1e6, kill_wait_s=30.0, overtime_s=60.0, nice_kill_s=300.0)
LIMIT_S, GRACE_S = 600.0, 90.0


class Set(Partition):
    """Its clock is set by hours."""

    def __init__(self, count=2, limits=LIMITS):
        self.ahead_s = 0.0
        super().__init__(
            count, limits=limits, wall_clock=lambda: self.now + 1_000_000.5 + self.ahead_s
        )

    def ends_jobs(self, seconds):
        """Whether nodes are told to end jobs within this time."""
        told = [getattr(action, "message", None) for action in self.wait(seconds)]
        return any(isinstance(message, Reset | Revoke) for message in told)


@pytest.fixture(params=[5, -10], ids=["forward", "back"])
def hours(request):
    return request.param


def running(**fields):
    partition = Set()
    partition.grant(spec(1), **fields)
    partition.receive(pct(0), Hosting(1))
    return partition


def test_a_job_is_ended_when_its_time_limit_is_over_and_not_before(hours):
    partition = running(time_s=LIMIT_S)
    partition.wait(100.0)
    partition.ahead_s = hours * HOUR_S
    assert not partition.ends_jobs(LIMIT_S + GRACE_S - 101.0)
    assert partition.ends_jobs(2.0)
    partition.receive(pct(0), Freed.of(1, (0,)))
    assert partition.past[0].state is State.TIMEOUT


def test_a_job_without_a_limit_stays(hours):
    partition = running()
    partition.ahead_s = hours * HOUR_S
    assert not partition.ends_jobs(20 * HOUR_S)


def test_a_grant_that_nobody_uses_lapses_in_its_time(hours):
    partition = Set()
    partition.grant(spec(1))
    partition.ahead_s = hours * HOUR_S
    assert not partition.ends_jobs(LIMITS.pending_s - 1.0)
    assert partition.ends_jobs(2.0)


def test_a_nicekill_kills_in_its_time(hours):
    partition = running()
    partition.receive(PINGD, wire.EndJobs(Ending.NICEKILL), ROOT)
    partition.ahead_s = hours * HOUR_S
    number = len(partition.wait(LIMITS.nice_kill_s - 1.0))
    assert number == 0 and partition.wait(2.0)


def test_a_silent_node_is_down_in_its_time(hours):
    partition = Set(limits=Limits())
    partition.ahead_s = hours * HOUR_S
    partition.wait(Limits().silent_s - 1.0)
    assert partition.machine.nodes.up_count() == 2
    partition.wait(2.0)
    assert partition.machine.nodes.up_count() == 0


def test_who_waits_gets_nodes_as_soon_as_they_are_free(hours):
    partition = running()
    partition.grant(spec(1), source=pct(7))
    queued = partition.request(spec(1), waits=True)
    assert isinstance(queued, Queued)
    partition.ahead_s = hours * HOUR_S
    partition.release(1, source=YOD, principal=ALICE)
    answers = partition.receive(pct(0), Freed.of(1, (0,)))
    assert any(isinstance(getattr(each, "message", None), Grant) for each in answers)


def test_rows_of_jobs_can_be_told_whatever_the_clock_was(hours):
    partition = running()
    partition.ahead_s = hours * HOUR_S
    partition.release(1, end=JobEnd(State.COMPLETED, 0, 0, ""))
    partition.receive(pct(0), Freed.of(1, (0,)))
    (row,) = partition.past
    rows = batch.Rows((row,), True)
    assert codec.decode(codec.encode(rows)) == rows
    assert record(row)["state"] == "COMPLETED" and user_line(row)
    assert row.slot_s >= 0.0 and row.began > 0.0 and row.ended > 0.0
