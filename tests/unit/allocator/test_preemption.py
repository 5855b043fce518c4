"""Batch jobs end so that one of another queue has their slots."""

import random

import pytest

from allocator.queue.preemption import victims_of
from native.errors import Refusal
from native.limits import Limits
from native.machine import Send
from native.wire import batch, codec
from native.wire.alloc import Freed, Refused
from native.wire.base import JobEnd, State
from tests.unit.allocator.partition_of import ALICE, pct, spec
from tests.unit.allocator.queue_site import Site, in_queue
from tests.unit.allocator.test_batch import OTHER, ROOT

HOUR_S = 3600.0
RULES = """
[[queue]]
name = "free"
preempt_mode = "{}"

[[queue]]
name = "paid"
priority = 1
preempts = ["free"]
total = {{ jobs = 2 }}

[[queue]]
name = "day"

[priority]
queue = 1000
"""
CANCEL, REQUEUE = RULES.format("cancel"), RULES.format("requeue")


class Preempting(Site):
    """A site, and which brokers its PCTs are told to end or kill."""

    def __init__(self, text, *words, **options):
        self.told = []
        super().__init__(text, *words, **options)

    def handle(self, event):
        actions = super().handle(event)
        for action in actions:
            match action:
                case Send(_, batch.EndBroker(job_id, is_forced)):
                    self.told.append((job_id, "killed" if is_forced else "ended"))
                case Send(_, batch.SignalScript(job_id, number)):
                    self.told.append((job_id, f"signal {number}"))
        return actions

    def runs(self, size, queue, time_s=HOUR_S, **fields):
        """A job whose script runs; its id."""
        job_id = self.job(size, time_s, **in_queue(queue), **fields)
        self.receive(pct(self.machine.batch.get(job_id).root), batch.Started(job_id))
        self.keep()
        self.wait(1.0)
        return job_id

    def waits(self, size, queue="paid", **fields):
        """A job that has come; its id."""
        return self.job(size, HOUR_S, **in_queue(queue), **fields)

    def leaves(self, job_id, state=State.CANCELLED):
        """The broker of a job ends, and nothing of it is left."""
        job = self.machine.batch.get(job_id)
        root, nodes, attempt = job.root, list(self.machine.jobs[job_id].holdings), job.attempt
        end = codec.encode_part(JobEnd(state, 0, 15, ""))
        self.receive(pct(root), batch.BrokerEnded(job_id, 0, end, attempt))
        self.keep()
        self.receive(pct(root), Freed.of(job_id, nodes))
        self.keep()


def test_a_job_ends_for_one_that_may_have_it_ended():
    site = Preempting(CANCEL)
    free = site.runs(4, "free")
    paid = site.waits(2)
    assert site.told == [(free, "ended")]
    assert site.reason(free) == f"preempted for job {paid} of alice (queue paid)"
    assert site.has_slots(paid) == [False]
    site.leaves(free)
    assert site.has_slots(paid) == [True]
    (ended,) = [row for row in site.disk.batch.ended() if row.job_id == free]
    assert (ended.state, ended.reason) == (
        *(State.PREEMPTED, f"preempted for job {paid} of alice (queue paid)"),
    )


def test_a_job_waits_again_where_its_queue_says_so():
    site = Preempting(REQUEUE)
    free = site.runs(4, "free")
    paid = site.waits(4)
    assert site.told == [(free, "ended")]
    site.leaves(free)
    assert (site.state(free), site.has_slots(paid)) == (State.PENDING, [True])
    assert site.machine.batch.get(free).reason.startswith("waits again: preempted for job")
    site.end(paid)
    site.wait(0.0)
    site.keep()
    assert site.has_slots(free) == [True]
    assert site.machine.batch.get(free).attempt == 1


@pytest.mark.parametrize(
    "text", [REQUEUE, REQUEUE.replace("queue = 1000", "queue = 1\nage = 1000")]
)
def test_a_job_that_waits_again_does_not_come_before_the_other(text):
    site = Preempting(text)
    free = site.runs(4, "free")
    site.wait(HOUR_S / 2)
    paid = site.waits(4)
    site.receive(OTHER, batch.Prioritise(free, priority=1 << 20), ROOT)
    site.leaves(free)
    site.wait(0.0)
    site.keep()
    assert (site.order(), site.has_slots(paid)) == ([free], [True])


def test_a_job_that_was_to_wait_again_and_is_cancelled_meanwhile_is_cancelled():
    site = Preempting(REQUEUE)
    free = site.runs(4, "free")
    site.waits(4)
    site.receive(OTHER, batch.Cancel(free), ALICE)
    site.leaves(free)
    (ended,) = site.disk.batch.ended()
    assert (ended.state, ended.reason) == (State.CANCELLED, "by alice")


@pytest.mark.parametrize("queue", ["free", "day"])
def test_others_wait(queue):
    site = Preempting(CANCEL)
    site.runs(4, "free")
    waiting = site.waits(1, queue)
    assert (site.told, site.has_slots(waiting)) == ([], [False])


def test_nobody_ends_for_one_that_would_have_to_wait_all_the_same():
    site = Preempting(CANCEL)
    for size, queue in ((2, "free"), (2, "day")):
        site.runs(size, queue)
    site.waits(3)
    assert site.told == []


def test_nobody_ends_for_one_that_its_own_queue_keeps_back():
    site = Preempting(CANCEL)
    for queue in ("paid", "paid", "free"):
        site.runs(1, queue)
    site.runs(1, "free")
    site.waits(1)
    assert site.told == []


def test_nobody_ends_for_one_that_has_slots_at_once():
    site = Preempting(CANCEL)
    site.runs(3, "free")
    assert site.has_slots(site.waits(1)) == [True]
    assert site.told == []


def test_the_youngest_end_and_no_more_than_are_needed():
    site = Preempting(CANCEL, 2, 2)
    jobs = [site.runs(1, "free", spec=spec(1, node)) for node in (0, 0, 1, 1)]
    site.waits(1, spec=spec(1, 1))
    assert site.told == [(jobs[3], "ended")]
    site.waits(2, spec=spec(2, 0))
    assert sorted(site.told[1:]) == [(jobs[0], "ended"), (jobs[1], "ended")]


def test_no_second_job_ends_while_the_first_still_does():
    site = Preempting(CANCEL)
    jobs = [site.runs(1, "free") for _ in range(4)]
    site.waits(1)
    site.wait(10.0)
    site.receive(OTHER, batch.Ask(), ALICE)
    site.machine.rules_changed()
    site.wait(0.0)
    site.receive(OTHER, batch.Ask(), ALICE)
    assert site.told == [(jobs[3], "ended")]


def test_nobody_else_has_the_slots_of_those_that_ended():
    site = Preempting(CANCEL)
    wide = site.runs(4, "free")
    before = site.waits(2, "day")
    paid = site.waits(3)
    site.leaves(wide)
    assert site.has_slots(paid, before) == [True, False]


def test_one_whose_script_comes_to_run_only_then_ends_as_well():
    site = Preempting(CANCEL)
    free = site.job(4, HOUR_S, **in_queue("free"))
    site.waits(1)
    assert site.told == []
    site.receive(pct(0), batch.Started(free))
    assert site.told == [(free, "ended")]


def test_a_broker_that_does_not_end_is_killed():
    limits = Limits(silent_s=1e6)
    site = Preempting(CANCEL, limits=limits)
    free = site.runs(4, "free")
    site.waits(1)
    site.wait(limits.kill_wait_s + limits.end_s - 1)
    assert site.told == [(free, "ended")]
    site.wait(2)
    assert site.told == [(free, "ended"), (free, "killed")]


def test_a_queue_may_give_its_jobs_a_grace_behind_sigterm():
    text = REQUEUE.replace('"requeue"', '"requeue"\npreempt_grace = "1:00"')
    limits = Limits(silent_s=1e6)
    site = Preempting(text, limits=limits)
    free = site.runs(4, "free")
    site.waits(1)
    assert site.told == [(free, "signal 15")]
    site.wait(59)
    assert site.told == [(free, "signal 15")]
    site.wait(2)
    assert site.told[1:] == [(free, "ended")]
    site.wait(limits.kill_wait_s + limits.end_s)
    assert site.told[2:] == [(free, "killed")]


@pytest.mark.parametrize(("text", "state"), [(CANCEL, None), (REQUEUE, State.PENDING)])
def test_a_later_bebopd_goes_on_with_it(text, state):
    site = Preempting(text)
    free = site.runs(4, "free")
    paid = site.waits(2)
    later = site.again(Preempting)
    assert later.told == [(free, "ended")]
    later.leaves(free)
    assert later.state(free) is state
    later.machine.hold("")
    later.wait(later.limits.end_s)
    later.receive(OTHER, batch.Ask(), ALICE)
    later.keep()
    assert later.has_slots(paid) == [True]


def test_a_launch_that_does_not_wait_ends_nobody():
    site = Preempting(CANCEL)
    site.runs(4, "free")
    answer = site.request(spec(1), **in_queue("paid"))
    assert isinstance(answer, Refused) and answer.code is Refusal.BUSY
    assert site.told == []


def test_one_that_waits_has_a_job_ended():
    site = Preempting(CANCEL)
    free = site.runs(4, "free")
    site.request(spec(1), waits=True, **in_queue("paid"))
    assert site.told == [(free, "ended")]
    assert site.reason(free) == "preempted for alice (queue paid)"


class One:
    """A job to be chosen."""

    def __init__(self, job_id, slots):
        self.job_id, self.granted, self.slots = job_id, float(job_id), slots


@pytest.mark.parametrize("seed", range(50))
def test_none_of_the_chosen_could_go_on(seed):
    choose = random.Random(seed)
    jobs = [One(number, choose.randint(1, 8)) for number in range(choose.randint(0, 30))]
    wanted = choose.randint(1, 60)

    def makes_room(some):
        return sum(job.slots for job in some) >= wanted

    chosen = victims_of(jobs, makes_room)
    if not makes_room(jobs):
        assert chosen == []
        return
    assert makes_room(chosen)
    for job in chosen:
        assert not makes_room([each for each in chosen if each is not job])
