"""Ends the PCTs of a partition on other hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec.structs import replace

from native.limits import Limits
from partition.find import state
from partition.find.state import Host, State
from partition.hosts.ssh import many, scripts
from partition.hosts.ssh.bringing import Complained, Ended, Event, TimedOut, why
from partition.up.own import own_directory, own_release


def end_all(found: State, limits: Limits) -> dict[str, str]:
    """End every PCT that was started.

    Returns:
        The hosts on which that failed, and why.
    """
    return _end(found, found.started, limits)


def end_some(
    where: Path, found: State, hosts: Collection[str], idle: Collection[str], limits: Limits
) -> None:
    """End the PCTs of some hosts, and say in the partition's file what is left.

    Args:
        idle: hosts that very likely have none; it does not matter if they are out of reach.
    """
    left = _end(found, hosts, limits).keys() - set(idle)
    state.save(without(found, set(hosts) - left), where)


def without(found: State, ended: Collection[str]) -> State:
    """The partition when the PCTs of some hosts have been ended."""
    hosts = [Host(h.name, h.node, h.is_started and h.name not in ended) for h in found.hosts]
    return replace(found, hosts=tuple(hosts))


def _end(found: State, hosts: Iterable[str], limits: Limits) -> dict[str, str]:
    last: dict[str, str] = {}
    failed: dict[str, str] = {}

    def happened(host: str, event: Event) -> None:
        match event:
            case Complained(line) if line.strip():
                last[host] = line
            case Ended(status) if status:
                failed[host] = why(host, status, last.get(host, ""))
            case TimedOut():
                failed[host] = f"no answer in {limits.host_down_s:g} s"

    line = scripts.end(own_directory(), found.tag, own_release())
    calls = [many.Call(host, line) for host in hosts]
    many.run(calls, found.ssh, limits.host_down_s, limits, happened)
    return failed
