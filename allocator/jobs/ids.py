"""Job ids: an id is never used twice.

A block of ids is recorded on the disk before its first id is used, so that no grant waits
for the disk and no id is given twice after a crash. Pure.
"""

from __future__ import annotations

BLOCK = 64  # ids reserved at a time
END = 1 << 47


class JobIds:
    """The ids that one bebopd gives out."""

    def __init__(self, first: int) -> None:
        """Begin at ``first``, with BLOCK ids reserved."""
        self.next = first
        self.reserved = first + BLOCK
        self._given = [[first, first]]  # ranges [start, end) given out here

    def take(self) -> int:
        """A new id."""
        assert self.next < self.reserved, "ids are reserved before they are used"
        self.next = self._given[-1][1] = self.next + 1
        return self.next - 1

    def put_back(self, job_id: int) -> None:
        """Of the last id that was taken nobody has heard: it is free again."""
        if job_id == self.next - 1 >= self._given[-1][0]:
            self.next = self._given[-1][1] = job_id

    def is_given(self, job_id: int) -> bool:
        """Whether the id was given out here, not by an earlier bebopd."""
        return any(start <= job_id < end for start, end in self._given)

    def skip(self, job_id: int) -> None:
        """Give out only ids above this one, which a job of an earlier bebopd has."""
        if job_id >= self.next:
            self.next = job_id + 1
            self._given.append([self.next, self.next])

    def reserve(self) -> int:
        """The end of the block to reserve now; 0: nothing has to be reserved."""
        if self.reserved - self.next >= BLOCK // 2:
            return 0
        self.reserved = self.next + BLOCK
        return self.reserved
