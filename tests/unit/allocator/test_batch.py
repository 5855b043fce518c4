"""bebopd's batch jobs: each rule by itself. What comes in any order is in test_batch_any_order."""

import pytest
from msgspec.structs import replace

from allocator.batch.job import (
    BatchRecorded,
    Earlier,
    RecordBatchJob,
    SendEvents,
    SendHistory,
    SendRows,
    StartBroker,
    Viewer,
)
from allocator.batch.outcome import outcome_of
from allocator.batch.questions import SLICE_ROWS
from allocator.past import answers
from native.errors import Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Log, MessageReceived, Send
from native.wire import batch, codec
from native.wire.alloc import Freed, Refused
from native.wire.base import MESSAGE_MAX_BYTES, TEXT_MAX, JobEnd, State
from native.wire.batch import Row
from native.wire.status import Announce
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, BOB, DAEMON, YOD, Partition, pct, spec

ROOT = Principal(PrincipalKind.USER, 0)
OTHER = PortalId(1, 70001)


def token(number=0):
    return number.to_bytes(batch.TOKEN_BYTES, "big")


class BatchPartition(Partition):
    """A partition that takes batch jobs, and a disk that writes when it is told to."""

    def __init__(self, count=2, slots=2, **options):
        self.unkept = []
        super().__init__(count, slots, **{"earlier": Earlier(), **options})

    def handle(self, event):
        actions = super().handle(event)
        self.unkept += [action.job for action in actions if isinstance(action, RecordBatchJob)]
        return actions

    def keep(self, error=""):
        """The disk has written, or refused to; until nothing is to be written."""
        actions = []
        while self.unkept:
            job_ids, self.unkept = tuple(dict.fromkeys(j.job_id for j in self.unkept)), []
            actions += self.handle(BatchRecorded(job_ids, error))
            if error:
                break
        return actions

    def submit(self, size=1, *, number=0, source=YOD, principal=ALICE, nodes=(), **options):
        message = batch.Submit(token(number), spec(size, *nodes), "a", 0.0, b"task", **options)
        return self.receive(source, message, principal)

    def begun(self, size=1, number=0):
        """A job that runs; its id."""
        self.submit(size, number=number)
        (start,) = of(StartBroker, self.keep())
        self.receive(pct(start.job.root), batch.Started(start.job.job_id))
        self.keep()
        return start.job.job_id

    def says(self, number, *brokers, incarnation=1):
        """A node announces itself with these brokers."""
        nid, pid = pct(number)
        words = (f"node{number}", 2, nid, pid, incarnation, (), brokers)
        return self.receive(pct(number), Announce(number, *words))

    def rows(self):
        ((_, rows, _),) = [
            (each.target, each.rows, each.others)
            for each in of(SendRows, self.receive(OTHER, batch.Ask(), BOB))
        ]
        return rows


def of(kind, actions):
    return [action for action in actions if isinstance(action, kind)]


def said(actions):
    """The messages among actions."""
    return [action.message for action in of(Send, actions)]


def ended(job_id, state=State.COMPLETED):
    return batch.BrokerEnded(job_id, 0, codec.encode_part(JobEnd(state, 0, 0, "")))


def test_a_job_is_answered_when_it_is_on_the_disk_and_started_when_its_grant_is():
    partition = BatchPartition()
    assert said(partition.submit()) == []
    first = partition.handle(BatchRecorded((1,)))
    assert said(first) == [batch.Submitted(1, token())]
    assert of(StartBroker, first) == []
    partition.unkept.clear()
    (start,) = of(StartBroker, partition.handle(BatchRecorded((1,))))
    assert (start.target, start.job.job_id) == (pct(0), 1)


def test_all_jobs_are_told_in_slices_that_follow_one_another():
    partition = BatchPartition()
    count = 2 * SLICE_ROWS + 3
    for number in range(count):
        partition.submit(number=number)
        partition.keep()
    found, sizes = [], []
    is_cut, after = True, None
    while is_cut:
        (told,) = of(SendRows, partition.receive(OTHER, batch.Ask(after=after), BOB))
        messages = answers(told, None)
        assert [each.is_last for each in messages] == [False] * (len(messages) - 1) + [True]
        rows = [row for each in messages for row in each.rows]
        found += [row.job_id for row in rows]
        sizes.append(len(rows))
        is_cut, after = messages[-1].is_cut, found[-1]
    assert sizes == [SLICE_ROWS, SLICE_ROWS, 3]
    assert found == sorted(set(found))


def test_an_exclusive_job_waits_for_nodes_that_nobody_uses_and_has_all_their_slots():
    partition = BatchPartition(count=2, slots=4)
    partition.begun(5)  # on both nodes
    partition.submit(1, number=1, is_exclusive=True)
    (submitted,) = said(partition.keep())
    assert "--exclusive takes unused nodes only" in submitted.text
    partition.receive(pct(0), ended(1))
    partition.keep()
    partition.receive(pct(0), Freed.of(1, (0, 1)))
    (start,) = of(StartBroker, partition.keep())
    assert start.job.job_id == 2
    assert [node.slots for node in start.job.grant.nodes] == [4]


def test_that_a_job_is_exclusive_outlives_bebopd():
    disk = Disk()
    partition = BatchPartition()
    actions = partition.submit(is_exclusive=True)
    disk.batch.keep(of(RecordBatchJob, actions))
    (job,) = disk.batch.earlier().jobs
    assert job.is_exclusive
    disk.close()


def test_the_same_submission_is_the_same_job_and_another_users_is_not():
    partition = BatchPartition()
    partition.submit()
    partition.keep()
    assert said(partition.submit(source=OTHER)) == [batch.Submitted(1, token())]
    partition.submit(source=OTHER, principal=BOB)
    assert batch.Submitted(2, token()) in said(partition.keep())


def test_a_job_that_the_disk_refuses_is_refused_and_its_id_is_free():
    partition = BatchPartition()
    for number in range(100):
        partition.submit(number=number)
        (refused,) = said(partition.keep("disk is full"))
        assert refused.code is Refusal.NOT_RECORDED
        assert "disk is full" in refused.text
    assert partition.machine.next_job_id == 1


def test_who_waits_for_a_job_that_the_disk_refuses_is_answered():
    partition = BatchPartition()
    partition.submit()
    assert partition.receive(OTHER, batch.Ask((1,), waits=True), BOB) == []
    (answer,) = of(SendRows, partition.keep("disk is full"))
    assert (answer.target, answer.rows, answer.others) == (OTHER, (), (1,))


def test_a_grant_that_the_disk_refuses_is_given_back_and_made_again():
    partition = BatchPartition()
    partition.submit(2)
    partition.handle(BatchRecorded((1,)))
    assert partition.free() == {0: 0, 1: 2}
    assert of(StartBroker, partition.handle(BatchRecorded((1,), "disk is full"))) == []
    assert partition.free() == {0: 2, 1: 2}
    partition.unkept.clear()
    partition.wait(20.0)
    assert [job.state for job in partition.unkept] == [State.CONFIGURING]
    (start,) = of(StartBroker, partition.keep())
    assert start.job.job_id == 1


def test_an_announcement_starts_no_broker_whose_grant_is_not_on_the_disk():
    partition = BatchPartition()
    partition.submit()
    partition.handle(BatchRecorded((1,)))
    assert of(StartBroker, partition.says(0)) == []
    assert len(of(StartBroker, partition.keep())) == 1
    assert len(of(StartBroker, partition.says(0))) == 1  # it may have been lost


def test_a_job_whose_node_is_lost_before_its_start_waits_for_another():
    partition = BatchPartition()
    partition.submit(2)
    partition.handle(BatchRecorded((1,)))
    partition.lose(pct(0))
    partition.unkept.clear()
    assert of(StartBroker, partition.handle(BatchRecorded((1,)))) == []
    (start,) = of(StartBroker, partition.keep())
    assert start.target == pct(1)


def test_a_job_whose_node_comes_back_has_no_reason_any_more():
    partition = BatchPartition()
    job_id = partition.begun()
    partition.lose(pct(0), "connection reset")
    assert partition.rows()[0].reason == "node 0 (node0) is down: connection reset"
    partition.says(0, job_id)
    assert (partition.rows()[0].reason, partition.rows()[0].state) == ("", State.RUNNING)
    partition.wait(Limits().node_fail_s)
    assert partition.rows()[0].state is State.RUNNING


def test_a_job_whose_node_stays_away_ends():
    partition = BatchPartition()
    partition.begun()
    partition.lose(pct(0), "connection reset")
    partition.wait(Limits().node_fail_s)
    (job,) = partition.unkept
    assert (job.state, job.reason) == (State.NODE_FAIL, "node 0 (node0) is down: connection reset")


@pytest.mark.parametrize("incarnation", [1, 2])
def test_a_job_that_its_node_has_not_any_more_ends(incarnation):
    partition = BatchPartition()
    partition.begun()
    partition.says(0, incarnation=incarnation)
    (job,) = partition.unkept
    assert job.state is State.NODE_FAIL


def test_a_cancellation_is_told_again_to_a_node_that_was_away_and_once():
    partition = BatchPartition()
    job_id = partition.begun()
    end = batch.EndBroker(job_id)
    cancelled = said(partition.receive(OTHER, batch.Cancel(job_id), ALICE))
    assert cancelled == [end, batch.Done(job_id)]
    assert end not in said(partition.says(0, job_id))
    partition.lose(pct(0))
    assert end in said(partition.says(0, job_id))
    assert end not in said(partition.says(0, job_id))
    partition.keep()
    partition.receive(pct(0), ended(job_id, State.FAILED))
    (job,) = partition.unkept
    assert (job.state, job.reason) == (State.CANCELLED, "by alice")


@pytest.mark.parametrize("is_on", [True, False])
def test_a_suspension_that_was_lost_with_its_node_is_told_again_and_so_is_its_end(is_on):
    partition = BatchPartition()
    job_id = partition.begun()
    partition.receive(OTHER, batch.Suspend(job_id, True), ALICE)
    if not is_on:
        partition.receive(OTHER, batch.Suspend(job_id, False), ALICE)
    partition.lose(pct(0))
    assert batch.Suspend(job_id, is_on) in said(partition.says(0, job_id))
    assert batch.Suspend(job_id, is_on) not in said(partition.says(0, job_id))


def test_a_second_cancellation_kills():
    partition = BatchPartition()
    job_id = partition.begun()
    partition.receive(OTHER, batch.Cancel(job_id), ROOT)
    answer = said(partition.receive(OTHER, batch.Cancel(job_id), ALICE))
    assert answer == [batch.EndBroker(job_id, is_forced=True), batch.Done(job_id)]


def test_an_end_is_heard_and_told_when_it_is_on_the_disk():
    partition = BatchPartition()
    job_id = partition.begun()
    partition.receive(OTHER, batch.Ask((job_id, 99), waits=True), BOB)
    early = partition.receive(pct(0), ended(job_id))
    assert batch.Heard(job_id) not in said(early) and not of(SendRows, early)
    actions = partition.keep()
    assert batch.Heard(job_id) in said(actions)
    (answer,) = of(SendRows, actions)
    assert (answer.target, answer.others) == (OTHER, (job_id, 99))
    assert said(partition.receive(pct(0), ended(job_id))) == [batch.Heard(job_id)]


def test_another_nodes_word_about_a_job_has_no_effect():
    partition = BatchPartition()
    job_id = partition.begun()
    partition.receive(pct(1), ended(job_id))
    partition.receive(pct(1), batch.Started(job_id))
    assert partition.rows()[0].state is State.RUNNING


@pytest.mark.parametrize(
    "message", [batch.Cancel(1), batch.SignalScript(1, 10), batch.Suspend(1, True)]
)
def test_a_job_is_its_owners_and_operators(message):
    partition = BatchPartition()
    partition.begun()
    (refused,) = said(partition.receive(OTHER, message, BOB))
    assert (refused.code, refused.text) == (Refusal.NOT_PERMITTED, "job 1 belongs to alice")
    assert batch.Done(1) in said(partition.receive(OTHER, message, ROOT))
    (unknown,) = said(partition.receive(OTHER, replace(message, job_id=9), ROOT))
    assert unknown.code is Refusal.UNKNOWN_JOB


def test_too_many_jobs_are_refused_with_the_variables_name():
    limits = Limits(silent_s=1e6, submitted_count=2, submitted_each_count=1)
    partition = BatchPartition(limits=limits)
    partition.submit()
    (each,) = said(partition.submit(number=1))
    assert each.text == "1 batch jobs of alice have not ended (YOD_SUBMITTED_EACH_COUNT of bebopd)"
    partition.submit(number=2, principal=BOB)
    (total,) = said(partition.submit(number=3, principal=ROOT))
    assert total.text == "2 batch jobs have not ended (YOD_SUBMITTED_COUNT of bebopd)"


def test_a_partition_without_records_takes_no_batch_jobs():
    (refused,) = said(BatchPartition(earlier=None).submit())
    assert isinstance(refused, Refused) and refused.code is Refusal.BAD_REQUEST


def test_what_only_the_disk_knows_is_answered_from_there():
    partition = BatchPartition()
    alice = Viewer(1000)
    assert partition.receive(YOD, batch.History(3), ALICE) == [SendHistory(YOD, 3, alice)]
    asked = partition.receive(YOD, batch.AskEvents(3), ALICE)
    assert asked == [SendEvents(YOD, 3, Viewer(1000, sees_batch=True))]
    assert partition.receive(YOD, batch.AskEvents(3), DAEMON) == [SendEvents(YOD, 3)]


@pytest.mark.parametrize(
    ("wait_status", "outcome", "state", "text"),
    [
        (-1, b"no such user", State.FAILED, "its broker could not be started: no such user"),
        (9, b"", State.NODE_FAIL, "its broker ended unexpectedly: "),
        (0, b"\xc1", State.NODE_FAIL, "its broker ended unexpectedly: "),
        (0, codec.encode_part(JobEnd(State.RUNNING, 0, 0, "")), State.NODE_FAIL, "its broker"),
        (0, codec.encode_part(JobEnd(State.TIMEOUT, 0, 15, "late")), State.TIMEOUT, "late"),
    ],
)
def test_what_a_brokers_end_tells(wait_status, outcome, state, text):
    found = outcome_of(batch.BrokerEnded(1, wait_status, outcome), is_cancelled=False)
    assert found.state is state
    assert found.reason.startswith(text)


def test_what_users_say_is_one_line_of_the_log():
    partition = BatchPartition()
    machine = partition.machine
    message = batch.Submit(token(), spec(1), "a\njob 2: COMPLETED", 0.0, b"task")
    machine.handle(MessageReceived(YOD, ALICE, message), partition.now)
    actions = machine.handle(BatchRecorded((1,)), partition.now)
    machine.handle(BatchRecorded((1,)), partition.now)
    told = batch.BrokerEnded(1, 0, codec.encode_part(JobEnd(State.FAILED, 1, 0, "b\nc")))
    daemon = Principal(PrincipalKind.PARTITION, 0)
    actions += machine.handle(MessageReceived(pct(0), daemon, told), partition.now)
    lines = [action.text for action in actions if isinstance(action, Log)]
    assert any("COMPLETED" in line for line in lines) and any("FAILED" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_a_long_answer_is_cut_by_its_size():
    row = Row(7, 1000, "a", "a", State.PENDING, "€" * TEXT_MAX, 1, (), 0, 0.0, 0.0, 0.0, 0.0, 0, 0)
    rows = [row] * 100
    pieces = list(codec.pieces(rows, batch.ROWS_MAX))
    assert [row for piece, _ in pieces for row in piece] == rows
    assert [is_last for _, is_last in pieces] == [*[False] * (len(pieces) - 1), True]
    assert all(len(codec.encode(batch.Rows(*piece))) <= MESSAGE_MAX_BYTES for piece in pieces)
    assert list(codec.pieces([], 3)) == [((), True)]


def test_a_broker_whose_job_has_lost_its_slots_is_killed_when_it_does_not_end():
    partition = BatchPartition(limits=Limits(silent_s=1e6, end_s=10.0))
    job_id = partition.begun()
    partition.receive(pct(0), Freed.of(job_id, (0,)))
    assert partition.wait(9.0) == []
    partition.says(0, job_id)  # it goes on
    kill = Send(pct(0), batch.EndBroker(job_id, is_forced=True))
    assert kill in partition.wait(2.0)
    assert kill in partition.wait(10.0)  # until it has ended
    partition.receive(pct(0), ended(job_id, State.FAILED))
    assert batch.Heard(job_id) in said(partition.keep())
    assert partition.wait(100.0) == []
