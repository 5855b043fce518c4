"""Jobs that a user or an operator ends by bebopd, whatever their yods do (pingd).

A request names jobs by conditions, and how they are to end. Who asks may end jobs of their own;
an operator those of all users. Of an interactive job the PCTs are told to signal the ranks. If
the job is still there later, more is done::

    INTERRUPT   SIGTERM
    NICEKILL    SIGTERM --nice_kill_s--> SIGKILL --end_s--> reset
    RESET       SIGKILL --end_s--> reset

A launch that gives way (``yod -nice``) ends as at a nicekill, in the grace of its queue if that has
one. Where it makes a checkpoint before, its yod is asked for that first, and has as long as the
launch wants, and at most ``nice_checkpoint_s``::

    write down --checkpoint_s--> SIGTERM --grace--> SIGKILL --end_s--> reset

A reset has each PCT end the job at once, and releases its slots: its yod may be stopped, or gone
without its connection. A request that names nodes is about the ranks there; the slots stay with the
job, so it is not reset. A batch job ends as at a cancel, since its script decides about its steps:
SIGTERM, after ``kill_wait_s`` SIGKILL; by RESET at once.

Kept in memory: after a restart of bebopd nothing more is done to a job.

Pure. Source: Cplant's pingd, -interrupt, -nicekill, -reset.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from signal import SIGKILL, SIGTERM

from msgspec import Struct

from allocator.batch.job import RecordEvent
from allocator.batch.table import BatchJobs
from allocator.jobs.accounting import Accounting
from allocator.jobs.assign import RequestRefused, unknown_text
from allocator.jobs.job import Job, JobState
from allocator.jobs.table import JobTable
from allocator.nodes.table import NodeTable
from native.deadlines import Deadlines
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Log, Send
from native.wire import nodes as wire
from native.wire.alloc import GiveWay
from native.wire.base import NAME_MAX, clipped
from native.wire.group import WriteDown
from native.wire.nodes import Ending
from native.wire.status import is_batch_job

WORDS = {
    Ending.INTERRUPT: "interrupted",
    Ending.NICEKILL: "interrupted, to be killed later,",
    Ending.RESET: "reset",
}


class Step(IntEnum):
    """What is done next to a job that does not end; each is more than the one before."""

    TERMINATE = 1
    KILL = 2
    RESET = 3


class Planned(Struct, frozen=True):
    """The next step.

    Attributes:
        by: who has asked.
        grace_s: from SIGTERM to SIGKILL, of a step TERMINATE.
    """

    step: Step
    by: str
    grace_s: float = 0.0


class Endings:
    """The jobs that are being ended. Methods return the actions to carry out."""

    def __init__(
        self,
        nodes: NodeTable,
        jobs: JobTable,
        accounting: Accounting,
        batch_jobs: BatchJobs,
        limits: Limits,
    ) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._accounting = accounting
        self._batch = batch_jobs
        self._limits = limits
        self._due: Deadlines[int] = Deadlines()
        self._next: dict[int, Planned] = {}  # by job

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        return self._due.earliest()

    def asked(
        self, source: PortalId, asked: wire.EndJobs, viewer: int | None, by: str, now: float
    ) -> list[Action]:
        """A user asks to end jobs.

        Args:
            viewer: whose jobs the user may end; None: an operator, who may end all.
            by: the user's name.

        Raises:
            RequestRefused: there is no such job or node, or the job is another user's.
        """
        if unknown := [number for number in asked.nodes if not self._nodes.is_known(number)]:
            raise RequestRefused(Refusal.UNKNOWN_NODE, unknown_text(unknown, self._nodes))
        if asked.nodes and asked.how is Ending.NICEKILL:
            text = "a nicekill is for whole jobs: it names no nodes"
            raise RequestRefused(Refusal.BAD_REQUEST, text)
        wanted = frozenset(asked.nodes)
        latest = [job for job in self._jobs if self._jobs.get(job.job_id) is job]
        met = [job for job in latest if self._meets(job, asked, wanted)]
        ours = [job for job in met if viewer in (None, job.uid)]
        if asked.job_id and not met:
            text = f"no job {asked.job_id} holds nodes here that meet all conditions"
            raise RequestRefused(Refusal.UNKNOWN_JOB, text)
        if asked.job_id and not ours:
            text = f"job {asked.job_id} belongs to {met[0].owner}"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        actions: list[Action] = []
        told: set[int] = set()
        for job in sorted(ours, key=lambda job: job.job_id):
            here = [number for number in job.holdings if not wanted or number in wanted]
            told.update(here)
            actions += self._begin(job, here, asked.how, by, now)
        owned = [wire.OwnedJob(job.job_id, job.owner) for job in ours]
        first = tuple(sorted(owned, key=lambda job: job.job_id)[: wire.JOBS_MAX])
        answer = wire.JobsEnding(first, len(ours), len(told), len(met) - len(ours))
        return [*actions, Send(source, answer)]

    def is_ending(self, job_id: int) -> bool:
        """Whether a job is to be terminated, killed or reset."""
        return job_id in self._next

    def give_way(
        self, job: Job, why: str, checkpoint_s: float, grace_s: float, now: float
    ) -> list[Action]:
        """A launch ends so that others have its slots.

        Args:
            checkpoint_s: so long it may be written down before; 0: it is not.
        """
        actions: list[Action] = [RecordEvent(job.job_id, why), Log(why, job.job_id)]
        if not checkpoint_s:
            return actions + self._terminate(job, why, grace_s, now)
        assert job.requester is not None, "its yod writes it down"
        self._later(job, Planned(Step.TERMINATE, why, grace_s), now + checkpoint_s)
        text = clipped(f"{why} (-nice), behind a checkpoint within {checkpoint_s:g} s")
        return [*actions, Send(job.requester, WriteDown(job.job_id, text, gives_way=True))]

    def _terminate(self, job: Job, why: str, grace_s: float, now: float) -> list[Action]:
        """Tell the yod and the ranks of a launch that gives way."""
        by = clipped(why, NAME_MAX)
        text = f"{why} (-nice): SIGTERM sent to all ranks, SIGKILL in {grace_s:g} s"
        actions: list[Action] = []
        if job.requester is not None:
            actions.append(Send(job.requester, GiveWay(job.job_id, clipped(text))))
        actions += self._signal(job, job.holdings, SIGTERM, by)
        if job.state in (JobState.PENDING, JobState.REVOKING):  # no PCT may have heard of it
            actions += self._jobs.release(job, None, now)
            self._later(job, Planned(Step.RESET, by), now + self._limits.end_s)
        else:
            self._later(job, Planned(Step.KILL, by), now + grace_s)
        return actions

    def due(self, now: float) -> list[Action]:
        """Go on with the jobs that are still there."""
        actions: list[Action] = []
        for job_id in self._due.due(now):
            planned = self._next.pop(job_id)
            self._due.set(job_id, None)
            job = self._jobs.get(job_id)
            if job is None:
                continue
            match planned:
                case Planned(Step.TERMINATE, why, grace_s):
                    actions += self._terminate(job, why, grace_s, now)
                case Planned(Step.KILL, by):
                    actions += self._signal(job, job.holdings, SIGKILL, by)
                    self._later(job, Planned(Step.RESET, by), now + self._limits.end_s)
                case Planned(Step.RESET, by):
                    actions.append(Log(f"reset, it has not ended: asked for by {by}", job_id))
                    actions += self._accounting.told(job_id, None, by, now)
                    actions += [*self._jobs.reset(job), *self._jobs.release(job, None, now)]
        return actions

    def _meets(self, job: Job, asked: wire.EndJobs, wanted: Collection[int]) -> bool:
        return (
            asked.job_id in (0, job.job_id)
            and asked.uid in (-1, job.uid)
            and (not asked.batch_job or is_batch_job(job.batch_job, asked.batch_job))
            and (not wanted or not job.holdings.keys().isdisjoint(wanted))
        )

    def _begin(
        self, job: Job, numbers: Collection[int], how: Ending, by: str, now: float
    ) -> list[Action]:
        batch = self._batch.get(job.job_id)
        if batch is not None:
            actions = self._batch.cancel(batch, by, now)
            return actions + (self._batch.cancel(batch, by, now) if how is Ending.RESET else [])
        said = f"{WORDS[how]} by {by}"
        actions = [RecordEvent(job.job_id, said), Log(said, job.job_id)]
        is_whole = len(numbers) == len(job.holdings)
        number = SIGKILL if how is Ending.RESET else SIGTERM
        actions += self._signal(job, numbers, number, by)
        if job.state in (JobState.PENDING, JobState.REVOKING):  # no PCT may have heard of it
            actions += self._jobs.release(job, None, now)
            self._later(job, Planned(Step.RESET, by), now + self._limits.end_s)
        elif how is Ending.NICEKILL:
            self._later(job, Planned(Step.KILL, by), now + self._limits.nice_kill_s)
        elif how is Ending.RESET and is_whole:
            self._later(job, Planned(Step.RESET, by), now + self._limits.end_s)
        return actions

    def _later(self, job: Job, step: Planned, at: float) -> None:
        """Plan the next step. What is planned already is neither put off nor made less."""
        planned = self._next.get(job.job_id)
        if planned is None or planned.step < step.step:
            self._next[job.job_id] = step
            self._due.set(job.job_id, at)

    def _signal(self, job: Job, numbers: Collection[int], number: int, by: str) -> list[Action]:
        peers = [node.peer for each in numbers if (node := self._nodes.get(each)) and node.is_up]
        return [Send(peer, wire.SignalJob(job.job_id, number, by)) for peer in peers]
