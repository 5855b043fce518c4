"""How each rank of a launch has ended: for Python programs, and for ``--report``."""

from __future__ import annotations

from msgspec import Struct, json

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
        stack: where it was when a signal ended it, the outermost frame first (``-bt``).
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
    stack: tuple[str, ...] = ()


class Record(Struct, frozen=True):
    """One launch, as a line of JSON.

    Attributes:
        state: as in the history: COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL.
        signal: that ended the job; 0: none.
        reason: why it failed; empty: it did not.
        stderr: the last lines that the rank which failed first has written there.
        began: unix time.
        phases: seconds of each.
        nodes: their names, in the order of the ranks.
    """

    job: int
    command: str
    state: str
    exit_status: int
    signal: int
    reason: str
    began: float
    elapsed_s: float
    phases: dict[str, float]
    nodes: tuple[str, ...]
    ranks: tuple[RankResult, ...]
    stderr: tuple[str, ...] = ()


def record(report: Report, command: str, timing: Timing, began: float, elapsed_s: float) -> bytes:
    """The line of a launch that has ended.

    Args:
        began: unix time.
    """
    assert report.exit_status is not None
    ranks = tuple(rank_of(report, rank) for rank in range(report.size))
    line = Record(
        job=report.job_id,
        command=_text(command),
        state=report.end().state.value,
        exit_status=report.exit_status,
        signal=report.interrupted_by or killer(report.exit_status, ranks),
        reason=_text(report.reason or report.first_failure),
        began=began,
        elapsed_s=elapsed_s,
        phases={phase: seconds for phase, seconds, _ in timing},
        nodes=tuple(report.node_names[node] for node in dict.fromkeys(report.nodes)),
        ranks=ranks,
        stderr=tuple(report.last_words.of(report.first_failed)),
    )
    return json.encode(line) + b"\n"


def _text(text: str) -> str:
    """Names that are no text have marks in JSON, where their bytes cannot be."""
    return text.encode(errors="replace").decode()


def rank_of(report: Report, rank: int) -> RankResult:
    """What is known of one rank."""
    number = report.node_of(rank)
    node = report.node_names.get(number, "")
    done = report.completions.get(rank)
    if done is not None:
        return _ended(done, node, tuple(line.strip() for line in report.stacks.get(rank, ())))
    unix_pid = report.unix_pids.get(rank, 0)
    return RankResult(rank, node, number, unix_pid, None, None, "lost" if unix_pid else "never")


def _ended(done: Completion, node: str, stack: tuple[str, ...]) -> RankResult:
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
        stack=stack,
    )


def killer(exit_status: int, ranks: tuple[RankResult, ...]) -> int:
    """The signal that an exit status stands for; 0: it stands for none."""
    number = exit_status - SIGNAL_BASE
    is_known = any(rank.signal == number and not rank.was_killed_by_yod for rank in ranks)
    return number if is_known else 0
