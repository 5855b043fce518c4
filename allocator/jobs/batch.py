"""Batch jobs: the jobs of one batch job together never hold more nodes than it was given.

The batch system allots a number of nodes and does not choose them. Its script may run
many yods, one after another or at once (Cplant administrator's guide, 67 and 69).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class BatchLimits(Protocol):
    """Tells how many nodes a batch job was given."""

    def limit(self, batch_job: str) -> int | None:
        """Nodes; None: not known, so there is no limit."""


class BatchTable:
    """Limits from a table; batch jobs that are not in it have none."""

    def __init__(self, nodes_by_job: dict[str, int] | None = None) -> None:
        self._limits = nodes_by_job or {}

    def limit(self, batch_job: str) -> int | None:
        """Nodes; None: not in the table."""
        return self._limits.get(batch_job)


def over_limit(
    batch_job: str, limits: BatchLimits, held: Iterable[int], wanted: Iterable[int]
) -> str:
    """Why a batch job may not have these nodes as well; empty: it may.

    Args:
        batch_job: the batch system's id; empty: none, and so no limit.
        limits: tells the limit.
        held: nodes of the batch job's pending and running jobs.
        wanted: nodes for the new job; a node that is also held counts once.
    """
    limit = limits.limit(batch_job) if batch_job else None
    if limit is None:
        return ""
    have = set(held)
    new = set(wanted) - have
    if len(have) + len(new) <= limit:
        return ""
    return (
        f"batch job {batch_job} has {limit} nodes, {len(have)} of them in use:"
        f" {len(new)} more requested"
    )
