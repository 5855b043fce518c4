"""Clients that the server has asked for and that have not been submitted. Pure."""

from __future__ import annotations

from collections import deque

REQUESTS_MAX = 10_000  # of a server that have not been met


class Requests:
    """Ids in the order in which they were asked for, kept as ranges."""

    def __init__(self) -> None:
        self._ranges: deque[tuple[int, int]] = deque()
        self._unwanted: set[int] = set()
        self.count = 0  # of those that are still wanted

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, first: int, count: int) -> bool:
        """Take a request; False: there are too many."""
        if len(self._ranges) >= REQUESTS_MAX:
            return False
        self._ranges.append((first, count))
        self.count += count
        return True

    def withdraw(self, client: int) -> bool:
        """A client is needed no more; False: it is not among them."""
        if client in self._unwanted or not any(
            first <= client < first + count for first, count in self._ranges
        ):
            return False
        self._unwanted.add(client)
        self.count -= 1
        return True

    def next(self) -> int | None:
        """Take the next one; None: there is none."""
        while self._ranges:
            client, count = self._ranges.popleft()
            if count > 1:
                self._ranges.appendleft((client + 1, count - 1))
            if client not in self._unwanted:
                self.count -= 1
                return client
            self._unwanted.discard(client)
        return None

    def clear(self) -> None:
        """Forget all."""
        self._ranges.clear()
        self._unwanted.clear()
        self.count = 0
