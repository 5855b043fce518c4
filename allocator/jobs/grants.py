"""The answer to a request: which ranks run on which node, and the signed credential.

Pure: the caller has the partition's key and passes in the functions that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from allocator.jobs.selection import Picks
from allocator.nodes.table import NodeTable
from native.wire import codec
from native.wire.alloc import Credential, Grant, GrantedNode, Run


class Owner(Struct, frozen=True):
    """A user as the partition's hosts know them."""

    uid: int
    name: str
    gid: int
    groups: tuple[int, ...] = ()


class Keys(Struct, frozen=True):
    """The operations of the partition's key. The key itself is not here.

    Attributes:
        sign: gives the MAC of a credential.
        job_key: gives the key of a job from job id, uid and expiry (unix time).
    """

    sign: Callable[[bytes], bytes]
    job_key: Callable[[int, int, int], bytes]


def runs_of(picks: Iterable[Picks]) -> tuple[dict[int, tuple[int, ...]], tuple[Run, ...]]:
    """The ranks of each node, as tuples and as runs.

    Args:
        picks: nodes of each member, in rank order.

    Returns:
        The ranks of each node, ascending, nodes in the order of their lowest
        rank; and runs whose places count the nodes in this order.
    """
    ranks: dict[int, list[int]] = {}
    runs: list[tuple[int, int]] = []  # (node, ranks)
    rank = 0
    for node, count in (pick for member in picks for pick in member):
        ranks.setdefault(node, []).extend(range(rank, rank + count))
        rank += count
        if runs and runs[-1][0] == node:
            count += runs.pop()[1]
        runs.append((node, count))
    place = {node: index for index, node in enumerate(ranks)}
    return (
        {node: tuple(of_node) for node, of_node in ranks.items()},
        tuple(Run(place[node], count) for node, count in runs),
    )


def make_grant(
    job_id: int,
    owner: Owner,
    slots: dict[int, int],
    runs: tuple[Run, ...],
    nodes: NodeTable,
    keys: Keys,
    *,
    epoch: int,
    wall_s: float,
    pending_s: float,
    allocation: str = "",
    overlaps: bool = False,
) -> Grant:
    """The grant of a job, with its credential.

    Args:
        slots: by node, in the order of their lowest rank.
        wall_s: unix time now; the grant expires ``pending_s`` later.
        allocation: whose step the job is; empty: it is none.
        overlaps: it shares the slots that other steps have.
    """
    expires = -int(-(wall_s + pending_s) // 1)  # rounded up
    granted = tuple(_granted(number, nodes) for number in slots)
    credential = codec.encode_part(
        Credential(
            job_id=job_id,
            uid=owner.uid,
            gid=owner.gid,
            groups=owner.groups,
            epoch=epoch,
            expires=expires,
            nodes=tuple(slots),
            slots=tuple(slots.values()),
            nodes_digest=codec.nodes_digest(granted),
            allocation=allocation,
            overlaps=overlaps,
        )
    )
    return Grant(
        job_id=job_id,
        uid=owner.uid,
        nodes=granted,
        runs=runs,
        job_key=keys.job_key(job_id, owner.uid, expires),
        expires=expires,
        credential=credential,
        credential_mac=keys.sign(credential),
        pending_s=pending_s,
        allocation=allocation,
    )


def _granted(number: int, nodes: NodeTable) -> GrantedNode:
    node = nodes.get(number)
    assert node is not None
    return GrantedNode(node.number, node.name, node.address.nid, node.address.pid)
