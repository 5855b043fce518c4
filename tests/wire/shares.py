"""Rows of the jobs' table about shares of checkpoints that nodes hold for one another."""

from __future__ import annotations

from collections.abc import Callable

from native.ids import PortalId
from native.wire import group
from native.wire.base import Message
from pct.job.machine import Job
from pct.job.progress import JobState
from tests.unit.pct import job_of
from tests.wire.states import ID

Row = tuple[Callable[[JobState], Job], PortalId, Message]
WHERE = group.Checkpoints(b"/scratch", "c", local=b"/dev/shm/c")
SHARE, RESCUE, TAKEN = group.Share(ID, 0, b"x"), group.Rescue(ID, (2,)), group.ShareTaken(ID, 0, 9)


def rows(make: Callable[..., Job]) -> dict[tuple[str, str], Row]:
    """Of the root of three nodes; ``make`` gives a job from its state, size, place and fields."""

    def keeping(state: JobState) -> Job:
        return make(state, 3, 0, checkpoints=WHERE)

    def plain(state: JobState) -> Job:
        return make(state, 3, 0)

    return {
        ("holder", "`checkpoint.share_taken`"): (keeping, job_of.pct(1), TAKEN),
        ("node whose share is held", "`checkpoint.share`"): (keeping, job_of.pct(2), SHARE),
        ("anybody", "`checkpoint.share`"): (keeping, job_of.STRANGER, SHARE),
        ("anybody", "`checkpoint.share_taken`"): (keeping, job_of.STRANGER, TAKEN),
        ("anybody", "`checkpoint.rescue`"): (keeping, job_of.STRANGER, RESCUE),
        ("anybody", "`checkpoint.rescue` (no shares are held)"): (plain, job_of.STRANGER, RESCUE),
    }
