"""Who watches the table, and what has changed for each.

A watcher names the version of the table that it has, and is answered when there is a later
one. So it has at most one answer on its way, and one that reads slowly gets fewer.
What has changed is found by a look at all nodes, at most every ``watch_s``, and only while
somebody waits for it: changes themselves cost nothing.

Pure: no clock, no transport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from allocator.batch.job import RecordBatchJob, RecordEvent, RecordSteps
from allocator.jobs.accounting import RecordGrant, RecordPast
from allocator.jobs.table import JobTable
from allocator.nodes.node import Node
from allocator.nodes.orders import Orders, RecordNodeEvent
from allocator.nodes.table import NodeTable
from allocator.rows import IS_NOT_HEARD_OF, absent_row, pieces, rows_of
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Log, Send
from native.wire.alloc import Refused
from native.wire.status import Changes, NodeRow, Progress

# What watchers ask about beside the table
NEWS = (RecordBatchJob, RecordEvent, RecordSteps, RecordGrant, RecordPast, RecordNodeEvent)


class _Watcher(Struct, frozen=True):
    uid: int
    since: int


class Watching:
    """The watchers of one partition. Methods return the actions to carry out."""

    def __init__(self, nodes: NodeTable, jobs: JobTable, limits: Limits) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._limits = limits
        self._version = 0
        self._whole_at = 0  # whoever has an earlier version gets the whole table
        self._changed_at: dict[int, int] = {}  # version by node
        self._seen: dict[int, tuple[object, ...]] = {}  # by node, what its row is made of
        self._absent: dict[int, Orders] = {}
        self._not_heard_of: set[int] = set()  # jobs
        self._progress: dict[int, Progress] = {}  # by job
        self._watchers: dict[PortalId, _Watcher] = {}
        self._has_news = True
        self._looked_at = float("-inf")
        self._look_at: float | None = None

    def deadline(self) -> float | None:
        """When :meth:`look` has something to do."""
        return self._look_at

    def check(self) -> None:
        """Assert what must always hold."""
        counts = Counter(watcher.uid for watcher in self._watchers.values())
        assert all(count <= self._limits.watchers_each_count for count in counts.values())
        assert self._changed_at.keys() == self._seen.keys() | self._absent.keys()

    def asked(self, source: PortalId, uid: int, since: int, now: float) -> list[Action]:
        """Somebody waits for a later version than this; 0: for any."""
        self._watchers.pop(source, None)
        if sum(watcher.uid == uid for watcher in self._watchers.values()) >= (
            self._limits.watchers_each_count
        ):
            text = f"uid {uid} has {self._limits.watchers_each_count} watchers already"
            refused = Refused(Refusal.BUSY, f"{text} (YOD_WATCHERS_EACH_COUNT)")
            return [Send(source, refused), Log(f"{source}: {text}")]
        self._watchers[source] = _Watcher(uid, since if since <= self._version else 0)
        if since == 0:
            self._look(now)
        return self._answers(now)

    def gone(self, peer: PortalId) -> None:
        """A watcher is gone."""
        self._watchers.pop(peer, None)
        if not self._watchers:
            self._look_at = None

    def look(self, actions: Iterable[Action], now: float) -> list[Action]:
        """Something has happened: it may have changed rows, or be news by what is recorded.

        Args:
            actions: that it has caused.
        """
        self._has_news = self._has_news or any(isinstance(each, NEWS) for each in actions)
        if not self._watchers:
            return []
        if self._look_at is None:
            self._look_at = max(now, self._looked_at + self._limits.watch_s)
        if now < self._look_at:
            return []
        self._look(now)
        return self._answers(now)

    def _look(self, now: float) -> None:
        self._looked_at, self._look_at = now, None
        later = self._version + 1
        changed = self._changed(now - self._limits.announced_s(len(self._nodes)) * 2.0)
        for number in changed:
            self._changed_at[number] = later
        if self._look_at_absent(later) or changed or self._has_news:
            self._version, self._has_news = later, False

    def _changed(self, stale_before: float) -> set[int]:
        """Nodes whose rows are others than at the last look."""
        seen, changed = self._seen, set()
        for node in self._nodes:
            made_of = _made_of(node, stale_before)
            if seen.get(node.number) != made_of:
                seen[node.number] = made_of
                changed.add(node.number)
        not_heard_of = {job.job_id for job in self._jobs if job.state in IS_NOT_HEARD_OF}
        for job_id in not_heard_of ^ self._not_heard_of:
            if (job := self._jobs.get(job_id)) is not None:
                changed.update(job.holdings)
        self._not_heard_of = not_heard_of
        progress = {job.job_id: job.progress for job in self._jobs if job.progress is not None}
        for job_id in progress.keys() | self._progress.keys():
            if progress.get(job_id) != self._progress.get(job_id):
                job = self._jobs.get(job_id)
                changed |= {job.root} & job.holdings.keys() if job is not None else set()
        self._progress = progress
        return changed

    def _look_at_absent(self, later: int) -> bool:
        """Nodes with orders that have not announced themselves; whether any has changed."""
        absent = {number: orders for number, _, orders in self._nodes.absent()}
        if absent == self._absent:
            return False
        for number in self._absent.keys() - absent.keys() - self._seen.keys():
            del self._changed_at[number]
            self._whole_at = later
        for number, orders in absent.items():
            if self._absent.get(number) != orders:
                self._changed_at[number] = later
        self._absent = absent
        return True

    def _answers(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for source, watcher in list(self._watchers.items()):
            if watcher.since < self._version:
                del self._watchers[source]
                actions += self._answer(source, watcher.since, now)
        return actions

    def _answer(self, source: PortalId, since: int, now: float) -> Iterable[Action]:
        is_whole = since < max(1, self._whole_at)
        numbers = [n for n, at in self._changed_at.items() if is_whole or at > since]
        rows = (row for number in sorted(numbers) for row in self._rows(number, now))
        return [
            Send(source, Changes(piece, self._version, is_whole, is_last))
            for piece, is_last in pieces(rows)
        ]

    def _rows(self, number: int, now: float) -> Iterable[NodeRow]:
        node = self._nodes.get(number)
        if node is not None:
            return rows_of(node, self._jobs, now)
        return [absent_row(number, self._nodes.name_of(number), self._absent[number])]


def _made_of(node: Node, stale_before: float) -> tuple[object, ...]:
    is_stale = node.heard_at < stale_before
    said = (node.name, node.slots, node.incarnation, node.trouble, node.portion, node.rogues)
    return (node.held, node.is_up, node.orders, *said, is_stale)
