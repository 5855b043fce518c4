"""How a launch ended, for a program that uses :mod:`yod.api`."""

from __future__ import annotations

from msgspec import Struct

from native.errors import YodError
from native.waitstatus import SIGNAL_BASE
from yod.launch.closing import Timing
from yod.launch.report import Completion, Report


class RankResult(Struct, frozen=True):
    """How one rank ended.

    Attributes:
        node: name of its node; empty: it had none.
        node_number: -1: it had none.
        unix_pid: 0: it was never started.
        exit_code: None: it was killed, or its end is not known.
        signal: that killed it; None: none did, or its end is not known.
        phase: ``run``: it ended after all ranks had been let go; ``start``: before; ``lost``: it
            was started, and its end is not known; ``never``: it was not started.
        was_killed_by_yod: the signal was yod's, because the job ended.
        user_s: processor time.
    """

    rank: int
    node: str
    node_number: int
    unix_pid: int
    exit_code: int | None
    signal: int | None
    phase: str
    was_killed_by_yod: bool = False
    elapsed_s: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_bytes: int = 0


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
        signal=report.interrupted_by or _killer(report.exit_status, ranks),
        reason=report.reason or report.first_failure,
        ranks=ranks,
        stdout=stdout,
        stderr=stderr,
        messages=messages,
        summary=tuple(filter(None, (report.reason, *report.summary()))),
        timing=timing,
        job_id=job_id,
    )


def rank_of(report: Report, rank: int) -> RankResult:
    """What is known of one rank."""
    number = report.node_of(rank)
    node = report.node_names.get(number, "")
    done = report.completions.get(rank)
    if done is not None:
        return _ended(done, node)
    unix_pid = report.unix_pids.get(rank, 0)
    return RankResult(rank, node, number, unix_pid, None, None, "lost" if unix_pid else "never")


def _ended(done: Completion, node: str) -> RankResult:
    signal = done.wait_status & 0x7F
    return RankResult(
        rank=done.rank,
        node=node,
        node_number=done.node,
        unix_pid=done.unix_pid,
        exit_code=None if signal else done.wait_status >> 8 & 0xFF,
        signal=signal or None,
        phase="run" if done.was_released else "start",
        was_killed_by_yod=done.is_ours,
        elapsed_s=done.elapsed_s,
        user_s=done.user_s,
        system_s=done.system_s,
        max_rss_bytes=done.max_rss_bytes,
    )


def _killer(exit_status: int, ranks: tuple[RankResult, ...]) -> int:
    """The signal that an exit status stands for; 0: it stands for none."""
    number = exit_status - SIGNAL_BASE
    is_known = any(rank.signal == number and not rank.was_killed_by_yod for rank in ranks)
    return number if is_known else 0
