"""What keeps bebopd's records: job ids that are used, names of nodes, past jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from allocator.batch.job import RecordBatchJob
from allocator.nodes.orders import Change
from native.errors import YodError
from native.wire.batch import Happened, Row

FLUSH_AFTER_S = 0.2  # from the first collected record
FLUSH_AGAIN_S = 20.0  # after a flush that failed


class LedgerError(YodError):
    """The records cannot be read or written; the text says why."""


class BatchLedger(Protocol):
    """The batch jobs of one partition, on the disk."""

    def keep(self, records: Iterable[RecordBatchJob]) -> None:
        """Write jobs as they are now, all or none, and wait for the disk.

        Raises:
            LedgerError: that is impossible.
        """

    def task(self, job_id: int) -> bytes:
        """What a job runs, encoded; empty: it has ended."""

    def rows(self, job_ids: Sequence[int]) -> list[Row]:
        """Those of these jobs that are on record, ids ascending."""

    def last(self, count: int) -> list[Row]:
        """The last jobs, ids ascending."""

    def events(self, job_id: int) -> list[Happened]:
        """What has happened to a job, the oldest first."""


class Ledger(Protocol):
    """The records of one partition."""

    @property
    def batch(self) -> BatchLedger | None:
        """The batch jobs; None: the partition takes none."""

    def happened(self, job_id: int, text: str, unix_s: float) -> None:
        """Keep a line of a job's history."""

    def reserve(self, end: int) -> None:
        """Note at once that ids below ``end`` are used.

        Raises:
            LedgerError: that is impossible. No further id may be given out.
        """

    def keep_orders(self, changes: Sequence[Change]) -> None:
        """Write all orders for these nodes at once; with them what was collected.

        Raises:
            LedgerError: that is impossible; the orders of before are kept.
        """

    def remember_node(self, name: str, number: int) -> None:
        """Keep the number of a name."""

    def job_granted(
        self,
        job_id: int,
        uid: int,
        program: str,
        batch_job: str,
        size: int,
        nodes: Sequence[int],
        unix_s: float,
    ) -> None:
        """Record the beginning of a job."""

    def job_ended(self, job_id: int, outcome: str, unix_s: float) -> None:
        """Record the end of a job: it holds no slot any more."""

    @property
    def has_waiting(self) -> bool:
        """Whether :meth:`flush` has something to write."""

    def flush(self) -> None:
        """Write what was collected.

        Raises:
            LedgerError: that is impossible; what was collected is kept.
        """


class MemoryLedger:
    """The records of a partition that ends with its process: nobody will read them."""

    has_waiting = False
    batch = None

    def happened(self, *record: object) -> None:
        """Nobody looks for past jobs."""

    def reserve(self, end: int) -> None:
        """Nobody else gives out ids."""

    def keep_orders(self, changes: Sequence[Change]) -> None:
        """No later bebopd asks for them."""

    def remember_node(self, name: str, number: int) -> None:
        """No later bebopd asks for it."""

    def job_granted(self, *record: object) -> None:
        """Nobody looks for past jobs."""

    def job_ended(self, *record: object) -> None:
        """Nobody looks for past jobs."""

    def flush(self) -> None:
        """Nothing waits."""
