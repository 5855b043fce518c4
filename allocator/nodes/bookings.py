"""Nodes that are kept for some users for a time. Pure.

A job is given a node of a booking only if its user may have it, or if it has ended before the
booking begins, or begins after its end. Jobs that are there when it begins go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

from msgspec import Struct

from allocator.nodes.orders import Orders, Reservation
from native.duration import written
from native.nodelist import format_nodes
from native.text import shown


def nobody(uid: int) -> bool:
    """It is for maintenance."""
    return False


class Booking(Struct, frozen=True):
    """Some nodes for a time.

    Attributes:
        nodes: empty: all of the partition.
        start, end: unix time.
        users: for whom, as text.
        admits: whether a user, by uid, may have them.
        name: of it, or why it is; empty: nobody has said.
    """

    nodes: tuple[int, ...]
    start: float
    end: float
    users: str = "nobody"
    admits: Callable[[int], bool] = nobody
    name: str = ""

    def stands_against(self, uid: int, begins: float, ends: float) -> bool:
        """Whether a user's job may have none of the nodes from one time to another."""
        return self.start < ends and begins < self.end and not self.admits(uid)

    def text(self, unix_time: float) -> str:
        """What it keeps, for whom, and when."""
        named = "node" if len(self.nodes) == 1 else "nodes"
        where = f"{named} {format_nodes(self.nodes)}" if self.nodes else "all nodes"
        are = "is" if len(self.nodes) == 1 else "are"
        wait_s = self.start - unix_time
        begins = f", begins in {written(wait_s)}" if wait_s >= 1 else ""
        ends = f", ends in {written(max(1.0, self.end - unix_time))}" if self.end < inf else ""
        why = f": {shown(self.name)}" if self.name else ""
        return f"{where} {are} reserved for {self.users}{begins}{ends}{why}"


def ordered(orders: Mapping[int, Orders]) -> tuple[Booking, ...]:
    """Those that operators have ordered: of nodes that are reserved alike, one."""
    alike: dict[Reservation, list[int]] = {}
    for number, each in orders.items():
        if (kept := each.reservation) is not None and kept.is_timed:
            alike.setdefault(kept, []).append(number)
    return tuple(
        Booking(
            tuple(sorted(nodes)), kept.start, kept.end or inf, kept.owner, kept.admits, kept.reason
        )
        for kept, nodes in alike.items()
    )


def against(bookings: Iterable[Booking], uid: int, begins: float, ends: float) -> list[Booking]:
    """Those that stand against a user's job from one time to another, the earliest first."""
    found = [each for each in bookings if each.stands_against(uid, begins, ends)]
    return sorted(found, key=lambda each: each.start)
