"""Why nodes are not free, in a line for all nodes of which it is true. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import localtime, strftime

from msgspec.structs import replace

from native.limits import Limits
from native.nodelist import named_nodes
from native.text import plural, shown
from native.wire.status import NodeJob, NodeRow, NodeState, Portion

NAMED_MAX = 8  # jobs of one node
STALE_HEARTBEATS = 2.0
_OUT_OF_USE = (NodeState.DOWN, NodeState.DRAINING, NodeState.DRAINED, NodeState.TROUBLE)


def stale_s(limits: Limits, node_count: int) -> float:
    """After this a node that is up, of a partition of so many, should have been heard from."""
    return STALE_HEARTBEATS * limits.announced_s(node_count)


def lines(rows: Iterable[NodeRow], now: float, stale_s: float) -> list[str]:
    """``nodes 3..5 drained by root since 2026-11-23 10:12:00: fan``, and so on.

    Args:
        now: unix time.
        stale_s: of :func:`stale_s`.
    """
    alike: dict[str, list[int]] = {}
    for row in rows:
        for reason in _reasons(row, now, stale_s):
            alike.setdefault(reason, []).append(row.node)
    return [f"{named_nodes(numbers)} {reason}" for reason, numbers in alike.items()]


def out_of_use(rows: Iterable[NodeRow], now: float, stale_s: float) -> list[str]:
    """As :func:`lines`, without what jobs do."""
    without = (replace(row, jobs=()) for row in rows if _is_out_of_use(row))
    return lines(without, now, stale_s)


def _is_out_of_use(row: NodeRow) -> bool:
    return row.state in _OUT_OF_USE or row.reservation is not None


def reason(row: NodeRow, now: float, stale_s: float) -> str:
    """Why one node is not free; empty: it is.

    Args:
        now, stale_s: as for :func:`lines`.
    """
    return "; ".join(_reasons(row, now, stale_s))


def _reasons(row: NodeRow, now: float, stale_s: float) -> Iterator[str]:
    if row.state is NodeState.DOWN:
        yield _down(row, now)
    elif row.silent_s > stale_s:
        yield f"stale: no word since {_time(now - row.silent_s)}"
    if row.state is not NodeState.DOWN and row.why:
        yield f"in trouble: {shown(row.why)}"
    if row.rogues:
        yield f"with rogue processes {shown(row.rogues)}"
    if row.drain is not None:
        by, why = shown(row.drain.by), shown(row.drain.reason)
        yield f"drained by {by} since {_time(row.drain.since)}: {why}"
    if (kept := row.reservation) is not None:
        text = f": {shown(kept.reason)}" if kept.reason else ""
        who = f"{shown(kept.owner)} by {shown(kept.by)}"
        times = f"since {_time(kept.start or kept.since)}"
        if kept.start > now:
            times = f"from {_time(kept.start)}"
        if kept.end:
            times += f" to {_time(kept.end)}"
        yield f"reserved for {who} {times}{text}"
    if row.portion is not Portion.ANY:
        yield f"for {row.portion.value} jobs only"
    if row.is_restarting:
        yield "to restart when free of jobs"
    pending = [job for job in row.jobs if job.is_pending]
    running = [job for job in row.jobs if not job.is_pending]
    if row.state is NodeState.DOWN:
        if row.jobs:
            yield f"held by {_named(row.jobs)} until its PCT is back"
        return
    if running:
        left = max(0, row.slots - row.slots_used)
        free = f", {left} of {plural(row.slots, 'slot')} free" if left else ""
        yield f"busy with {_named(running)}{free}"
    if pending:
        since = _time(now - max(job.elapsed_s for job in pending))
        yield f"pending for {_named(pending)} since {since}: no PCT has reported it"


def _down(row: NodeRow, now: float) -> str:
    if not row.slots:
        return "down: its PCT has not announced itself"
    why = f": {shown(row.why)}" if row.why else ""
    return f"down, last heard of {_time(now - row.silent_s)}{why}"


def _named(jobs: Sequence[NodeJob]) -> str:
    said = [f"{job.job_id} of {shown(job.owner)}" for job in jobs[:NAMED_MAX]]
    more = f" and {len(jobs) - len(said)} more" if len(jobs) > len(said) else ""
    return f"job{'' if len(jobs) == 1 else 's'} {', '.join(said)}{more}"


def _time(at: float) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(at))
