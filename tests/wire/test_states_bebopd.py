"""The tables of bebopd, PROTOCOL.md 5.4: who may say what, and what becomes of a job.

Each cell is tried on the real machine.
"""

from __future__ import annotations

import re

import pytest

from allocator.jobs.job import JobState as AllocatorState
from native.ids import PortalId, Principal, PrincipalKind
from native.machine import Log, MessageReceived, Send
from native.wire import alloc, batch, load, nodes, status
from native.wire.base import Message
from tests.unit.allocator.partition_of import ALICE, DAEMON, YOD, Partition, spec
from tests.unit.allocator.partition_of import pct as node_pct
from tests.wire.states import cells_of

BEBOPD_TABLE = "### 5.4 bebopd"
JOBS_TABLE = "What becomes of a job"
SENDERS = {
    "a node's PCT": (node_pct(0), DAEMON),
    "other PARTITION": (PortalId(5, 5), DAEMON),
    "USER": (YOD, ALICE),
    "JOB": (YOD, Principal(PrincipalKind.JOB, 1000, 1)),
}


def _said_by(sender: str, label: str) -> Message:
    """The row's message; an announcement is in its sender's own name."""
    name = label.strip("`")
    if name == "status.announce":
        nid, pid = SENDERS[sender][0]
        number = 0 if sender == "a node's PCT" else 9
        return status.Announce(number, f"node{number}", 1, nid, pid, 1)
    if name == "anything else":
        return load.Go(1)
    return {
        "alloc.hosting": alloc.Hosting(1),
        "alloc.freed": alloc.Freed.of(1, (0,)),
        "alloc.revoked": alloc.Revoked(1, 0, True),
        "alloc.unfit": alloc.Unfit(1, 0, "it cannot be killed"),
        "alloc.request": alloc.NodeRequest((alloc.NodeSpec(1),)),
        "alloc.release": alloc.Release(1),
        "status.query": status.Query(),
        "status.watch": status.Watch(0),
        "node.drain": nodes.Drain((0,), "fan"),
        "node.reserve": nodes.Reserve((0,), 1000),
        "node.unreserve": nodes.Unreserve((0,)),
        "node.dedicate": nodes.Dedicate((0,), status.Portion.BATCH),
        "node.resume": nodes.Resume((0,)),
        "node.restart": nodes.Restart((0,)),
        "node.ask_events": nodes.AskNodeEvents((), 1),
        "node.end_jobs": nodes.EndJobs(nodes.Ending.INTERRUPT),
        "batch.started": batch.Started(1),
        "batch.ended": batch.BrokerEnded(1, 0, b""),
        "batch.submit": batch.Submit(bytes(16), alloc.NodeSpec(1), "a", 0.0, b""),
        "batch.ask": batch.Ask(),
        "batch.history": batch.History(1),
        "batch.ask_events": batch.AskEvents(1),
        "batch.cancel": batch.Cancel(1),
        "batch.signal": batch.SignalScript(1, 10),
        "batch.limit_time": batch.LimitTime(1, 60.0),
        "batch.suspend": batch.Suspend(1, True),
        "batch.hold": batch.Hold(1, True),
        "batch.requeue": batch.Requeue(1),
        "batch.prioritise": batch.Prioritise(1, nice=5),
        "batch.steps": batch.Steps(1, 0, ()),
        "status.progress": status.Progress(1, "start", 1, 2),
    }[name]


@pytest.mark.parametrize(("label", "column", "cell"), list(cells_of(BEBOPD_TABLE, 1)))
def test_bebopd_takes_from_each_principal_what_the_table_says(label, column, cell):
    partition = Partition(3)
    partition.grant(spec(2))
    source, principal = SENDERS[column]
    event = MessageReceived(source, principal, _said_by(column, label[0]))
    actions = partition.machine.handle(event, partition.now)
    partition.machine.check()
    logs = [action.text for action in actions if isinstance(action, Log)]
    is_refused = any("is not for this peer" in text for text in logs)
    assert is_refused == (cell == "no")
    answers = [type(action.message) for action in actions if isinstance(action, Send)]
    if cell == "no":
        refused = re.search(
            r"alloc\.(request|release)|watch|node\.|batch\.[^se]|batch\.su|batch\.si",
            label[0],
        )
        rejected = "status.announce" in label[0]
        assert answers == [alloc.Refused] * bool(refused) + [status.Rejected] * rejected
        assert len(partition.machine.jobs) == 1


@pytest.mark.parametrize(("event", "column", "cell"), list(cells_of(JOBS_TABLE, 1)))
def test_bebopds_jobs_go_where_the_table_says(event, column, cell):
    if not cell:
        return  # the event cannot happen there
    partition = Partition(3)
    job_id = partition.grant(spec(2)).job_id
    if column == "RUNNING":
        partition.receive(node_pct(0), alloc.Hosting(job_id))
    elif column == "REVOKING":
        partition.wait(partition.limits.pending_s)
    elif column == "RELEASING":
        partition.release(job_id)
    job = partition.machine.jobs[job_id]
    assert job.state is AllocatorState[column]
    match event[0]:
        case "`alloc.hosting` of the root":
            partition.receive(node_pct(0), alloc.Hosting(job_id))
        case "`alloc.revoked`, hosting":
            partition.receive(node_pct(0), alloc.Revoked(job_id, 0, True))
        case "`alloc.release`":
            partition.release(job_id)
        case "`pending_s` over":
            partition.wait(partition.limits.pending_s)
        case "its yod lost":
            partition.lose(YOD)
        case _:
            pytest.fail(f"{event[0]} is not tried")
    assert job.state is (AllocatorState[column] if cell == "—" else AllocatorState[cell])
