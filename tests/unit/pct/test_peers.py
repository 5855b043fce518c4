"""Which peers the jobs of a node need."""

from __future__ import annotations

from native.ids import PortalId
from pct.peers import Peers


class FakeJob:
    def __init__(self, *members: PortalId) -> None:
        self._members = members

    def has_member(self, peer: PortalId) -> bool:
        return peer in self._members


def test_a_peer_is_needed_as_long_as_a_job_has_it_as_a_node():
    peers, a, b = Peers(), PortalId(1, 1), PortalId(2, 1)
    jobs = {17: FakeJob(a), 18: FakeJob(a, b), 19: FakeJob(b)}
    peers.add(17, is_shared=True)
    peers.add(18, is_shared=True)
    peers.add(19, is_shared=False)  # on this node alone: no PCT is its neighbour
    assert peers.is_needed(a, jobs) and peers.is_needed(b, jobs)
    peers.remove(18)
    assert peers.is_needed(a, jobs) and not peers.is_needed(b, jobs)
    peers.remove(17)
    assert not peers.is_needed(a, jobs)
