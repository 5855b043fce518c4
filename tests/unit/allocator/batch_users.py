"""What the users of the world around bebopd's batch jobs do."""

from msgspec.structs import replace

from allocator.batch.job import Held
from native.machine import MessageReceived, PeerGone
from native.wire import batch
from native.wire.base import (
    NO_DEPENDENCY,
    NO_TERMS,
    After,
    AfterKind,
    Array,
    Dependency,
    State,
    Terms,
)
from tests.unit.allocator.partition_of import ALICE, spec

SPECS = (spec(1), spec(2), spec(5), spec(1, 1), spec(2, 2, 0, one_per_node=True))


class Users:
    """A part of :class:`tests.unit.allocator.batch_world.World`."""

    specs = SPECS

    def receive(self, peer, message, principal=ALICE):
        self.handle(MessageReceived(peer, principal, message))

    def site(self):
        """What a bebopd is given beside what all are."""
        return {"earlier": self.disk.batch.earlier()}

    def terms(self, wanted):
        """Those of a new job."""
        return Terms(requeue_lost=True) if self.choose.random() < 0.5 else NO_TERMS

    def check_times(self):
        """No job runs beyond its time and the grace where bebopd and its node hear each other."""
        grace_s = self.limits.kill_wait_s + self.limits.overtime_s
        for each in self.pcts:
            if self.machine is None or each.connection != self.epoch or each.up or each.down:
                continue
            for job_id, process in each.processes.items():
                job = self.machine.batch.get(job_id)
                is_it = job is not None and job.attempt == process.grant.attempt
                if is_it and job.state is State.RUNNING and job.limit_s:
                    late_s = self.unix_time() - job.began - job.limit_s
                    assert late_s < grace_s, f"job {job_id} is {late_s} s over its time"

    def submit(self):
        if len(self.submitting) + len(self.accepted) > 30:
            return
        token = self.choose.randbytes(16)
        self.after[token] = after = self.dependency()
        if token[0] < 26:  # one in ten
            self.exclusive.add(token)
        wanted = self.choose.choice(self.specs)
        words = (wanted, "a", 0.0, b"task", after, token in self.exclusive)
        message = batch.Submit(token, *words, terms=self.terms(wanted))
        message = replace(message, **self.times(token))
        if token[3] % 8 == 0:
            array = Array(((0, token[4] % 5, 1),), token[5] % 3)
            self.arrays[token] = array.count
            message = replace(message, array=array)
        self.say_submit(message)

    def times(self, token):
        """One in eight jobs begins later, as many have a deadline."""
        match token[1] % 8:
            case 0:
                return {"begins": self.unix_time() + token[2] / 8}
            case 1:
                return {"time_s": 60.0, "deadline": self.unix_time() + 61.0 + token[2] / 8}
        return {}

    def dependency(self):
        """On jobs of before, of which some have ended."""
        if not self.accepted or self.choose.random() < 0.6:
            return NO_DEPENDENCY if self.choose.random() < 0.9 else Dependency((), False, True)
        count = self.choose.randint(1, 3)
        job_ids = [self.choose.choice(list(self.accepted.values())) for _ in range(count)]
        kinds = [kind for kind in AfterKind if kind is not AfterKind.CORRESPONDS]
        on = tuple(After(self.choose.choice(kinds), job_id) for job_id in job_ids)
        return Dependency(on, self.choose.random() < 0.3)

    def submit_again(self):
        """A user has lost the connection, or has not."""
        peer = self.choose.choice(list(self.submitting))
        message = self.submitting[peer]
        if self.choose.random() < 0.7:
            del self.submitting[peer]
            self.handle(PeerGone(peer, "closed"))
        if self.machine is not None:
            self.say_submit(message)

    def say_submit(self, message):
        if any(node.is_up for node in (self.machine.nodes if self.machine else ())):
            if len(list(self.machine.nodes)) < len(self.pcts):
                return  # it might be refused as too large
            peer = next(self.peers)
            self.submitting[peer] = message
            self.receive(peer, message)

    def cancel(self):
        job_id = self.choose.choice(list(self.accepted.values()))
        job = self.machine.batch.get(job_id)
        if job is None or job.state.is_final:
            return
        if job.elements is not None and job.left and self.withdraw(job):
            return
        if job.state is not State.PENDING or self.choose.random() < 0.3:
            self.say_cancel(job_id)
            if job.root >= 0 and self.choose.random() < 0.3:
                self.cut(self.pcts[job.root])  # with what was sent

    def withdraw(self, job):
        """Of some arrays an element that has not begun never does."""
        token = next(each for each, known in self.accepted.items() if known == job.job_id)
        if token[6] >= 64:
            return False
        indices = list(job.elements.left.indices())
        index = indices[token[7] % len(indices)]
        self.withdrawn[token] += 1
        self.say_cancel(job.job_id, Array(((index, index, 1),)))
        return True

    def sizes_of_arrays(self):
        """How many elements become jobs at least, and at most, by id."""
        sizes = {
            token: (count - self.withdrawn[token], count) for token, count in self.arrays.items()
        }
        return {self.accepted.get(token): size for token, size in sizes.items()}

    def say_cancel(self, job_id, elements=None):
        peer = next(self.peers)
        (self.cancelling if elements is None else self.suspending).add(peer)  # the job goes on
        self.receive(peer, batch.Cancel(job_id, elements))

    def limit_time(self):
        job_id = self.choose.choice(list(self.accepted.values()))
        job = self.machine.batch.get(job_id)
        if job is None or job.state.is_final or self.unkept:
            return
        self.say_limit(job_id)
        if job.root >= 0 and self.choose.random() < 0.3:
            self.cut(self.pcts[job.root])

    def say_limit(self, job_id):
        peer = next(self.peers)
        self.limiting[peer] = seconds = float(self.choose.randint(1, 1000))
        self.receive(peer, batch.LimitTime(job_id, seconds))

    def suspend(self):
        """Or resume, or requeue."""
        job_id = self.choose.choice(list(self.accepted.values()))
        job = self.machine.batch.get(job_id)
        if job is None or job.state is not State.RUNNING or job.is_cancelled:
            return
        if (node := self.machine.nodes.get(job.root)) is not None and node.is_up:
            if self.choose.random() < 0.2:
                self.say_requeue(job_id)
            else:
                self.say_suspend(job_id, self.choose.random() < 0.5)
            if self.choose.random() < 0.3:
                self.cut(self.pcts[job.root])

    def say_requeue(self, job_id):
        peer = next(self.peers)
        self.suspending.add(peer)  # it is answered in the same way
        self.receive(peer, batch.Requeue(job_id))

    def say_suspend(self, job_id, is_on):
        peer = next(self.peers)
        self.suspending.add(peer)
        self.receive(peer, batch.Suspend(job_id, is_on))

    def stands_still(self, job_id):
        """Whether others have a job's slots."""
        return False

    def hold(self):
        """Or release."""
        job_id = self.choose.choice(list(self.accepted.values()))
        job = self.machine.batch.get(job_id)
        if job is not None and job.state is State.PENDING and not self.unkept:
            self.say_hold(job_id, job.held is Held.BY_NOBODY)

    def say_hold(self, job_id, is_on):
        peer = next(self.peers)
        self.holding[peer] = is_on
        self.receive(peer, batch.Hold(job_id, is_on))

    def release_held(self):
        for job in [] if self.unkept else list(self.machine.batch):
            if job.held is not Held.BY_NOBODY and job.state is State.PENDING:
                self.say_hold(job.job_id, False)

    def check_orders(self):
        """Brokers know the limits that the disk has, and whether they are to stand still."""
        for each in self.pcts:
            for job_id, process in each.processes.items():
                if not self.disk.state(job_id).is_final:
                    job = self.machine.batch.get(job_id)
                    assert job.time_s == self.disk.time_s(job_id), "an old time limit"
                    assert process.time_s == job.limit_s, "an old time limit"
                    is_still = job.shown_state is State.SUSPENDED
                    assert process.is_suspended == is_still, "an old suspension"

    def ordering(self):
        """Who has ordered something, by their connections."""
        return {*self.limiting, *self.suspending, *self.holding, *self.cancelling}

    def wait_for(self):
        asked = tuple(self.choose.sample(list(self.accepted.values()), 1))
        peer = next(self.peers)
        self.waiting[peer] = asked
        self.receive(peer, batch.Ask(asked, waits=True))

    def stop_waiting(self):
        peer = self.choose.choice(list(self.waiting))
        del self.waiting[peer]
        self.handle(PeerGone(peer, "closed"))

    def is_met(self, after):
        """By the disk, which is told of beginnings a moment later than the others."""
        state = self.disk.state(after.job_id)
        match after.kind:
            case AfterKind.BEGUN:
                return state is not State.PENDING or self.disk.has_begun(after.job_id)
            case AfterKind.ENDED:
                return state.is_final
            case AfterKind.OK:
                return state is State.COMPLETED
        return state.is_final and state is not State.COMPLETED
