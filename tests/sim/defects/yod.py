"""Defects of yod."""

from __future__ import annotations

from typing import Any

from tests.sim.defects.registry import Patch, defect, wrap
from yod.launch.control import Control
from yod.launch.ending import Ending
from yod.launch.failures import Failures
from yod.launch.output import Outputs
from yod.launch.report import Report


@defect
def the_exit_status_is_0_after_a_failure(patch: Patch) -> None:
    def close(original: Any, self: Report) -> None:
        original(self)
        if self.exit_status and self._failed_with is None:
            self.exit_status = 0

    wrap(patch, Report, "close", close)


@defect
def the_exit_status_is_not_0_after_success(patch: Patch) -> None:
    def close(original: Any, self: Report) -> None:
        original(self)
        self.exit_status = self.exit_status or 1

    wrap(patch, Report, "close", close)


@defect
def ranks_are_counted_by_reports(patch: Patch) -> None:
    def complete(original: Any, self: Report, outcome: Any, signals: Any) -> Any:
        self.__dict__["counted"] = self.__dict__.get("counted", 0) + len(outcome.ranks) + 1
        return original(self, outcome, signals)

    wrap(patch, Report, "complete", complete)
    is_complete = property(lambda self: self.__dict__.get("counted", 0) >= self.size)
    patch.setattr(Report, "is_complete", is_complete)


@defect
def a_lost_root_is_not_reset(patch: Patch) -> None:
    def gone(original: Any, self: Failures, event: Any, now: float) -> Any:
        if event.peer == self._tree.root:
            return []
        return original(self, event, now)

    wrap(patch, Failures, "peer_gone", gone)
    wrap(patch, Failures, "peer_gone_at_the_end", gone)


@defect
def yod_leaves_without_a_release(patch: Patch) -> None:
    patch.setattr(Ending, "release", lambda self, now: self.done())


@defect
def a_gap_in_the_output_is_not_told(patch: Patch) -> None:
    def arrived(original: Any, self: Outputs, output: Any, now: float) -> Any:
        return original(self, output, now)[-1:]

    wrap(patch, Outputs, "arrived", arrived)


@defect
def a_lost_terminal_ends_a_job_that_is_to_go_on(patch: Patch) -> None:
    patch.setattr(Control, "outlives", lambda self, event: False)
