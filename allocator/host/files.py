"""The files of a site that bebopd goes by: nodes, their order, their switches, queues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from allocator.nodes import nodesfile
from allocator.nodes.node import NodeConflictError
from allocator.nodes.nodesfile import NodesFile
from allocator.nodes.table import NodeTable
from allocator.queue.rules import Rules
from native.errors import UsageError, YodError
from native.host import config
from native.text import shown

if TYPE_CHECKING:
    from allocator.nodes.placement import ArrayPlacement
    from allocator.nodes.policies import Policy

POLICIES = ("lowest", "first-fit", "best-fit", "minimal-span", "sum-of-squares")
GROUP = "yod.select"  # of entry points: policies of a site
TREE = "tree"  # a policy that needs the topology
TORUS = "torus"  # one that needs the sizes of a torus


def read_nodes(path: str) -> NodesFile:
    return nodesfile.parse(_text_of(path, "nodes file"), shown(path))


def read_order(path: str) -> list[int]:
    return nodesfile.parse_order(_text_of(path, "order of nodes"), shown(path))


def placement(
    name: str,
    line: list[int],
    topology_file: str | None,
    there: NodesFile,
    say: Callable[[str], None],
    torus_sizes: str | None = None,
) -> ArrayPlacement:
    """What chooses nodes: by a policy of this name, else by switches or a torus, if there are any.

    Raises:
        UsageError: a file or the sizes of the torus are wrong, or there is no such policy.
    """
    from allocator.geometry import hilbert
    from allocator.nodes import policies
    from allocator.nodes.placement import ArrayPlacement

    line = line or hilbert.order(there.at)
    policy = policies.POLICIES.get(name or POLICIES[0])
    leaves: list[int] = []
    if topology_file:
        from allocator.nodes import topology

        text = _text_of(topology_file, "topology")
        tree = topology.parse(text, shown(topology_file), there.numbers)
        line, leaves = list(tree.line), tree.leaves()
        if name in ("", TREE):
            policy = tree.choose
    if torus_sizes is not None:
        from allocator.geometry import torus

        sizes = torus.parse(torus_sizes, there.at)
        if name in ("", TORUS):
            policy = torus.Torus(sizes, line, there.at).choose
    if policy is None:
        from allocator.nodes.site_policy import SitePolicy

        policy = SitePolicy(name, site_policy(name), say).choose
    return ArrayPlacement(policy, line, leaves)


def site_policy(name: str) -> Policy:
    """The policy that an installed package offers under a name.

    Raises:
        UsageError: there is none.
    """
    from importlib.metadata import entry_points  # slow to import, and few sites have one

    for point in entry_points(group=GROUP, name=name):
        try:
            found = point.load()
        except (ImportError, AttributeError) as error:
            raise UsageError(f"--placement {shown(name)}: {shown(str(error))}") from None
        if callable(found):
            checked: Policy = found
            return checked
        raise UsageError(f"--placement {shown(name)}: {point.value} is no function")
    raise UsageError(f"--placement {shown(name)}: no such policy, nor an entry point of {GROUP}")


def read_queues(path: str) -> Rules:
    from allocator.queue import file  # few partitions have queues

    return file.parse(_text_of(path, "file of queues"), shown(path))


def read_queues_again(
    path: str, follow: Callable[[Rules], None], say: Callable[[str], None]
) -> None:
    """At SIGHUP: go by the file as it is now; by the old one if it has a mistake."""
    try:
        follow(read_queues(path))
        say(f"SIGHUP: file of queues {shown(path)} is in force")
    except YodError as error:
        say(f"SIGHUP: the queues stay as they are: {error}")


def _text_of(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{what} {shown(path)}: {getattr(error, 'strerror', error)}") from None


def read_again(
    nodes: NodeTable, nodes_file: str | None, site: config.Config, say: Callable[[str], None]
) -> None:
    """At SIGHUP: take the nodes file as it is now; say what else waits for the next start."""
    try:
        if nodes_file:
            there = read_nodes(nodes_file)
            nodes.fix(there.numbers, there.portions, there.exclusive)
            nodes.features = there.features
            say(f"SIGHUP: nodes file {shown(nodes_file)} is in force")
        if site.path and config.read(site.path) != site:
            say(f"SIGHUP: {shown(site.path)} has changed, and will be in force at the next start")
    except (YodError, NodeConflictError) as error:
        say(f"SIGHUP: all stays as it is: {error}")
