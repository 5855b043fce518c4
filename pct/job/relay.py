"""Output on its way up: ordered, bounded, never dropped in silence.

Standard output and error have a relay each: neither waits for the other's reader. A
node may have one window of a stream on its way to its parent. The parent gives
credit back as it passes output on. While the window is used up, the node's own
ranks are not read (their pipes fill, and they wait), and what children have sent
waits here: at most one window from each.
"""

from __future__ import annotations

from collections import deque

from native.wire.base import DATA_MAX
from native.wire.io import MESSAGE_COST_BYTES, Output

UNBOUNDED_BYTES = 1 << 62


def cost(message: Output) -> int:
    """What an output message uses of a window, in bytes."""
    return len(message.data) + MESSAGE_COST_BYTES


class OutputRelay:
    """One node's standard output or error of one job.

    Attributes:
        is_paused: own ranks must not be read.
    """

    def __init__(self, job_id: int, stream: int, window_bytes: int) -> None:
        self.is_paused = False
        self._job_id = job_id
        self._stream = stream
        self._window_bytes = window_bytes
        self._credit = window_bytes
        self._queue: deque[tuple[int, Output]] = deque()  # place of origin, message
        self._offsets: dict[int, int] = {}  # by rank
        self._owed: dict[int, int] = {}  # place of a child: credit not yet given back

    @property
    def is_empty(self) -> bool:
        """Everything has been sent to the parent."""
        return not self._queue

    def read(self, own: int, rank: int, data: bytes) -> None:
        """A rank of this node has written; ``own`` marks the origin."""
        offset = self._offsets.get(rank, 0)
        self._offsets[rank] = offset + len(data)
        for start in range(0, len(data), DATA_MAX):
            piece = data[start : start + DATA_MAX]
            message = Output(self._job_id, rank, self._stream, offset + start, piece)
            self._queue.append((own, message))

    def pass_on(self, place: int, message: Output) -> None:
        """A child has sent output."""
        self._queue.append((place, message))

    def credit(self, count_bytes: int) -> None:
        """The parent takes more."""
        self._credit += count_bytes

    def hold(self) -> None:
        """The parent is lost: what comes waits for the next one."""
        self._credit = 0

    def new_parent(self) -> None:
        """A fresh window: what the old parent had not passed on is lost."""
        self._credit = self._window_bytes

    def abandon(self) -> None:
        """No credit will come any more: the end does not wait for what is left."""
        self._credit = UNBOUNDED_BYTES

    def take(self) -> tuple[list[Output], list[tuple[int, int]]]:
        """What may go up now.

        Returns:
            Messages for the parent, and (place, bytes) of credit for children.
        """
        messages: list[Output] = []
        while self._queue and self._credit > 0:
            place, message = self._queue.popleft()
            self._credit -= cost(message)
            self._owed[place] = self._owed.get(place, 0) + cost(message)
            messages.append(message)
        self.is_paused = bool(self._queue)
        return messages, self._due_credit()

    def _due_credit(self) -> list[tuple[int, int]]:
        # In quarters of a window: a message of credit for each message of
        # output would double the traffic.
        due = [
            (place, owed)
            for place, owed in self._owed.items()
            if place >= 0 and owed >= self._window_bytes // 4
        ]
        for place, _ in due:
            self._owed[place] = 0
        return due
