"""Ends the PCTs of a partition on other hosts, many as a tree, as they were started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from native.limits import Limits
from partition.find import state
from partition.find.state import Host, State
from partition.hosts.ssh.spread import Plan, Spread, Target
from partition.hosts.ssh.spreading import Lost
from partition.up.own import own_directory, own_release


def end_all(found: State, limits: Limits) -> tuple[dict[str, str], Sequence[Lost]]:
    """End every PCT that was started.

    Returns:
        The hosts on which that failed, and why; and those that have failed to reach further ones.
    """
    return _end(found, found.started, limits)


def end_some(
    where: Path, found: State, hosts: Collection[str], idle: Collection[str], limits: Limits
) -> None:
    """End the PCTs of some hosts, and say in the partition's file what is left.

    Args:
        idle: hosts that very likely have none; it does not matter if they are out of reach.
    """
    failed, _ = _end(found, hosts, limits)
    left = failed.keys() - set(idle)
    state.save(without(found, set(hosts) - left), where)


def without(found: State, ended: Collection[str]) -> State:
    """The partition when the PCTs of some hosts have been ended."""
    hosts = [Host(h.name, h.node, h.is_started and h.name not in ended) for h in found.hosts]
    return replace(found, hosts=tuple(hosts))


def _end(
    found: State, hosts: Iterable[str], limits: Limits
) -> tuple[dict[str, str], Sequence[Lost]]:
    plan = Plan(
        targets=tuple(map(Target, hosts)),
        ssh=found.ssh,
        width=limits.ssh_fanout_count,
        limit_s=limits.host_down_s,
        silent_s=limits.ssh_silent_s,
        directory=own_directory(),
        release=own_release(),
        tag=found.tag,
        ends=True,
    )
    going = Spread(plan, True)
    going.run()
    failed = {host: result.reason for host, result in going.results.items() if result.reason}
    return failed, going.lost
