"""The table that pingd shows, in pieces that fit into messages; the state for the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any

from allocator.jobs.job import Job, JobState
from allocator.jobs.table import JobTable
from allocator.nodes.access import STRANGER
from allocator.nodes.node import Node
from allocator.nodes.orders import Orders
from allocator.nodes.table import NodeTable
from native.nodelist import format_nodes
from native.text import shown
from native.wire.base import TIME_MAX_S, clipped
from native.wire.status import (
    NodeDrain,
    NodeJob,
    NodeReservation,
    NodeRow,
    NodeState,
    Portion,
    Table,
)

PIECE_BYTES = 128 * 1024  # of rows in one message, by the estimate below
ROW_BYTES = 64 * 1024  # of jobs in one row; further jobs go into another row
RANKS_AT_ONCE = 8192  # of one job in one row

IS_NOT_HEARD_OF = (JobState.PENDING, JobState.REVOKING)  # no PCT has reported the job


def tables(nodes: NodeTable, jobs: JobTable, unix_s: float, now: float) -> Iterator[Table]:
    """The whole table; a node with very many jobs or ranks has several rows."""
    present = (row for node in nodes for row in rows_of(node, jobs, now))
    absent = (absent_row(number, name, orders) for number, name, orders in nodes.absent())
    for piece, is_last in pieces(merge(present, absent, key=lambda row: row.node)):
        yield Table(piece, is_last, unix_s)


def pieces(rows: Iterable[NodeRow]) -> Iterator[tuple[tuple[NodeRow, ...], bool]]:
    """Rows in pieces that fit into messages, and whether each is the last."""
    piece: list[NodeRow] = []
    size = 0
    for row in rows:
        more = _estimate(row)
        if piece and size + more > PIECE_BYTES:
            yield tuple(piece), False
            piece, size = [], 0
        piece.append(row)
        size += more
    yield tuple(piece), True


def absent_row(number: int, name: str, orders: Orders) -> NodeRow:
    """A node for which there are orders, and that has not announced itself yet."""
    drain = _drain(orders)
    return NodeRow(
        node=number,
        name=name,
        state=NodeState.DOWN,
        slots=0,
        slots_used=0,
        silent_s=0.0,
        drain=drain,
        is_restarting=bool(orders.restart),
        reservation=_reservation(orders),
        portion=orders.portion or Portion.ANY,
    )


def rows_of(node: Node, jobs: JobTable, now: float) -> Iterator[NodeRow]:
    """The rows of one node."""
    row: list[NodeJob] = []
    size = 0
    for job_id in sorted(node.held):
        for part in _parts(node, jobs.on(node.number, job_id), now):
            if row and size + _estimate_of(part) > ROW_BYTES:
                yield _row(node, jobs, tuple(row), now)
                row, size = [], 0
            row.append(part)
            size += _estimate_of(part)
    yield _row(node, jobs, tuple(row), now)


def _row(node: Node, jobs: JobTable, parts: tuple[NodeJob, ...], now: float) -> NodeRow:
    is_reachable = node.address.nid >= 1 << 24 and node.address.pid < 1 << 16
    return NodeRow(
        node=node.number,
        name=node.name,
        state=_state(node, jobs),
        slots=node.slots,
        slots_used=node.used(),
        silent_s=max(0.0, now - node.heard_at),
        jobs=parts,
        drain=_drain(node.orders),
        is_restarting=node.orders.restart is not None,
        why=clipped(node.trouble if node.is_up else node.down_text),
        reservation=_reservation(node.orders),
        portion=node.access.portion,
        nid=node.address.nid if is_reachable else 0,
        pid=node.address.pid if is_reachable else 0,
        rogues=clipped(node.rogues) if node.is_up else "",
    )


def _drain(orders: Orders) -> NodeDrain | None:
    closed = orders.closed
    if closed is None:
        return None
    return NodeDrain(closed.reason, closed.by, max(0.0, closed.since))


def _reservation(orders: Orders) -> NodeReservation | None:
    if (kept := orders.reservation) is None:
        return None
    since = max(0.0, kept.since)
    return NodeReservation(kept.owner, kept.reason, kept.by, since, kept.start, kept.end)


def _parts(node: Node, job: Job, now: float) -> Iterator[NodeJob]:
    ranks = job.ranks_on(node.number)
    for first in range(0, max(1, len(ranks)), RANKS_AT_ONCE):
        yield NodeJob(
            job_id=job.job_id,
            owner=job.owner,
            ranks=ranks[first : first + RANKS_AT_ONCE],
            elapsed_s=min(max(0.0, now - job.since), TIME_MAX_S),
            is_pending=job.state in IS_NOT_HEARD_OF,
            batch_job=job.batch_job,
            **_progress(node, job),
        )


def _progress(node: Node, job: Job) -> dict[str, Any]:
    if job.progress is None or node.number != job.root:
        return {}
    said = job.progress
    come = {"come": said.come, "total": said.total, "ranks_come": said.ranks_come}
    return {"phase": said.phase, **come}


def _state(node: Node, jobs: JobTable) -> NodeState:
    if not node.is_up:
        return NodeState.DOWN
    if node.orders.closed is not None:
        return NodeState.DRAINING if node.held else NodeState.DRAINED
    if node.trouble:
        return NodeState.TROUBLE
    if not node.held:
        return NodeState.FREE
    held = [jobs.on(node.number, job_id) for job_id in node.held]
    if all(job.state in IS_NOT_HEARD_OF for job in held):
        return NodeState.PENDING
    return NodeState.BUSY


def _estimate(row: NodeRow) -> int:
    """At least as many bytes as the row takes."""
    drain = 4 * (len(row.drain.reason) + len(row.drain.by)) if row.drain else 0
    kept = row.reservation
    reserved = 4 * (len(kept.owner) + len(kept.reason) + len(kept.by)) if kept else 0
    texts = 4 * (len(row.name) + len(row.why) + len(row.rogues)) + drain + reserved
    return 64 + texts + sum(map(_estimate_of, row.jobs))


def _estimate_of(job: NodeJob) -> int:
    return 64 + 4 * (len(job.owner) + len(job.batch_job)) + 5 * len(job.ranks)


def state_lines(name: str, nodes: NodeTable, jobs: JobTable, now: float) -> list[str]:
    """A line for each node, and one for each job, for the log."""
    lines = [f"partition {name}: {len(nodes)} nodes, {len(jobs)} jobs"]
    for node in nodes:
        how = "up" if node.is_up else f"down: {node.down_text}"
        how += f", in trouble: {shown(node.trouble)}" if node.trouble else ""
        closed = f", drained: {shown(drain.reason)}" if (drain := node.orders.closed) else ""
        if text := node.closed_text(STRANGER):
            closed += f", {text}"
        lines.append(f"{node}: {how}, {node.used()} of {node.slots} slots in use{closed}")
    for job in jobs:
        held, age = format_nodes(job.holdings), now - job.since
        said = f"of {job.owner}: {job.state.value}, nodes {held}, for {age:.0f} s"
        said += f", attempt {job.attempt}" if job.attempt else ""
        lines.append(f"job {job.job_id} {said}")
    return lines
