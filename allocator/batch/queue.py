"""Where batch jobs wait for their slots: the one line of a partition. Pure."""

from __future__ import annotations

from typing import Protocol

from allocator.batch.job import BatchJob
from allocator.jobs.grants import Owner
from allocator.nodes.access import Claim
from native.wire.alloc import NodeSpec


class Queue(Protocol):
    """Where jobs wait for their slots."""

    def could(self, claim: Claim, spec: NodeSpec) -> None:
        """Refuse what the partition can never give to somebody.

        Raises:
            RequestRefused: the text has the numbers.
        """

    def enqueue(self, job: BatchJob, owner: Owner, now: float) -> str:
        """Let a job wait behind all others, or at the place that it had before it was placed.

        Returns:
            What it waits for; empty: for nothing.
        """

    def waits(self, job_id: int) -> str:
        """Why a job waits; empty: it is not in the line."""

    def expected(self, job_id: int) -> float:
        """When a job is expected to have its slots: unix time; 0: not known."""

    def withdraw(self, job_id: int) -> None:
        """A job waits no more."""
