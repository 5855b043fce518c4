"""The failures that a node reports to yod: the first one of each kind."""

from __future__ import annotations

from native.machine import Action
from native.wire import load
from native.wire.base import clipped
from native.wire.load import FailureKind
from pct.job.progress import JobState, Progress
from pct.tree.group import Group

# Reported in ENDING as well: completions may be missing because of them.
MATTERS_AT_THE_END = (FailureKind.KEEPER_LOST, FailureKind.FAULT)


class Failures:
    """Which kinds of failure this node has reported."""

    def __init__(self, message: load.Load, group: Group, progress: Progress) -> None:
        self._message = message
        self._group = group
        self._progress = progress
        self._reported: set[FailureKind] = set()

    @property
    def has_any(self) -> bool:
        """This node has reported one, so the job cannot go on."""
        return bool(self._reported)

    def report(
        self, kind: FailureKind, text: str, rank: int = -1, exit_code: int = 0, place: int = -1
    ) -> list[Action]:
        """Report a failure, unless one of its kind has been or the job ends anyway.

        Args:
            place: of the node that has failed; -1: this one.
        """
        state = self._progress.state
        if kind in self._reported or state is JobState.RELEASED:
            return []
        if state is JobState.ENDING and kind not in MATTERS_AT_THE_END:
            return []
        self._reported.add(kind)
        return self._tell(kind, text, self._message.place if place < 0 else place, rank, exit_code)

    def report_again(self, kind: FailureKind, text: str) -> list[Action]:
        """Report a failure even if one of its kind has been: that report may be lost."""
        self._reported.discard(kind)
        return self.report(kind, text)

    def report_lost(self, place: int, text: str) -> list[Action]:
        """Report that a child is lost."""
        return self._tell(FailureKind.NODE_LOST, text, place)

    def pass_on(self, place: int, message: load.Failure, now: float) -> list[Action]:
        """A child reports a failure: pass it up at once."""
        return self._group.up(message)

    def _tell(
        self, kind: FailureKind, text: str, place: int, rank: int = -1, exit_code: int = 0
    ) -> list[Action]:
        node = self._message.nodes[place]
        phase, said = self._progress.state.value, clipped(text)
        about = (phase, node.node, node.name, rank, said, exit_code)
        return self._group.up(load.Failure(self._message.job_id, kind, *about))
