"""``yodctl up``: makes launches warm, starts a partition, and says what has come of it."""

from __future__ import annotations

import os
import time

import click

from native import limits
from native.errors import UsageError, YodError
from native.host import sitedirs
from native.text import shown
from partition.find import state
from partition.find import warm as find_warm
from partition.find.batch import SLURM, BatchJob
from partition.find.state import State
from partition.up import local
from partition.up import warm as server


class PartUpError(YodError):
    """Some hosts are up, others are not."""


def warm(slots: int | None) -> None:
    """Start a launch server, with so many slots."""
    began = time.monotonic()
    os.chdir("/")
    unix_pid = server.up(os.environ, slots)
    took_s = time.monotonic() - began
    click.echo(f"launches on this host are warm: process {unix_pid} runs them ({took_s:.2f} s)")
    if reason := find_warm.look(os.environ).reason:
        click.echo(f"yours are cold: {reason}")


def of_this_host(count: int, slots: int, base_port: int, debug: bool) -> None:
    """Start a partition of daemons on this host."""
    if base_port and base_port + count > 65535:
        raise UsageError(f"--base-port {base_port}: {count + 1} ports do not fit above it")
    earlier = state.load_any()
    if earlier is not None and local.is_stale(earlier):
        click.echo("yodctl: the daemons of an earlier partition are gone; cleaned up", err=True)
    began = time.monotonic()
    os.umask(0o077)
    os.chdir("/")  # the daemons hold no directory of the user's
    came = local.up(
        count, slots=slots, base_port=base_port, debug=debug, environment=dict(os.environ)
    )
    found = came.state
    took_s = time.monotonic() - began
    if came.again:
        click.echo(f"started again: {', '.join(map(str, came.again))}")
    each = f" of {slots} slots" if slots > 1 and not came.again else ""
    click.echo(f"{count} nodes{each} are up at {address_of(found)} ({took_s:.2f} s)")
    chosen = chosen_otherwise(found)
    click.echo(f"{chosen or 'yod finds them by itself'}; `yodctl down` takes it down")
    if server.running(os.environ) is None:
        warm(None)


def wished_hosts(nodes: str | None, host_file: str | None) -> dict[str, int]:
    """The hosts of a list, or else of a file, with the slots that the file has for each.

    Raises:
        UsageError: there is none, or the file cannot be read.
    """
    from partition.hosts import hostfile, names

    if nodes is not None:
        return dict.fromkeys(names.parse(nodes), 0)
    path = host_file or ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return hostfile.parse(file.read(), path)
    except OSError as error:
        raise UsageError(f"--hosts {shown(path)}: {error.strerror}") from None


def of_hosts(
    hosts: dict[str, int],
    ssh_command: str,
    address: str,
    slots: int,
    base_port: int,
    debug: bool,
    ships: bool,
) -> None:
    """Start a bebopd here, and a PCT on each of the hosts.

    Raises:
        PartUpError: some did not come up, and others are.
    """
    from partition.hosts import told
    from partition.hosts.up import Wish
    from partition.hosts.up import up as up_hosts

    wish = Wish(hosts, ssh_command, address, slots, base_port, debug, ships)
    began = time.monotonic()
    os.umask(0o077)
    os.chdir("/")
    came = up_hosts(wish, limits.load(os.environ), dict(os.environ))
    for line in told.came(came, time.monotonic() - began):
        click.echo(line)
    if chosen := chosen_otherwise(came.state):
        click.echo(chosen)
    for line in told.lost(came.lost):
        click.echo(f"yodctl: {line}", err=True)
    if server.running(os.environ) is None:
        warm(None)
    if came.failed:
        raise PartUpError("\n".join(told.failed(came)))


def end_hosts(found: State, left: dict[str, str]) -> State:
    """End the PCTs on other hosts; note those on which that fails."""
    from partition.hosts import down, told

    failed, lost = down.end_all(found, limits.load(os.environ))
    for line in told.lost(lost):
        click.echo(f"yodctl: {line}", err=True)
    left |= failed
    return down.without(found, set(found.started) - left.keys())


def of_job(job: BatchJob) -> None:
    """Make the nodes of a batch job a partition."""
    from partition.hosts import allocated

    began = time.monotonic()
    os.umask(0o077)
    job = allocated.with_hosts(job, os.environ)
    if not job.needs_pcts:
        warm(job.slots[0])
        return
    found, is_new = allocated.bring_up(job, limits.load(os.environ), os.environ)
    up = "are up" if is_new else "are up already"
    took_s = time.monotonic() - began
    click.echo(f"{len(job.slots)} nodes of {job} {up} at {address_of(found)} ({took_s:.2f} s)")
    click.echo(chosen_otherwise(found) or "yod finds them by itself; they end with the job")
    if job.open_to:
        click.echo(f"others reach them at {found.address} by the key in {found.key_file}")
        return  # launches come from there
    # Not every batch system would end a launch server with the job.
    if job.system == SLURM and server.running(os.environ) is None:
        warm(None)


def chosen_otherwise(found: State | None) -> str:
    """A line for the user if yod will not use what `up` has started; else empty."""
    chosen = os.environ.get("YOD_PARTITION", "")
    for_all = sitedirs.socket_path(os.environ)
    if not chosen and found is None and sitedirs.has_socket(for_all):
        return f"yod uses that of this host at {shown(for_all)}"
    if not chosen or (found is not None and chosen in (found.address, found.unix_address)):
        return ""
    return f"YOD_PARTITION is set: yod and pingd use {shown(chosen)}"


def address_of(found: State) -> str:
    """Where commands on this host reach it."""
    return found.unix_address or found.address
