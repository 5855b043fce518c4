"""Where batch jobs wait for their slots: the one line of a partition. Pure."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from allocator.batch.job import BatchJob
from allocator.jobs.grants import Owner
from native.wire.alloc import NodeSpec
from native.wire.base import Factor, Terms


class Expected(Struct, frozen=True):
    """When and where a job would begin.

    Attributes:
        at: unix time.
        nodes: each a first number and a count, in the order of its ranks.
    """

    at: float
    nodes: tuple[tuple[int, int], ...]


class Queue(Protocol):
    """Where jobs wait for their slots."""

    def could(self, uid: int, terms: Terms, spec: NodeSpec) -> None:
        """Refuse what the partition can never give to a job of a user.

        Raises:
            RequestRefused: the text has the numbers.
        """

    def enqueue(self, job: BatchJob, count: int, owner: Owner, now: float) -> str:
        """Let a job wait behind all others, or at the place that it had before it was placed.

        Args:
            count: as for :meth:`refresh`.

        Returns:
            What it waits for; empty: for nothing.
        """

    def forecast(self, job: BatchJob, owner: Owner) -> Expected | None:
        """When and where a job would begin that came into the line now; None: not known."""

    def waits(self, job_id: int) -> str:
        """Why a job waits; empty: it is not in the line."""

    def expected(self, job_id: int) -> float:
        """When a job is expected to have its slots: unix time; 0: not known."""

    def refresh(self, job: BatchJob, count: int) -> bool:
        """Take the time limit and the count of a job as they are now; whether it is in the line.

        Args:
            count: how many times it is to be given slots: an array may be so more than once.
        """

    def factors(self, job_id: int) -> tuple[Factor, ...]:
        """What the priority of a job that waits is made of; nothing: it has none."""

    def prioritised(self, job: BatchJob) -> None:
        """The priority of a job, or what its user gives up of it, is another."""

    def one_runs(self) -> None:
        """A job runs, and may be ended for one that waits: it could not before."""

    def withdraw(self, job_id: int) -> None:
        """A job waits no more."""
