"""What is to be known of jobs when they are over: one final row for each id that was given.

::

    OPEN --slots free--> AWAITED --its front end tells, or can no more, or is late--> final row

A row is as true as what bebopd was told. A job whose front end (yod, `yodjob alloc`) has not
said how it ended is FAILED, or CANCELLED where somebody else has released it, and its reason
says that nobody told. Batch jobs have rows of their own (:mod:`allocator.batch.table`).

Pure: no clock, no transport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from native.deadlines import Deadlines
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action
from native.wire.base import NAME_MAX, NO_TERMS, TIME_MAX_S, JobEnd, State, Terms, clipped
from native.wire.batch import SPANS_MAX, Row
from native.wire.placed import JobNodes

AWAITED_MAX = 10_000  # jobs whose slots are free and whose front ends have not told yet
RECENT_MAX = 10_000  # jobs that are over, of which a broker may still tell steps
UNSEEN = "it ended while no bebopd was there, and nobody has told how"


class RecordGrant(Action, frozen=True):
    """Keep the row of a job that begins."""

    row: Row


class RecordPast(Action, frozen=True):
    """Keep the final row of a job."""

    row: Row


class Account(Struct):
    """One job that has no final row.

    Attributes:
        front_end: who is to tell how it ends; None: gone, or not known.
        end: what it has told, or what stands for it.
        preempted: for whom bebopd ends it; empty: for nobody.
        ended: unix time at which its last slot was free; 0: not yet.
    """

    row: Row
    front_end: PortalId | None
    end: JobEnd | None = None
    preempted: str = ""
    gone_text: str = ""
    ended: float = 0.0
    has_run: bool = False
    slot_s: float = 0.0


class Accounting:
    """The jobs of a partition that have no final row. Methods return the actions to carry out.

    Args:
        unix_time: the time now.
        earlier: rows of jobs that an earlier bebopd has granted.
    """

    def __init__(
        self, limits: Limits, unix_time: Callable[[], float], earlier: Iterable[Row] = ()
    ) -> None:
        self._limits = limits
        self._unix_time = unix_time
        self._jobs = {row.job_id: Account(row, None) for row in earlier}
        self._unseen = set(self._jobs)
        self._of_front_end: dict[PortalId, set[int]] = {}
        self._due: Deadlines[int] = Deadlines()
        self._awaited: dict[int, None] = {}  # in the order in which their slots were free
        self._recent: dict[int, int] = {}  # uid by job id, the oldest first

    def __iter__(self) -> Iterator[Row]:
        """The rows of the jobs that are not over, as they are now."""
        return (account.row for account in self._jobs.values())

    def owner_of(self, job_id: int) -> int | None:
        """The uid of a job that runs, or is over since a short time; None: of no such job."""
        if (account := self._jobs.get(job_id)) is not None:
            return account.row.uid
        return self._recent.get(job_id)

    def queue_of(self, job_id: int) -> str:
        """The queue of a job that has no final row; empty: none that is known."""
        return self._jobs[job_id].row.queue if job_id in self._jobs else ""

    def end_of(self, job_id: int) -> float | None:
        """The unix time at which the time of such a job is over; None: it has no limit."""
        row = self._jobs[job_id].row if job_id in self._jobs else None
        return row.began + row.time_s if row is not None and row.time_s else None

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        return self._due.earliest()

    def check(self) -> None:
        """Assert what must always hold."""
        assert len(self._awaited) <= AWAITED_MAX and len(self._recent) <= RECENT_MAX
        assert self._awaited.keys() <= self._jobs.keys()
        assert all(job_id in self._due for job_id in (*self._awaited, *self._unseen))
        assert not self._recent.keys() & self._jobs.keys()
        told = {job_id: peer for peer, ids in self._of_front_end.items() for job_id in ids}
        theirs = self._jobs.items()
        assert told == {job_id: each.front_end for job_id, each in theirs if each.front_end}

    def begin(self, now: float) -> None:
        """The nodes of the jobs of an earlier bebopd have so long to say that they have them."""
        for job_id in self._unseen:
            self._due.set(job_id, now + self._limits.node_fail_s)

    # -- a job begins -----------------------------------------------------

    def granted(self, row: Row, front_end: PortalId) -> list[Action]:
        """A job has its slots."""
        self._jobs[row.job_id] = Account(row, front_end)
        self._of_front_end.setdefault(front_end, set()).add(row.job_id)
        return [RecordGrant(row)]

    def adopted(self, job_id: int, uid: int, owner: str, elapsed_s: float) -> list[Action]:
        """A node has a job of an earlier bebopd."""
        if job_id in self._recent:
            return []  # it has its final row, though a node has come back with a part of it
        if job_id in self._jobs:
            if job_id in self._unseen:
                self._unseen.discard(job_id)
                self._due.set(job_id, None)
                self._jobs[job_id].has_run = True
            return []
        began = max(0.0, self._unix_time() - elapsed_s)
        row = row_of(job_id, uid, owner, "", 0, None, began, began)
        self._jobs[job_id] = Account(row, None, has_run=True)
        return [RecordGrant(row)]

    # -- a job ends -------------------------------------------------------

    def told(self, job_id: int, end: JobEnd | None, by: str, now: float) -> list[Action]:
        """Somebody who may has released a job.

        Args:
            end: how it has ended; None: that was not told.
            by: who has released it, where that is not the owner; else empty.
        """
        account = self._jobs.get(job_id)
        if account is None:
            return []
        if by:
            end = JobEnd(State.CANCELLED, 0, 0, f"released by {by}")
        if end is not None and end.state.is_final and account.end is None:
            account.end = end
        if account.ended or job_id in self._unseen:
            return self._over(account) if account.end is not None else []
        return []

    def preempted(self, job_id: int, text: str) -> None:
        """bebopd ends a job for others: unless it completes all the same, that is how it ends."""
        if (account := self._jobs.get(job_id)) is not None:
            account.preempted = text

    def overdue(self, job_id: int, text: str) -> None:
        """bebopd ends a job that is there long after its time."""
        if (account := self._jobs.get(job_id)) is not None and account.end is None:
            account.end = JobEnd(State.TIMEOUT, 0, 0, text)

    def limited(self, job_id: int, time_s: float) -> list[Action]:
        """Set how long a job may have its slots: seconds from its beginning; 0: any time."""
        account = self._jobs[job_id]
        account.row = replace(account.row, time_s=time_s)
        return [RecordGrant(account.row)]

    def slots_gone(self, job_id: int, has_run: bool, slot_s: float, now: float) -> list[Action]:
        """A job holds no slot any more."""
        account = self._jobs.get(job_id)
        if account is None:
            return []
        self._unseen.discard(job_id)
        account.ended, account.slot_s = self._unix_time(), slot_s
        account.has_run = account.has_run or has_run
        if account.end is not None or account.gone_text:
            return self._over(account)
        self._due.set(job_id, now + self._limits.end_s)
        self._awaited[job_id] = None
        if len(self._awaited) <= AWAITED_MAX:
            return []
        return self._over(self._jobs[next(iter(self._awaited))])

    def gone(self, peer: PortalId, text: str) -> list[Action]:
        """A front end is gone, and tells nothing any more."""
        actions: list[Action] = []
        for job_id in sorted(self._of_front_end.pop(peer, ())):
            account = self._jobs[job_id]
            account.front_end, account.gone_text = None, text or "it is gone"
            if account.ended:
                actions += self._over(account)
        return actions

    def due(self, now: float) -> list[Action]:
        """Front ends or nodes have been silent for too long."""
        return [action for job_id in self._due.due(now) for action in self._late(job_id)]

    def close(self, text: str) -> list[Action]:
        """The partition ends, and all jobs with it, for this reason."""
        actions: list[Action] = []
        for account in list(self._jobs.values()):
            account.end = account.end or JobEnd(State.CANCELLED, 0, 0, text)
            actions += self._over(account)
        return actions

    def _late(self, job_id: int) -> list[Action]:
        account = self._jobs[job_id]
        if job_id in self._unseen:
            account.end = account.end or JobEnd(State.FAILED, 0, 0, UNSEEN)
        return self._over(account)

    def _over(self, account: Account) -> list[Action]:
        """Forget a job: its row is final."""
        row, end = account.row, _end_of(account)
        if account.preempted and end.state is not State.COMPLETED:
            end = JobEnd(State.PREEMPTED, end.exit_status, end.signal, account.preempted)
        job_id = row.job_id
        del self._jobs[job_id]
        self._unseen.discard(job_id)
        self._awaited.pop(job_id, None)
        self._due.set(job_id, None)
        if account.front_end is not None:
            ours = self._of_front_end[account.front_end]
            ours.discard(job_id)
            if not ours:
                del self._of_front_end[account.front_end]
        self._recent[job_id] = row.uid
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        final = replace(
            row,
            state=end.state,
            reason=clipped(end.reason),
            ended=account.ended or self._unix_time(),
            exit_status=end.exit_status,
            signal=end.signal,
            slot_s=min(account.slot_s, TIME_MAX_S),
        )
        return [RecordPast(final)]


def _end_of(account: Account) -> JobEnd:
    """How a job has ended, as far as anybody knows."""
    if account.end is not None:
        return account.end
    if account.gone_text:
        when = "it told how it ended" if account.has_run else "the job ran"
        said = f"its front end was lost before {when}: {account.gone_text}"
    elif account.has_run:
        said = "its front end has not told how it ended"
    else:
        said = "it never ran: nobody used its slots"
    return JobEnd(State.FAILED, 0, 0, said)


def row_of(
    job_id: int,
    uid: int,
    owner: str,
    name: str,
    slots: int,
    nodes: JobNodes | None,
    submitted: float,
    began: float,
    terms: Terms = NO_TERMS,
    time_s: float = 0.0,
) -> Row:
    """The row of a job that runs.

    Args:
        time_s: how long it may have its slots; 0: any time.
    """
    spans = tuple((span.node, span.count) for span in nodes.spans[:SPANS_MAX]) if nodes else ()
    return Row(
        job_id=job_id,
        uid=uid,
        owner=owner,
        name=clipped(name.replace("\0", ""), NAME_MAX),
        state=State.RUNNING,
        reason="",
        slots=slots,
        nodes=spans,
        node_count=len(nodes) if nodes else 0,
        submitted=max(0.0, submitted),
        began=began,
        ended=0.0,
        time_s=time_s,
        exit_status=0,
        signal=0,
        queue=terms.queue,
        account=terms.account,
        licences=terms.licences,
    )
