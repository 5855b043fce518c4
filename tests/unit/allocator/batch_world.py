"""A small world around bebopd's batch jobs, in which everything may happen in any order.

Disk and machine of bebopd are real, and so are slots and brokers of the nodes. bebopd may be
killed between any two of its actions, connections break with what is on them, PCTs restart,
the disk refuses, users come back with the submission that was not answered.
"""

from collections import Counter
from itertools import count

from allocator.batch.job import (
    BatchRecorded,
    ForgetSteps,
    RecordBatchJob,
    SendEvents,
    SendHistory,
    SendRows,
    StartBroker,
)
from allocator.bebopd import Bebopd
from allocator.jobs.grants import Owner
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.placement_list import ListPlacement
from allocator.queue.backfill import Backfill
from allocator.queue.policy import first_in_first_out
from allocator.records import LedgerError
from allocator.requests import ReserveJobIds
from native.errors import Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import DeadlineReached, PeerGone, Send
from native.wire import batch
from native.wire.alloc import Refused, Release, Released
from native.wire.base import NO_DEPENDENCY, State
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.batch_node import SLOTS, Pct
from tests.unit.allocator.batch_users import Users
from tests.unit.allocator.partition_of import DAEMON, NAMES, pct

FOREVER = 4000.0  # longer than anything is waited for


class Killed(Exception):
    """bebopd is killed."""


class World(Users):
    """All of it.

    Attributes:
        accepted: jobs whose users have an answer.
        running: scripts.
        begun: jobs and attempts whose scripts have begun.
        submitting, waiting: users who have no answer, by their connections.
        cancelled: jobs whose end this bebopd has promised.
        scripts_end: they do so by themselves.
        nodes_fail: some are not made ready for jobs.
    """

    placement = ArrayPlacement  # makes what chooses slots, where some pass others

    def __init__(self, choose):
        self.choose = choose
        self.now = 1000.0
        self.epoch = 0
        self.disk = Disk()
        self.machine = None
        self.fuse = -1  # actions until bebopd is killed; below 0: it is not
        self.unkept = []
        self.limits = Limits(overtime_s=60.0, switches_wait_s=20.0)
        self.peers = (PortalId(9, 70000 + number) for number in count())
        self.accepted = {}  # job id by token
        self.after, self.arrays = {b"": NO_DEPENDENCY}, {}  # dependencies and elements, by token
        self.exclusive = set()  # tokens
        self.running, self.begun, self.withdrawn = Counter(), set(), Counter()
        self.submitting, self.waiting, self.holding = {}, {}, {}
        self.limiting = {}  # seconds that users have asked for, by their connections
        self.suspending = set()  # connections of users who have jobs suspended or resumed
        self.cancelling, self.cancelled = set(), set()
        self.haste = choose.choice((0.05, 0.3, 1.0))  # with which PCTs connect again
        self.scripts_end = choose.random() < 0.6
        self.nodes_fail = choose.random() < 0.5
        self.backfills = choose.random() < 0.5
        self.pcts = [Pct(number, self) for number in range(3)]
        self.begin_bebopd()

    def unix_time(self):
        return self.now + 5000.5

    # bebopd

    def begin_bebopd(self):
        self.epoch += 1
        self.unkept = []
        self.machine = Bebopd(
            self.placement() if self.backfills else ListPlacement(),
            policy=Backfill if self.backfills else first_in_first_out,
            epoch=self.epoch,
            next_job_id=self.disk.first_id(),
            sign=lambda data: b"mac of " + data[:8],
            job_key=lambda job_id, uid, expires: f"{job_id} {uid} {expires}".encode(),
            owner_of=lambda uid: Owner(uid, NAMES[uid], uid) if uid in NAMES else None,
            wall_clock=self.unix_time,
            limits=self.limits,
            **self.site(),
        )

    def kill_bebopd(self):
        """Of what it has sent, some is on its way; users see that it has gone."""
        self.machine, self.fuse, self.unkept = None, -1, []
        earlier = self.disk.batch.earlier().jobs
        self.cancelled = {job.job_id for job in earlier if job.is_cancelled}
        for each in self.pcts:
            each.up.clear()
            for _ in range(self.choose.randint(0, len(each.down))):
                each.down.pop()
        self.waiting = {next(self.peers): asked for asked in self.waiting.values()}
        self.submitting = {next(self.peers): message for message in self.submitting.values()}

    def handle(self, event):
        if self.machine is None:
            return
        try:
            actions = self.machine.handle(event, self.now)
            self.machine.check()
            for action in actions:
                self.perform(action)
        except Killed:
            self.kill_bebopd()

    def burn(self):
        if self.fuse == 0:
            raise Killed
        self.fuse -= self.fuse > 0

    def perform(self, action):
        self.burn()
        match action:
            case Send(target, message):
                self.send(target, message)
            case ReserveJobIds(end):
                if self.disk.is_full:
                    raise Killed
                self.disk.used_below = end
            case RecordBatchJob():
                self.unkept.append(action)
            case ForgetSteps():
                pass
            case StartBroker(target, job, gid, groups):
                self.check_start(target, job)
                task = self.disk.batch.task(job.job_id)
                owner = job.uid, gid, groups
                words = (job.job_id, *owner, job.name, job.time_s, task, job.attempt)
                self.send(target, batch.Start(*words))
                self.burn()
                self.send(target, job.grant)
            case SendRows(target, _, _):
                self.check_ended(self.waiting.pop(target))
            case SendHistory() | SendEvents():
                raise AssertionError(action)

    def keep(self):
        """The disk is written, or refuses; or bebopd is killed before or behind it."""
        records, self.unkept = self.unkept, []
        error = ""
        try:
            self.burn()
            self.disk.batch.keep(records)
            self.burn()
        except Killed:
            return self.kill_bebopd()
        except LedgerError as raised:
            error = str(raised)
        job_ids = dict.fromkeys(record.job.job_id for record in records)
        self.handle(BatchRecorded(tuple(job_ids), error))

    def send(self, target, message):
        match message:
            case batch.Submitted(job_id, token):
                assert self.disk.state(job_id) is not None, "answered before it is on the disk"
                assert self.accepted.setdefault(token, job_id) == job_id, "one job, two ids"
                self.submitting.pop(target, None)
            case Refused(code) if target in self.ordering():
                ended = (Refusal.UNKNOWN_JOB, Refusal.BUSY)  # or it ends
                assert code in (*ended, Refusal.NOT_RECORDED), message
                self.limiting.pop(target, None)
                self.holding.pop(target, None)
                self.suspending.discard(target)
                self.cancelling.discard(target)
            case Refused(code):
                # A job that could never begin is refused as well.
                assert code in (Refusal.NOT_RECORDED, Refusal.BAD_REQUEST), message
                if (refused := self.submitting.pop(target, None)) is not None:
                    assert refused.token not in self.accepted, "refused what was accepted"
            case batch.Done(job_id) if target in self.limiting:
                assert self.disk.time_s(job_id) == self.limiting.pop(target), "not on the disk"
            case batch.Done(job_id) if target in self.holding:
                assert self.disk.is_held(job_id) == self.holding.pop(target), "not on the disk"
            case batch.Done() if target in self.suspending:
                self.suspending.remove(target)
            case batch.Done(job_id):
                self.cancelling.remove(target)
                self.cancelled.add(job_id)
            case Released():
                pass
            case _:
                if isinstance(message, batch.Heard):
                    state = self.disk.state(message.job_id)
                    is_again = message.attempt < self.disk.attempt(message.job_id)
                    assert state.is_final or is_again, f"heard what is not on the disk: {state}"
                for each in self.pcts:
                    if pct(each.number) == target and each.connection == self.epoch:
                        each.down.append(message)

    # What must hold

    def check_start(self, target, job):
        state = self.disk.state(job.job_id)
        assert state is State.CONFIGURING, f"started while the disk says {state}"
        assert not self.disk.is_held(job.job_id), "started though it is held"
        assert job.begins <= self.unix_time(), "started before its time"
        after = self.after[job.token]
        met = [self.is_met(each) for each in after.on]
        assert any(met) if after.is_any and met else all(met), "started before its turn"
        assert pct(self.disk.nodes(job.job_id)[0][0]) == target, "started elsewhere"
        if job.token in self.exclusive and job.grant is not None:
            assert {node.slots for node in job.grant.nodes} == {SLOTS}, "not alone on its nodes"

        for each in self.pcts:
            process, node = each.processes.get(job.job_id), self.machine.nodes.get(each.number)
            if process is not None and process.grant.attempt < job.attempt:
                assert node is None or not node.is_up, "two attempts, and bebopd knows of both"

    def check_ended(self, asked):
        for job_id in asked:
            state = self.disk.state(job_id)
            assert state is not None and state.is_final, f"told of the end of {state}"

    def prolog_fails(self):
        """A node is not made ready for a job."""
        return self.nodes_fail and self.choose.random() < 0.4

    def script_starts(self, job_id, attempt):
        assert (job_id, attempt) not in self.begun, "a script runs twice"
        self.begun.add((job_id, attempt))
        self.running[job_id] += 1

    def script_ended(self, job_id):
        self.running[job_id] -= 1

    def gives_back(self, grant):
        """The nodes of a job have none of it any more."""
        for each in (self.pcts[node.node] for node in grant.nodes):
            is_here = each.reservation.attempt(grant.job_id) == grant.attempt
            if is_here and grant.job_id in each.hosts:
                each.end(grant.job_id)

    # What can happen now, as a list of calls.

    def steps(self):
        yield from (self.submit,) * 3
        yield self.pass_time
        if self.disk.is_full or self.choose.random() < 0.2:
            yield self.fill_or_empty_disk
        if self.machine is None:
            yield self.begin_bebopd
        else:
            if self.choose.random() < 0.2:
                yield self.set_fuse
            if self.unkept:
                yield from (self.keep,) * 4
            if self.submitting:
                yield self.submit_again
            if self.accepted:
                yield from (self.cancel,) * 2
                yield self.limit_time
                yield self.suspend
                yield self.hold
                yield self.wait_for
            if self.waiting:
                yield self.stop_waiting
        for each in self.pcts:
            yield from self.steps_of(each)

    def steps_of(self, each):
        if each.is_connected:
            if self.choose.random() < 0.3:
                yield lambda: self.cut(each)
            if each.down:
                yield lambda: each.take(each.down.popleft())
            elif each.connection != self.epoch or self.machine is None:
                yield lambda: self.lose_bebopd(each)
            elif each.up:
                yield from (lambda: self.to_bebopd(each),) * 2
                yield each.announce
        elif self.machine is not None and self.choose.random() < self.haste:
            yield from (lambda: self.connect(each),) * 2
        if self.choose.random() < 0.1:
            yield lambda: self.restart(each)
        for job_id in each.processes:
            yield from (lambda job_id=job_id: each.goes_on(job_id),) * 2
            if self.choose.random() < 0.2:
                yield lambda job_id=job_id: each.broker_gone(job_id, 9, b"")

    def set_fuse(self):
        self.fuse = self.choose.randint(0, 12)

    def fill_or_empty_disk(self):
        self.disk.is_full = not self.disk.is_full

    def pass_time(self, seconds=None):
        until = self.now + (seconds or self.choose.choice((1.0, 11.0, 70.0, 400.0)))
        while self.machine is not None:
            due = self.machine.deadline()
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            self.handle(DeadlineReached())
        self.now = until
        self.check_times()

    # Nodes

    def connect(self, each):
        each.is_connected, each.connection = True, self.epoch
        each.up.clear()
        each.down.clear()
        each.announce()

    def lose_bebopd(self, each):
        each.is_connected = False
        each.up.clear()
        each.brokers.bebopd_lost()

    def cut(self, each):
        self.lose_bebopd(each)
        each.down.clear()
        if self.machine is not None and each.connection == self.epoch:
            each.connection = 0
            self.handle(PeerGone(pct(each.number), "connection reset"))

    def restart(self, each):
        if each.is_connected:
            self.cut(each)
        each.dies()
        each.restart()

    def to_bebopd(self, each):
        self.receive(pct(each.number), each.up.popleft(), DAEMON)

    def release(self, grant):
        """A broker gives its slots back."""
        principal = Principal(PrincipalKind.JOB, 1000, grant.job_id)
        self.receive(next(self.peers), Release(grant.job_id, None, grant.attempt), principal)

    def settle(self):
        """Everything arrives, everything goes on, time passes."""
        self.disk.is_full, self.fuse, self.scripts_end = False, -1, False
        for round_ in range(100 + 5 * sum(self.arrays.values())):
            if round_ == 10:
                self.order_some()
            if round_ == 50:
                ended = [job_id for job_id in self.cancelled if self.disk.state(job_id).is_final]
                assert len(ended) == len(self.cancelled), "cancelled, and goes on"
                self.check_orders()
                over = [job_id for job_id in +self.running if self.disk.state(job_id).is_final]
                assert not over, f"their ends are recorded, and they run: {over}"
                self.scripts_end = True
            if self.machine is None:
                self.begin_bebopd()
            self.release_held()
            for each in self.pcts:
                if each.connection != self.epoch:
                    self.lose_bebopd(each)
                if not each.is_connected:
                    self.connect(each)
                each.announce()
            self.arrive()
            for each in self.pcts:
                for job_id in list(each.processes):
                    if job_id in each.processes:
                        each.goes_on(job_id)
            self.arrive()
            for peer, message in list(self.submitting.items()):
                del self.submitting[peer]
                self.say_submit(message)
            for peer, asked in list(self.waiting.items()):
                if round_ == 0:
                    self.receive(peer, batch.Ask(asked, waits=True))
            self.pass_time(5.0)

    def order_some(self):
        """Each job that runs is ended, suspended or limited, and what its node is sent is lost."""
        for job_id in self.accepted.values():
            job = self.machine.batch.get(job_id)
            if job is None or job.state is not State.RUNNING or job.is_cancelled:
                continue
            if job_id % 2:
                self.say_cancel(job_id)
            elif job_id % 4:
                self.say_suspend(job_id, not job.is_suspended)
            else:
                self.say_limit(job_id)
                self.keep()  # the order is sent then
            self.cut(self.pcts[job.root])

    def arrive(self):
        while self.unkept or any(each.up or each.down for each in self.pcts):
            if self.unkept:
                self.keep()
            for each in self.pcts:
                if each.down:
                    each.take(each.down.popleft())
                if each.up:
                    self.to_bebopd(each)

    def check_settled(self):
        """Nothing is lost, and nothing is left."""
        states = self.disk.states()
        for job_id in self.accepted.values():
            assert job_id in states, f"job {job_id} was accepted and is lost"
        left = {job_id: state for job_id, state in states.items() if not state.is_final}
        assert not left, f"they never end: {left}"
        self.disk.check_arrays(self.sizes_of_arrays())
        self.disk.check_lost(self.limits.requeues_count)
        assert not self.submitting, "never answered"
        assert not self.waiting, "waits for ever"
        assert not +self.running, "still runs"
        assert len(self.machine.batch) == 0
        assert len(self.machine.jobs) == 0, "slots are held for ever"
        for each in self.pcts:
            assert not each.brokers, "a broker is never forgotten"
            assert not each.hosts
            assert self.machine.nodes.get(each.number).free() == SLOTS


def play(choose, steps, kind=World):
    """One run of a world of this kind, checked."""
    world = kind(choose)
    try:
        for each in world.pcts:
            world.connect(each)
        world.arrive()
        for _ in range(steps):
            choose.choice(list(world.steps()))()
        world.settle()
        world.check_settled()
    finally:
        world.disk.close()
    return world
