"""A node with a PCT for batch jobs: its slots and brokers are real, its processes are not."""

from collections import deque

from native.wire import batch, codec
from native.wire.alloc import Freed, Grant, Hosting, Revoke, Revoked
from native.wire.base import JobEnd, State
from native.wire.load import Reset
from native.wire.status import Accepted, Announce, HostedJob, distances
from pct.brokers import (
    BeginBroker,
    BrokerGone,
    Brokers,
    BrokerStarted,
    KillBroker,
    TellBroker,
)
from pct.reservation import Reservation
from tests.unit.allocator.partition_of import pct

SLOTS = 2
STARTING, OPENING, RUNNING, ENDING = "starting", "opening", "running", "ending"


class Process:
    """A broker and its script."""

    def __init__(self, grant):
        self.grant = grant
        self.phase = STARTING
        self.is_told_to_end = 0
        self.is_suspended = False


class Pct:
    """One node.

    Attributes:
        is_connected: it has not noticed that its connection has ended.
        connection: the epoch of the bebopd at its other end; 0: there is none.
        up, down: messages to and from bebopd.
        hosts: slots by the jobs that hold them.
        processes: brokers, by job.
    """

    def __init__(self, number, world):
        self.number = number
        self.world = world
        self.incarnation = 0
        self.restart()

    def restart(self):
        """A new PCT in the place of the old one, of which nothing is left."""
        self.incarnation += 1
        self.is_connected = False
        self.connection = 0
        self.up, self.down = deque(), deque()
        self.brokers = Brokers()
        self.reservation = Reservation(SLOTS, 64)
        self.hosts = {}
        self.processes = {}

    def announce(self):
        jobs = tuple(
            HostedJob(
                job_id,
                1000,
                len(ranks),
                distances(ranks),
                0.0,
                attempt=self.reservation.attempt(job_id),
                loans=self.reservation.loans(job_id),
            )
            for job_id, ranks in self.hosts.items()
        )
        me = pct(self.number)
        name, brokers = f"node{self.number}", self.brokers.job_ids
        first = (self.number, name, SLOTS, *me, self.incarnation)
        self.up.append(Announce(*first, jobs, brokers, attempts=self.brokers.attempts))

    def take(self, message):
        """A message of bebopd's."""
        brokers = self.brokers
        match message:
            case Accepted(_, epoch):
                self.reservation.epoch = epoch
                self.up.extend(send.message for send in brokers.unheard(None))
            case Revoke(job_id, attempt):
                is_hosting = self.reservation.refuse(job_id, attempt)
                self.up.append(Revoked(job_id, self.number, is_hosting, attempt))
            case Reset(job_id, attempt):
                if job_id in self.hosts and self.reservation.attempt(job_id) == attempt:
                    self.end(job_id)
                else:
                    self.reservation.refuse(job_id, attempt)
                    self.up.append(Freed(job_id, ((self.number, 1),), attempt))
            case batch.Start():
                self.perform(brokers.told(message))
            case Grant():
                self.perform(brokers.granted(None, message))
            case batch.EndBroker():
                self.perform(brokers.end(None, message, 0.0))
            case batch.SignalScript() | batch.LimitTime() | batch.Suspend():
                self.perform(brokers.pass_on(message))
            case batch.Heard():
                self.perform(brokers.heard(message))
            case _:
                raise AssertionError(message)
        brokers.check()

    def perform(self, actions):
        for action in actions:
            match action:
                case BeginBroker(job_id, start, grant):
                    assert job_id not in self.processes, "a broker of this job runs already"
                    self.processes[job_id] = Process(grant)
                    self.processes[job_id].time_s = start.time_s
                case TellBroker(job_id, batch.EndBroker()):
                    if job_id in self.processes:
                        self.processes[job_id].is_told_to_end += 1
                        self.processes[job_id].is_suspended = False
                case TellBroker(job_id, batch.LimitTime(_, time_s)):
                    if job_id in self.processes:
                        self.processes[job_id].time_s = time_s
                case TellBroker(job_id, batch.Suspend(_, is_on)):
                    if job_id in self.processes:
                        self.processes[job_id].is_suspended = is_on
                case TellBroker():
                    pass
                case KillBroker(job_id):
                    if job_id in self.processes:
                        self.broker_gone(job_id, 9, b"")
                case _ if hasattr(action, "message"):
                    self.up.append(action.message)

    # What happens to a broker

    def goes_on(self, job_id):
        """A broker does the next thing that it has to do."""
        process = self.processes[job_id]
        match process.phase:
            case "starting":
                process.phase = OPENING
                self.happened(BrokerStarted(job_id))
            case "opening" if process.is_told_to_end:
                self.broker_says(job_id, State.CANCELLED)
            case "opening" if self.world.prolog_fails():
                self.broker_says(job_id, State.BOOT_FAIL)
            case "opening":
                if self.opens(process.grant):
                    process.phase = RUNNING
                    self.world.script_starts(job_id, process.grant.attempt)
                else:
                    self.broker_says(job_id, State.NODE_FAIL)
            case "running" if process.is_suspended and self.world.stands_still(job_id):
                pass
            case "running" if self.world.scripts_end or process.is_told_to_end:
                process.phase = ENDING
                self.world.script_ended(job_id)
                self.world.gives_back(process.grant)
                self.world.release(process.grant)
            case "ending":
                told = process.is_told_to_end
                state = State.CANCELLED if told else State.COMPLETED
                self.broker_says(job_id, state)

    def opens(self, grant):
        """Load the job on its nodes: all of them, or none."""
        credential = codec.decode_credential(grant.credential)
        ranks, taken = {}, []
        rank = 0
        for run in grant.runs:
            ranks.setdefault(run.place, []).extend(range(rank, rank + run.count))
            rank += run.count
        for place, node in enumerate(grant.nodes):
            other = self.world.pcts[node.node]
            if other.reservation.take(credential, node.slots, self.world.unix_time()):
                break
            other.hosts[grant.job_id] = tuple(ranks[place])
            taken.append(other)
        if len(taken) == len(grant.nodes):
            self.up.append(Hosting(grant.job_id, grant.attempt))
            return True
        for other in taken:
            other.end(grant.job_id)
        self.reservation.refuse(grant.job_id, credential.attempt)
        return False

    def end(self, job_id):
        """Nothing of a job is left here."""
        del self.hosts[job_id]
        attempt = self.reservation.attempt(job_id)
        self.reservation.give_back(job_id)
        self.up.append(Freed(job_id, ((self.number, 1),), attempt))

    def broker_says(self, job_id, state):
        """It ends in order."""
        outcome = JobEnd(state, 0, 0, "")
        self.broker_gone(job_id, 0, codec.encode_part(outcome))

    def broker_gone(self, job_id, wait_status, outcome):
        """It has ended, and its script; its nodes notice."""
        process = self.processes.pop(job_id)
        if process.phase == RUNNING:
            self.world.script_ended(job_id)
        self.world.gives_back(process.grant)
        self.happened(BrokerGone(job_id, wait_status, outcome))

    def happened(self, event):
        self.perform(self.brokers.happened(event, None, self.number, 0.0))

    def dies(self):
        """The PCT ends, and all that it has started."""
        for job_id in list(self.processes):
            process = self.processes.pop(job_id)
            if process.phase == RUNNING:
                self.world.script_ended(job_id)
            self.world.gives_back(process.grant)
        self.hosts.clear()
