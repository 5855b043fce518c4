"""A batch job that asks for it waits again when nodes are lost; attempts are told apart.

Node 0 is its first one. What a lost node still has of the first attempt ends when it is back.
"""

import pytest

from allocator.batch.job import RecordBatchJob, RecordEvent, StartBroker
from allocator.nodes.orders import OrdersRecorded, RecordOrders
from native.limits import Limits
from native.wire import batch, codec
from native.wire.alloc import Freed, Hosting, Release, Revoke, Revoked, Unfit
from native.wire.base import NO_TERMS, JobEnd, State, Terms
from native.wire.load import Reset
from native.wire.status import Announce, HostedJob
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, YOD, pct
from tests.unit.allocator.test_batch import OTHER, BatchPartition, of, said

AGAIN = Terms(requeue_lost=True)
NODE_FAIL_S = 300.0
LONG = 2 * NODE_FAIL_S


def begins(partition):
    """What is started now, the disk being asked."""
    started = of(StartBroker, partition.keep())
    partition.wait(0.0)
    return [*started, *of(StartBroker, partition.keep())]


def running(count=3, size=2, terms=AGAIN, **options):
    """A partition with a job that runs, and its id."""
    partition = BatchPartition(count, 2, **options)
    partition.submit(size, terms=terms)
    (start,) = begins(partition)
    job_id = start.job.job_id
    partition.receive(pct(0), batch.Started(job_id))
    partition.receive(pct(0), Hosting(job_id))
    partition.keep()
    return partition, job_id


def lost(count=3, size=2, **options):
    """The same when the job's first node is lost for long."""
    partition, job_id = running(count, size, **options)
    partition.lose(pct(0))
    return partition, job_id, partition.wait(LONG)


def placed_again(**options):
    """A partition, a job whose second attempt runs on node 1, and its id."""
    partition, job_id, _ = lost(**options)
    (start,) = begins(partition)
    assert (start.job.root, start.job.attempt) == (1, 1)
    partition.receive(pct(1), batch.Started(job_id))
    partition.receive(pct(1), Hosting(job_id, 1))
    partition.keep()
    return partition, job_id


def back(partition, number, jobs=(), brokers=(), attempts=(), incarnation=1):
    """A node announces itself, with attempts of jobs and of brokers."""
    nid, pid = pct(number)
    hosted = tuple(HostedJob(job_id, 1000, 2, (0, 1), 1.0, attempt=at) for job_id, at in jobs)
    words = (f"node{number}", 2, nid, pid, incarnation, hosted, brokers)
    return said(partition.receive(pct(number), Announce(number, *words, attempts=attempts)))


def state(partition, job_id):
    job = partition.machine.batch.get(job_id)
    return (job.state, job.attempt)


def test_it_runs_again_on_another_node_while_the_lost_one_holds_its_slots():
    partition, job_id = placed_again()
    assert state(partition, job_id) == (State.RUNNING, 1)
    assert partition.machine.nodes.get(0).held == {job_id: 2}
    last = [each.text for each in of(RecordEvent, partition.history) if "again" in each.text]
    assert last == ["waits again (1 of 3): node 0 (node0) is down: connection reset"]


def test_one_that_does_not_ask_for_it_ends():
    partition, job_id, _ = lost(terms=NO_TERMS)
    assert partition.machine.batch.get(job_id).state is State.NODE_FAIL


def test_a_node_that_was_away_for_a_short_time_goes_on_with_it():
    partition, job_id = running()
    partition.lose(pct(0))
    partition.wait(NODE_FAIL_S / 2)
    back(partition, 0, [(job_id, 0)], (job_id,))
    partition.wait(LONG)
    assert state(partition, job_id) == (State.RUNNING, 0)


def test_what_a_node_has_of_it_is_ended_when_it_is_back_and_the_later_one_goes_on():
    partition, job_id = placed_again()
    told = back(partition, 0, [(job_id, 0)], (job_id,))
    assert Reset(job_id, 0) in told
    assert batch.EndBroker(job_id, True, 0) in told
    partition.receive(pct(0), batch.BrokerEnded(job_id, 9, b"", 0))
    partition.receive(pct(0), Freed.of(job_id, (0,)))
    partition.wait(LONG)
    assert partition.free() == {0: 2, 1: 0, 2: 2}
    assert state(partition, job_id) == (State.RUNNING, 1)


def test_words_about_the_one_attempt_are_none_about_the_other():
    partition, job_id = placed_again()
    back(partition, 0, [(job_id, 0)], (job_id,))
    for message in (
        Freed.of(job_id, (0,)),
        Freed.of(job_id, (1,)),
        Revoked(job_id, 1, False),
        batch.BrokerEnded(job_id, 0, b"", 0),
    ):
        partition.receive(pct(1), message)
    partition.receive(YOD, Release(job_id), ALICE)
    partition.wait(LONG)
    assert partition.free() == {0: 0, 1: 0, 2: 2}
    assert state(partition, job_id) == (State.RUNNING, 1)


def test_one_that_waits_is_taken_out_of_the_line_while_such_a_node_is_back():
    partition, job_id, _ = lost(count=1)
    partition.keep()
    assert state(partition, job_id) == (State.PENDING, 1)
    back(partition, 0, [(job_id, 0)], (job_id,))
    assert begins(partition) == []
    partition.receive(pct(0), Freed.of(job_id, (0,)))
    assert begins(partition) == []  # its broker may run
    partition.receive(pct(0), batch.BrokerEnded(job_id, 9, b"", 0))
    (start,) = begins(partition)
    assert (start.job.root, start.job.attempt) == (0, 1)


def test_an_announcement_without_its_broker_does_not_prove_that_it_has_none():
    partition, job_id, _ = lost(count=1)
    partition.keep()
    assert batch.EndBroker(job_id, True, 0) in back(partition, 0)
    partition.receive(pct(0), Revoked(job_id, 0, False))
    assert begins(partition) == []
    partition.receive(pct(0), batch.BrokerEnded(job_id, -1, b"", 0))
    assert begins(partition)


def test_a_pct_that_is_another_one_has_nothing_of_it():
    partition, _, _ = lost(count=1)
    partition.keep()
    back(partition, 0, incarnation=2)
    (start,) = begins(partition)
    assert (start.job.root, start.job.attempt) == (0, 1)


def test_nodes_that_can_be_reached_are_told_to_end_it_and_waited_for():
    partition, job_id, told = lost(size=4)
    assert {Revoke(job_id), Reset(job_id)} <= set(said(told))
    partition.keep()
    partition.wait(20.0)
    assert state(partition, job_id) == (State.PENDING, 1)
    partition.receive(pct(1), Freed.of(job_id, (1,)))
    (start,) = begins(partition)
    assert [node.node for node in start.job.grant.nodes] == [1, 2]


def test_a_node_that_does_not_get_rid_of_it_is_drained_and_not_waited_for():
    partition, job_id, _ = lost(count=4, size=4)
    partition.keep()
    actions = partition.receive(pct(1), Unfit(job_id, 1, "cannot be killed"))
    assert begins(partition) == []
    (orders,) = of(RecordOrders, actions)
    partition.handle(OrdersRecorded(orders.changes, None, ""))
    (start,) = begins(partition)
    assert [node.node for node in start.job.grant.nodes] == [2, 3]


def test_it_waits_again_so_often_and_no_more():
    partition, job_id = running(limits=Limits(silent_s=1e6, requeues_count=2))
    for attempt in range(2):
        end = codec.encode_part(JobEnd(State.NODE_FAIL, 0, 0, "its daemons have ended"))
        job = partition.machine.batch.get(job_id)
        root = job.root
        partition.receive(pct(root), batch.BrokerEnded(job_id, 0, end, attempt))
        partition.receive(pct(root), Freed(job_id, ((root, 1),), attempt))
        (start,) = begins(partition)
        partition.receive(pct(start.job.root), batch.Started(job_id))
        partition.keep()
    partition.receive(pct(start.job.root), batch.BrokerEnded(job_id, 0, end, 2))
    assert partition.machine.batch.get(job_id).state is State.NODE_FAIL


@pytest.mark.parametrize(
    ("has_lost_nodes", "status", "waits"),
    [(True, 1, True), (False, 1, False), (True, 0, False)],
)
def test_a_script_that_fails_since_a_node_was_lost_runs_again(has_lost_nodes, status, waits):
    partition, job_id = running()
    state = State.FAILED if status else State.COMPLETED
    end = codec.encode_part(JobEnd(state, status, 0, "", has_lost_nodes))
    partition.receive(pct(0), batch.BrokerEnded(job_id, 0, end))
    assert (partition.machine.batch.get(job_id).state is State.PENDING) == waits


def test_one_that_somebody_cancels_does_not_run_again():
    partition, job_id = running()
    partition.receive(OTHER, batch.Cancel(job_id), ALICE)
    partition.lose(pct(0))
    partition.wait(LONG)
    partition.keep()
    assert partition.machine.batch.get(job_id) is None


def test_a_requeue_that_was_asked_for_outlives_the_loss_of_its_node():
    partition, job_id = running(terms=NO_TERMS)
    partition.receive(OTHER, batch.Requeue(job_id), ALICE)
    partition.keep()
    partition.lose(pct(0))
    partition.wait(LONG)
    (start,) = begins(partition)
    assert (start.job.root, start.job.attempt) == (1, 1)


def test_a_node_that_was_away_while_somebody_had_it_requeued_is_told_to_end_it():
    partition, job_id = running(size=4)
    partition.lose(pct(1))
    partition.receive(OTHER, batch.Requeue(job_id), ALICE)
    partition.keep()
    end = codec.encode_part(JobEnd(State.CANCELLED, 0, 0, ""))
    partition.receive(pct(0), batch.BrokerEnded(job_id, 0, end))
    partition.receive(pct(0), Freed.of(job_id, (0,)))
    (start,) = begins(partition)
    assert [node.node for node in start.job.grant.nodes] == [0, 2]
    assert Reset(job_id, 0) in back(partition, 1, [(job_id, 0)])


def test_a_later_bebopd_tells_the_attempts_apart():
    disk = Disk()
    partition, job_id, _ = lost()
    job = partition.machine.batch.get(job_id)
    disk.batch.keep([RecordBatchJob(job, b"task")])
    later = BatchPartition(0, earlier=disk.batch.earlier(), next_job_id=65, epoch=78)
    told = back(later, 0, [(job_id, 0)], (job_id,))
    assert {Reset(job_id, 0), batch.EndBroker(job_id, True, 0)} <= set(told)
    back(later, 1)
    later.wait(LONG)
    assert begins(later) == []  # node 0 could be given, and has it
    later.receive(pct(0), batch.BrokerEnded(job_id, 9, b"", 0))
    later.receive(pct(0), Freed.of(job_id, (0,)))
    (start,) = begins(later)
    assert (start.job.attempt, start.job.failures) == (1, 1)
    disk.close()


def test_what_is_left_of_it_on_a_lost_node_outlives_its_end():
    partition, job_id = placed_again()
    end = codec.encode_part(JobEnd(State.COMPLETED, 0, 0, ""))
    partition.receive(pct(1), Freed(job_id, ((1, 1),), 1))
    partition.receive(pct(1), batch.BrokerEnded(job_id, 0, end, 1))
    partition.keep()
    assert partition.machine.batch.get(job_id) is None
    assert partition.machine.nodes.get(0).held == {job_id: 2}
    assert batch.EndBroker(job_id, True, 0) in back(partition, 0, [(job_id, 0)], (job_id,))
    partition.receive(pct(0), Freed.of(job_id, (0,)))
    assert partition.free() == {0: 2, 1: 2, 2: 2}
