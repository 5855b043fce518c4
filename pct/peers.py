"""Which jobs of a node the loss of a peer may concern.

A launch server has a thousand jobs, each of its own launch, and loses a peer with each launch
that ends: to ask every job would cost a thousand launches a million answers. A job that is on
this node alone hears of the loss of its parent only, so it is found by that. A job that has more
nodes is always asked: it knows its neighbours in the tree, which change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from native.ids import PortalId


class Member(Protocol):
    """What is asked of a job."""

    def has_member(self, peer: PortalId) -> bool:
        """Is this peer a node of the job?"""


class Peers:
    """The jobs of a node by the peers that they obey."""

    def __init__(self) -> None:
        self._shared: set[int] = set()  # jobs that are on other nodes as well
        self._parents: dict[int, PortalId | None] = {}  # of the other jobs
        self._led: dict[PortalId, set[int]] = {}  # the same, by parent

    def add(self, job_id: int, is_shared: bool) -> None:
        """A job begins."""
        if is_shared:
            self._shared.add(job_id)
        else:
            self._parents[job_id] = None

    def note(self, job_id: int, parent: PortalId | None) -> None:
        """A job obeys this peer now; None: none."""
        if job_id not in self._parents or parent == (before := self._parents[job_id]):
            return
        if before is not None:
            self._leave(job_id, before)
        self._parents[job_id] = parent
        if parent is not None:
            self._led.setdefault(parent, set()).add(job_id)

    def remove(self, job_id: int) -> None:
        """A job is over."""
        self._shared.discard(job_id)
        parent = self._parents.pop(job_id, None)
        if parent is not None:
            self._leave(job_id, parent)

    def concerned(self, peer: PortalId) -> list[int]:
        """Jobs to be told that a peer is gone, in the order of their ids."""
        return sorted(self._shared.union(self._led.get(peer, ())))

    def is_needed(self, peer: PortalId, jobs: Mapping[int, Member]) -> bool:
        """Whether a peer is a node of one of these jobs, which hears of its loss."""
        return any(jobs[job_id].has_member(peer) for job_id in self._shared)

    def check(self, job_ids: Iterable[int]) -> None:
        """Assert that these jobs are known, and no others."""
        assert self._shared.isdisjoint(self._parents)
        assert self._shared | self._parents.keys() == set(job_ids)
        led = {job_id: peer for peer, jobs in self._led.items() for job_id in jobs}
        assert led == {job_id: peer for job_id, peer in self._parents.items() if peer is not None}
        assert all(self._led.values())

    def _leave(self, job_id: int, parent: PortalId) -> None:
        self._led[parent].discard(job_id)
        if not self._led[parent]:
            del self._led[parent]
