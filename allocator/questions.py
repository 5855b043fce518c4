"""How many questions to the history each user may have waiting. Pure.

It answers one after another, in a thread of its own.
"""

from __future__ import annotations

from collections import Counter

from native.ids import Principal, PrincipalKind


class Questions:
    """Counts them, but for those of root and of the partition's daemons.

    Attributes:
        most: of one user.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: Counter[int] = Counter()

    def begin(self, asker: Principal | None) -> bool:
        """One more question; False: the user has as many as they may."""
        if (uid := _uid(asker)) == 0:
            return True
        if self._waiting[uid] >= self.most:
            return False
        self._waiting[uid] += 1
        return True

    def end(self, asker: Principal | None) -> None:
        """A question has its answer."""
        if (uid := _uid(asker)) == 0:
            return
        self._waiting[uid] -= 1
        if not self._waiting[uid]:
            del self._waiting[uid]


def _uid(asker: Principal | None) -> int:
    """Whose share it is; 0: nobody's."""
    return 0 if asker is None or asker.kind is PrincipalKind.PARTITION else asker.uid
