"""What the brokers of batch jobs that run are told. Pure.

An order is sent once. It may be lost with the connection of its PCT, or with bebopd: when the
PCT says that it has the broker, the last orders are repeated.
"""

from __future__ import annotations

from signal import SIGTERM

from allocator.batch.job import BatchJob, RecordBatchJob, RecordEvent
from allocator.jobs.assign import RequestRefused
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from native.deadlines import Deadlines
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Send
from native.wire.base import ATTEMPT_MAX, State
from native.wire.batch import EndBroker, LimitTime, SignalScript, Suspend


def host_of(job: BatchJob, nodes: NodeTable) -> Node:
    """The node of the broker of a job that runs.

    Raises:
        RequestRefused: it does not run.
    """
    node = nodes.get(job.root)
    if job.state is not State.RUNNING or node is None or not node.is_up:
        why = job.reason or job.state.value
        raise RequestRefused(Refusal.BUSY, f"job {job.job_id} does not run: {why}")
    return node


def reached(job: BatchJob, nodes: NodeTable) -> PortalId | None:
    """The PCT that has the broker of a job; None: it does not run, or its node is down."""
    node = nodes.get(job.root)
    return node.peer if job.state is State.RUNNING and node is not None and node.is_up else None


def signal(job: BatchJob, node: Node, number: int) -> list[Action]:
    """Send a job's script a signal."""
    return [Send(node.peer, SignalScript(job.job_id, number))]


def suspend(job: BatchJob, node: Node, is_on: bool, by: str) -> list[Action]:
    """Stop a job that runs, or continue it.

    Args:
        node: that its broker runs on.
        by: who asks.

    Raises:
        RequestRefused: it ends, or others have its slots.
    """
    if job.is_cancelled or job.is_requeued:
        raise RequestRefused(Refusal.BUSY, f"job {job.job_id} ends: {job.reason}")
    if job.lent_since and not is_on:
        text = f"job {job.job_id} is suspended for {job.lent_to}: it goes on when that has ended"
        raise RequestRefused(Refusal.BUSY, text)
    sent = Send(node.peer, Suspend(job.job_id, is_on))
    if job.is_suspended == is_on:
        return [sent]
    job.is_suspended = is_on
    said = f"{'suspended' if is_on else 'resumed'} by {by}"
    return [RecordEvent(job.job_id, said), RecordBatchJob(job), sent]


def requeue(job: BatchJob, node: Node, by: str) -> list[Action]:
    """End a job that runs; it waits again when its broker has ended.

    Raises:
        RequestRefused: it ends, or has been placed too often.
    """
    if job.is_cancelled:
        raise RequestRefused(Refusal.BUSY, f"job {job.job_id} ends: {job.reason}")
    if job.attempt >= ATTEMPT_MAX:
        text = f"job {job.job_id} was placed {ATTEMPT_MAX + 1} times already"
        raise RequestRefused(Refusal.BUSY, text)
    is_forced, job.is_requeued = job.is_requeued, True
    return _end(job, node, f"requeued by {by}", is_forced)


def preempt(job: BatchJob, node: Node, waits_again: bool, warns: bool, why: str) -> list[Action]:
    """End a job that runs, so that another one has its slots.

    Args:
        waits_again: it does when its broker has ended; else it is over.
        warns: its script alone gets SIGTERM now, and what is left is ended later.
    """
    job.is_preempted, job.is_requeued, job.is_cancelled = True, waits_again, not waits_again
    job.is_warned = warns
    return _end(job, node, why, is_forced=False)


def _end(job: BatchJob, node: Node, why: str, is_forced: bool) -> list[Action]:
    job.reason = why
    sent = [Send(node.peer, EndBroker(job.job_id, is_forced, job.attempt))]
    if job.is_warned:
        sent = [Send(node.peer, SignalScript(job.job_id, SIGTERM))]
        if job.is_suspended or job.lent_since:
            sent.insert(0, Send(node.peer, Suspend(job.job_id, False)))
    job.is_suspended = False  # what is to end is continued
    return [RecordEvent(job.job_id, why), RecordBatchJob(job), *sent]


def insist(
    job: BatchJob, node: Node, due: Deadlines[int], now: float, limits: Limits
) -> list[Action]:
    """A job that is to end has not: end its broker, then kill it.

    Args:
        due: when it is looked at again.
    """
    was_warned, job.is_warned = job.is_warned, False
    due.set(job.job_id, now + limits.end_s + (limits.kill_wait_s if was_warned else 0.0))
    return [Send(node.peer, EndBroker(job.job_id, not was_warned, job.attempt))]


def limit_time(job: BatchJob, node: Node) -> list[Action]:
    """Say how long a job may run."""
    return [Send(node.peer, LimitTime(job.job_id, job.limit_s))]


def tell_again(job: BatchJob, node: Node) -> list[Action]:
    """Repeat the last orders: the PCT was lost with what was sent, or this bebopd is a new one."""
    if job.is_told:
        return []
    job.is_told = True
    if job.is_overdue:
        return [Send(node.peer, EndBroker(job.job_id, True, job.attempt))]
    if job.is_cancelled or job.is_requeued:
        return [Send(node.peer, EndBroker(job.job_id, attempt=job.attempt))]
    return stand(job, node)


def stand(job: BatchJob, node: Node) -> list[Action]:
    """Have a job stand still, for its user or for others, or go on; and how long it may run."""
    is_still = job.shown_state is State.SUSPENDED
    return [*limit_time(job, node), Send(node.peer, Suspend(job.job_id, is_still))]
