"""The steps of an allocation that have ended, until the partition's bebopd has heard of them.

They are told in pieces, one at a time, each of which is acknowledged. What waits is bounded;
further steps are counted. Pure: no clock, no transport.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from allocator.records import MemoryLedger
from native.wire.batch import ROWS_MAX, Row, Steps
from native.wire.codec import pieces

WAITING_MAX = 10_000  # steps


class EndedSteps(MemoryLedger):
    """Takes the final rows of the steps from the allocation's bebopd, as its records.

    Args:
        job_id, attempt: of the allocation, at the partition's bebopd.
    """

    def __init__(self, job_id: int, attempt: int = 0) -> None:
        super().__init__()
        self._job_id = job_id
        self._attempt = attempt
        self._rows: deque[Row] = deque()
        self._heard = 0  # rises from piece to piece
        self._lost = 0
        self._lost_heard = 0
        self._piece: Steps | None = None  # that is told now

    def __len__(self) -> int:
        """How many steps bebopd has not heard of."""
        return len(self._rows)

    @property
    def is_heard(self) -> bool:
        """bebopd has heard everything."""
        return not self._rows and self._lost == self._lost_heard

    @property
    def fills_piece(self) -> bool:
        """As many wait as one message takes."""
        return len(self._rows) >= ROWS_MAX

    def job_ended(self, row: Row) -> None:
        """A step has its final row."""
        if len(self._rows) >= WAITING_MAX:
            self._lost += 1
            return
        self._rows.append(replace(row, job_id=self._job_id, step=row.job_id))

    def next_piece(self) -> Steps:
        """What is told now; the very same until it has been heard."""
        if self._piece is None:
            some = [self._rows[place] for place in range(min(ROWS_MAX, len(self._rows)))]
            rows, _ = next(pieces(some, ROWS_MAX))
            self._piece = Steps(self._job_id, self._heard, rows, self._lost, self._attempt)
        return self._piece

    def heard(self, first: int) -> bool:
        """bebopd has taken a piece; whether it is the one that is told now."""
        piece = self._piece
        if piece is None or piece.first != first:
            return False
        for _ in piece.rows:
            self._rows.popleft()
        self._heard += len(piece.rows) or 1  # no answer to an earlier piece is one to the next
        self._lost_heard, self._piece = piece.lost, None
        return True
