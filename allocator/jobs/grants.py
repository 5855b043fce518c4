"""The answer to a request: which ranks run on which node, and the signed credential.

Pure: the caller has the partition's key and passes in the functions that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from allocator.jobs.assign import Picks, RequestRefused
from native.errors import Refusal
from native.ids import Principal, PrincipalKind
from native.wire import codec
from native.wire.alloc import Credential, Grant, NodeRequest, NodeShare
from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.placed import LOANS_MAX, JobNodes, NodeLoan, NodeSpan, spans_of
from native.wire.runs import JobRuns, RunRange, add_run

_SURELY_FITS = 128  # parts of which a grant is below MESSAGE_MAX_BYTES whatever the names


class Owner(Struct, frozen=True):
    """A user as the partition's hosts know them."""

    uid: int
    name: str
    gid: int
    groups: tuple[int, ...] = ()


def permitted(
    principal: Principal,
    only_uid: int | None,
    owner_of: Callable[[int], Owner | None],
    partition: str,
) -> Owner:
    """The owner of the principal's jobs.

    Args:
        only_uid: the one user who may have any; None: everybody may.
        partition: its name.

    Raises:
        RequestRefused: the principal may not run jobs here.
    """
    if only_uid is not None and only_uid != principal.uid:
        whose = owner_of(only_uid)
        text = f"belongs to {whose.name if whose else only_uid} and runs nobody else's jobs"
        raise RequestRefused(Refusal.NOT_PERMITTED, f"partition `{partition}` {text}")
    owner = owner_of(principal.uid)
    if owner is None:
        text = f"no user has uid {principal.uid} on bebopd's host"
        raise RequestRefused(Refusal.NOT_PERMITTED, text)
    return owner


class Operators(Struct, frozen=True):
    """Users who may what root may do with a partition: those of a group.

    Attributes:
        group: its name; empty: there is none.
        has: whether a user, by uid, is in it.
    """

    group: str = ""
    has: Callable[[int], bool] = lambda uid: False

    def include(self, principal: Principal) -> bool:
        """Whether this is one of them, who has proven to be that user and not a job's owner."""
        return principal.kind is PrincipalKind.USER and self.has(principal.uid)


class Keys(Struct, frozen=True):
    """The operations of the partition's key. The key itself is not here.

    Attributes:
        sign: gives the MAC of a credential.
        job_key: gives the key of a job from job id, uid and expiry (unix time).
    """

    sign: Callable[[bytes], bytes]
    job_key: Callable[[int, int, int], bytes]


def runs_of(picks: Iterable[Picks]) -> tuple[list[NodeSpan], JobRuns]:
    """Which nodes, and where the ranks are.

    Args:
        picks: nodes of each member, in rank order.

    Returns:
        Nodes in the order of their lowest rank, with all slots of the job there; and runs
        whose places count the nodes in this order.
    """
    chosen = [span for member in picks for span in member]
    ranges: list[RunRange] = []
    if _are_apart(chosen):
        spans: list[NodeSpan] = []
        place = 0
        for span in chosen:
            add_run(ranges, place, span.slots, span.count)
            place += span.count
            last = spans[-1] if spans else span
            if last.node + last.count == span.node and last.slots == span.slots:
                spans[-1] = NodeSpan(last.node, last.count + span.count, last.slots)
            else:
                spans.append(span)
        return spans, JobRuns(tuple(ranges))
    slots: dict[int, int] = {}
    for span in chosen:
        for node in range(span.node, span.node + span.count):
            slots[node] = slots.get(node, 0) + span.slots
    place_of = {node: place for place, node in enumerate(slots)}
    for span in chosen:
        for node in range(span.node, span.node + span.count):
            add_run(ranges, place_of[node], span.slots)
    return spans_of(slots.items()), JobRuns(tuple(ranges))


def _are_apart(spans: list[NodeSpan]) -> bool:
    """Whether no node is in two of them."""
    behind = 0
    for span in sorted(spans, key=lambda span: span.node):
        if span.node < behind:
            return False
        behind = span.node + span.count
    return True


def make_grant(
    job_id: int,
    owner: Owner,
    nodes: JobNodes,
    runs: JobRuns,
    keys: Keys,
    *,
    epoch: int,
    wall_s: float,
    pending_s: float,
    allocation: str = "",
    overlaps: bool = False,
    shares: tuple[NodeShare, ...] = (),
    time_s: float = 0.0,
    attempt: int = 0,
    gives_way: bool = False,
    loans: tuple[NodeLoan, ...] = (),
) -> Grant:
    """The grant of a job, with its credential.

    Args:
        wall_s: unix time now; the grant expires ``pending_s`` later.
        allocation: whose step the job is; empty: it is none.
        overlaps: it shares the slots that other steps have.
        shares: memory, GPUs and cores that it has on the nodes.
        time_s: how long it may have them, by its queue; 0: any time.
        attempt: how often it was placed before.
        gives_way: it ends when others need its slots.
        loans: of its slots, those of others.
    """
    expires = -int(-(wall_s + pending_s) // 1)  # rounded up
    credential = codec.encode_part(
        Credential(
            job_id=job_id,
            uid=owner.uid,
            gid=owner.gid,
            groups=owner.groups,
            epoch=epoch,
            expires=expires,
            nodes_digest=codec.nodes_digest(nodes),
            allocation=allocation,
            overlaps=overlaps,
            shares=shares,
            attempt=attempt,
            gives_way=gives_way,
            loans=loans,
        )
    )
    return Grant(
        job_id=job_id,
        uid=owner.uid,
        nodes=nodes,
        runs=runs,
        job_key=keys.job_key(job_id, owner.uid, expires),
        expires=expires,
        credential=credential,
        credential_mac=keys.sign(credential),
        pending_s=pending_s,
        allocation=allocation,
        time_s=time_s,
        attempt=attempt,
    )


def why_unsendable(grant: Grant, loans: int = 0) -> str:
    """Why a grant does not fit in a message; empty: it does.

    Args:
        loans: pieces of them in its credential.
    """
    nodes = grant.nodes
    if loans > LOANS_MAX:
        return f"slots of others on its nodes are in {loans} pieces, at most {LOANS_MAX}"
    pieces = len(nodes.spans) + len(nodes.rules)
    parts = pieces + len(grant.runs.ranges)
    if parts <= _SURELY_FITS or len(codec.encode_part(grant)) <= MESSAGE_MAX_BYTES:
        return ""
    return (
        f"a grant of {len(nodes)} nodes does not fit in a message: their numbers, names and"
        f" addresses count up in {pieces} pieces;"
        " a nodes file that numbers them as names and addresses count up makes fewer"
    )


def excuse(code: Refusal, age_s: float, heartbeat_s: float) -> str:
    """What is added to a refusal while nodes may still announce themselves; else empty.

    Args:
        age_s: since bebopd began.
    """
    if age_s < heartbeat_s and code in (Refusal.NOT_ENOUGH_NODES, Refusal.UNKNOWN_NODE):
        return f" (bebopd began {age_s:.0f} s ago, more nodes may come)"
    return ""


def demand_sound(request: NodeRequest, allocation: str) -> None:
    """Refuse what may not share slots.

    Args:
        allocation: as for :func:`make_grant`.

    Raises:
        RequestRefused: it would.
    """
    if request.overlaps and not allocation:
        raise RequestRefused(Refusal.BAD_REQUEST, "only steps of an allocation can overlap")
    if request.overlaps and request.is_exclusive:
        raise RequestRefused(Refusal.BAD_REQUEST, "a step that overlaps has no node alone")
