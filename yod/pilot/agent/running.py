"""Runs a task's program by a starter, and tells its outcome."""

from __future__ import annotations

import os

from native.errors import UsageError
from native.waitstatus import how_it_ended
from yod.pilot.wire import starter as wire
from yod.pilot.wire.starter import Report, ReportKind, Step
from yod.pilot.work.place import Outcome, outcome_of

_WHAT = {
    Step.FORK: "no process could be started",
    Step.DIRECTORY: "its sandbox {directory}",
    Step.OUTPUT: "its output files in {directory}",
    Step.EXEC: "{program}",
    Step.ORDER: "the order could not be read",
}
_NO_PROGRAM, _NOT_EXECUTED = 127, 126


def outcome_of_report(report: Report, program: str, directory: str) -> Outcome:
    """What a program's last report says."""
    times = [
        ("task_start", report.began),
        ("task_mkdir", report.began),
        ("task_mkdir_done", report.prepared),
        ("task_run_start", report.prepared),
        ("launch_start", report.prepared),
        ("launch_submit", report.prepared),
        ("exec_start", report.started),
        ("rank_start", report.started),
        ("rank_stop", report.ended),
        ("exec_stop", report.cleaned),
    ]
    match report.kind:
        case ReportKind.ENDED:
            outcome = outcome_of(report.value)
        case ReportKind.FAILED:
            what = _WHAT.get(report.step, "").format(program=program, directory=directory)
            is_missing = report.step is Step.EXEC and report.value == 2  # ENOENT
            outcome = Outcome(
                exit_code=_NO_PROGRAM if is_missing else _NOT_EXECUTED,
                reason=f"{what}: {os.strerror(report.value)}",
            )
        case _:
            ended = how_it_ended(report.value) if report.value else "the starter has ended"
            reason = f"its keeper is lost: {ended}"
            outcome = Outcome(exit_code=None, reason=reason, is_lost=True)
    outcome.times = [(event, at) for event, at in times if at]
    outcome.stdout = report.stdout.decode(errors="replace")
    outcome.stderr = report.stderr.decode(errors="replace")
    return outcome


def flat(variables: dict[str, str]) -> list[str]:
    """Variables as a starter takes them.

    Raises:
        UsageError: one cannot be.
    """
    for name in variables:
        if not name or "=" in name:
            raise UsageError(f"{name!r} is no name of a variable")
    return [f"{name}={value}" for name, value in variables.items()]


MAKE = wire.MAKE_DIRECTORY
TELL = wire.MAKE_DIRECTORY | wire.TELL_START
