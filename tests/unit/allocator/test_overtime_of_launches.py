"""bebopd ends launches and allocations that their owners do not end when their time is over."""

from allocator.batch.job import RecordEvent
from allocator.jobs.accounting import RecordGrant
from allocator.overtime import OVERDUE
from native.errors import Refusal
from native.limits import Limits
from native.wire import batch
from native.wire.alloc import Freed, Grant, Hosting, Queued, Refused
from native.wire.base import JobEnd, State
from native.wire.load import Reset
from native.wire.status import HostedJob
from tests.unit.allocator.partition_of import ALICE, BOB, Partition, pct, spec
from tests.unit.allocator.queue_site import Site
from tests.unit.allocator.test_backfill import Backfilled
from tests.unit.allocator.test_batch import OTHER, of, said

LIMITS = Limits(silent_s=1e6, kill_wait_s=30.0, overtime_s=60.0)
LIMIT_S, GRACE_S = 600.0, 90.0
KILLED = Reset(1, 0)


def with_launch(time_s=LIMIT_S, kind=Partition, **options):
    """A partition in which a launch runs on nodes 0 and 1, with this time limit."""
    partition = kind(limits=LIMITS, **options)
    partition.grant(spec(2), time_s=time_s)
    partition.receive(pct(0), Hosting(1))
    return partition


def resets(actions):
    return [message for message in said(actions) if isinstance(message, Reset)]


def test_a_launch_that_its_owner_does_not_end_is_reset_in_the_end():
    partition = with_launch()
    assert said(partition.wait(LIMIT_S + GRACE_S - 1.0)) == []
    assert resets(partition.wait(1.0)) == [KILLED, KILLED]
    (event,) = of(RecordEvent, partition.history[-1:])
    assert event.text == "not ended by its owner 90 s after its time limit: killed"
    partition.receive(pct(0), Freed.of(1, (0, 1)))
    (row,) = partition.past
    assert (row.state, row.reason, row.time_s) == (State.TIMEOUT, OVERDUE, LIMIT_S)
    assert partition.free() == {0: 1, 1: 1, 2: 1, 3: 1}
    assert partition.machine._asked.deadline() is None


def test_one_that_ends_in_time_or_has_no_limit_is_left_alone():
    assert said(with_launch(time_s=0.0).wait(1e6)) == []
    partition = with_launch()
    partition.wait(LIMIT_S)
    partition.release(1, end=JobEnd(State.TIMEOUT, 124, 0, "its time limit of 10:00 is over"))
    partition.receive(pct(0), Freed.of(1, (0, 1)))
    assert partition.past[0].reason == "its time limit of 10:00 is over"
    assert said(partition.wait(1e6)) == []


def test_an_owner_that_says_it_is_through_and_is_not_keeps_nothing():
    partition = with_launch()
    partition.release(1)
    partition.wait(LIMIT_S - 1.0)
    assert resets(partition.wait(GRACE_S + 2.0))


def test_a_node_that_was_away_ends_it_when_it_is_back():
    partition = with_launch()
    partition.lose(pct(1))
    assert resets(partition.wait(LIMIT_S + GRACE_S)) == [KILLED]
    partition.announce(1, jobs=(HostedJob(1, 1000, 1, (1,), 700.0),))
    assert KILLED in resets(partition.wait(LIMITS.end_s))


def test_an_allocation_that_is_given_more_time_is_ended_later():
    partition = with_launch()
    partition.wait(100.0)
    (done,) = said(partition.receive(OTHER, batch.LimitTime(1, 2 * LIMIT_S), ALICE))
    assert done == batch.Done(1)
    assert resets(partition.wait(2 * LIMIT_S + GRACE_S - 101.0)) == []
    assert resets(partition.wait(1.0)) == [KILLED, KILLED]


def test_and_one_that_may_have_any_time_is_not_ended():
    partition = with_launch()
    partition.receive(OTHER, batch.LimitTime(1, 0.0), ALICE)
    assert resets(partition.wait(1e6)) == []


def test_nobody_changes_the_time_of_another_users_job():
    partition = with_launch()
    (refused,) = said(partition.receive(OTHER, batch.LimitTime(1, 0.0), BOB))
    assert (refused.code, refused.text) == (Refusal.NOT_PERMITTED, "job 1 belongs to alice")


def test_a_later_bebopd_counts_from_the_grant():
    rows = []
    partition = with_launch()
    for action in partition.machine.handle(_limit(partition), partition.now):
        rows += [action.row] if isinstance(action, RecordGrant) else []
    later = Partition(0, limits=LIMITS, next_job_id=1000, earlier_rows=rows)
    later.now = partition.now + 400.0
    for number in (0, 1):
        later.announce(number, jobs=(HostedJob(1, 1000, 1, (number,), 400.0),))
    assert resets(later.wait(LIMIT_S + GRACE_S - 401.0)) == []
    assert resets(later.wait(1.0)) == [KILLED, KILLED]


def _limit(partition):
    from native.machine import MessageReceived

    return MessageReceived(OTHER, ALICE, batch.LimitTime(1, LIMIT_S))


# -- in queues ----------------------------------------------------------------

QUEUES = """
[[queue]]
name = "day"
default_time = "10:00"
max_time = "1:00:00"
"""


def test_a_launch_without_a_limit_has_its_queues():
    site = Site(QUEUES)
    assert site.grant(spec(1)).time_s == LIMIT_S
    assert site.grant(spec(1), time_s=60.0).time_s == 60.0
    text = "queue day: max_time is 1:00:00, 2:00:00 asked for"
    assert site.request(spec(1), time_s=7200.0).text == text


def test_only_operators_let_one_run_longer_than_its_queue_does():
    site = Site(QUEUES)
    job_id = site.grant(spec(1)).job_id
    (refused,) = said(site.receive(OTHER, batch.LimitTime(job_id, 7200.0), ALICE))
    assert refused.text == "queue day: max_time is 1:00:00, 2:00:00 asked for"
    (done,) = said(site.receive(OTHER, batch.LimitTime(job_id, 7200.0)))
    assert done == batch.Done(job_id)


# -- in the line ----------------------------------------------------------------


def test_a_launch_that_is_over_before_passes_one_that_waits():
    partition = Backfilled()
    partition.job(3, 3600.0)
    wide = partition.job(4, 3600.0)
    assert isinstance(partition.request(spec(1)), Refused)
    assert isinstance(partition.request(spec(1), time_s=3601.0), Refused)
    assert isinstance(partition.request(spec(1), time_s=3599.0), Grant)
    assert partition.begins_in(wide) == 3600


def test_so_does_one_that_has_waited_itself():
    partition = Backfilled()
    first = partition.job(4, 60.0)
    partition.job(3, 3600.0), partition.job(4, 3600.0)
    asked = partition.request(spec(1), waits=True, time_s=3599.0)
    assert isinstance(asked, Queued)
    root = partition.machine.jobs[first].root
    partition.receive(pct(root), batch.Started(first))
    partition.receive(pct(root), batch.BrokerEnded(first, 0, b""))
    partition.keep()
    freed = partition.receive(pct(root), Freed.of(first, (root,)))
    assert [message for message in said(freed) if isinstance(message, Grant)]


def test_what_waits_is_expected_when_the_time_of_a_launch_is_over():
    partition = Backfilled()
    partition.grant(spec(3), time_s=3600.0)
    wide = partition.job(4, 60.0)
    assert partition.begins_in(wide) == 3600
    partition.receive(OTHER, batch.LimitTime(1, 7200.0), ALICE)
    assert partition.begins_in(wide) == 7200
