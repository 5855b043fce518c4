"""Who keeps the others of a job waiting, told up the tree so that the user can read it.

A wait that ends soon is never spoken of. After ``notice_s`` a node tells its parent
what it waits for, then again after twice as long, and so on, if there is news. Leaves
tell first: what a node says has what its children have just said. A child of which
nothing is known is named without a reason. Each node sends one message up at such a
time, of bounded length, however many are late.

Pure: no clock, no transport.
"""

from __future__ import annotations

from native.wire.load import LATE_MAX, Late, LateNode

UP_TO_HERE = 0.7  # of notice_s: yod has the answer when it speaks
LEVEL_GRACE = 0.03  # of notice_s, for each level below


class LateNodes:
    """What one node knows of who is late in its subtree.

    Args:
        notice_s: a wait is told of after this; infinite: never.
        levels: of the tree below this node.

    Attributes:
        due: when to call :meth:`tell`; None: nothing is awaited.
    """

    def __init__(self, job_id: int, notice_s: float, levels: int) -> None:
        self.due: float | None = None
        self._job_id = job_id
        self._notice_s = notice_s
        self._first_s = notice_s * (UP_TO_HERE + LEVEL_GRACE * levels)
        self._began = 0.0
        self._times = 0  # that it has been told
        self._below: dict[int, Late] = {}
        self._told: Late | None = None

    def begin(self, now: float) -> None:
        """Something else is awaited from now on."""
        self._began, self._times = now, 0
        self.due = None if self._notice_s == float("inf") else now + self._first_s
        self._told = None

    def end(self) -> None:
        """Nothing is awaited."""
        self.due = None
        self._below.clear()

    def hear(self, place: int, message: Late) -> None:
        """A child says who is late below it."""
        self._below[place] = message

    def came(self, place: int) -> None:
        """A child has given what it was awaited for: what it said is old."""
        self._below.pop(place, None)

    def is_due(self, now: float) -> bool:
        """It is time to tell."""
        return self.due is not None and now >= self.due

    def tell(self, own: list[LateNode], children: dict[int, LateNode]) -> Late | None:
        """What the parent should know now; None: nothing that it does not.

        Args:
            own: what is awaited of this node itself.
            children: who is awaited, by place.
        """
        self._times += 1
        self.due = self._began + self._first_s + self._notice_s * (2**self._times - 1)
        nodes, more = list(own), 0
        for place, child in sorted(children.items()):
            said = self._below.get(place)
            nodes += said.nodes if said is not None else (child,)
            more += said.more if said is not None else 0
        if not nodes:
            return None
        told = Late(self._job_id, tuple(nodes[:LATE_MAX]), more + max(0, len(nodes) - LATE_MAX))
        if told == self._told:
            return None
        self._told = told
        return told
