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


def note_ends(actions: Iterable[Action], admission: Admission, jobs: JobTable) -> None:
    """Jobs have no slots any more. Told again this changes nothing."""
    for action in actions:
        match action:
            case RecordEnd(job_id):
                admission.is_over(job_id)
            case RecordPast(row) if jobs.get(row.job_id) is None:
                admission.is_over(row.job_id)


def charges(actions: Iterable[Action], admission: Admission) -> list[Action]:
    """What was used by jobs that have ended. Batch jobs are charged where they end."""
    rows = [action.row for action in actions if isinstance(action, RecordPast)]
    found = [admission.ended(row) for row in rows if row.began]
    return [RecordCharge(charge) for charge in found if charge is not None]
