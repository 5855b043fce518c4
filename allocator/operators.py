"""What operators order for nodes: drain, resume, restart, reserve, dedicate.

An order is written to the disk first; then bebopd goes by it and answers. A node that is drained
or is to restart is given to no job, one that is reserved to those of one user; the jobs that are
there go on. Those on a node that is drained are told, since they may wish to end behind a
checkpoint. An order to restart is fulfilled in three
steps: no job holds the node, or it is forced; its PCT is told; another PCT of the node
announces itself. Each of them may happen under a later bebopd.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from allocator.batch.running import reached
from allocator.batch.table import BatchJobs
from allocator.jobs.assign import RequestRefused, unknown_text
from allocator.jobs.grants import Owner
from allocator.jobs.table import JobTable
from allocator.nodes.node import Node
from allocator.nodes.orders import (
    Change,
    Drain,
    Orders,
    OrdersRecorded,
    RecordNodeEvent,
    RecordOrders,
    Reservation,
    Restart,
)
from allocator.nodes.table import NodeTable
from allocator.requests import Requests
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Log, Send
from native.nodelist import format_nodes
from native.text import shown
from native.wire import nodes as wire
from native.wire.alloc import Refused
from native.wire.base import NAME_MAX, clipped
from native.wire.group import WriteDown
from native.wire.nodes import NodeEventKind

BY_PCT = "its PCT"


class Orderer(Struct, frozen=True):
    """Who orders.

    Attributes:
        partition: its name.
        only_uid: whom it belongs to, beside root; None: nobody.
        group: whose members may, too; empty: there is none.
    """

    source: PortalId
    uid: int
    is_operator: bool
    partition: str
    only_uid: int | None
    group: str


def asked(
    by: Orderer,
    order: wire.Order,
    nodes: NodeTable,
    requests: Requests,
    unix_s: float,
    now: float,
) -> list[Action]:
    """A user orders something."""
    name = requests.name_of(by.uid)
    try:
        if not by.is_operator:
            owner = None if by.only_uid is None else requests.name_of(by.only_uid)
            raise not_permitted(name, by.partition, owner, by.group)
        return ordered(by.source, order, nodes, requests.owner_of, name, unix_s)
    except RequestRefused as refused:
        return requests.refuse(by.source, by.uid, refused, now)


def ordered(
    source: PortalId,
    order: wire.Order,
    nodes: NodeTable,
    owner_of: Callable[[int], Owner | None],
    by: str,
    unix_s: float,
) -> list[Action]:
    """An operator asks for an order.

    Args:
        owner_of: a user by uid; None: no such user.
        by: the operator's name.

    Raises:
        RequestRefused: the order is not possible; nothing has changed.
    """
    unknown = [number for number in order.nodes if not nodes.is_known(number)]
    if unknown:
        raise RequestRefused(Refusal.UNKNOWN_NODE, unknown_text(unknown, nodes))
    numbers = sorted(order.nodes)
    match order:
        case wire.Drain(_, reason):
            changes = _drained(numbers, nodes, Drain(reason, by, unix_s))
        case wire.Resume():
            changes = _changed_orders(numbers, nodes, drain=None, restart=None)
        case wire.Restart(_, is_forced):
            changes = _restarted(numbers, nodes, by, unix_s, is_forced)
        case wire.Reserve():
            new = _reservation(order, owner_of, by, unix_s)
            changes = _reserved(numbers, nodes, new, unix_s)
        case wire.Dedicate(_, portion):
            changes = [(n, replace(nodes.orders(n), portion=portion)) for n in numbers]
        case wire.Unreserve():
            changes = _changed_orders(numbers, nodes, reservation=None)
        case _:
            raise AssertionError(f"no case for {order!r}")
    return [RecordOrders(tuple(changes), source, by)]


def unfit(
    node: Node, job_id: int, text: str, nodes: NodeTable, jobs: JobTable, unix_s: float
) -> list[Action]:
    """A PCT finds its node not fit for jobs: drain it, unless it is drained already."""
    jobs.stuck(node.number, job_id)
    said = Log(f"{node}: {shown(text)}", job_id)
    if node.orders.drain is not None:
        return [said]
    drain = Drain(clipped(f"job {job_id}: {text}", NAME_MAX), BY_PCT, unix_s)
    return [said, RecordOrders(tuple(_drained([node.number], nodes, drain)), None)]


def _drained(numbers: list[int], nodes: NodeTable, drain: Drain) -> list[Change]:
    if not drain.reason.strip():
        raise RequestRefused(Refusal.BAD_REQUEST, "a node is drained for a reason, none was given")
    return [(number, replace(nodes.orders(number), drain=drain)) for number in numbers]


def _changed_orders(numbers: list[int], nodes: NodeTable, **fields: None) -> list[Change]:
    """The nodes whose orders this changes."""
    changes = [(number, replace(nodes.orders(number), **fields)) for number in numbers]
    return [(number, orders) for number, orders in changes if orders != nodes.orders(number)]


def _reservation(
    order: wire.Reserve, owner_of: Callable[[int], Owner | None], by: str, unix_s: float
) -> Reservation:
    names = []
    for uid in (order.uid, *order.others):
        if (owner := owner_of(uid)) is None:
            text = f"no user has uid {uid} on bebopd's host"
            raise RequestRefused(Refusal.BAD_REQUEST, text)
        names.append(owner.name)
    end = (order.start or unix_s) + order.duration_s if order.duration_s else 0.0
    if 0 < end <= unix_s:
        raise RequestRefused(Refusal.BAD_REQUEST, "a reservation that has ended already")
    words = clipped(", ".join(names), NAME_MAX), order.reason, by, unix_s
    return Reservation(order.uid, *words, order.start, end, order.others)


def _reserved(
    numbers: list[int], nodes: NodeTable, new: Reservation, unix_s: float
) -> list[Change]:
    for number in numbers:
        kept = nodes.orders(number).reservation
        if kept is None or kept.is_over(unix_s):
            continue
        if (kept.uid, kept.others) != (new.uid, new.others):
            text = f"node {number} is reserved for {kept.owner}: `yodctl unreserve {number}` first"
            raise RequestRefused(Refusal.BAD_REQUEST, text)
    return [(number, replace(nodes.orders(number), reservation=new)) for number in numbers]


def _restarted(
    numbers: list[int], nodes: NodeTable, by: str, unix_s: float, is_forced: bool
) -> list[Change]:
    changes = []
    for number in numbers:
        node = nodes.get(number)
        if node is None:
            raise RequestRefused(
                Refusal.UNKNOWN_NODE, f"node {number} has not announced itself: it has no PCT"
            )
        restart = Restart(by, unix_s, node.incarnation, is_forced)
        changes.append((number, replace(node.orders, restart=restart)))
    return changes


def not_permitted(by: str, partition: str, owner: str | None, group: str) -> RequestRefused:
    """Somebody who is no operator has given an order.

    Args:
        owner: whom the partition belongs to, beside root; None: nobody.
        group: whose members may, too; empty: there is none.
    """
    may = ["root", *([owner] if owner else []), *([f"group {shown(group)}"] if group else [])]
    names = " and ".join([", ".join(may[:-1]), may[-1]] if may[1:] else may)
    text = f"{by} may not change nodes of partition `{partition}`: {names} may"
    return RequestRefused(Refusal.NOT_PERMITTED, text)


def recorded(
    event: OrdersRecorded, nodes: NodeTable, jobs: JobTable, batch: BatchJobs
) -> list[Action]:
    """The orders are on the disk: go by them, and say so."""
    numbers = [number for number, _ in event.changes]
    if event.error:
        text = f"the orders for nodes {format_nodes(numbers)} are not recorded: {event.error}"
        actions: list[Action] = [Log(text)]
        if event.asker is not None:
            actions.append(Send(event.asker, Refused(Refusal.NOT_RECORDED, clipped(text))))
        return actions
    actions, drained = [], []
    for number, orders in event.changes:
        before = nodes.orders(number)
        nodes.order(number, orders)
        actions.append(Log(f"node {number}: {_said(orders)}"))
        actions += _happened(number, nodes, before, orders, event.by)
        if orders.drain is not None and orders.drain != before.drain:
            drained.append(number)
    actions += _write_down(drained, nodes, jobs, batch)
    if event.asker is not None:
        actions.append(Send(event.asker, _changed(numbers, nodes, jobs)))
    return actions


def _write_down(
    numbers: Collection[int], nodes: NodeTable, jobs: JobTable, batch: BatchJobs
) -> list[Action]:
    """The jobs on nodes that are drained may make a checkpoint, and end behind it."""
    told: dict[int, Action] = {}
    for node in filter(None, map(nodes.get, numbers)):
        drain = node.orders.drain
        assert drain is not None
        text = clipped(f"{node} is drained by {drain.by}: {shown(drain.reason)}")
        for job_id in node.held.keys() - told.keys():
            of_batch = batch.get(job_id)
            job = jobs.on(node.number, job_id)
            peer = job.requester if of_batch is None else reached(of_batch, nodes)
            if peer is not None:
                told[job_id] = Send(peer, WriteDown(job_id, text))
    return [told[job_id] for job_id in sorted(told)]


def _happened(
    number: int, nodes: NodeTable, before: Orders, orders: Orders, by: str
) -> list[Action]:
    """What new orders are for a node's history."""
    node = nodes.get(number)
    name, happened = node.name if node else "", partial(RecordNodeEvent, number)
    events: list[Action] = []
    if orders.drain is not None and orders.drain != before.drain:
        reason, who = orders.drain.reason, orders.drain.by
        events.append(happened(name, NodeEventKind.DRAINED, reason, who))
    if orders.restart is not None and orders.restart != before.restart:
        text = "forced" if orders.restart.is_forced else ""
        events.append(happened(name, NodeEventKind.RESTARTING, text, orders.restart.by))
    if by and orders.closed is None and before.closed is not None:
        events.append(happened(name, NodeEventKind.RESUMED, "", by))
    if orders.portion != before.portion and orders.portion is not None:
        text = f"to {orders.portion.value} jobs"
        events.append(happened(name, NodeEventKind.DEDICATED, text, by))
    if orders.reservation != before.reservation:
        if (kept := orders.reservation) is not None:
            text = f"for {kept.owner}" + (f": {kept.reason}" if kept.reason else "")
            events.append(happened(name, NodeEventKind.RESERVED, clipped(text), by))
        else:
            events.append(happened(name, NodeEventKind.UNRESERVED, "", by))
    return events


def _changed(numbers: list[int], nodes: NodeTable, jobs: JobTable) -> wire.Changed:
    busy = [node for number in numbers if (node := nodes.get(number)) and node.held]
    there = {job_id: jobs.on(node.number, job_id) for node in busy for job_id in node.held}
    owned = (wire.OwnedJob(job_id, there[job_id].owner) for job_id in sorted(there))
    first = tuple(islice(owned, wire.JOBS_MAX))
    return wire.Changed(tuple(numbers), tuple(node.number for node in busy), first, len(there))


def announced(node: Node) -> list[Action]:
    """A PCT has announced itself; another one than before fulfils an order to restart."""
    restart = node.orders.restart
    if restart is None or restart.incarnation == node.incarnation:
        return []
    return [RecordOrders(((node.number, replace(node.orders, restart=None)),), None)]


def due(numbers: Iterable[int], nodes: NodeTable) -> list[Action]:
    """Tell the PCTs of these nodes to restart, where their turn has come."""
    actions: list[Action] = []
    for number in sorted(numbers):
        node = nodes.get(number)
        if node is None or not node.is_up or (restart := node.orders.restart) is None:
            continue
        if restart.incarnation == node.incarnation and (restart.is_forced or not node.held):
            actions.append(Log(f"{node} is told to restart"))
            actions.append(Send(node.peer, wire.RestartNow(restart.is_forced)))
    return actions


def _said(orders: Orders) -> str:
    """Orders in words, for the log."""
    drain, restart = orders.drain, orders.restart
    said = [
        f"reserved for {orders.reservation.owner}" if orders.reservation else "",
        f"for {orders.portion.value} jobs" if orders.portion else "",
        f"drained by {drain.by}: {shown(drain.reason)}" if drain else "not drained",
        f"restarts, by {restart.by}" + (", forced" if restart.is_forced else "") if restart else "",
    ]
    return "; ".join(filter(None, said))
