"""Batch jobs: what runs under one never holds more nodes than it was given.

The batch system allots a number of nodes, not which; its script may run many
yods, in turn or at once (Cplant administrator's guide, 67 and 69).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class BatchLimits(Protocol):
    """Who knows how many nodes a batch job was given."""

    def limit(self, batch_job: str) -> int | None:
        """Nodes; None: not known, no limit."""


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
    """Why a batch job may not have these nodes too; empty: it may.

    Args:
        batch_job: the batch system's id; empty: none, anything goes.
        limits: who knows the limit.
        held: nodes of the jobs that it has pending or running.
        wanted: nodes for the new job. One that it holds already counts once.
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
