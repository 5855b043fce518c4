"""What keeps bebopd's records: job ids that are used, names of nodes, jobs; and the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from allocator.batch.job import RecordBatchJob, Viewer
from allocator.jobs.charges import Charge
from allocator.nodes.orders import Change
from native.errors import YodError
from native.wire.batch import Happened, Row
from native.wire.nodes import NodeEvent

FLUSH_AFTER_S = 0.2  # from the first collected record
FLUSH_AGAIN_S = 20.0  # after a flush that failed

Statement = tuple[str, Sequence[object]]
T = TypeVar("T")


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
        """Those of these jobs that are on record, and not in the history yet, ids ascending."""


class History(Protocol):
    """What has been. Its methods wait for the disk."""

    def rows(self, job_ids: Iterable[int], viewer: Viewer) -> list[Row]:
        """The rows of these jobs, without their steps, ids ascending."""

    def with_steps(
        self, job_ids: Sequence[int], step: int, count: int, viewer: Viewer
    ) -> list[Row]:
        """The rows of these jobs and the last of their steps, or of one step, ascending."""

    def last(self, count: int, viewer: Viewer) -> list[Row]:
        """The last jobs, without their steps, ids ascending."""

    def events(self, job_id: int, viewer: Viewer | None) -> list[Happened]:
        """What has happened to a job, the oldest first."""

    def node_events(self, nodes: Sequence[int], count: int) -> list[NodeEvent]:
        """What has happened to these nodes last, the oldest first; without any: to all."""


class Ledger(Protocol):
    """The records of one partition."""

    @property
    def batch(self) -> BatchLedger | None:
        """The batch jobs; None: the partition takes none."""

    on_waiting: Callable[[str], None]  # called when more waits; with an error, or empty

    def happened(self, job_id: int, text: str, unix_s: float) -> None:
        """Keep a line of a job's history."""

    def node_happened(self, event: NodeEvent) -> None:
        """Keep what has happened to a node."""

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

    def job_granted(self, row: Row) -> None:
        """Record the beginning of a job that is no batch job."""

    def job_ended(self, row: Row) -> None:
        """Record the final row of such a job."""

    def charged(self, charge: Charge) -> None:
        """Keep what a user has used."""

    def steps_ended(self, rows: Sequence[Row]) -> None:
        """Record the final rows of steps."""

    def steps_forgotten(self, job_id: int) -> None:
        """Remove the rows of a job's steps: it begins anew."""

    def batch_ended(self, row: Row) -> None:
        """A batch job has its final row on the disk, and goes into the history."""

    def slots_held(self, job_id: int, slot_s: float, unix_s: float) -> None:
        """Record what a job has held: it holds no slot any more."""

    def past(self, ask: Callable[[History], T], then: Callable[[T | LedgerError], None]) -> None:
        """Ask the history, of which everything that was recorded is part; ``then`` is called."""

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

    def __init__(self) -> None:
        self.on_waiting: Callable[[str], None] = lambda error: None

    def happened(self, *record: object) -> None:
        """Nobody looks for past jobs."""

    def node_happened(self, event: NodeEvent) -> None:
        """Nobody looks for that."""

    def reserve(self, end: int) -> None:
        """Nobody else gives out ids."""

    def keep_orders(self, changes: Sequence[Change]) -> None:
        """No later bebopd asks for them."""

    def remember_node(self, name: str, number: int) -> None:
        """No later bebopd asks for it."""

    def job_granted(self, row: Row) -> None:
        """Nobody looks for past jobs."""

    def job_ended(self, row: Row) -> None:
        """Nobody looks for past jobs."""

    def charged(self, charge: Charge) -> None:
        """No later bebopd asks for it."""

    def steps_ended(self, rows: Sequence[Row]) -> None:
        """Nobody looks for past steps."""

    def steps_forgotten(self, job_id: int) -> None:
        """No job begins anew."""

    def batch_ended(self, row: Row) -> None:
        """There are none."""

    def slots_held(self, *record: object) -> None:
        """Nobody looks for past jobs."""

    def past(self, ask: Callable[[History], T], then: Callable[[T | LedgerError], None]) -> None:
        """There is no history."""
        then(LedgerError("this partition keeps no history"))

    def flush(self) -> None:
        """Nothing waits."""
