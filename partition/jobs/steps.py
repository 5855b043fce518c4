"""The steps of allocations and batch jobs whose yods run on this host."""

from __future__ import annotations

from collections.abc import Iterable

from partition.jobs.ask import open_directory
from partition.jobs.show import allocation_of


def with_steps(job_ids: Iterable[str]) -> dict[str, list[str]]:
    """For each job what is to be asked in its place: its steps here, else itself."""
    directory = open_directory()
    here: list[str] = []
    if directory is not None:
        try:
            here = directory.ids()
        finally:
            directory.close()
    steps: dict[str, list[str]] = {}
    for each in here:
        if allocation := allocation_of(each):
            steps.setdefault(allocation, []).append(each)
    return {job_id: steps.get(job_id, [job_id]) for job_id in job_ids}
