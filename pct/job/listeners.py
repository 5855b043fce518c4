"""Where the ranks of a load listen for Portals: gathered up the tree, known by all before go.

Each rank's listener is made before the rank, so its port is known when it is held, and
goes up with that word. The root has all of them when the last rank is held; they come
down ahead of go, and each node fills its file (:mod:`native.wire.rank`) before it lets
its ranks go.
"""

from __future__ import annotations

from native.errors import PeerProtocolError
from native.wire import load, rank
from pct.tree import tree

PIECE = 8192  # ports in one message
LOOPBACK = 0x7F000001
TABLE_NIDS = 1 << 24  # nids below are places in an address table, and no IPv4 addresses


def nid_of(message: load.Load, place: int) -> int:
    """The IPv4 address at which ranks of a place listen; 0: there is none.

    A partition in one process has no addresses, and one host.
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
        self._places = [run.place for run in message.runs for _ in range(run.count)]
        self._ports = [0] * len(self._places)  # 0: not known yet
        self._known = 0  # of those that have come down, without a gap
        self.nid = nid_of(message, message.place)
        here = message.nodes[message.place]
        self.fault = "" if self.nid else f"node {here.name} has no IPv4 address for Portals"

    def own(self, rank_number: int, port: int) -> None:
        """A rank of this node listens."""
        self._ports[rank_number] = port

    def go_up(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """The ports of these ranks, for the parent."""
        return tuple(self._ports[rank_number] for rank_number in ranks)

    def come_up(self, child: int, held: load.Held) -> None:
        """What the child at a place tells of the ranks of its subtree.

        Raises:
            PeerProtocolError: not one port for each rank, or another's rank.
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
        """What the parent tells of all.

        Raises:
            PeerProtocolError: not the next piece.
        """
        end = message.first_rank + len(message.ports)
        if message.first_rank != self._known or end > len(self._ports):
            raise PeerProtocolError(
                f"listeners from rank {message.first_rank}, {self._known} known"
            )
        self._ports[self._known : end] = message.ports
        self._known = end

    def pieces(self) -> list[load.Ports]:
        """For the root: what goes down.

        Raises:
            PeerProtocolError: some are not known.
        """
        if 0 in self._ports:
            raise PeerProtocolError(f"the listener of rank {self._ports.index(0)} is not known")
        self._known = len(self._ports)
        return [
            load.Ports(self._message.job_id, start, tuple(self._ports[start : start + PIECE]))
            for start in range(0, len(self._ports), PIECE)
        ]

    def encoded(self) -> bytes:
        """The map as ranks read it.

        Raises:
            PeerProtocolError: go has come before it.
        """
        if self._known != len(self._ports):
            raise PeerProtocolError(f"go with {self._known} listeners of {len(self._ports)}")
        nids = [nid_of(self._message, place) for place in range(len(self._message.nodes))]
        return rank.encode_map((nids[place] for place in self._places), self._ports)
