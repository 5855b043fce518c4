"""Failures that a node reports: the first of each kind."""

from __future__ import annotations

from native.machine import Action
from native.wire import load
from native.wire.base import clipped
from native.wire.load import FailureKind
from pct.job.progress import JobState, Progress
from pct.tree.group import Group

# A job that ends anyway misses nothing else than completions.
MATTERS_AT_THE_END = (FailureKind.KEEPER_LOST, FailureKind.FAULT)


class Failures:
    """What this node has reported of one job.

    Attributes:
        has_any: the job cannot go on, for all that this node knows.
    """

    def __init__(self, message: load.Load, group: Group, progress: Progress) -> None:
        self._message = message
        self._group = group
        self._progress = progress
        self._reported: set[FailureKind] = set()

    @property
    def has_any(self) -> bool:
        return bool(self._reported)

    def report(
        self, kind: FailureKind, text: str, rank: int = -1, exit_code: int = 0
    ) -> list[Action]:
        """Tell the parent, unless one of the kind has been told, or the end makes it idle."""
        state = self._progress.state
        if kind in self._reported or state is JobState.RELEASED:
            return []
        if state is JobState.ENDING and kind not in MATTERS_AT_THE_END:
            return []
        self._reported.add(kind)
        return self._tell(kind, text, self._message.place, rank, exit_code)

    def report_again(self, kind: FailureKind, text: str) -> list[Action]:
        """Tell it, even where it has been told: that may have been lost."""
        self._reported.discard(kind)
        return self.report(kind, text)

    def report_lost(self, place: int, text: str) -> list[Action]:
        """Tell of a child that is lost."""
        return self._tell(FailureKind.NODE_LOST, text, place)

    def pass_on(self, place: int, message: load.Failure, now: float) -> list[Action]:
        """A failure below goes up at once."""
        return self._group.up(message)

    def _tell(
        self, kind: FailureKind, text: str, place: int, rank: int = -1, exit_code: int = 0
    ) -> list[Action]:
        node = self._message.nodes[place]
        phase, said = self._progress.state.value, clipped(text)
        about = (phase, node.node, node.name, rank, said, exit_code)
        return self._group.up(load.Failure(self._message.job_id, kind, *about))
