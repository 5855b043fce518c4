"""What users ask about past jobs and nodes, and what brokers tell of ended steps.

Users see their own jobs, operators those of all users. Pure; :func:`answers` reads the history
that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from allocator.batch.job import (
    BatchJob,
    RecordEvent,
    RecordSteps,
    SendEvents,
    SendHistory,
    SendRows,
    Viewer,
)
from allocator.batch.table import BatchJobs
from allocator.jobs.accounting import RECENT_MAX, Accounting
from allocator.nodes.orders import SendNodeEvents
from allocator.records import History
from native.ids import PortalId
from native.machine import Action, Send
from native.text import plural
from native.wire import batch, codec, nodes
from native.wire.base import Message, Part
from native.wire.batch import NO_STEP, Row

P = TypeVar("P", bound=Part)


def history_asked(
    source: PortalId, asked: batch.History, uid: int | None, jobs: BatchJobs, open_: Accounting
) -> list[Action]:
    """A user asks about past jobs; those that are not over are answered from memory.

    Args:
        uid: whose jobs may be shown; None: those of all users.
    """
    known = [job for job in (*jobs, *open_) if uid in (None, job.uid)]
    if asked.jobs:
        known = [job for job in known if job.job_id in asked.jobs and asked.step == NO_STEP]
    last = sorted(known, key=lambda job: job.job_id)[-asked.count :]
    rows = tuple(job if isinstance(job, Row) else job.row() for job in last)
    return [SendHistory(source, asked.count, Viewer(uid), rows, asked.jobs, asked.step)]


def events_asked(
    source: PortalId, job_id: int, uid: int | None, job: BatchJob | None, open_: Accounting
) -> list[Action]:
    """A user asks what has happened to a job."""
    owner = open_.owner_of(job_id)
    is_seen = uid is None or job is not None or owner == uid
    return [SendEvents(source, job_id, None if is_seen else Viewer(uid, sees_batch=True))]


class StepsTold:
    """What brokers tell of steps, as far as it is taken.

    Args:
        most: steps of one allocation.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[int, tuple[int, int]] = {}  # by allocation: steps, those not taken

    def told(self, source: PortalId, message: batch.Steps, uid: int, owner: str) -> list[Action]:
        """The broker of an allocation tells of ended steps.

        Args:
            uid, owner: whose the allocation is.
        """
        job_id = message.job_id
        taken, lost = self._taken.pop(job_id, (0, 0))
        ended = [row for row in message.rows if row.state.is_final and row.step > 0]
        some = ended[: max(0, self._most - taken)]
        missed = max(lost, message.lost) + len(ended) - len(some)
        self._taken[job_id] = taken + len(some), missed
        if len(self._taken) > RECENT_MAX:
            del self._taken[next(iter(self._taken))]
        actions: list[Action] = [Send(source, batch.StepsHeard(job_id, message.first))]
        if some:
            ours = {"job_id": job_id, "uid": uid, "owner": owner}
            actions.append(RecordSteps(tuple(replace(row, **ours) for row in some)))
        if missed > lost:
            text = f"{plural(missed, 'step')} of it in all cannot be kept in the history"
            actions.append(RecordEvent(job_id, text))
        return actions


def answers(
    action: SendRows | SendHistory | SendEvents | SendNodeEvents, history: History | None
) -> Sequence[Message]:
    """The messages that answer a question.

    Args:
        history: None: nothing is asked of it.
    """
    match action:
        case SendRows(_, rows, others, viewer, is_cut):
            found = history.rows(others, viewer) if history is not None else []
            pieces = _pieces(_merged(found, rows))
            return [batch.Rows(some, is_last, is_last and is_cut) for some, is_last in pieces]
        case SendHistory(_, count, viewer, rows, job_ids, step):
            assert history is not None
            if job_ids:
                merged = _merged(rows, history.with_steps(job_ids, step, count, viewer))
            else:
                merged = _merged(rows, history.last(count, viewer))[-count:]
            return [batch.Rows(*piece) for piece in _pieces(merged)]
        case SendEvents(_, job_id, viewer):
            assert history is not None
            happened = history.events(job_id, viewer)
            return [batch.Events(job_id, *piece) for piece in _pieces(happened)]
        case SendNodeEvents(_, numbers, count):
            assert history is not None
            return [
                nodes.NodeEvents(*piece) for piece in _pieces(history.node_events(numbers, count))
            ]


def _merged(first: Iterable[Row], then: Iterable[Row]) -> list[Row]:
    """Each row once, in order; of two of one id that of ``then``."""
    rows = {(row.job_id, row.step): row for row in (*first, *then)}
    return [rows[key] for key in sorted(rows)]


def _pieces(found: Sequence[P]) -> Iterable[tuple[tuple[P, ...], bool]]:
    return codec.pieces(found, batch.ROWS_MAX)
