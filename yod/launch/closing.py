"""What a launch leaves when it has ended: the completion report, the user log, the last lines."""

from __future__ import annotations

import signal
from collections.abc import Container

from msgspec import Struct

from native import nodelist
from native.text import shown
from native.waitstatus import SIGNAL_BASE
from native.wire.load import Slowest
from yod.launch.phases import Phase
from yod.launch.report import Report, hms
from yod.plan.plan import Options
from yod.plan.prepared import LOG_VARIABLE, Records

Timing = tuple[tuple[str, float, str], ...]  # phase, seconds, the slowest node or empty


class Append(Struct, frozen=True):
    """Bytes for the end of a file of the user's.

    Attributes:
        is_log: it is the user log, which may be in a directory of others: no link is followed,
            and a file that takes nothing is not waited for.
        is_awaited: somebody is told if it fails.
        empties: what is in the file is lost first.
    """

    path: str
    data: bytes
    is_log: bool
    is_awaited: bool = True
    empties: bool = False


class Closing:
    """Decides what is written after the last output of the ranks.

    Args:
        report: of the launch, which has ended.
        batch_job: the batch system's id of the job; empty: none.
    """

    def __init__(self, records: Records, report: Report, batch_job: str) -> None:
        self._records = records
        self._report = report
        self._batch_job = batch_job
        self._faults: list[str] = []

    def files(self, started: str, ended: str, elapsed_s: float) -> list[Append]:
        """What is added to which files.

        Args:
            started: local time as mm/dd/yyyy hh:mm:ss.
            ended: the same.
        """
        records, report = self._records, self._report
        appends = []
        if records.report_file and report.job_id and not report.was_left:
            text = "\n".join((records.command, *report.table(), ""))
            appends.append(Append(records.report_file, _encoded(text), is_log=False))
        if records.log_file:
            line = log_line(
                report, started, ended, elapsed_s, records.user, records.program, self._batch_job
            )
            data = _encoded(line + "\n")
            appends.append(Append(records.log_file, data, True, records.is_log_chosen))
        return appends

    def failed(self, append: Append, reason: str) -> None:
        """A file could not be added to."""
        path = shown(append.path)
        if append.path == self._records.json_file:
            self._faults.append(f"--report {path}: {reason}; this launch is not in it")
        elif append.path == self._records.trace_file:
            self._faults.append(f"--trace {path}: {reason}; there is no trace")
        elif not append.is_log:
            self._faults.append(f"{path}: {reason}; the report follows here")
            self._faults += self._report.table()
        elif self._records.is_log_chosen:
            self._faults.append(f"{LOG_VARIABLE}: {path}: {reason}; this launch is not logged")

    def lines(self, timing: Timing) -> list[str]:
        """The last lines for the user."""
        report, records = self._report, self._records
        lines = list(self._faults)
        if report.was_left:  # the user did not wait, nor for these lines
            return lines
        is_pipe_closed = report.exit_status == SIGNAL_BASE + signal.SIGPIPE and not report.reason
        has_told = not records.has_summary or lines or is_pipe_closed
        if records.has_completions and report.job_id:
            lines += report.table()
        elif (report.completions or report.lost) and not has_told:
            lines += report.summary() + report.evidence()
        if records.has_timing:
            for phase, seconds, slowest in timing:
                text = f"{phase:<10} {seconds:8.4f} s"
                lines.append(text + (f"  slowest: {slowest}" if slowest else ""))
            lines.append(f"{'total':<10} {sum(seconds for _, seconds, _ in timing):8.4f} s")
            lines += _slowest_of(timing)
        return lines


def log_line(
    report: Report, started: str, ended: str, elapsed_s: float, user: str, program: str, batch: str
) -> str:
    """The user log's line, in Cplant's format.

    Args:
        started: local time as mm/dd/yyyy hh:mm:ss.
        ended: the same.
        user: login name.
        program: path of the first member's program.
        batch: the batch job's id, or empty.
    """
    parts = [started, ended, hms(elapsed_s), f"{len(report.nodes):04d}", user, program + ","]
    if batch:
        parts.append(f"PBS #{batch},")
    parts.append(f"Cplant #{report.job_id},")
    parts.append(nodelist.format_nodes(report.nodes) or "-")
    errors = [text for text in (report.reason, report.first_failure) if text]
    return " ".join(parts) + "".join(", " + " ".join(text.split()) for text in errors)


def command_status(options: Options, report: Report, began: Container[Phase]) -> int:
    """The exit status of the command, or minus the signal of which it is to die.

    Args:
        began: the phases that there were.
    """
    status = report.exit_status
    assert status is not None
    if not options.ends_as_cplant:
        return -report.interrupted_by or status
    from yod.plan.cplant import status_of  # few launches ask for it

    return status_of(status, has_begun=Phase.RUNNING in began)


def timing_of(
    resolve_s: float, began: dict[Phase, float], slowest: dict[Phase, Slowest], now: float
) -> Timing:
    """How long each phase took."""
    lines = [("resolve", resolve_s, "")]
    ends = [*list(began.values())[1:], now]
    for (phase, start), end in zip(began.items(), ends, strict=True):
        slow = slowest.get(phase)
        text = f"{slow.name} ({slow.seconds:.4f} s after its load message)" if slow else ""
        lines.append((phase.value, end - start, text))
    return tuple(lines)


def _slowest_of(timing: Timing) -> list[str]:
    """A line about the node for which go has waited longest; none, if no rank could go."""
    named = [(phase, slowest) for phase, _, slowest in timing if slowest]
    if not named:
        return []
    phase, slowest = named[-1]
    return [f"{'slowest':<10} {slowest}, the last to {phase}"]


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
