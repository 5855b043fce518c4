"""Where the ranks are, for commands that ask: every node looks, and answers for itself."""

from __future__ import annotations

from native.machine import Action
from native.wire.group import DYING, Look, Seen
from yod.launch.events import LookAsked, Looked
from yod.launch.phases import Progress
from yod.launch.report import Report
from yod.launch.tree import Tree

LOOK_S = 30.0  # all nodes have so long: more than each has for its ranks


class Looks:
    """One look at a time. Who asks meanwhile has part in what is still to come."""

    def __init__(self, progress: Progress, tree: Tree, report: Report) -> None:
        self._progress = progress
        self._report = report
        self._tree = tree
        self._number = 0
        self._left: dict[int, str] = {}  # names of nodes that have not answered, by number
        self._until: float | None = None

    def deadline(self) -> float | None:
        """When those that have not answered are named; None: all have."""
        return self._until

    def asked(self, event: LookAsked, now: float) -> list[Action]:
        """RUNNING: a command asks."""
        if self._left:
            return []
        self._number += 1
        self._left = {node.node: node.name for node in self._tree.nodes}
        self._until = now + LOOK_S
        return self._tree.send(Look(self._tree.job_id, self._number))

    def not_now(self, event: LookAsked, now: float) -> list[Action]:
        """Any other phase."""
        return [Looked("", b"", f"its ranks do not run: {self._progress.phase.value}", 0)]

    def seen(self, message: Seen, now: float) -> list[Action]:
        """A node has looked, also at ranks that a signal is ending."""
        if message.number == DYING:
            self._report.saw(message)
            return []
        if message.number != self._number or message.node not in self._left:
            return []
        name = self._left.pop(message.node)
        if not self._left:
            self._until = None
        return [Looked(name, message.stacks, message.text, len(self._left))]

    def due(self, now: float) -> list[Action]:
        """Time has passed: nodes that have not answered are named."""
        if self._until is None or now < self._until:
            return []
        return self.end("has not answered")

    def end(self, why: str) -> list[Action]:
        """No node answers any more."""
        left, self._left, self._until = list(self._left.values()), {}, None
        return [
            Looked(name, b"", why, len(left) - number) for number, name in enumerate(left, start=1)
        ]
