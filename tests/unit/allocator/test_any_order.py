"""In any order of events, no slot is given twice and every slot comes back; each job that
was granted has one final row, and the rows add up to what was held.

A small world of PCTs and yods around bebopd's machine. Messages of one
connection keep their order, connections break with what is on them, PCTs and
yods die and come back, load messages arrive late. Hypothesis chooses the order.
"""

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.jobs.accounting import RecordGrant
from allocator.jobs.table import RecordEnd
from native.ids import PortalId
from native.limits import Limits
from native.machine import Send
from native.wire.alloc import (
    Freed,
    Grant,
    Hosting,
    NodeRequest,
    Refused,
    Release,
    Released,
    Revoke,
    Revoked,
)
from native.wire.base import JobEnd, State
from native.wire.status import Accepted, Announce, HostedJob, distances
from tests.unit.allocator.partition_of import ALICE, DAEMON, Partition, pct, spec

SLOTS = 2
LIMITS = Limits(node_fail_s=60.0)
REQUESTS = [
    NodeRequest((spec(1),)),
    NodeRequest((spec(3),)),
    NodeRequest((spec(2, 2, 0, one_per_node=True),)),
    NodeRequest((spec(1, 1), spec(2))),
    NodeRequest((spec(1, cores=2),)),
    NodeRequest((spec(2, node_count=2),), is_exclusive=True),
]


class Pct:
    """A PCT: it hosts every job that it has not been told to refuse."""

    def __init__(self, number):
        self.number = number
        self.incarnation = 1
        self.is_connected = True
        self.up, self.down = deque(), deque()  # messages to and from bebopd
        self.hosts = {}  # job id -> ranks
        self.slots = {}  # job id -> slots
        self.refuses = set()
        self.epoch = 0

    def announce(self):
        jobs = tuple(
            HostedJob(job_id, 1000, self.slots[job_id], distances(ranks), 0.0)
            for job_id, ranks in self.hosts.items()
        )
        self.up.append(
            Announce(
                self.number, f"node{self.number}", SLOTS, *pct(self.number), self.incarnation, jobs
            )
        )

    def take(self, message):
        match message:
            case Revoke(job_id):
                if job_id not in self.hosts:
                    self.refuses.add(job_id)
                self.up.append(Revoked(job_id, self.number, job_id in self.hosts))
            case Accepted(_, epoch):
                self.epoch = epoch
            case _:
                raise AssertionError(message)

    def load(self, job_id, ranks, slots, epoch):
        """Whether the job is hosted from now on."""
        if job_id in self.refuses or epoch != self.epoch:
            return False
        self.hosts[job_id], self.slots[job_id] = ranks, slots
        return True

    def free(self):
        return SLOTS - sum(map(self.slots.get, self.hosts))

    def end(self, job_id):
        del self.hosts[job_id]
        self.refuses.add(job_id)

    def restart(self):
        self.incarnation += 1
        self.hosts, self.refuses, self.epoch = {}, set(), 0


class World:
    def __init__(self, may_restart):
        self.may_restart = may_restart
        self.epoch = 1
        self.partition = Partition(0, limits=LIMITS, epoch=1)
        self.pcts = [Pct(number) for number in range(3)]
        self.loads = []  # (pct, job id, ranks, slots, epoch) on their way
        self.epochs = {}  # job id -> the bebopd that granted it
        self.grants = {}  # job id -> (grant, yod)
        self.waiting = {}  # yod -> the job id whose release it waits for
        self.hosted = {}  # job id -> nodes that have heard from yod
        self.yods = 0
        self.open, self.past = {}, {}  # rows in the records, by job id
        self.held_s = self.freed_s = 0.0  # slots times seconds
        for each in self.pcts:
            each.announce()

    # What can happen now, as a list of calls.

    def steps(self):
        yield self.request
        yield self.pass_time
        if self.may_restart:
            yield self.restart_bebopd
        for each in self.pcts:
            if each.is_connected:
                if each.up:
                    yield lambda each=each: self.to_bebopd(each)
                if each.down:
                    yield lambda each=each: each.take(each.down.popleft())
                yield lambda each=each: self.cut(each)
            else:
                yield lambda each=each: self.reconnect(each)
            yield each.announce
            if self.may_restart:
                yield lambda each=each: self.restart(each)
            for job_id in each.hosts:
                yield lambda each=each, job_id=job_id: self.end(each, job_id)
        for load in self.loads:
            yield lambda load=load: self.deliver(load)
        for job_id, (grant, yod) in self.grants.items():
            yield lambda grant=grant: self.start(grant)
            if yod not in self.waiting:
                yield lambda job_id=job_id, yod=yod: self.release(job_id, yod)
            yield lambda job_id=job_id, yod=yod: self.die(job_id, yod)

    def request(self):
        yod = PortalId(9, 70000 + self.yods)
        self.yods += 1
        request = REQUESTS[self.yods % len(REQUESTS)]
        self.perform(self.partition.receive(yod, request, ALICE))

    def start(self, grant):
        """yod sends its load; it does so once."""
        job_id = grant.job_id
        if job_id in self.hosted:
            return
        self.hosted[job_id] = set()
        slots = [node.slots for node in grant.nodes]
        ranks = {}
        rank = 0
        for run in grant.runs:
            ranks.setdefault(run.place, []).extend(range(rank, rank + run.count))
            rank += run.count
        for place, node in enumerate(grant.nodes):
            epoch = self.epochs[job_id]
            self.loads.append(
                (self.pcts[node.node], job_id, tuple(ranks[place]), slots[place], epoch)
            )

    def deliver(self, load):
        self.loads.remove(load)
        each, job_id, ranks, slots, epoch = load
        if each.free() < slots:
            # A restarted PCT has forgotten what it refused, and a restarted bebopd
            # hears late of a load that was on its way: then a PCT's count decides.
            assert self.may_restart or job_id in each.refuses, "granted twice"
            return
        if not each.load(job_id, ranks, slots, epoch):
            return
        self.hosted[job_id].add(each.number)
        if job_id not in self.grants:
            return
        nodes = [node.node for node in self.grants[job_id][0].nodes]
        root = self.pcts[nodes[0]]
        if self.hosted[job_id] == set(nodes) and job_id in root.hosts:
            root.up.append(Hosting(job_id))

    def end(self, each, job_id):
        each.end(job_id)
        each.up.append(Freed.of(job_id, (each.number,)))

    def cut(self, each):
        each.is_connected = False
        each.up.clear()
        each.down.clear()
        self.perform(self.partition.lose(pct(each.number)))

    def reconnect(self, each):
        each.is_connected = True
        each.up.clear()
        each.announce()

    def restart(self, each):
        if each.is_connected:
            self.cut(each)
        each.restart()
        self.reconnect(each)

    def restart_bebopd(self):
        self.epoch += 1
        first = max(self.epochs, default=0) + 1
        rows = tuple(self.open.values())
        self.partition = Partition(
            0, limits=LIMITS, epoch=self.epoch, next_job_id=first, earlier_rows=rows
        )
        self.waiting.clear()
        for each in self.pcts:
            each.is_connected = False
            each.up.clear()
            each.down.clear()

    def release(self, job_id, yod):
        self.waiting[yod] = job_id
        end = JobEnd(State.COMPLETED, 0, 0, "") if job_id in self.hosted else None
        self.perform(self.partition.receive(yod, Release(job_id, end), ALICE))

    def die(self, job_id, yod):
        del self.grants[job_id]
        self.waiting.pop(yod, None)
        self.perform(self.partition.lose(yod))

    def pass_time(self):
        used = sum(node.used() for node in self.partition.machine.nodes)
        self.held_s += used * 11.0
        self.perform(self.partition.wait(11.0))

    def to_bebopd(self, each):
        self.perform(self.partition.receive(pct(each.number), each.up.popleft(), DAEMON))

    def perform(self, actions):
        for row in self.partition.past:
            self.open.pop(row.job_id, None)
            self.past.setdefault(row.job_id, row)
        ended = [row.job_id for row in self.partition.past]
        assert len(ended) == len(set(ended)), "a job has two final rows"
        for action in actions:
            match action:
                case RecordGrant(row) if row.job_id not in self.past:
                    self.open[row.job_id] = row
                case RecordEnd(_, _, slot_s):
                    self.freed_s += slot_s
            if not isinstance(action, Send):
                continue
            match action.message:
                case Grant(job_id) as grant:
                    assert job_id not in self.epochs
                    self.grants[job_id] = (grant, action.target)
                    self.epochs[job_id] = self.epoch
                case Refused():
                    pass
                case Released(job_id):
                    assert self.waiting.pop(action.target) == job_id
                    del self.grants[job_id]
                case message:
                    each = next(p for p in self.pcts if pct(p.number) == action.target)
                    if each.is_connected:
                        each.down.append(message)
        self.check()

    def check(self):
        for node in self.partition.machine.nodes:
            assert self.may_restart or node.used() <= SLOTS, "a slot is in two jobs"

    def settle(self):
        """Everything arrives, jobs end, time passes."""
        for load in list(self.loads):
            self.deliver(load)
        for _ in range(20):
            for each in self.pcts:
                if not each.is_connected:
                    self.reconnect(each)
                for job_id in list(each.hosts):
                    self.end(each, job_id)
                each.announce()
                while each.up or each.down:
                    if each.down:
                        each.take(each.down.popleft())
                    if each.up:
                        self.to_bebopd(each)
            self.pass_time()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 150), st.booleans())
def test_no_slot_is_in_two_jobs_and_all_become_free(seed, count, may_restart):
    world = World(may_restart)
    choose = random.Random(seed)
    for _ in range(count):
        choose.choice(list(world.steps()))()
    world.settle()
    assert world.partition.free() == {0: SLOTS, 1: SLOTS, 2: SLOTS}
    assert len(world.partition.machine.jobs) == 0
    assert not world.waiting, "a release was never answered"
    assert world.past.keys() == world.epochs.keys(), "a job has no final row"
    assert all(row.state.is_final for row in world.past.values())
    assert not list(world.partition.machine.accounting)
    if not may_restart:
        assert world.freed_s == pytest.approx(world.held_s), "slots were held that no row has"
