"""Chooses slots for a request, or says why it cannot be met.

Specs are met in this order: those that want all nodes of a list, those that want part
of a list, those that take any node. The answer keeps the order of the request, so that
ranks follow the lines of the load file (Cplant's bebopd_alloc.c).

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allocator.jobs.selection import is_shaped, room_of, select
from allocator.nodes.access import STRANGER, Claim
from allocator.nodes.node import Node
from allocator.nodes.placement_list import ListPlacement
from allocator.nodes.table import NodeTable, Placement
from native.errors import Refusal
from native.nodelist import named_nodes
from native.text import plural
from native.wire.alloc import NO_SHARE, SHARES_MAX, NodeRequest, NodeShare, NodeSpec, Share
from native.wire.base import SIZE_MAX
from native.wire.placed import NodeSpan, spans_of
from native.wire.runs import ROWS_MAX

if TYPE_CHECKING:
    from allocator.nodes.counted import Counted

Picks = list[NodeSpan]  # in rank order
Left = Callable[[Node], Share]


class RequestRefused(Exception):
    """A request cannot be met; the text has the numbers.

    Attributes:
        spec: index of the spec that cannot be met; -1: the request as a whole.
    """

    def __init__(self, code: Refusal, text: str, spec: int = -1) -> None:
        self.code = code
        self.spec = spec
        super().__init__(text)


def assign(
    specs: Sequence[NodeSpec],
    nodes: NodeTable,
    placement: Placement,
    partition: str,
    claim: Claim = STRANGER,
) -> list[Picks]:
    """Ranks of every spec on nodes, in the order of the specs. No slot is held yet.

    Args:
        specs: what the members ask for, in rank order.
        nodes: the partition.
        placement: chooses the nodes; it is unchanged afterwards, and admits the claim.
        partition: the partition's name, for texts.
        claim: who asks.

    Raises:
        RequestRefused: the text says why.
    """
    picks = picks_of(specs, nodes, placement, partition, claim)
    if isinstance(picks, list):
        return picks
    from allocator.jobs import refusals  # few requests are refused

    text = refusals.busy(specs, picks, nodes, placement, claim)
    raise RequestRefused(Refusal.BUSY, text, picks)


def picks_of(
    specs: Sequence[NodeSpec], nodes: NodeTable, placement: Placement, partition: str, claim: Claim
) -> list[Picks] | int:
    """The same, without the reason why not now: the index of the member that does not fit.

    Raises:
        RequestRefused: the partition can never give it; the text says why.
    """
    if placement.least and len(specs) > 1:
        text = f"counts of features go with one member, there are {len(specs)}"
        raise RequestRefused(Refusal.BAD_REQUEST, text)
    for index, spec in enumerate(specs):
        if wrong := _wrong(spec, nodes):
            raise RequestRefused(*wrong, index)
    if (size := sum(spec.size for spec in specs)) > SIZE_MAX:
        raise RequestRefused(
            Refusal.BAD_REQUEST, f"{size} ranks requested, a job has at most {SIZE_MAX}"
        )
    if sum(spec.slots for spec in specs) > nodes.slots():
        from allocator.jobs import refusals  # as above

        raise RequestRefused(
            Refusal.NOT_ENOUGH_NODES,
            f"{refusals.ranks(specs)} requested, partition `{partition}` has"
            f" {plural(nodes.slots(), 'slot')} on {plural(len(nodes), 'node')}",
        )
    picks = attempt(specs, nodes, placement, placement.supply or Node.left)
    if isinstance(picks, list):
        return picks
    # A request that would fit if every slot were free gets "not now" instead of "too many".
    if nodes.empty is None:
        nodes.empty = _placement(nodes, lambda node: node.slots)
    empty = nodes.empty
    mine = empty.admitting(claim)
    never = attempt(specs, nodes, mine, _all_of)
    if isinstance(never, list):
        return picks
    from allocator.jobs import refusals  # as above

    if mine is not empty and isinstance(attempt(specs, nodes, empty, _all_of), list):
        text = refusals.closed_to(specs[never], nodes, mine, claim)
    else:
        text = refusals.too_many(specs[never], nodes, size)
    raise RequestRefused(Refusal.NOT_ENOUGH_NODES, text, never)


def slots_on(specs: Sequence[NodeSpec], picks: Sequence[Picks]) -> dict[int, int]:
    """The slots that the ranks of all specs take, by node."""
    slots: dict[int, int] = {}
    for spec, of_spec in zip(specs, picks, strict=True):
        for node, ranks in ranks_on(of_spec).items():
            slots[node] = slots.get(node, 0) + ranks * spec.cores
    return slots


def shares_on(
    specs: Sequence[NodeSpec], picks: Sequence[Picks], nodes: NodeTable, supply: Left | None
) -> tuple[NodeShare, ...]:
    """The memory, GPUs and cores that the ranks of all specs have, by node. None is given yet.

    Args:
        supply: as that of the placement.

    Raises:
        RequestRefused: there are more pieces than a credential takes.
    """
    if all(spec.needs is None for spec in specs):
        return ()
    from allocator.nodes.counted import Counted  # most requests need neither

    counted = Counted(nodes, supply or Node.left)
    whole: dict[int, NodeShare] = {}
    for member in _in_turn(specs, nodes):  # as they were placed: so it is the same cores
        for node, more in counted.take(specs[member], ranks_on(picks[member])).items():
            had = whole.get(node) or NodeShare(node, 1)
            rows = [(member, group, count) for group, count in enumerate(more.cores) if count]
            memory, gpus = had.memory + more.memory, had.gpus + more.gpus
            whole[node] = NodeShare(node, 1, memory, gpus, (*had.cores, *rows))
    pieces: list[NodeShare] = []
    for _, share in sorted(whole.items()):
        last = pieces[-1] if pieces else None
        if last is not None and _continues(last, share):
            pieces[-1] = replace(last, count=last.count + 1)
        else:
            pieces.append(share)
    rows_count = sum(len(piece.cores) for piece in pieces)
    if len(pieces) > SHARES_MAX or rows_count > ROWS_MAX:
        raise RequestRefused(
            Refusal.BAD_REQUEST,
            f"memory, GPUs and cores differ in {len(pieces)} pieces of the nodes, at most"
            f" {SHARES_MAX}, with {rows_count} groups of cores, at most {ROWS_MAX}:"
            " ask for the same on each node (-N, --mem, --gpus-per-node)",
        )
    return tuple(pieces)


def bound_cores(
    specs: Sequence[NodeSpec], picks: Sequence[Picks], nodes: NodeTable, supply: Left
) -> dict[int, tuple[int, ...]]:
    """The cores that ranks of all specs are bound to, by node: of each group how many.

    Args:
        supply: what the specs were placed by.
    """
    from allocator.nodes.counted import Counted  # as above

    counted, cores = Counted(nodes, supply), dict[int, tuple[int, ...]]()
    for member in _in_turn(specs, nodes):
        for number, more in counted.take(specs[member], ranks_on(picks[member])).items():
            pairs = zip_longest(cores.get(number, ()), more.cores, fillvalue=0)
            cores[number] = tuple(map(sum, pairs))
    return cores


def _continues(last: NodeShare, share: NodeShare) -> bool:
    """Whether the node behind the last ones has the same."""
    return last.node + last.count == share.node and (
        (last.memory, last.gpus, last.cores) == (share.memory, share.gpus, share.cores)
    )


def node_count(picks: Sequence[Picks]) -> int:
    """How many nodes the ranks of all specs have."""
    return len({number for of_spec in picks for number in ranks_on(of_spec)})


def ranks_on(picks: Picks) -> dict[int, int]:
    """The ranks of one spec by node."""
    ranks: dict[int, int] = {}
    for span in picks:
        for node in range(span.node, span.node + span.count):
            ranks[node] = ranks.get(node, 0) + span.slots
    return ranks


def fits(specs: Sequence[NodeSpec], nodes: NodeTable, placement: Placement) -> bool:
    """Whether a request that does not exceed the partition can be met now."""
    return isinstance(attempt(specs, nodes, placement, Node.left), list)


def fits_beside(
    specs: Sequence[NodeSpec], nodes: NodeTable, jobs: Collection[int], is_exclusive: bool
) -> bool:
    """Whether a request could be met if these jobs alone held slots."""

    def left(node: Node) -> int:
        held = sum(node.held.get(job_id, 0) for job_id in jobs)
        return 0 if held and is_exclusive else node.slots - held

    def left_of(node: Node) -> Share:
        return node.share.less([node.given.get(job_id, NO_SHARE) for job_id in jobs])

    return isinstance(attempt(specs, nodes, _placement(nodes, left), left_of), list)


def shared_slots(nodes: NodeTable, without: Collection[int] = ()) -> Placement:
    """The slots of all nodes that are up, for a step that shares them.

    Args:
        without: but of none of these.
    """

    def slots(node: Node) -> int:
        return node.slots if node.is_up and node.number not in without else 0

    return _placement(nodes, slots)


def _placement(nodes: NodeTable, free: Callable[[Node], int]) -> Placement:
    """A placement in which each node has as many free slots as this says."""
    placement = ListPlacement()
    for node in nodes:
        placement.set_free(node.number, free(node))
        placement.set_access(node.number, node.access)
    return placement


def _wrong(spec: NodeSpec, nodes: NodeTable) -> tuple[Refusal, str] | None:
    """Why a spec can never be met, whatever slots are free."""
    unknown = [number for number in spec.nodes if nodes.get(number) is None]
    if unknown:
        return Refusal.UNKNOWN_NODE, unknown_text(unknown, nodes)
    if len(set(spec.nodes)) != len(spec.nodes):
        return Refusal.BAD_REQUEST, "a node is listed twice"
    if text := spec.contradiction:
        return Refusal.BAD_REQUEST, text
    if spec.node_count > len(nodes):
        has = f"the partition has {len(nodes)}"
        return Refusal.NOT_ENOUGH_NODES, f"{plural(spec.node_count, 'node')} requested, {has}"
    return None


def unknown_text(numbers: Sequence[int], nodes: NodeTable) -> str:
    """That these are no nodes of the partition, and which it has."""
    present = [node.number for node in nodes]
    only = " only" if len(present) == 1 else ""
    has = f"{named_nodes(present)}{only}" if present else "none"
    return f"no {named_nodes(numbers)} here; this partition has {has}"


def attempt(
    specs: Sequence[NodeSpec], nodes: NodeTable, placement: Placement, supply: Left
) -> list[Picks] | int:
    """Slots for every spec, or the index of one that finds too little.

    Args:
        supply: the memory and GPUs of a node that may be used.
    """
    if placement.switches:
        from allocator.jobs.switches import below_few  # few requests ask for few switches

        return below_few(specs, nodes, placement, supply)
    counted = None
    if any(spec.needs is not None for spec in specs):
        from allocator.nodes.counted import Counted  # most requests need neither

        counted = Counted(nodes, supply)
    if len(specs) == 1:
        only = _pick(specs[0], nodes, placement, counted)
        return 0 if only is None else [only]
    chosen: list[Picks] = [[] for _ in specs]
    left = placement.copy()
    for index in _in_turn(specs, nodes):
        picks = _pick(specs[index], nodes, left, counted)
        if picks is None:
            return index
        if specs[index].cores == 1:
            left.take(picks)
        else:
            for number, slots in slots_on((specs[index],), (picks,)).items():
                left.set_free(number, left.free(number) - slots)
        if counted is not None:
            counted.take(specs[index], ranks_on(picks))
        chosen[index] = picks
    return chosen


def _in_turn(specs: Sequence[NodeSpec], nodes: NodeTable) -> list[int]:
    """The specs in the order in which they are placed."""
    return sorted(range(len(specs)), key=lambda index: _turn(specs[index], nodes))


def _turn(spec: NodeSpec, nodes: NodeTable) -> int:
    if not spec.nodes:
        return 2 if spec.node_count or spec.cores > 1 or spec.needs else 3
    return 0 if spec.one_per_node or spec.slots >= _slots(spec.nodes, nodes) else 1


def _pick(
    spec: NodeSpec, nodes: NodeTable, placement: Placement, counted: Counted | None
) -> Picks | None:

    def room(number: int) -> int:
        here = room_of(spec, placement.free(number))
        return here if counted is None else counted.room(spec, number, here)

    if spec.one_per_node:  # dealt or not
        free = all(map(room, spec.nodes)) and _is_covered(spec, placement)
        return spans_of((number, 1) for number in spec.nodes) if free else None
    if placement.least:
        from allocator.jobs.covering import select_covering  # few requests count features

        rooms = ((number, room(number)) for number in spec.nodes or placement.in_order())
        able = [(number, room) for number, room in rooms if room > 0]
        counts = select_covering(spec, able, placement.least)
        return None if counts is None else spans_of(counts)
    if is_shaped(spec):
        numbers = spec.nodes or _by_policy(spec, placement) or placement.in_order()
        rooms = ((number, room(number)) for number in numbers)
        counts = select(spec, ((number, room) for number, room in rooms if room > 0))
        return None if counts is None else spans_of(counts)
    if spec.nodes:
        return placement.of_list(spec.nodes, spec.size)
    return placement.anywhere(spec.size)


def _by_policy(spec: NodeSpec, placement: Placement) -> list[int] | None:
    """The nodes that the policy chooses for a count of nodes; None: it knows of none."""
    if not spec.node_count or spec.needs is not None:
        return None
    share = -(-spec.size // spec.node_count)
    return placement.nodes_with(share * spec.cores, spec.node_count)


def _all_of(node: Node) -> Share:
    return node.share


def _is_covered(spec: NodeSpec, placement: Placement) -> bool:
    """Whether the nodes of a list are of the sets that some are to be of."""
    if not placement.least:
        return True
    from allocator.jobs.covering import is_covered  # as above

    return is_covered(placement.least, spec.nodes)


def _slots(numbers: Iterable[int], nodes: NodeTable) -> int:
    return sum(node.slots for number in numbers if (node := nodes.get(number)))


def unpacked(request: NodeRequest, nodes: NodeTable) -> NodeRequest:
    """A request with every listed node.

    Raises:
        RequestRefused: a list is longer than the partition; it is not made.
    """
    for index, spec in enumerate(request.specs):
        if spec.ranges and spec.listed > len(nodes):
            present = [node.number for node in nodes]
            has = named_nodes(present) if present else "none"
            text = f"a list of {spec.listed} nodes; this partition has {has}"
            raise RequestRefused(Refusal.UNKNOWN_NODE, text, index)
    return replace(request, specs=tuple(spec.unpacked() for spec in request.specs))
