"""Output on its way up the tree: in order, bounded, and not dropped without a report.

Each stream has its own relay, so a slow reader of standard output does not stop standard
error. A node may send its parent one window of a stream without credit. The parent gives
credit back as it passes output on. While a node has no credit, it does not read the pipes
of its ranks (they fill, and the ranks wait), and it keeps what its children have sent: at
most one window from each.

The first window is there when the job has begun: nobody sees output of a job that does not
run yet, though the ranks of one node may write before their PCT knows that they have gone.
"""

from __future__ import annotations

from collections import deque

from native.errors import PeerProtocolError
from native.wire.io import OUTPUT_MAX_BYTES, Lines, Output, cost

UNBOUNDED_BYTES = 1 << 62


class OutputRelay:
    """One node's standard output or error of one job.

    Attributes:
        is_paused: the pipes of this node's ranks must not be read.
    """

    def __init__(self, job_id: int, stream: int, window_bytes: int) -> None:
        self.is_paused = False
        self._job_id = job_id
        self._stream = stream
        self._window_bytes = window_bytes
        self._has_begun = False
        self._credit = 0
        self._queue: deque[tuple[int, Output]] = deque()  # place of origin, message
        self._offsets: dict[int, int] = {}  # by rank
        self._owed: dict[int, int] = {}  # by place of a child: credit to give back

    @property
    def is_empty(self) -> bool:
        """Nothing waits here."""
        return not self._queue

    @property
    def is_held_back(self) -> bool:
        """Output waits for credit."""
        return bool(self._queue)

    def read(self, own: int, rank: int, data: bytes, now: float) -> None:
        """Take output of a rank of this node.

        Args:
            own: the place that stands for this node.
        """
        offset = self._offsets.get(rank, 0)
        self._offsets[rank] = offset + len(data)
        for start in range(0, len(data), OUTPUT_MAX_BYTES):
            piece = data[start : start + OUTPUT_MAX_BYTES]
            message = Output(self._job_id, rank, self._stream, offset + start, piece)
            self._queue.append((own, message))

    def pass_on(self, place: int, message: Output) -> None:
        """Take output of a child."""
        self._queue.append((place, message))

    # What a relay that folds lines is told (:mod:`pct.job.rules.merge`):

    def started(self, rank: int) -> None:
        """A rank of this node may write."""

    def ended(self, rank: int) -> None:
        """A rank of this node writes nothing more."""

    def pass_lines(self, place: int, message: Lines, now: float) -> None:
        """Take lines of a child.

        Raises:
            PeerProtocolError: nothing is folded in this job.
        """
        raise PeerProtocolError("io.lines in a job without them")

    def over(self, place: int) -> None:
        """A child has sent all that its subtree has."""

    def gone(self, place: int) -> None:
        """A child sends nothing more. Its heirs may."""

    def deadline(self) -> float | None:
        """When :meth:`due` is to be called."""
        return None

    def due(self, now: float) -> None:
        """The deadline may have come."""

    # What every relay is told:

    def begin(self) -> None:
        """The job has begun, or ends before that: the first window may be sent."""
        if not self._has_begun:
            self._has_begun = True
            self._credit += self._window_bytes

    def credit(self, count_bytes: int) -> None:
        """The parent has given credit."""
        self._credit += count_bytes

    def hold(self) -> None:
        """The parent is lost: keep output for the next one."""
        self._credit = 0

    def new_parent(self) -> None:
        """Begin a window with a new parent. What the old one did not pass on is lost."""
        self._credit = self._window_bytes if self._has_begun else 0

    def abandon(self) -> None:
        """Need no credit from now on: nothing above gives any more."""
        self._credit = UNBOUNDED_BYTES

    def take(self) -> tuple[list[Output | Lines], list[tuple[int, int]]]:
        """Take what may be sent now.

        Returns:
            Messages for the parent, and (place, bytes) of credit for children.
        """
        messages: list[Output | Lines] = []
        while self._queue and self._credit > 0:
            place, message = self._queue.popleft()
            size = cost(message)
            self._credit -= size
            self._owed[place] = self._owed.get(place, 0) + size
            messages.append(message)
        self.is_paused = bool(self._queue)
        return messages, self._due_credit() if messages else []  # nothing else is owed anew

    def _due_credit(self) -> list[tuple[int, int]]:
        # In quarters of a window: one message of credit for each message of output would
        # double the traffic.
        due = [
            (place, owed)
            for place, owed in self._owed.items()
            if place >= 0 and owed >= self._window_bytes // 4
        ]
        for place, _ in due:
            self._owed[place] = 0
        return due
