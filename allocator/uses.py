"""Tells the rules of the queues what jobs have, and what they have used. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from allocator.jobs.accounting import RecordPast
from allocator.jobs.charges import RecordCharge
from allocator.jobs.table import JobTable, RecordEnd
from allocator.queue.admission import Admission
from native.machine import Action
from native.wire.base import Terms
from native.wire.batch import Row


def note_earlier(rows: Iterable[Row], admission: Admission) -> None:
    """An earlier bebopd has granted these jobs, which are none of batch."""
    for row in rows:
        terms = Terms(row.queue, row.account, row.licences)
        share = (row.slots, row.node_count)
        admission.begins(row.job_id, row.uid, terms, *share, row.began)


def note_ends(actions: list[Action], first: int, admission: Admission, jobs: JobTable) -> int:
    """Jobs have no slots any more. A batch job may have some again: each is told once.

    Args:
        first: the index of the first action that is not told yet.

    Returns:
        That for the next call.
    """
    for action in actions[first:]:
        match action:
            case RecordEnd(job_id) if jobs.get(job_id) is None:  # or it was placed again
                admission.slots_freed(job_id)
            case RecordPast(row) if jobs.get(row.job_id) is None:
                admission.slots_freed(row.job_id)
    return len(actions)


def charges(actions: Iterable[Action], admission: Admission) -> list[Action]:
    """What was used by jobs that have ended. Batch jobs are charged where they end."""
    rows = [action.row for action in actions if isinstance(action, RecordPast)]
    found = [admission.ended(row) for row in rows if row.began]
    return [RecordCharge(charge) for charge in found if charge is not None]
