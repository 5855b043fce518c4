"""Why a request cannot be met, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from allocator.jobs.selection import is_shaped
from allocator.nodes.access import Claim
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable, Placement
from native.nodelist import format_nodes, named_nodes
from native.text import plural
from native.wire.alloc import NodeSpec


def too_many(spec: NodeSpec, nodes: NodeTable, size: int) -> str:
    """That a request is never met, whatever is free."""
    among = _among(spec, nodes)
    if spec.needs is not None:
        from allocator.jobs.shortage import in_the_way  # as above

        if text := in_the_way(spec, among):
            return text
    there = plural(sum(node.slots for node in among), "slot")
    text = f"{_wanted(spec, [spec])}, {there} there"
    if is_shaped(spec):
        most = max((node.slots for node in among), default=0)
        text += f" on {plural(len(among), 'node')}, at most {most} on one"
    return text + (" for all members" if size > spec.size else "")


def busy(
    specs: Sequence[NodeSpec], picks: int, nodes: NodeTable, placement: Placement, claim: Claim
) -> str:
    """That a request is not met now.

    Args:
        picks: index of the spec that does not fit.
    """
    spec = specs[picks]
    among = _among(spec, nodes)
    free = sum(placement.free(node.number) for node in among)
    total = sum(node.slots for node in among)
    text = _wanted(spec, [spec] if spec.nodes else specs)
    if count := placement.switches:
        text += " below " + ("one leaf switch" if count == 1 else f"{count} leaf switches")
    more = ""
    if spec.needs is not None:
        from allocator.jobs.shortage import left_text  # as above

        more = left_text(spec, among)
    return (
        f"{text}, {free} of {plural(total, 'slot')}{more} free now{_why(among, placement, claim)}"
    )


def _among(spec: NodeSpec, nodes: NodeTable) -> list[Node]:
    """The nodes that a spec could be on."""
    return [node for number in spec.nodes if (node := nodes.get(number))] or list(nodes)


def ranks(specs: Sequence[NodeSpec]) -> str:
    """How many ranks, and of how many slots where these are several."""
    text = plural(sum(spec.size for spec in specs), "rank")
    cores = {spec.cores for spec in specs}
    if cores == {1}:
        return text
    each = f"{cores.pop()} slots" if len(cores) == 1 else "1 slot and more"
    return f"{text} of {each}"


def _wanted(spec: NodeSpec, specs: Sequence[NodeSpec]) -> str:
    """What is requested, for people.

    Args:
        specs: whose ranks to tell together, where any node would do for ``spec``.
    """
    text = f"{ranks(specs)} requested"
    if spec.node_count and spec.nodes:
        text += f" on {spec.node_count} of {named_nodes(spec.nodes)}"
    elif spec.node_count:
        text += f" on {plural(spec.node_count, 'node')}"
    elif spec.nodes:
        text += f" on {format_nodes(spec.nodes)}"
    if spec.per_node:
        text += f", at most {spec.per_node} on each"
    return text


def closed_to(spec: NodeSpec, nodes: NodeTable, mine: Placement, claim: Claim) -> str:
    """That a request is never met because of the nodes that it may have: how many are of what."""
    among = _among(spec, nodes)
    if mine.least:
        from allocator.jobs.covering import in_the_way  # few requests count features

        if text := in_the_way(spec, [node for node in among if mine.free(node.number)], mine.least):
            return text
    there = plural(sum(mine.free(node.number) for node in among), "slot")
    closed = [node for node in among if node.closed_text(claim)]
    return f"{_wanted(spec, [spec])}, {there} there{_why(closed, mine, claim)}"


def _why(among: Sequence[Node], placement: Placement, claim: Claim) -> str:
    """Which of these nodes are down, drained, for others, or full."""
    by_state: dict[str, list[Node]] = {"down": [], "drained": [], "in use": []}
    for node in among:
        if placement.free(node.number):
            continue
        if not node.is_up:
            by_state["down"].append(node)
        elif node.orders.closed is not None:
            by_state["drained"].append(node)
        elif node.trouble:
            by_state.setdefault("in trouble", []).append(node)
        elif text := node.closed_text(claim):
            by_state.setdefault(text, []).append(node)
        else:
            by_state["in use"].append(node)
    reasons = [f"{_named(nodes)} {state}" for state, nodes in by_state.items() if nodes]
    return f" ({', '.join(reasons)})" if reasons else ""


def _named(nodes: Sequence[Node]) -> str:
    if len(nodes) == 1:
        return f"{nodes[0]} is"
    return f"nodes {format_nodes(node.number for node in nodes)} are"
