"""Which number of the memory and GPUs stands in the way of a request. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from allocator.nodes.table import Node
from native.memory import memory_text
from native.text import plural
from native.wire.alloc import NodeSpec


def in_the_way(spec: NodeSpec, among: Sequence[Node]) -> str:
    """Why memory and GPUs of these nodes never do for a spec.

    Args:
        among: all nodes that the spec could be on.
    """
    needs = spec.needs
    assert needs is not None
    least = needs.share(1)
    memory = max((node.memory for node in among), default=0)
    gpus = max((len(node.gpus) for node in among), default=0)
    each = "for each rank" if needs.rank_memory or needs.gpus else "on each node"
    if least.memory > memory:
        has = f"the largest node has {memory_text(memory)}" if memory else "no node counts any"
        return f"{memory_text(least.memory)} of memory {each} requested, {has}"
    if least.gpus > gpus:
        has = f"no node has more than {gpus}" if gpus else "there are none"
        return f"{plural(least.gpus, 'GPU')} {each} requested, {has}"
    nodes = spec.node_count or (len(spec.nodes) if spec.one_per_node else 1)
    wanted = max(spec.size * needs.gpus, nodes * needs.node_gpus)
    if wanted > (there := sum(len(node.gpus) for node in among)):
        return f"{plural(wanted, 'GPU')} requested, there are {there} {_on(among)}"
    wanted = max(spec.size * needs.rank_memory, nodes * needs.memory)
    if wanted > (there := sum(node.memory for node in among)):
        has = f"there are {memory_text(there)} {_on(among)}"
        return f"{memory_text(wanted)} of memory requested, {has}"
    able = sum(node.memory >= least.memory and len(node.gpus) >= least.gpus for node in among)
    ranks = f"{plural(spec.size, 'rank')} on {plural(nodes, 'node')}"
    return (
        f"{ranks} with {least} {each} requested, {able} of {plural(len(among), 'node')}"
        f" {'has' if able == 1 else 'have'} as much, at most {gpus} GPUs and {memory_text(memory)}"
        " on one"
    )


def left_text(spec: NodeSpec, among: Sequence[Node]) -> str:
    """How much of what a spec needs is free on nodes that are up, behind their slots."""
    needs = spec.needs
    assert needs is not None
    left = [node.left() for node in among if node.is_up and node.orders.closed is None]
    text = ""
    if needs.gpus or needs.node_gpus:
        free = sum(share.gpus for share in left)
        text += f", {free} of {plural(sum(len(node.gpus) for node in among), 'GPU')}"
    if needs.memory or needs.rank_memory:
        free, total = sum(share.memory for share in left), sum(node.memory for node in among)
        text += f", {memory_text(free)} of {memory_text(total)}"
    return text


def _on(among: Sequence[Node]) -> str:
    return f"on {plural(len(among), 'node')}"
