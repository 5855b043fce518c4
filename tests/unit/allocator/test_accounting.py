"""Final rows of jobs: what bebopd was told, and nothing else, is in them."""

import pytest

from allocator.batch.job import Earlier, RecordEvent, RecordSteps, SendHistory, Viewer
from allocator.jobs import accounting
from allocator.jobs.accounting import UNSEEN, RecordGrant, row_of
from allocator.nodes.orders import OrdersRecorded, RecordNodeEvent, SendNodeEvents
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Send
from native.wire import batch, nodes
from native.wire.alloc import Freed, Hosting, Refused
from native.wire.base import JobEnd, State
from native.wire.nodes import NodeEventKind
from native.wire.status import HostedJob
from tests.unit.allocator.partition_of import ALICE, BOB, DAEMON, YOD, Partition, pct, spec

BAD = JobEnd(State.FAILED, 3, 0, "rank 0 on node0: exit code 3")
ROOT = Principal(PrincipalKind.USER, 0)


def running(**options):
    """A partition, and a job on two of its nodes that runs for five seconds."""
    partition = Partition(3, **options)
    job_id = partition.grant(spec(2), program="a.out").job_id
    partition.receive(pct(0), Hosting(job_id))
    partition.wait(5.0)
    return partition, job_id


def end(partition, job_id):
    return partition.receive(pct(0), Freed.of(job_id, (0, 1)))


@pytest.mark.parametrize("is_told_first", [False, True])
def test_a_row_says_what_the_front_end_has_told(is_told_first):
    partition, job_id = running()
    if is_told_first:
        partition.release(job_id, end=BAD)
        end(partition, job_id)
    else:
        end(partition, job_id)
        assert partition.past == []
        partition.release(job_id, end=BAD)
    (row,) = partition.past
    assert (row.state, row.exit_status, row.reason) == (State.FAILED, 3, BAD.reason)
    assert (row.name, row.owner, row.slots, row.nodes) == ("a.out", "alice", 2, ((0, 2),))
    assert (row.ended - row.began, row.slot_s) == (5.0, 10.0)
    assert not list(partition.machine.accounting)


def test_slots_that_are_free_at_different_times_add_up():
    partition, job_id = running()
    partition.receive(pct(1), Freed.of(job_id, (1,)))
    partition.wait(5.0)
    partition.receive(pct(0), Freed.of(job_id, (0,)))
    partition.release(job_id, end=BAD)
    assert partition.past[0].slot_s == 15.0


def test_a_job_waits_in_its_row_from_its_request():
    partition = Partition(1)
    first = partition.grant(spec(1)).job_id
    waiting = PortalId(1, 70001)
    partition.request(spec(1), source=waiting, waits=True)
    partition.wait(7.0)
    granted = partition.receive(pct(0), Freed.of(first, (0,)))
    (row,) = (action.row for action in granted if isinstance(action, RecordGrant))
    assert row.began - row.submitted == 7.0


def test_a_front_end_that_is_lost_has_told_nothing():
    partition, job_id = running()
    partition.lose(YOD, "connection reset")
    assert partition.past == []
    end(partition, job_id)
    (row,) = partition.past
    assert row.state is State.FAILED
    assert row.reason == "its front end was lost before it told how it ended: connection reset"


def test_a_front_end_that_is_lost_behind_the_end_has_told_nothing():
    partition, job_id = running()
    end(partition, job_id)
    partition.lose(YOD, "connection reset")
    assert partition.past[0].reason.startswith("its front end was lost before it told")


def test_a_front_end_that_says_nothing_is_not_waited_for():
    partition, job_id = running()
    end(partition, job_id)
    partition.wait(partition.limits.end_s)
    assert partition.past[0].reason == "its front end has not told how it ended"
    assert partition.release(job_id, end=BAD)  # late: the row is final
    assert len(partition.past) == 1


def test_many_that_say_nothing_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(accounting, "AWAITED_MAX", 1)
    partition = Partition(2)
    for number in range(2):
        job_id = partition.grant(spec(1), source=PortalId(1, 71000 + number)).job_id
        partition.receive(pct(number), Hosting(job_id))
    partition.receive(pct(0), Freed.of(1, (0,)))
    assert partition.past == []
    partition.receive(pct(1), Freed.of(2, (1,)))
    assert [row.job_id for row in partition.past] == [1]


def test_an_operator_that_releases_a_job_is_named():
    partition, job_id = running()
    partition.release(job_id, source=PortalId(1, 5), principal=ROOT, end=BAD)
    end(partition, job_id)
    (row,) = partition.past
    assert (row.state, row.reason) == (State.CANCELLED, "released by root")


def test_others_have_no_say_in_a_row():
    partition, job_id = running()
    partition.release(job_id, source=PortalId(1, 5), principal=BOB, end=BAD)
    end(partition, job_id)
    partition.release(job_id, source=PortalId(1, 5), principal=BOB, end=BAD)
    assert partition.past == []
    partition.release(job_id, end=JobEnd(State.COMPLETED, 0, 0, ""))
    assert partition.past[0].state is State.COMPLETED


def test_an_end_that_is_no_end_is_not_believed():
    partition, job_id = running()
    partition.release(job_id, end=JobEnd(State.RUNNING, 0, 0, ""))
    end(partition, job_id)
    partition.lose(YOD)
    assert partition.past[0].state is State.FAILED


EARLIER = row_of(7, 1000, "alice", "a.out", 2, None, 100.0, 101.0)


def again(**options):
    """A later bebopd, whose nodes have announced themselves."""
    return Partition(2, next_job_id=65, earlier_rows=(EARLIER,), limits=Limits(), **options)


def test_a_job_that_has_ended_without_a_bebopd_gets_a_row_that_says_so():
    partition = again()
    partition.wait(partition.limits.node_fail_s)
    (row,) = partition.past
    assert (row.job_id, row.state, row.reason) == (7, State.FAILED, UNSEEN)


def test_its_yod_may_still_tell_a_later_bebopd():
    partition = again()
    partition.release(7, end=BAD)
    assert partition.past[0].reason == BAD.reason
    partition.wait(partition.limits.node_fail_s)
    assert len(partition.past) == 1


def test_a_job_that_a_node_still_has_goes_on_in_its_row():
    partition = again()
    hosted = HostedJob(7, 1000, 1, (0,), 4.0)
    partition.announce(0, jobs=(hosted,))
    partition.wait(partition.limits.node_fail_s / 2)
    assert partition.past == []
    partition.receive(pct(0), Freed.of(7, (0,)))
    partition.release(7, end=BAD)
    assert (partition.past[0].name, partition.past[0].reason) == ("a.out", BAD.reason)


def test_a_job_of_which_no_record_is_left_gets_a_row_as_well():
    partition = Partition(2, next_job_id=65)
    granted = partition.announce(0, jobs=(HostedJob(7, 1000, 1, (0,), 4.0),))
    (row,) = (action.row for action in granted if isinstance(action, RecordGrant))
    assert (row.job_id, row.name, row.owner) == (7, "", "alice")
    partition.receive(pct(0), Freed.of(7, (0,)))
    partition.release(7, end=BAD)
    assert [row.job_id for row in partition.past] == [7]


# -- steps ------------------------------------------------------------------------


def step(number, state=State.COMPLETED, **fields):
    row = row_of(99, 0, "root", "a.out", 1, None, 100.0, 101.0)
    return batch.Row(
        **{name: getattr(row, name) for name in row.__struct_fields__}
        | {"step": number, "state": state, **fields}
    )


def told(partition, *rows, source=YOD, principal=ALICE, job_id=1, lost=0, first=0):
    return partition.receive(source, batch.Steps(job_id, first, rows, lost), principal)


def test_steps_are_the_owners_whatever_the_broker_says():
    partition, job_id = running()
    heard, recorded = told(partition, step(1), step(2, State.RUNNING), step(-1))
    assert heard == Send(YOD, batch.StepsHeard(job_id, 0))
    assert isinstance(recorded, RecordSteps)
    (row,) = recorded.rows
    assert (row.job_id, row.step, row.uid, row.owner) == (job_id, 1, 1000, "alice")


def test_others_cannot_tell_of_steps():
    partition, _ = running()
    for principal, job_id in ((BOB, 1), (ALICE, 2), (Principal(PrincipalKind.JOB, 1000, 2), 1)):
        (answer,) = told(partition, step(1), principal=principal, job_id=job_id)
        assert isinstance(answer.message, Refused)
    own = told(partition, step(1), principal=Principal(PrincipalKind.JOB, 1000, 1))
    assert isinstance(own[1], RecordSteps)


def test_steps_may_be_told_shortly_after_the_end():
    partition, job_id = running()
    partition.release(job_id, end=BAD)
    end(partition, job_id)
    assert isinstance(told(partition, step(1))[1], RecordSteps)


def test_steps_above_the_limit_and_those_that_were_lost_are_counted():
    partition, _ = running(limits=Limits(silent_s=1e6, history_each_count=2))
    partition.history.clear()
    assert len(told(partition, step(1), step(2), step(3), lost=4)[1].rows) == 2
    told(partition, step(4), lost=4, first=3)
    texts = [event.text for event in partition.history if isinstance(event, RecordEvent)]
    assert texts == [
        "5 steps of it in all cannot be kept in the history",
        "6 steps of it in all cannot be kept in the history",
    ]


# -- what users ask ---------------------------------------------------------------


def test_a_partition_that_keeps_no_history_says_so():
    partition, _ = running(earlier=None)
    (refused,) = partition.receive(YOD, batch.History(5), ALICE)
    assert isinstance(refused.message, Refused)


def test_jobs_that_are_not_over_are_in_the_history():
    partition, job_id = running(earlier=Earlier())
    (asked,) = partition.receive(YOD, batch.History(5), ALICE)
    assert isinstance(asked, SendHistory) and asked.viewer == Viewer(1000)
    assert [(row.job_id, row.state) for row in asked.rows] == [(job_id, State.RUNNING)]
    (asked,) = partition.receive(YOD, batch.History(5), BOB)
    assert asked.rows == () and asked.viewer == Viewer(1001)
    (asked,) = partition.receive(YOD, batch.History(5, (job_id,), 3), ROOT)
    assert (asked.viewer, asked.rows, asked.jobs, asked.step) == (Viewer(None), (), (job_id,), 3)


# -- nodes ------------------------------------------------------------------------


def happened(partition):
    return [event for event in partition.history if isinstance(event, RecordNodeEvent)]


def test_what_happens_to_a_node_is_recorded_with_its_cause():
    partition = Partition(1)
    partition.lose(pct(0), "connection reset")
    partition.announce(0)
    partition.announce(0, incarnation=2)
    kinds = [(event.kind, event.text) for event in happened(partition)]
    assert kinds == [
        (NodeEventKind.UP, ""),
        (NodeEventKind.LOST, "connection reset"),
        (NodeEventKind.UP, "is back"),
        (NodeEventKind.RESTARTED, ""),
    ]


def test_orders_are_recorded_with_the_operator_and_asked_for_by_anybody():
    partition = Partition(1)
    partition.history.clear()
    for order in (nodes.Drain((0,), "fan"), nodes.Restart((0,), True), nodes.Resume((0,))):
        (asked,) = partition.receive(YOD, order, ROOT)
        partition.handle(OrdersRecorded(asked.changes, None, "", asked.by))
    said = [(event.kind, event.by, event.text) for event in happened(partition)]
    assert said == [
        (NodeEventKind.DRAINED, "root", "fan"),
        (NodeEventKind.RESTARTING, "root", "forced"),
        (NodeEventKind.RESUMED, "root", ""),
    ]
    asked = partition.receive(YOD, nodes.AskNodeEvents((0,), 5), BOB)
    assert asked == [SendNodeEvents(YOD, (0,), 5)]


def test_a_node_event_that_is_not_recorded_is_not_said():
    partition = Partition(1)
    partition.history.clear()
    (asked,) = partition.receive(YOD, nodes.Drain((0,), "fan"), DAEMON)
    partition.handle(OrdersRecorded(asked.changes, None, "disk full", asked.by))
    assert happened(partition) == []
    assert partition.free() == {0: 1}
