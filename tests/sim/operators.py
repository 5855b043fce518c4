"""An operator in the simulation: orders for nodes, and what may be relied on after the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.ids import PortalId, Principal, PrincipalKind
from native.wire.alloc import Refused
from native.wire.base import Message
from native.wire.nodes import Changed, Drain, Order, Restart, Resume
from tests.sim.clock import Violation
from tests.sim.network import Process

if TYPE_CHECKING:
    from tests.sim.world import Sim


class Orders:
    """What bebopds have answered for.

    Attributes:
        drained: nodes.
        restarting: node -> incarnation of the PCT that is to end.
        forced: nodes whose jobs may have to end for a restart.
    """

    def __init__(self) -> None:
        self.drained: set[int] = set()
        self.restarting: dict[int, int] = {}
        self.forced: set[int] = set()

    def forget(self, nodes: tuple[int, ...]) -> None:
        """These nodes may be given to jobs."""
        self.drained -= set(nodes)
        for number in nodes:
            self.restarting.pop(number, None)


class Operator:
    """Who gives one order at a time.

    Attributes:
        answers: how many orders were answered.
    """

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.answers = 0
        self._asked: Order | None = None
        self._incarnations: dict[int, int] = {}
        self.process = process = Process(
            "yodctl", "front", PortalId(0x0A010001, 69_000 + (1 << 16))
        )
        process.principal_to = lambda other: Principal(PrincipalKind.USER, 0)
        process.on_message = self._message
        process.on_gone = self._gone
        sim.network.add(process)

    @property
    def is_waiting(self) -> bool:
        """An order is not answered yet."""
        return self._asked is not None

    def give(self, order: Order) -> None:
        """Ask for an order; without an answer nobody knows whether it is in force."""
        assert not self.is_waiting
        self._asked = order
        orders = self.sim.orders
        match order:
            case Resume(nodes):
                orders.forget(nodes)
            case Restart(nodes, is_forced):
                if is_forced:
                    orders.forced |= set(nodes)
                pcts = {number: self.sim.pcts[number].machine for number in nodes}
                self._incarnations = {number: pct._incarnation for number, pct in pcts.items()}
        self.sim.network.send(self.process, self.sim.bebopd_id, order)

    def _message(self, source: PortalId, principal: Principal, message: Message) -> None:
        asked, self._asked = self._asked, None
        if isinstance(message, Refused):
            return
        if not isinstance(message, Changed) or asked is None:
            raise Violation(f"yodctl is told {message}, and has asked {asked}")
        self.answers += 1
        orders = self.sim.orders
        match asked:
            case Drain(nodes):
                orders.drained |= set(nodes)
            case Restart():
                orders.restarting |= self._incarnations

    def _gone(self, peer: PortalId, text: str) -> None:
        self._asked = None
