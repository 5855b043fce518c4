"""The ports at which the ranks of a load listen for Portals, known on all nodes before go.

The keeper makes a rank's listener before the rank, so the port is known when the rank is
held, and goes up with the Held message. When the last rank is held, the root has all ports
and sends them down ahead of go. Each node writes them to a file for its ranks
(:mod:`native.wire.rank`) before it lets them go.
"""

from __future__ import annotations

from native.errors import PeerProtocolError
from native.wire import load, rank
from pct.tree import tree

PIECE = 8192  # ports in one message
LOOPBACK = 0x7F000001
TABLE_NIDS = 1 << 24  # nids below are places in an address table, and no IPv4 addresses


def nid_of(message: load.Load, place: int) -> int:
    """The IPv4 address at which the ranks of a place listen; 0: there is none.

    A partition within one process has no addresses; all its ranks are on one host.
    """
    nid = message.nodes[place].nid
    if nid >= TABLE_NIDS:
        return nid
    return LOOPBACK if len(message.nodes) == 1 else 0


class Listeners:
    """The ports of a job's ranks, as one node knows them.

    Args:
        message: the load, with this node's place in it.

    Attributes:
        nid: at which the ranks of this node listen.
        fault: why there can be no map; empty: there can.
    """

    def __init__(self, message: load.Load) -> None:
        self._message = message
        self._places = list(message.runs.places())
        self._ports = [0] * len(self._places)  # 0: not known yet
        self._known = 0  # how many ports have come down, in order
        self.nid = nid_of(message, message.place)
        here = message.nodes[message.place]
        self.fault = "" if self.nid else f"node {here.name} has no IPv4 address for Portals"

    def own(self, rank_number: int, port: int) -> None:
        """Take the port of a rank of this node."""
        self._ports[rank_number] = port

    def go_up(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """The ports of these ranks, for the parent."""
        return tuple(self._ports[rank_number] for rank_number in ranks)

    def come_up(self, child: int, held: load.Held) -> None:
        """Take the ports of a child's subtree.

        Raises:
            PeerProtocolError: the message has not one port for each rank, or names a rank
                that is not below the child.
        """
        places = set(tree.subtree(child, len(self._message.nodes), self._message.arity))
        if len(held.ports) != len(held.ranks):
            raise PeerProtocolError(f"{len(held.ports)} listeners of {len(held.ranks)} ranks")
        for number in held.ranks:
            if number >= len(self._places) or self._places[number] not in places:
                raise PeerProtocolError(f"the listener of rank {number}, which is not below")
        for number, port in zip(held.ranks, held.ports, strict=True):
            self._ports[number] = port

    def come_down(self, message: load.Ports) -> None:
        """Take a piece of the map from the parent.

        Raises:
            PeerProtocolError: it is not the next piece.
        """
        end = message.first_rank + len(message.ports)
        if message.first_rank != self._known or end > len(self._ports):
            raise PeerProtocolError(
                f"listeners from rank {message.first_rank}, {self._known} known"
            )
        self._ports[self._known : end] = message.ports
        self._known = end

    def pieces(self) -> list[load.Ports]:
        """At the root: the map, in the pieces that are sent down.

        Raises:
            PeerProtocolError: a port is missing.
        """
        if 0 in self._ports:
            raise PeerProtocolError(f"the listener of rank {self._ports.index(0)} is not known")
        self._known = len(self._ports)
        return [
            load.Ports(self._message.job_id, start, tuple(self._ports[start : start + PIECE]))
            for start in range(0, len(self._ports), PIECE)
        ]

    def encoded(self) -> bytes:
        """The map in the form that ranks read.

        Raises:
            PeerProtocolError: it is not complete, yet go has come.
        """
        if self._known != len(self._ports):
            raise PeerProtocolError(f"go with {self._known} listeners of {len(self._ports)}")
        nids = [nid_of(self._message, place) for place in range(len(self._message.nodes))]
        return rank.encode_map((nids[place] for place in self._places), self._ports)
