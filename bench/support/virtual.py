"""bebopd's own machine on a clock of its own, with nodes and jobs that are nothing but messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allocator.batch.job import BatchRecorded, Earlier, RecordBatchJob, StartBroker
from allocator.bebopd import Bebopd
from allocator.jobs.grants import Owner
from allocator.nodes.placement import ArrayPlacement
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Action, Event, MessageReceived, PeerGone, Send
from native.wire import batch
from native.wire.alloc import Freed, Revoke, Revoked
from native.wire.base import Message

DAEMON = Principal(PrincipalKind.PARTITION, 0)
FOREVER_S = 1e12


class Partition:
    """A bebopd in virtual time. A subclass says what becomes of a job that begins.

    Attributes:
        lost: jobs on nodes that were lost: PCTs that are asked have nothing of them.

    Args:
        kept: expected starts.
        rules: policy and the like, as :class:`Bebopd` has them.
    """

    def __init__(self, kept: int, **rules: Any) -> None:
        self.now = 1e6
        self.lost: set[int] = set()
        limits = Limits(
            silent_s=FOREVER_S,
            pending_s=FOREVER_S,
            submitted_count=1 << 30,
            submitted_each_count=1 << 30,
            backfill_count=kept,
            pass_s=0.0,  # nobody calls it at its deadlines
        )
        self.machine = Bebopd(
            ArrayPlacement(),
            epoch=1,
            next_job_id=1,
            sign=lambda data: bytes(16),
            job_key=lambda job_id, uid, expires: bytes(32),
            owner_of=lambda uid: Owner(uid, f"user{uid}", uid),
            wall_clock=lambda: self.now,
            limits=limits,
            earlier=Earlier(),
            **rules,
        )

    def begins(self, job_id: int) -> None:
        """A job has its nodes, and its broker is to start."""
        raise NotImplementedError

    def decide(self, event: Event) -> Sequence[Action]:
        """What bebopd does about an event."""
        return self.machine.handle(event, self.now)

    def tell(self, source: PortalId, message: Message, by: Principal) -> None:
        """bebopd receives a message; jobs are on the disk at once, and those that can begin do."""
        self._handle(MessageReceived(source, by, message))

    def started(self, job_id: int) -> None:
        """The PCT of a job's first node says that its broker runs."""
        self.tell(pct(self.machine.jobs[job_id].root), batch.Started(job_id), DAEMON)

    def ended(self, job_id: int, but: int = -1) -> None:
        """The same PCT says that it has ended, and that the nodes are free, but for a lost one."""
        held = self.machine.jobs[job_id]
        root, numbers = pct(held.root), sorted(held.holdings.keys() - {but})
        self.tell(root, batch.BrokerEnded(job_id, 0, b""), DAEMON)
        self.tell(root, Freed.of(job_id, numbers), DAEMON)

    def gone(self, peer: PortalId) -> None:
        """A node is lost."""
        self._handle(PeerGone(peer, "lost"))

    def _handle(self, event: Event) -> None:
        actions = self.decide(event)
        recorded = [action.job.job_id for action in actions if isinstance(action, RecordBatchJob)]
        if recorded:
            self._handle(BatchRecorded(tuple(dict.fromkeys(recorded))))
        for action in actions:
            if isinstance(action, StartBroker):
                self.begins(action.job.job_id)
            elif isinstance(action, Send) and isinstance(action.message, Revoke):
                job_id, attempt = action.message.job_id, action.message.attempt
                if job_id not in self.lost:
                    continue  # the node frees it in a moment
                number = action.target.nid - pct(0).nid
                self.tell(action.target, Revoked(job_id, number, False, attempt), DAEMON)


def pct(number: int) -> PortalId:
    """Where the PCT of a node is."""
    return PortalId((10 << 24) + number, 7117)
