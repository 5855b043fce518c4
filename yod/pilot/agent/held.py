"""A task that an agent has, and its nodes as clients are told of them."""

from __future__ import annotations

from collections.abc import Iterable

from yod.pilot.model import modes
from yod.pilot.model.command import need_of
from yod.pilot.model.description import TaskDescription
from yod.pilot.model.sizes import NodeSize, RankSlot
from yod.pilot.model.staging import directives_of
from yod.pilot.scheduler.agent import Came
from yod.pilot.wire.messages import NodeTold, Order
from yod.pilot.work.place import Outcome


def told(sizes: Iterable[NodeSize]) -> list[NodeTold]:
    """Nodes, as a client is told of them."""
    return [NodeTold(size.name, size.cores, size.gpus, size.mem_mb) for size in sizes]


class Held:
    """One task.

    Attributes:
        input, output: what the agent brings, and not the client.
        slots: of its ranks, once it has begun.
        outcome: of its processes, once they have ended.
    """

    __slots__ = ("description", "input", "order", "outcome", "output", "slots")

    def __init__(self, order: Order, description: TaskDescription) -> None:
        self.order = order
        self.description = description
        value, where = description.value, f"task {order.uid}"
        source, target = value("input_staging"), value("output_staging")
        each = directives_of(source, True, where) if source else []
        self.input = [one for one in each if not one.is_clients]
        each = directives_of(target, False, where) if target else []
        self.output = [one for one in each if not one.is_clients]
        self.slots: list[RankSlot] = []
        self.outcome: Outcome | None = None

    def came(self, services: tuple[str, ...], failure: str) -> Came:
        """The task as the agent's rules see it.

        Args:
            services: of the pilot.
            failure: why it cannot run; empty: it can, as far as is known.
        """
        value = self.description.value
        return Came(
            self.order.uid,
            need_of(self.description),
            value("priority"),
            float(value("timeout")),
            float(value("startup_timeout")),
            bool(self.input),
            bool(self.output),
            value("stage_on_error"),
            (*value("services"), *services),
            self.description.kind == modes.TASK_SERVICE,
            failure,
        )
