"""Late nodes: reports of what a job waits for, sent up the tree and shown to the user.

A wait shorter than ``notice_s`` is not reported. After that a node tells its parent what
it waits for, and again each time the wait has doubled, if the report has changed. Leaves
report first, so that a node's report contains those of its children. A child that has
reported nothing is named without a reason. Each report is one message of bounded length,
however many nodes are late.

Pure: no clock, no transport.
"""

from __future__ import annotations

from native.wire.load import LATE_MAX, Late, LateNode

UP_TO_HERE = 0.7  # of notice_s: the report is at yod when yod speaks
LEVEL_GRACE = 0.03  # of notice_s; a node waits longer by this for each level below it


class LateNodes:
    """The late nodes of one subtree, as its root knows them.

    Args:
        notice_s: a wait is reported after this; infinite: never.
        levels: of the tree below this node.

    Attributes:
        due: when to call :meth:`tell`; None: the node waits for nothing.
    """

    def __init__(self, job_id: int, notice_s: float, levels: int) -> None:
        self.due: float | None = None
        self._job_id = job_id
        self._notice_s = notice_s
        self._first_s = notice_s * (UP_TO_HERE + LEVEL_GRACE * levels)
        self._began = 0.0
        self._times = 0  # reports of the present wait
        self._below: dict[int, Late] = {}
        self._told: Late | None = None

    def begin(self, now: float) -> None:
        """A new wait begins."""
        self._began, self._times = now, 0
        self.due = None if self._notice_s == float("inf") else now + self._first_s
        self._told = None

    def end(self) -> None:
        """The wait is over."""
        self.due = None
        self._below.clear()

    def hear(self, place: int, message: Late) -> None:
        """Take a child's report."""
        self._below[place] = message

    def came(self, place: int) -> None:
        """A child is no longer awaited: forget its report."""
        self._below.pop(place, None)

    def is_due(self, now: float) -> bool:
        """Is a report due?"""
        return self.due is not None and now >= self.due

    def tell(self, own: list[LateNode], children: dict[int, LateNode]) -> Late | None:
        """The report for the parent; None: it has not changed, or nothing is late.

        Args:
            own: what this node itself has not done yet.
            children: the awaited children, by place.
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
