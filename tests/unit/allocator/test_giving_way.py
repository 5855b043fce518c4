"""Launches that give way (yod -nice) end when others need their slots, and delay nobody."""

from signal import SIGKILL, SIGTERM

import pytest

from allocator.jobs.job import JobState
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Send
from native.wire import batch
from native.wire import nodes as wire
from native.wire.alloc import Freed, GiveWay, Grant, Hosting, NodeRequest, Queued, Refused
from native.wire.base import JobEnd, State, Terms
from native.wire.group import WriteDown
from native.wire.nodes import Ending
from native.wire.status import HostedJob
from tests.unit.allocator.partition_of import ALICE, BOB, Partition, pct, spec
from tests.unit.allocator.queue_site import Site
from tests.unit.allocator.test_backfill import Backfilled

NICE = Terms(gives_way=True)
GRACE_S = 300.0
LIMITS = Limits(silent_s=1e6, nice_kill_s=GRACE_S, end_s=10.0)
PINGD = PortalId(1, 90000)
ROOT = ALICE._replace(uid=0)


class Giving:
    """What yods and PCTs of a partition are told."""

    yods = 0

    def __init__(self, *words, **options):
        self.told, self.signals = {}, []
        super().__init__(*words, limits=LIMITS, **options)

    def handle(self, event):
        actions = super().handle(event)
        for action in actions:
            match action:
                case Send(_, wire.SignalJob(job_id, number)):
                    self.signals.append((job_id, number))
                case Send(target, message):
                    self.told.setdefault(target, []).append(message)
        return actions

    def asks(self, size, *, principal=ALICE, nice=False, runs=True, checkpoint_s=0.0, **fields):
        """A yod asks for nodes; its address."""
        self.yods += 1
        yod = PortalId(1, 71000 + self.yods)
        terms = Terms(gives_way=nice, checkpoint_s=checkpoint_s)
        fields = {"program": "./a", "terms": terms, **fields}
        self.receive(yod, NodeRequest((spec(size),), **fields), principal)
        if runs and (job_id := self.job_of(yod)):
            self.runs(job_id)
        return yod

    def runs(self, job_id):
        self.receive(pct(self.machine.jobs[job_id].root), Hosting(job_id))

    def job_of(self, yod):
        """The job that it was granted; 0: none."""
        grants = [each for each in self.told.get(yod, ()) if isinstance(each, Grant)]
        return grants[-1].job_id if grants else 0

    def last(self, yod):
        return self.told[yod][-1]

    def ends(self, yod, state=State.FAILED, number=SIGTERM, status=0):
        """The ranks of a yod have ended; nothing of its job is left."""
        job_id = self.job_of(yod)
        nodes, root = list(self.machine.jobs[job_id].holdings), self.machine.jobs[job_id].root
        end = JobEnd(state, status or 128 + number, 0 if status else number, "killed")
        self.release(job_id, yod, end=end)
        self.receive(pct(root), Freed.of(job_id, nodes))


class Scavenged(Giving, Backfilled):
    """A partition without queues."""


class Queues(Giving, Site):
    """One with queues."""


def test_a_launch_ends_for_one_that_does_not_give_way_and_both_yods_are_told():
    site = Scavenged()
    nice = site.asks(4, nice=True)
    other = site.asks(4, principal=BOB)
    job_id = site.job_of(nice)
    assert site.signals == [(job_id, SIGTERM)]
    assert site.last(nice) == GiveWay(
        job_id, "gives way for bob (-nice): SIGTERM sent to all ranks, SIGKILL in 300 s"
    )
    assert isinstance(site.last(other), Queued) and site.last(other).place == 1
    site.ends(nice)
    assert site.job_of(other)


def test_a_launch_ends_for_a_batch_job_which_its_yod_is_told_by_its_id():
    site = Scavenged()
    nice = site.asks(4, nice=True)
    waits = site.job(2)
    assert site.last(nice).text.startswith(f"gives way for job {waits} of alice (-nice)")
    site.ends(nice)
    assert site.has_slots(waits) == [True]


def test_it_is_killed_after_its_grace_and_reset_after_that():
    site = Scavenged()
    nice = site.asks(4, nice=True)
    other = site.asks(1)
    job_id = site.job_of(nice)
    site.wait(GRACE_S - 1)
    assert site.signals == [(job_id, SIGTERM)]
    site.wait(1)
    assert site.signals == [(job_id, SIGTERM), (job_id, SIGKILL)]
    site.wait(LIMITS.end_s)
    assert site.machine.jobs[job_id].state is JobState.RELEASING
    site.receive(pct(0), Freed.of(job_id, [0]))
    assert site.job_of(other)


def test_its_record_says_for_whom_it_ended():
    site = Scavenged()
    nice = site.asks(4, nice=True)
    site.asks(4, principal=BOB)
    site.ends(nice)
    (row,) = site.past
    assert (row.state, row.reason, row.signal) == (State.PREEMPTED, "gave way for bob", SIGTERM)


def test_one_that_completes_in_its_grace_is_completed():
    site = Scavenged()
    nice = site.asks(4, nice=True)
    site.asks(4)
    site.ends(nice, State.COMPLETED)
    assert [row.state for row in site.past] == [State.COMPLETED]


def test_one_that_makes_a_checkpoint_is_asked_for_that_first_and_gives_way_behind_it():
    site = Scavenged()
    nice = site.asks(4, nice=True, checkpoint_s=90.0)
    other = site.asks(4, principal=BOB)
    text = "gives way for bob (-nice), behind a checkpoint within 90 s"
    assert site.last(nice) == WriteDown(site.job_of(nice), text, gives_way=True)
    assert isinstance(site.last(other), Queued)
    site.wait(89.0)
    assert site.signals == []
    site.ends(nice, status=75)
    (row,) = site.past
    assert (row.state, row.exit_status, row.reason) == (State.PREEMPTED, 75, "gave way for bob")
    assert site.job_of(other)
    site.wait(1e4)
    assert site.signals == []


def test_one_that_has_not_been_written_down_in_time_gets_sigterm_and_sigkill():
    site = Scavenged()
    nice = site.asks(4, nice=True, checkpoint_s=90.0)
    site.asks(4)
    job_id = site.job_of(nice)
    site.wait(90.0)
    assert site.signals == [(job_id, SIGTERM)]
    assert isinstance(site.last(nice), GiveWay)
    site.wait(GRACE_S)
    assert site.signals == [(job_id, SIGTERM), (job_id, SIGKILL)]


def test_no_checkpoint_is_waited_for_longer_than_the_limit_says():
    site = Scavenged()
    nice = site.asks(4, nice=True, checkpoint_s=1e6)
    site.asks(4)
    site.wait(LIMITS.nice_checkpoint_s)
    assert site.signals == [(site.job_of(nice), SIGTERM)]


def test_one_whose_ranks_do_not_run_yet_is_asked_for_no_checkpoint():
    site = Scavenged()
    nice = site.asks(4, nice=True, checkpoint_s=90.0, runs=False)
    site.asks(4)
    assert isinstance(site.last(nice), GiveWay)
    assert site.signals == [(site.job_of(nice), SIGTERM)]


def test_nobody_else_ends_for_the_same_request_while_one_makes_a_checkpoint():
    site = Scavenged(count=3, slots=1)
    nice = [site.asks(1, nice=True, checkpoint_s=90.0) for _ in range(3)]
    site.asks(1, waits=True)
    for _ in range(5):
        site.wait(10.0)
        site.receive(PINGD, batch.Ask(), ALICE)
    assert [isinstance(site.last(yod), WriteDown) for yod in nice] == [False, False, True]


def test_a_nicekill_by_its_owner_does_not_wait_for_the_checkpoint():
    site = Scavenged()
    nice = site.asks(4, nice=True, checkpoint_s=90.0)
    site.asks(4)
    job_id = site.job_of(nice)
    site.receive(PINGD, wire.EndJobs(Ending.NICEKILL, job_id=job_id), ALICE)
    assert site.signals == [(job_id, SIGTERM)]
    site.wait(GRACE_S)
    assert site.signals == [(job_id, SIGTERM), (job_id, SIGKILL)]


def test_nobody_else_ends_for_the_same_request_while_one_is_in_its_grace():
    site = Scavenged(count=3, slots=1)
    nice = [site.asks(1, nice=True) for _ in range(3)]
    site.asks(1, waits=True)
    for _ in range(5):
        site.wait(GRACE_S / 10)
        site.receive(PINGD, batch.Ask(), ALICE)
    assert site.signals == [(site.job_of(nice[-1]), SIGTERM)], "more than the youngest"
    site.asks(2, waits=True)
    assert {job_id for job_id, _ in site.signals} == {site.job_of(yod) for yod in nice}


def test_none_ends_for_another_that_gives_way():
    site = Scavenged()
    site.asks(4, nice=True)
    waits = site.asks(2, nice=True, waits=True)
    refused = site.asks(2, nice=True)
    assert isinstance(site.last(waits), Queued)
    assert site.last(refused).code is Refusal.BUSY
    assert site.signals == []


def test_none_ends_for_a_request_that_could_not_begin_all_the_same():
    site = Scavenged(count=2, slots=2)
    site.asks(2)
    site.asks(2, nice=True)
    refused = site.asks(4)
    waits = site.asks(4, waits=True)
    assert site.last(refused).code is Refusal.BUSY
    assert isinstance(site.last(waits), Queued)
    assert site.signals == []


def test_none_ends_where_there_is_room():
    site = Scavenged(count=2, slots=2)
    site.asks(2, nice=True)
    assert site.job_of(site.asks(2))
    assert site.signals == []


def test_one_that_waits_comes_behind_all_that_do_not_give_way():
    site = Scavenged()
    runs = site.asks(4)
    nice = site.asks(4, nice=True, waits=True)
    later = site.asks(4, waits=True)
    site.ends(runs, State.COMPLETED)
    assert (site.job_of(nice), bool(site.job_of(later))) == (0, True)
    site.ends(later, State.COMPLETED)
    assert site.job_of(nice)


def test_no_slots_are_kept_for_one_that_waits():
    site = Scavenged()
    site.asks(2)
    site.asks(4, nice=True, waits=True)
    assert site.job_of(site.asks(2))
    assert isinstance(site.last(site.asks(1)), Refused)


def test_one_gets_no_slot_that_is_kept_for_another():
    site = Scavenged()
    site.asks(2)
    site.asks(4, waits=True)
    assert site.last(site.asks(1, nice=True)).code is Refusal.BUSY


def test_one_that_was_only_granted_its_nodes_ends_too():
    site = Scavenged()
    nice = site.asks(4, nice=True, runs=False)
    other = site.asks(4)
    assert isinstance(site.last(nice), GiveWay)
    job_id = site.job_of(nice)
    site.release(job_id, nice)
    site.receive(pct(0), Freed.of(job_id, [0]))
    assert site.job_of(other)


def test_a_nicekill_of_its_owner_is_not_followed_by_a_second_one():
    site = Scavenged()
    nice = site.asks(4, nice=True)
    job_id = site.job_of(nice)
    site.receive(PINGD, wire.EndJobs(Ending.NICEKILL, job_id=job_id), ALICE)
    site.asks(4)
    assert site.signals == [(job_id, SIGTERM)]


def test_the_grace_is_that_of_its_queue_where_that_has_one():
    site = Queues('[[queue]]\nname = "day"\npreempt_grace = "0:20"\npreempt_mode = "cancel"\n')
    nice = site.asks(4, nice=True)
    site.asks(4)
    assert site.last(nice).text.endswith("SIGKILL in 20 s")
    site.wait(20)
    assert [number for _, number in site.signals] == [SIGTERM, SIGKILL]


def test_none_ends_for_one_that_a_limit_of_its_queue_keeps_back():
    site = Queues('[[queue]]\nname = "day"\nper_user = { jobs = 1 }\n')
    site.asks(4, nice=True)
    refused = site.asks(4)
    waits = site.asks(4, waits=True)
    assert isinstance(site.last(refused), Refused) and isinstance(site.last(waits), Queued)
    assert site.signals == []


@pytest.mark.parametrize("text", ["", '[[queue]]\nname = "day"\n'])
def test_a_batch_job_does_not_give_way(text):
    site = Queues(text or '[[queue]]\nname = "a"\n') if text else Scavenged()
    message = batch.Submit(bytes(16), spec(1), "a", 60.0, b"task", terms=NICE)
    site.receive(PINGD, message, ALICE)
    assert site.last(PINGD).code is Refusal.BAD_REQUEST
    assert "only a launch gives way" in site.last(PINGD).text


def test_a_step_of_an_allocation_does_not_give_way():
    partition = Partition(allocation="17")
    answer = partition.request(spec(1), terms=NICE)
    assert answer.code is Refusal.BAD_REQUEST
    assert "does not give way" in answer.text


def test_a_request_whose_yod_leaves_is_waited_for_no_more():
    site = Scavenged()
    nice = site.asks(4, nice=True)
    other = site.asks(4)
    site.lose(other)
    site.ends(nice)
    assert site.job_of(site.asks(4, nice=True))


@pytest.mark.parametrize("nice", [True, False])
def test_what_an_earlier_bebopd_has_granted_gives_way_if_its_pct_says_so(nice):
    site = Scavenged(count=0)
    site.announce(0, 4, jobs=(HostedJob(7, 1000, 4, (0, 1, 1, 1), 5.0, gives_way=nice),))
    site.asks(4, principal=BOB)
    assert site.signals == ([(7, SIGTERM)] if nice else [])
    site.wait(GRACE_S)
    assert site.signals == ([(7, SIGTERM), (7, SIGKILL)] if nice else [])
