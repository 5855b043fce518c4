"""In any order of events, launches that give way delay none that does not, and every one ends.

Nothing is given twice, and each launch that had slots has one final row.
"""

import random
from signal import SIGKILL, SIGTERM

import pytest

from allocator.jobs.job import JobState
from allocator.jobs.line import Line
from allocator.queue.preemption import Preempting
from native.machine import Send
from native.wire import nodes as wire
from native.wire.alloc import Freed, Grant, Release, Revoke, Revoked
from native.wire.base import JobEnd, State
from native.wire.load import Reset
from native.wire.nodes import SignalJob
from tests.unit.allocator.partition_of import ALICE, BOB, DAEMON, pct
from tests.unit.allocator.test_giving_way import PINGD, ROOT, Scavenged

NODES, SLOTS = 3, 2
STEPS = 60
_OVER = (JobState.RELEASING, JobState.REVOKING)


class World(Scavenged):
    """Yods come and leave, ranks end by themselves, by a signal, or by a reset only.

    Attributes:
        given: yods by the job that they were granted.
    """

    def __init__(self, choose):
        self.choose = choose
        self.given, self.yods_left, self.stubborn, self.due = {}, set(), {}, []
        super().__init__(NODES, SLOTS)

    def handle(self, event):
        before = {job.job_id for job in self.machine.jobs} if self.checks else set()
        actions = super().handle(event)
        for action in actions:
            match action:
                case Send(yod, Grant(job_id)):
                    assert job_id not in self.given, "an id is given twice"
                    self.given[job_id] = yod
                    self.stubborn[job_id] = self.choose.choice((SIGTERM, SIGKILL, 0))
                case Send(_, SignalJob(job_id, number)):
                    if number == self.stubborn[job_id]:
                        self.due.append(lambda job_id=job_id: self.frees(job_id))
                case Send(_, Reset(job_id)):
                    self.due.append(lambda job_id=job_id: self.frees(job_id))
                case Send(peer, Revoke(job_id)):
                    self.due.append(lambda at=peer, job_id=job_id: self.revoked(at, job_id))
        if self.checks:
            self.check_nobody_is_delayed(before)
        return actions

    def check_nobody_is_delayed(self, before):
        """The first that does not give way: what gives way and could make room for it, ends."""
        first = self.machine._requests._line.first
        if first is None or first.gives_way:
            return
        free = sum(self.free().values())
        over = told = giving = new = 0  # slots
        for job in self.machine.jobs:
            slots = sum(holding.slots for holding in job.holdings.values())
            if job.state in _OVER:  # looked at when their slots are free
                over += slots
            elif self.machine._requests._policy._running.ends(job.job_id):
                told += slots
            elif job.terms.gives_way:
                giving += slots
                new += slots * (job.job_id not in before)
        most = free + told + giving
        assert not free + over + told < first.size <= most, "it is not ended"
        assert not (new and first.size <= free + new), "it was given what another waits for"

    def steps(self):
        yield self.come
        yield self.come
        yield lambda: super(World, self).wait(self.choose.choice((1.0, 20.0, 400.0)))
        yield from self.due[:1]
        for job in self.machine.jobs:
            if job.job_id in self.given:
                yield lambda job=job: self.runs_or_ends(job)
        if waiting := list(self.machine._requests._line):
            peer = self.choose.choice(waiting).source
            yield lambda: self.lose(peer)
        if self.given:
            job_id = self.choose.choice(list(self.given))
            how = self.choose.choice(list(wire.Ending))
            yield lambda: self.receive(PINGD, wire.EndJobs(how, job_id=job_id), ROOT)

    def come(self):
        self.asks(
            self.choose.randint(1, NODES * SLOTS),
            principal=self.choose.choice((ALICE, BOB)),
            nice=self.choose.random() < 0.5,
            waits=self.choose.random() < 0.5,
            runs=self.choose.random() < 0.7,
        )

    def runs_or_ends(self, job):
        if job.state is JobState.PENDING:
            self.runs(job.job_id)
        elif self.choose.random() < 0.5:
            self.frees(job.job_id, State.COMPLETED)

    def frees(self, job_id, state=State.FAILED):
        """All of a job has ended; its yod says so, if it is there."""
        job = self.machine.jobs.get(job_id)
        if job is None:
            return
        nodes = list(job.holdings)
        self.receive(self.given[job_id], Release(job_id, JobEnd(state, 0, 0, "")), ROOT)
        if self.machine.jobs.get(job_id) is not None:
            self.receive(pct(nodes[0]), Freed.of(job_id, nodes))

    def revoked(self, at, job_id):
        (number,) = [number for number in range(NODES) if pct(number) == at]
        self.receive(at, Revoked(job_id, number, False), DAEMON)

    def settle(self):
        """Everybody ends, and nobody comes any more."""
        for _ in range(1000):
            while self.due:
                self.due.pop(0)()
            for job in self.machine.jobs:
                self.frees(job.job_id)
            for waiting in self.machine._requests._line:
                self.lose(waiting.source)
            if not len(self.machine.jobs):
                break
        self.wait(1000.0)


def play(seed):
    world = World(random.Random(seed))
    for _ in range(STEPS):
        step = world.choose.choice(list(world.steps()))
        if step in world.due:
            world.due.remove(step)
        step()
    world.settle()
    assert not len(world.machine.jobs)
    assert sorted(row.job_id for row in world.past) == sorted(world.given), "one final row each"
    assert all(row.state.is_final for row in world.past)
    assert set(world.free().values()) == {SLOTS}
    return world


@pytest.mark.parametrize("seed", range(12))
def test_none_is_delayed_by_one_that_gives_way_and_every_one_ends(seed):
    play(seed)


def test_these_worlds_have_launches_that_end_for_others():
    rows = [row for seed in range(5) for row in play(seed).past]
    assert any(row.state is State.PREEMPTED for row in rows)


def none_ends_for_others(patch):
    patch.setattr(Preempting, "_ends_for", lambda self, terms, job: False)


def what_gives_way_keeps_its_place(patch):
    patch.setattr(Line, "_ordered", lambda self: list(self._waiting))


@pytest.mark.parametrize("defect", [none_ends_for_others, what_gives_way_keeps_its_place])
def test_a_rule_that_is_broken_is_noticed(defect, monkeypatch):
    defect(monkeypatch)
    for seed in range(200):
        try:
            play(seed)
        except AssertionError:
            return
    pytest.fail("nobody has noticed")
