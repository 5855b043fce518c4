"""How a launch ended, for a program that uses :mod:`yod.api`."""

from __future__ import annotations

from msgspec import Struct

from native.errors import YodError
from yod.launch.closing import Timing
from yod.launch.report import Report
from yod.ranks import RankResult, killer, rank_of


class Result(Struct, frozen=True):
    """How a launch ended.

    Attributes:
        exit_status: what the command would exit with; 0: every rank has ended with 0.
        signal: that ended the job: an interrupt's, or that of the rank that failed first; 0: none.
        reason: why it failed, in one line; empty: it did not.
        ranks: of the whole job, spawned ones behind the others.
        stdout: what was collected; None: the output went elsewhere.
        stderr: likewise.
        messages: lines of yod itself, if output was collected.
        summary: why it failed and how its ranks did, in few lines; empty: all went well.
        timing: (phase, seconds, slowest node or empty), in order.
        job_id: what yodjob called it; empty: it had no id.
    """

    exit_status: int
    signal: int
    reason: str
    ranks: tuple[RankResult, ...]
    stdout: bytes | None
    stderr: bytes | None
    messages: tuple[str, ...]
    summary: tuple[str, ...]
    timing: Timing
    job_id: str

    def check(self) -> None:
        """Raise unless the job has succeeded.

        Raises:
            JobFailedError: it has not.
        """
        if self.exit_status:
            raise JobFailedError(self)


class JobFailedError(YodError):
    """A job has failed; the text says how.

    Attributes:
        result: how it ended.
    """

    def __init__(self, result: Result, text: str = "") -> None:
        lines = filter(None, (text, *result.summary))
        super().__init__("; ".join(lines) or f"exit status {result.exit_status}")
        self.result = result
        self.exit_status = result.exit_status


class JobTimeoutError(JobFailedError, TimeoutError):
    """A job has not ended in its time, and has been ended.

    Attributes:
        timeout_s: the time that it had.
    """

    def __init__(self, result: Result, timeout_s: float) -> None:
        super().__init__(result, f"the job did not end in {timeout_s:g} s")
        self.timeout_s = timeout_s


def result_of(
    report: Report,
    timing: Timing,
    job_id: str,
    stdout: bytes | None = None,
    stderr: bytes | None = None,
    messages: tuple[str, ...] = (),
) -> Result:
    """The result of a launch that is over."""
    assert report.exit_status is not None
    ranks = tuple(rank_of(report, rank) for rank in range(report.size))
    return Result(
        exit_status=report.exit_status,
        signal=report.interrupted_by or killer(report.exit_status, ranks),
        reason=report.reason or report.first_failure,
        ranks=ranks,
        stdout=stdout,
        stderr=stderr,
        messages=messages,
        summary=tuple(filter(None, (report.reason, *report.summary()))),
        timing=timing,
        job_id=job_id,
    )
