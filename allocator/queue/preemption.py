"""Which of the jobs that run end, so that one that waits can begin. Pure.

They are so few that none of them could go on, and the youngest, which lose least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allocator.jobs.job import Job

SPARED_COUNT = 32  # at most so many are tried one by one, whether they can go on


def victims_of(jobs: Sequence[Job], makes_room: Callable[[Sequence[Job]], bool]) -> list[Job]:
    """The jobs that are to end; none: the end of all would not do.

    Args:
        jobs: that may be ended.
        makes_room: whether the end of some would do. More than these would do as well.
    """
    if not jobs or not makes_room(jobs):
        return []
    youngest = sorted(jobs, key=lambda job: (-job.granted, -job.job_id))
    few, enough = 1, len(youngest)
    while few < enough:
        middle = (few + enough) // 2
        if makes_room(youngest[:middle]):
            enough = middle
        else:
            few = middle + 1
    chosen = youngest[:enough]
    for job in chosen[-2::-1][:SPARED_COUNT]:  # without the last the others do not do
        others = [each for each in chosen if each is not job]
        if makes_room(others):
            chosen = others
    return chosen
