"""What browsers are told of a partition: all of it once, then what has changed. Pure.

Rows are arrays, so that ten thousand nodes fit into less than a megabyte; ``page.js`` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from native.nodelist import format_nodes
from native.wire.base import State
from native.wire.batch import NO_STEP, Row
from native.wire.nodes import NodeEvent
from native.wire.status import NodeRow, NodeState
from partition.status import show, why

JITTER_S = 2.0  # a job's beginning is known to that, from how long it has run
NO_PROGRESS = (-1, "", 0, 0, 0)  # of no node; phase, nodes that have come, all, ranks that have
_STATES = list(NodeState)
_QUIET = (NodeState.FREE, NodeState.BUSY, NodeState.PENDING)


class _Held(Struct):
    """A job that holds slots, by the table of nodes."""

    owner: str
    began: float
    is_pending: bool
    ranks: dict[int, int]  # their count by node
    progress: tuple[int, str, int, int, int] = NO_PROGRESS  # of the launch, as a node has it


class View:
    """The partition as it is known, and what of it has been told.

    Attributes:
        rows: by node number.
        jobs: all that bebopd tells of.
        lost_text: why bebopd is out of reach; empty: it is not.
        changed_at: unix time of the last change; 0: never.

    Args:
        name: the partition's.
        stale_s: :func:`partition.status.why.stale_s` for a number of nodes.
    """

    def __init__(self, name: str, stale_s: Callable[[int], float]) -> None:
        self.rows: dict[int, NodeRow] = {}
        self.jobs: tuple[Row, ...] = ()
        self.lost_text = "bebopd has not answered yet"
        self.changed_at = 0.0
        self._name = name
        self._stale_s = stale_s
        self._held: dict[int, _Held] = {}
        self._by_id: dict[int, Row] = {}
        self._cells: dict[int, list[Any]] = {}
        self._told: dict[int, list[Any]] = {}  # jobs
        self._events: list[NodeEvent] = []

    def whole(self, now: float) -> bytes:
        """Everything, for a browser that knows nothing."""
        return json.encode(
            {
                "whole": True,
                "at": now,
                "name": self._name,
                "states": [state.value for state in _STATES],
                "lost": self.lost_text,
                "nodes": list(self._cells.values()),
                "jobs": list(self._told.values()),
                "events": [_event(each) for each in self._events],
            }
        )

    def changed(self, rows: Iterable[NodeRow], is_whole: bool, now: float) -> bytes:
        """Take new rows.

        Returns:
            What browsers have to be told.
        """
        rows = show.merge(rows)
        if is_whole:
            self.rows, self._held, self._cells = {}, {}, {}
        self.lost_text, self.changed_at = "", now
        touched = set(self._told) if is_whole else set()
        stale_s = self._stale_s(len(self.rows.keys() | {row.node for row in rows}))
        for row in rows:
            touched |= self._take(row, now, stale_s)
        told = self._tell(touched)
        if is_whole:
            return self.whole(now)
        cells = [self._cells[row.node] for row in rows]
        return json.encode({"at": now, "nodes": cells, **told})

    def asked(self, jobs: Sequence[Row], events: Sequence[NodeEvent], now: float) -> bytes | None:
        """Take jobs and events.

        Returns:
            What browsers have to be told; None: nothing.
        """
        by_id = {row.job_id: row for row in jobs if row.step == NO_STEP}
        changed = by_id.keys() ^ self._by_id.keys()
        changed |= {n for n, row in by_id.items() if self._by_id.get(n) != row}
        self.jobs, self._by_id = tuple(by_id.values()), by_id
        known = set(self._events)
        new = [event for event in events if event not in known]
        self._events = list(events)
        told = self._tell(set(changed))
        if not (new or told["jobs"] or told["gone"]):
            return None
        self.changed_at = now
        happened = [_event(each) for each in new]
        return json.encode({"at": now, "nodes": [], "events": happened, **told})

    def lost(self, text: str, now: float) -> bytes:
        """bebopd is out of reach."""
        self.lost_text, self.changed_at = text, now
        return json.encode({"at": now, "lost": text})

    def _take(self, row: NodeRow, now: float, stale_s: float) -> set[int]:
        """Take a row; the jobs that it had or has."""
        before = self.rows.get(row.node)
        touched = {job.job_id for job in before.jobs} if before else set()
        for job_id in touched:
            held = self._held[job_id]
            del held.ranks[row.node]
        self.rows[row.node] = row
        for job in row.jobs:
            held = self._held.setdefault(job.job_id, _Held(job.owner, 0.0, False, {}))
            began = now - job.elapsed_s
            if abs(held.began - began) > JITTER_S or held.is_pending != job.is_pending:
                held.began, held.is_pending = began, job.is_pending
            held.ranks[row.node] = len(job.ranks)
            if job.phase:
                held.progress = row.node, job.phase, job.come, job.total, job.ranks_come
            elif held.progress[0] == row.node:
                held.progress = NO_PROGRESS
            touched.add(job.job_id)
        self._cells[row.node] = self._cell(row, now, stale_s)
        return touched

    def _cell(self, row: NodeRow, now: float, stale_s: float) -> list[Any]:
        jobs = [[job.job_id, show.ranks(job)] for job in row.jobs]
        cell = [row.node, row.name, _STATES.index(row.state), row.slots, row.slots_used, jobs]
        if row.state not in _QUIET or row.silent_s > stale_s or row.has_orders:
            cell.append(why.reason(replace(row, jobs=()), now, stale_s))
        return cell

    def _tell(self, job_ids: Iterable[int]) -> dict[str, Any]:
        """Records of these jobs, where they are others than what was told."""
        jobs, gone = [], []
        for job_id in sorted(job_ids):
            held = self._held.get(job_id)
            if held is not None and not held.ranks:
                del self._held[job_id]
                held = None
            row = self._by_id.get(job_id)
            if held is None and row is None:
                if self._told.pop(job_id, None) is not None:
                    gone.append(job_id)
                continue
            record = _record(job_id, held, row)
            if self._told.get(job_id) != record:
                self._told[job_id] = record
                jobs.append(record)
        return {"jobs": jobs, "gone": gone}


def _record(job_id: int, held: _Held | None, row: Row | None) -> list[Any]:
    """A job as ``page.js`` reads it, by place."""
    name = row.name if row else ""
    owner = row.owner if row else held.owner if held else ""
    reason = row.reason if row else ""
    slots = row.slots if row else 0
    if held is not None:
        nodes, count = format_nodes(sorted(held.ranks)), len(held.ranks)
        slots = sum(held.ranks.values()) or slots
        state = row.state.value if row and not row.state.is_final else State.RUNNING.value
        if row is not None and row.state.is_final:
            state = State.COMPLETING.value
        elif held.is_pending:
            state = State.CONFIGURING.value
        began = (row.began if row else 0.0) or held.began
        submitted, ended = (row.submitted if row else 0.0), 0.0
    else:
        assert row is not None
        spans = (n for first, count in row.nodes for n in range(first, first + count))
        nodes, count, state = format_nodes(list(spans)), row.node_count, row.state.value
        submitted, began, ended = row.submitted, row.began, row.ended
    times = [round(submitted, 1), round(began, 1), round(ended, 1)]
    exit_status = row.exit_status if row else 0
    signal, time_s = (row.signal, row.time_s) if row else (0, 0.0)
    progress = (NO_PROGRESS if held is None else held.progress)[1:]
    return [job_id, name, owner, state, slots, nodes, count, *times, reason, exit_status, signal,
            time_s, *progress]  # fmt: skip


def _event(event: NodeEvent) -> list[Any]:
    return [event.at, event.node, event.name, event.kind.value, event.by, event.text]
