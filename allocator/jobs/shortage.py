"""Which number of the memory, GPUs and cores stands in the way of a request. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from allocator.nodes.layout import room
from allocator.nodes.node import Node
from native.memory import memory_text
from native.text import plural
from native.wire.alloc import NO_SHARE, NodeSpec
from native.wire.runs import Binding, Reach

_AROUND = {Reach.SOCKET: "socket", Reach.NUMA: "NUMA node"}


def in_the_way(spec: NodeSpec, among: Sequence[Node]) -> str:
    """Why memory, GPUs and cores of these nodes never do for a spec; empty: they do.

    Args:
        among: all nodes that the spec could be on.
    """
    needs = spec.needs
    assert needs is not None
    if text := _cores_in_the_way(spec, among):
        return text
    least = needs.share(1)
    if least == NO_SHARE:
        return ""
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


def _cores_in_the_way(spec: NodeSpec, among: Sequence[Node]) -> str:
    """Why ranks can never be bound as a spec says; empty: it is not the cores."""
    binding = spec.needs.binding if spec.needs is not None else None
    if binding is None:
        return ""
    groups = [group for node in among for group in node.cores]
    if not groups:
        return "ranks on cores of their own requested, no node has any to be bound to"
    threads = max(group.threads for group in groups)
    if binding.threads > threads:
        return f"{binding.threads} threads of each core requested, no core has more than {threads}"
    sockets = max(len({group.socket for group in node.cores}) for node in among)
    if binding.sockets > sockets:
        return f"{binding.sockets} sockets of each node requested, no node has more than {sockets}"
    where, most = _largest(binding, among)
    if spec.cores > most:
        wanted = plural(spec.cores, "core")
        return f"{wanted} of one {where} for each rank requested, the largest has {most}"
    rooms = [room(binding, spec.cores, node.cores, node.share.cores) for node in among]
    if spec.per_node:
        rooms = [min(each, spec.per_node) for each in rooms]
    count = len(among) if spec.one_per_node else spec.node_count
    if count and (able := sum(each > 0 for each in rooms)) < count:
        wanted = f"ranks on {plural(count, 'node')}, {_each(spec, binding)}, requested"
        return f"{wanted}; {able} can have any"
    rooms = sorted(rooms)[-count:]
    if spec.size <= sum(rooms):
        return ""
    there = f"{plural(len(rooms), 'node')}, at most {max(rooms)} on one"
    wanted = f"{plural(spec.size, 'rank')}, {_each(spec, binding)}, requested"
    return f"{wanted}; there is room for {sum(rooms)} on {there}"


def _each(spec: NodeSpec, binding: Binding) -> str:
    """How each rank is bound."""
    text = f"each bound to {plural(spec.cores, 'core')}"
    if binding.reach in _AROUND:
        text = f"each with {plural(spec.cores, 'core')}, bound to its {_AROUND[binding.reach]}"
    if binding.per_socket:
        text += f", at most {binding.per_socket} on a socket"
    if binding.sockets:
        text += f", on {plural(binding.sockets, 'socket')} of a node"
    if binding.per_numa:
        text += f", at most {binding.per_numa} in a NUMA node"
    if binding.threads:
        text += f", {plural(binding.threads, 'thread')} of a core"
    return text


def _largest(binding: Binding, among: Sequence[Node]) -> tuple[str, int]:
    """Of what a rank's cores are all, and how many the largest has."""
    by_place: dict[tuple[int, ...], int] = {}
    for node in among:
        for group in node.cores:
            if group.threads < binding.threads:
                continue
            place: tuple[int, ...] = (node.number,)
            if binding.is_inside_sockets:
                place += (group.socket,)
            if binding.is_inside_numa:
                place += (group.numa,)
            by_place[place] = by_place.get(place, 0) + group.cores
    inside = "NUMA node" if binding.is_inside_numa else "socket"
    where = inside if binding.is_inside_sockets else "node"
    return where, max(by_place.values(), default=0)


def left_text(spec: NodeSpec, among: Sequence[Node]) -> str:
    """How much of what a spec needs is free on nodes that are up, behind their slots."""
    needs = spec.needs
    assert needs is not None
    left = [node.left() for node in among if node.is_open]
    text = ""
    if needs.gpus or needs.node_gpus:
        free = sum(share.gpus for share in left)
        text += f", {free} of {plural(sum(len(node.gpus) for node in among), 'GPU')}"
    if needs.memory or needs.rank_memory:
        free, total = sum(share.memory for share in left), sum(node.memory for node in among)
        text += f", {memory_text(free)} of {memory_text(total)}"
    if needs.binding is not None:
        free, total = sum(sum(share.cores) for share in left), sum(map(_cores_of, among))
        text += f", {free} of {plural(total, 'core')}"
    return text


def _cores_of(node: Node) -> int:
    return sum(node.share.cores)


def _on(among: Sequence[Node]) -> str:
    return f"on {plural(len(among), 'node')}"
