"""What operators have ordered for a node: it is drained, reserved, its PCT restarts. Pure.

Orders are kept on the disk; a later bebopd goes by them before the node announces itself.
"""

from __future__ import annotations

from msgspec import Struct

from allocator.nodes.access import ANYBODY, Access
from native.ids import PortalId
from native.machine import Action, Event
from native.wire.nodes import NodeEventKind
from native.wire.status import Portion


class Drain(Struct, frozen=True):
    """The node is given to no job, until an operator resumes it.

    Attributes:
        by: the operator.
        since: unix time.
    """

    reason: str
    by: str
    since: float


class Restart(Struct, frozen=True):
    """The node's PCT ends and begins again. Until then no job is given to the node.

    Attributes:
        incarnation: of the PCT that is to end; the order is fulfilled when another one
            announces itself.
        is_forced: with jobs, too.
    """

    by: str
    since: float
    incarnation: int
    is_forced: bool


class Reservation(Struct, frozen=True):
    """The node is given to jobs of these users only. Jobs of others that are there go on.

    Attributes:
        uid: the first user.
        owner: the users' names.
        reason: why; empty: the operator has not said.
        by: the operator.
        since: unix time.
        start, end: unix time; 0: at once, and until it is given back.
        others: the other users.
    """

    uid: int
    owner: str
    reason: str
    by: str
    since: float
    start: float = 0.0
    end: float = 0.0
    others: tuple[int, ...] = ()

    @property
    def is_timed(self) -> bool:
        """Whether it has a start, an end or several users; :class:`Booking` stands for it then."""
        return bool(self.start or self.end or self.others)

    def admits(self, uid: int) -> bool:
        """Whether jobs of this user may be given the node."""
        return uid == self.uid or uid in self.others

    def is_over(self, unix_time: float) -> bool:
        """Its time has passed."""
        return 0.0 < self.end <= unix_time


class Orders(Struct, frozen=True):
    """All orders for one node.

    Attributes:
        portion: which jobs it is for; None: those that the nodes file says.
    """

    drain: Drain | None = None
    restart: Restart | None = None
    reservation: Reservation | None = None
    portion: Portion | None = None

    @property
    def closed(self) -> Drain | None:
        """Why no job is given to the node; None: nothing stands against it."""
        if self.drain is None and self.restart is not None:
            return Drain("restart", self.restart.by, self.restart.since)
        return self.drain

    def access(self, portion: Portion) -> Access:
        """Whose jobs may be given the node.

        Args:
            portion: of the node, without orders.
        """
        kept = self.reservation
        uid = ANYBODY if kept is None or kept.is_timed else kept.uid
        return Access(uid, portion if self.portion is None else self.portion)


NONE = Orders()

Change = tuple[int, Orders]  # a node's number, and all its orders from now on


class RecordOrders(Action, frozen=True):
    """Write orders to the disk, and report that as an :class:`OrdersRecorded` at once.

    Attributes:
        asker: the operator's command; None: bebopd itself.
        by: the operator.
    """

    changes: tuple[Change, ...]
    asker: PortalId | None
    by: str = ""


class OrdersRecorded(Event, frozen=True):
    """The orders are on the disk.

    Attributes:
        error: why they are not; empty: they are.
    """

    changes: tuple[Change, ...]
    asker: PortalId | None
    error: str = ""
    by: str = ""


class RecordNode(Action, frozen=True):
    """Record a node's number under its name, for a later bebopd."""

    number: int
    name: str


class RecordNodeEvent(Action, frozen=True):
    """Keep what has happened to a node."""

    node: int
    name: str
    kind: NodeEventKind
    text: str = ""
    by: str = ""


class SendNodeEvents(Action, frozen=True):
    """Answer with the last things that have happened to these nodes; without any: to all."""

    target: PortalId
    nodes: tuple[int, ...]
    count: int
