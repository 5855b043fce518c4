"""What the brokers of batch jobs that run are told. Pure.

An order is sent once. It may be lost with the connection of its PCT, or with bebopd: when the
PCT says that it has the broker, the last orders are repeated.
"""

from __future__ import annotations

from allocator.batch.job import BatchJob, RecordBatchJob, RecordEvent
from allocator.jobs.assign import RequestRefused
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from native.errors import Refusal
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


def signal(job: BatchJob, node: Node, number: int) -> list[Action]:
    """Send a job's script a signal."""
    return [Send(node.peer, SignalScript(job.job_id, number))]


def suspend(job: BatchJob, node: Node, is_on: bool, by: str) -> list[Action]:
    """Stop a job that runs, or continue it.

    Args:
        node: that its broker runs on.
        by: who asks.

    Raises:
        RequestRefused: it ends.
    """
    if job.is_cancelled:
        raise RequestRefused(Refusal.BUSY, f"job {job.job_id} ends: {job.reason}")
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
    sent = Send(node.peer, EndBroker(job.job_id, is_forced=job.is_requeued))
    job.is_suspended = False  # what is to end is continued
    job.is_requeued, job.reason = True, f"requeued by {by}"
    return [RecordEvent(job.job_id, job.reason), RecordBatchJob(job), sent]


def limit_time(job: BatchJob, node: Node) -> list[Action]:
    """Say how long a job may run."""
    return [Send(node.peer, LimitTime(job.job_id, job.time_s))]


def tell_again(job: BatchJob, node: Node) -> list[Action]:
    """Repeat the last orders: the PCT was lost with what was sent, or this bebopd is a new one."""
    if job.is_told:
        return []
    job.is_told = True
    if job.is_cancelled or job.is_requeued:
        return [Send(node.peer, EndBroker(job.job_id))]
    return [*limit_time(job, node), Send(node.peer, Suspend(job.job_id, job.is_suspended))]
