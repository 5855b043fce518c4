"""Ends the PCTs of a partition on other hosts, many as a tree, as they were started."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
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
    going = _ending(found, found.started, limits)
    going.run()
    failed = {host: result.reason for host, result in going.results.items() if result.reason}
    return failed, going.lost


def end_some(
    where: Path, found: State, hosts: Collection[str], idle: Collection[str], limits: Limits
) -> set[str]:
    """End the PCTs of some hosts, and say in the partition's file what is left.

    An interrupt ends the waiting.

    Args:
        idle: hosts that very likely have none; it does not matter if they are out of reach.

    Returns:
        The others of which it is not known that theirs have ended.
    """
    going = _ending(found, hosts, limits)
    with suppress(KeyboardInterrupt):
        going.run()
    ended = {host for host, result in going.results.items() if not result.reason}
    left = set(hosts) - ended - set(idle)
    state.save(without(found, set(hosts) - left), where)
    return left


def without(found: State, ended: Collection[str]) -> State:
    """The partition when the PCTs of some hosts have been ended."""
    hosts = [Host(h.name, h.node, h.is_started and h.name not in ended) for h in found.hosts]
    return replace(found, hosts=tuple(hosts))


def _ending(found: State, hosts: Iterable[str], limits: Limits) -> Spread:
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
    return Spread(plan, True)
