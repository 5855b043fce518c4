"""Requests for nodes that wait for other jobs first: yods with ``--after``.

A request that waits holds no slot and has no place in the line, so it holds back nobody. When the
other jobs have begun or ended as it asks, it is treated as any request; when they never can, it is
refused.
The jobs are those of this bebopd: steps in an allocation, else launches and batch jobs.

Pure: no clock, no transport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from allocator.batch.table import BatchJobs
from allocator.jobs.assign import RequestRefused
from allocator.jobs.choosing import claim_of
from allocator.jobs.dependencies import Judgement, Progress, Verdict, judge
from allocator.jobs.grants import Owner
from allocator.jobs.outcomes import Outcomes
from allocator.jobs.table import HAS_RUN, JobTable, RecordEnd
from allocator.requests import Requests
from native.errors import Refusal
from native.ids import PortalId, Principal, name_of_job
from native.limits import Limits
from native.machine import Action, Log, Send
from native.wire.alloc import Grant, NodeRequest, Queued, Refused
from native.wire.base import NO_DEPENDENCY, JobEnd, clipped


class _Dependent(Struct, eq=False):
    """A request that waits; its ``after`` is what it still waits for."""

    source: PortalId
    principal: Principal
    owner: Owner
    request: NodeRequest
    text: str


class Dependents:
    """The requests of a partition that wait for jobs. Methods return the actions to carry out.

    Args:
        refuses: says why no request is granted any more; empty: they are.
        allocation: whose steps the jobs are; empty: they are none.
    """

    def __init__(
        self,
        requests: Requests,
        jobs: JobTable,
        batch: BatchJobs,
        limits: Limits,
        refuses: Callable[[], str],
        allocation: str,
    ) -> None:
        self._requests = requests
        self._jobs = jobs
        self._batch = batch
        self._limits = limits
        self._refuses = refuses
        self._allocation = allocation
        self._outcomes = Outcomes(limits.ended_count)
        self._waiting: dict[int, _Dependent] = {}  # by the order in which they came
        self._count = 0  # of all that have waited
        self._of: dict[int, set[int]] = {}  # who waits, by the job that they wait for
        self._count_of: Counter[int] = Counter()  # by user

    def __len__(self) -> int:
        return len(self._waiting)

    def state(self) -> list[str]:
        """The requests that wait, as text for the log."""
        return [f"{each.owner.name} waits: {each.text}" for each in self._waiting.values()]

    def check(self) -> None:
        """Assert what must always hold."""
        self._outcomes.check()
        on: dict[int, set[int]] = {}
        for number, each in self._waiting.items():
            assert self._judge(each.request).verdict is Verdict.WAITS, each
            for after in each.request.after.on:
                on.setdefault(after.job_id, set()).add(number)
        assert on == self._of
        assert +self._count_of == Counter(each.owner.uid for each in self._waiting.values())

    def requested(
        self, source: PortalId, principal: Principal, request: NodeRequest, now: float
    ) -> list[Action]:
        """A yod asks for nodes."""
        if not request.after.on or self._refuses():
            return self._take(source, principal, request, now)
        try:
            owner = self._requests.permitted(principal)
            found = self._demand_possible(owner.uid, request)
            if found.verdict is Verdict.WAITS:
                left = _with_left(request, found)
                return self._wait(_Dependent(source, principal, owner, left, found.text))
        except RequestRefused as refused:
            return self._requests.refuse(source, principal.uid, refused, now)
        return self._take(source, principal, replace(request, after=NO_DEPENDENCY), now)

    def _take(
        self, source: PortalId, principal: Principal, request: NodeRequest, now: float
    ) -> list[Action]:
        """Take a request that waits for no other job."""
        if text := self._refuses():
            return [Send(source, Refused(Refusal.NOT_PERMITTED, text))]
        return self._requests.requested(source, principal, request, now)

    def serve(self, actions: Iterable[Action], now: float) -> list[Action]:
        """Take those whose jobs have begun or ended, as these actions tell."""
        self.note(actions)
        taken = [each for number in self._with_news() for each in self._look_again(number, now)]
        self.note(taken)
        return taken

    def _look_again(self, number: int, now: float) -> list[Action]:
        dependent = self._remove(number)
        source, request = dependent.source, dependent.request
        found = self._judge(request)
        match found.verdict:
            case Verdict.READY:
                request = replace(request, after=NO_DEPENDENCY)
                return self._take(source, dependent.principal, request, now)
            case Verdict.NEVER:
                refused = RequestRefused(Refusal.BAD_REQUEST, found.text)
                return self._requests.refuse(source, dependent.owner.uid, refused, now)
        dependent.request, dependent.text = _with_left(request, found), found.text
        self._add(number, dependent)
        return []

    def note(self, actions: Iterable[Action]) -> None:
        """Notice which yods have got slots, and which jobs hold none any more."""
        for action in actions:
            match action:
                case Send(yod, Grant() as grant):
                    self._outcomes.granted(grant.job_id, grant.uid, yod)
                case RecordEnd() as end:
                    self._outcomes.slots_gone(end.job_id, end.outcome == HAS_RUN)

    def told(self, job_id: int, uid: int, end: JobEnd | None) -> None:
        """Somebody who may releases a job, and says how it has ended."""
        self._outcomes.told(job_id, uid, end)

    def gone(self, peer: PortalId) -> None:
        """A yod is gone: it waits no more, and says nothing of its jobs."""
        self._outcomes.gone(peer)
        for number in [key for key, each in self._waiting.items() if each.source == peer]:
            self._remove(number)

    def _with_news(self) -> list[int]:
        """Those that wait for jobs of which there is news, in the order in which they came."""
        news = self._outcomes.news | self._jobs.begun | self._batch.news
        for each in (self._outcomes.news, self._jobs.begun, self._batch.news):
            each.clear()
        return sorted({number for job_id in news for number in self._of.get(job_id, ())})

    def _wait(self, dependent: _Dependent) -> list[Action]:
        request, owner = dependent.request, dependent.owner
        if not request.waits:
            raise RequestRefused(Refusal.BUSY, dependent.text)
        self._demand_room(owner, dependent.text)
        self._count += 1
        self._add(self._count, dependent)
        return [
            Send(dependent.source, Queued(0, clipped(dependent.text))),
            Log(f"{owner.name} waits: {dependent.text}"),
        ]

    def _add(self, number: int, dependent: _Dependent) -> None:
        self._waiting[number] = dependent
        self._count_of[dependent.owner.uid] += 1
        for after in dependent.request.after.on:
            self._of.setdefault(after.job_id, set()).add(number)

    def _remove(self, number: int) -> _Dependent:
        dependent = self._waiting.pop(number)
        self._count_of[dependent.owner.uid] -= 1
        for job_id in {after.job_id for after in dependent.request.after.on}:
            self._of[job_id].discard(number)
            if not self._of[job_id]:
                del self._of[job_id]
        return dependent

    def _demand_room(self, owner: Owner, text: str) -> None:
        of_user = self._count_of[owner.uid]
        full = ""
        if len(self) >= self._limits.waiting_count:
            full = f"{len(self)} requests wait for jobs already (YOD_WAITING_COUNT)"
        elif of_user >= self._limits.waiting_each_count:
            full = f"{of_user} requests of {owner.name} wait for jobs already"
            full += " (YOD_WAITING_EACH_COUNT)"
        if full:
            raise RequestRefused(Refusal.BUSY, f"{text}; {full}")

    def _demand_possible(self, uid: int, request: NodeRequest) -> Judgement:
        """What a request waits for. One that never could begin is refused at once.

        Raises:
            RequestRefused: a job is not known, has ended otherwise, or is the one that asks; or
                the partition can never give what is asked for.
        """
        for each in request.after.on:
            if self._progress_of(each.job_id) is None:
                name = self._name_of(each.job_id)
                text = (
                    f"{each.text(name)}: no job {name} waits for slots, runs, or is among the last"
                    f" {self._limits.ended_count} that have ended (YOD_ENDED_COUNT)"
                )
                raise RequestRefused(Refusal.UNKNOWN_JOB, text)
        found = self._judge(request)
        if found.verdict is Verdict.NEVER:
            raise RequestRefused(Refusal.BAD_REQUEST, found.text)
        self._requests.could(claim_of(uid, request, is_batch=False), *request.specs)
        return found

    def _judge(self, request: NodeRequest) -> Judgement:
        askers = self._jobs.askers(request.asker)

        def progress_of(job_id: int) -> Progress:
            if job_id in askers:
                return Progress.ASKS
            return self._progress_of(job_id) or Progress.FORGOTTEN

        return judge(request.after, progress_of, self._name_of)

    def _progress_of(self, job_id: int) -> Progress | None:
        """How far a job is; None: it is none that is known."""
        if (progress := self._batch.dependencies.progress_of(job_id)) is not None:
            return progress
        if (is_well := self._outcomes.has_ended_well(job_id)) is not None:
            return Progress.WELL if is_well else Progress.FAILED
        if (job := self._jobs.get(job_id)) is not None:
            return Progress.RUNS if job.has_run else Progress.WAITS
        if self._outcomes.is_awaited(job_id):
            return Progress.RUNS if self._outcomes.has_run(job_id) else Progress.WAITS
        return None

    def _name_of(self, job_id: int) -> str:
        return name_of_job(job_id, self._allocation)


def _with_left(request: NodeRequest, found: Judgement) -> NodeRequest:
    """The same request, without what has been met."""
    return replace(request, after=replace(request.after, on=found.left))
