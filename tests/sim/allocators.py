"""bebopd in the simulation: the real machine, and what it has written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allocator.batch.job import RecordEvent
from allocator.bebopd import Bebopd
from allocator.jobs.accounting import RecordGrant, RecordPast
from allocator.jobs.grants import Owner
from allocator.jobs.ids import BLOCK
from allocator.jobs.table import RecordEnd
from allocator.nodes.node import Node
from allocator.nodes.orders import Orders, OrdersRecorded, RecordNode, RecordNodeEvent, RecordOrders
from allocator.nodes.placement_list import ListPlacement
from allocator.requests import ReserveJobIds
from native.ids import PortalId, Principal, PrincipalKind
from native.machine import Action, Log, PeerGone, Send
from native.wire.alloc import Grant
from native.wire.batch import Row
from tests.sim import rules
from tests.sim.actor import Actor
from tests.sim.network import Process

if TYPE_CHECKING:
    from tests.sim.world import Sim


class Disk:
    """What a bebopd finds of the one before it."""

    def __init__(self) -> None:
        self.epoch = 0
        self.ids_end = 1
        self.names: dict[str, int] = {}
        self.orders: dict[int, Orders] = {}
        self.is_full = False
        self.open: dict[int, Row] = {}  # jobs that have no final row
        self.past: dict[int, Row] = {}  # final rows


class BebopdActor(Actor):
    """One bebopd."""

    def __init__(self, sim: Sim) -> None:
        disk = sim.disk
        disk.epoch += 1
        first = disk.ids_end
        disk.ids_end = first + BLOCK
        self.epoch = disk.epoch
        process = Process("bebopd", "service", sim.bebopd_id)
        process.principal_to = lambda other: Principal(PrincipalKind.PARTITION, 0)
        self.machine: Bebopd = sim.machines.bebopd(
            ListPlacement(),
            epoch=disk.epoch,
            next_job_id=first,
            sign=sim.sign,
            job_key=lambda job_id, uid, expires: b"%d %d %d" % (job_id, uid, expires),
            owner_of=lambda uid: Owner(uid=uid, name="user", gid=uid),
            wall_clock=sim.unix_time,
            limits=sim.limits,
            remembered_names=dict(disk.names),
            orders=dict(disk.orders),
            earlier_rows=tuple(disk.open.values()),
        )
        free = self.machine.nodes.free

        def watched(node: Node, job_id: int) -> None:
            rules.check_freed(sim, node.number, job_id)
            free(node, job_id)

        self.machine.nodes.free = watched  # type: ignore[method-assign]
        super().__init__(sim, process, self.machine)

    def lost(self, peer: PortalId, text: str) -> None:
        self.handle(PeerGone(peer, text))

    def perform(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        sim = self.sim
        match action:
            case Send(target, message):
                if isinstance(message, Grant):
                    rules.check_grant(sim, message)
                    rules.check_orders(sim, message)
                sim.network.send(self.process, target, message)
            case ReserveJobIds(end):
                sim.disk.ids_end = end
            case RecordNode(number, name):
                sim.disk.names[name] = number
            case RecordOrders(changes, asker, by):
                error = "disk is full" if sim.disk.is_full else ""
                if not error:
                    sim.disk.orders |= changes
                self.handle(OrdersRecorded(changes, asker, error, by))
            case RecordGrant(row):
                sim.disk.open[row.job_id] = row
            case RecordPast(row):
                rules.check_past(sim, row)
                sim.disk.past.setdefault(row.job_id, row)
                sim.disk.open.pop(row.job_id, None)
            case RecordEnd() | RecordEvent() | RecordNodeEvent() | Log():
                pass
            case _:
                raise AssertionError(f"no case for {action!r}")
