"""Where the ranks are, for commands that ask: every node looks, and answers for itself.

The same by itself when the job stands still (``--stall``). Each node says when its ranks have shown
no sign of life for so long, and when they do again. When all nodes have said the first and none
the second, also within the time between two of its looks, the job stands still. That is
told once, until a rank lives again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.deadlines import earliest
from native.machine import Action
from native.wire.group import DYING, STILL_CHECKS, Look, Seen, Still
from yod.launch.events import LookAsked, Looked, Tell
from yod.launch.phases import Phase, Progress
from yod.launch.report import Report
from yod.launch.tree import Tree

if TYPE_CHECKING:
    from yod.launch.stacks.tree import Tree as Stacks

LONGER = 1.5  # than each node has, all have
SILENT = "has not answered"
LINES_MAX = 200  # of one tree on the terminal


class Looks:
    """One look at a time. Who asks meanwhile has part in what is still to come.

    Args:
        look_s: how long a node may look.
        stall_s: without a sign of life for so long all nodes look; 0: only when asked.
    """

    def __init__(
        self, progress: Progress, tree: Tree, report: Report, look_s: float, stall_s: float
    ) -> None:
        self._progress = progress
        self._report = report
        self._tree = tree
        self._within_s = look_s * LONGER
        self._number = 0
        self._left: dict[int, str] = {}  # names of nodes that have not answered, by number
        self._until: float | None = None
        self._stalls = Stalls(stall_s, progress, tree) if stall_s else None

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do; None: never, as things are."""
        return earliest(self._until, self._stalls.deadline() if self._stalls else None)

    def asked(self, event: LookAsked, now: float) -> list[Action]:
        """RUNNING: a command asks."""
        return self._begin(now)

    def _begin(self, now: float) -> list[Action]:
        if self._left:
            return []
        self._number += 1
        self._left = {node.node: node.name for node in self._tree.nodes}
        self._until = now + self._within_s
        return self._tree.send(Look(self._tree.job_id, self._number))

    def not_now(self, event: LookAsked, now: float) -> list[Action]:
        """Any other phase."""
        return [Looked("", b"", f"its ranks do not run: {self._progress.phase.value}", 0)]

    def still(self, message: Still, now: float) -> list[Action]:
        """RUNNING: a node has shown no sign of life for a while, or shows one again."""
        return self._stalls.heard(message, now) if self._stalls else []

    def seen(self, message: Seen, now: float) -> list[Action]:
        """A node has looked, also at ranks that a signal is ending."""
        if message.number == DYING:
            self._report.saw(message)
            return []
        if message.number != self._number or message.node not in self._left:
            return []
        return self._answered(message)

    def _answered(self, message: Seen) -> list[Action]:
        name = self._left.pop(message.node)
        left = len(self._left)
        if not left:
            self._until = None
        told = self._stalls.seen(name, message, left) if self._stalls else []
        return [Looked(name, message.stacks, message.text, left), *told]

    def due(self, now: float) -> list[Action]:
        """Time has passed: nodes that have not answered are named; a job that stands still is."""
        actions: list[Action] = []
        if self._stalls and (text := self._stalls.due(now)):
            actions += [Tell(text), *self._begin(now)]
        if self._until is None or now < self._until:
            return actions
        for node in list(self._left):
            actions += self._answered(Seen(self._tree.job_id, self._number, node, b"", SILENT))
        return actions


class Stalls:
    """Which nodes stand still, and what is seen then."""

    def __init__(self, stall_s: float, progress: Progress, tree: Tree) -> None:
        self._check_s = stall_s / STILL_CHECKS
        self._progress = progress
        self._tree = tree
        self._since: dict[int, float] = {}  # nodes that stand still
        self._tell_at: float | None = None
        self._is_told = False
        self._seen: Stacks | None = None  # None: nothing is awaited
        self._troubles: dict[str, list[str]] = {}  # text -> nodes

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do; None: never, as things are."""
        return self._tell_at if self._progress.phase is Phase.RUNNING else None

    def heard(self, message: Still, now: float) -> list[Action]:
        """A node stands still, or does so no more."""
        nodes = {node.node for node in self._tree.nodes}
        if message.node not in nodes:
            return []
        from native.duration import in_words  # few jobs stand still

        if message.still_s:
            self._since[message.node] = now - message.still_s
            if len(self._since) == len(nodes) and not self._is_told:
                self._tell_at = now + (self._check_s if len(nodes) > 1 else 0.0)
            return []
        self._tell_at = None
        since = self._since.pop(message.node, now)
        if not self._is_told:
            return []
        self._is_told = False
        return [Tell(f"the ranks go on, after {in_words(now - since)}", is_error=False)]

    def due(self, now: float) -> str:
        """What the user is told now; empty: nothing. With a text all nodes are to look."""
        until = self.deadline()
        if until is None or now < until:
            return ""
        from native.duration import in_words  # few jobs do
        from yod.launch.stacks.tree import Tree as Stacks

        self._tell_at, self._is_told = None, True
        self._seen = Stacks()
        for_s = in_words(now - max(self._since.values()))
        return f"the job stands still: for {for_s} no rank has written or used processor time"

    def seen(self, name: str, message: Seen, left: int) -> list[Action]:
        """A node has looked, or will not: ``left`` have not answered."""
        if self._seen is None:
            return []
        self._seen.read(message.stacks.decode(errors="replace"))
        if message.text:
            self._troubles.setdefault(message.text, []).append(name)
        if left:
            return []
        lines, self._seen = self._seen.lines(), None
        if len(lines) > LINES_MAX:
            lines[LINES_MAX:] = [f"... {len(lines) - LINES_MAX} lines more: yodjob stack shows all"]
        for text, names in self._troubles.items():
            more = f" (and {len(names) - 1} nodes more)" if len(names) > 1 else ""
            lines.append(f"{names[0]}: {text}{more}")
        self._troubles.clear()
        return [Tell(line) for line in lines]
