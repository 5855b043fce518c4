"""The command yodctl: brings a partition up on this host, and takes it down."""

from __future__ import annotations

import os
import pwd
import sys
import time

import click

from native import limits, options
from native.errors import PartitionError, UsageError, YodError
from native.host import stdio
from native.host.keyfile import read_partition_key, user_key_line
from native.text import shown
from native.wire.base import SLOTS_MAX
from partition.find import state
from partition.find.state import State
from partition.up import local, processes

FAILED = 1
WRONG_USAGE = 2
LOCAL_MAX = 1024


@click.group(context_settings={"help_option_names": ["--help", "-help", "-h"]})
@click.version_option(**options.VERSION)
def command() -> None:
    """Bring a partition up, look at it, take it down.

    Exit status: 0; 1 no partition is up, or a part of it is missing, or it did not come
    up; 2 wrong usage.
    """


@command.command()
@click.option(
    "--local",
    "count",
    type=click.IntRange(1, LOCAL_MAX),
    required=True,
    metavar="N",
    help="Start N nodes on this host.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, SLOTS_MAX),
    default=1,
    show_default=True,
    metavar="K",
    help="Ranks that each node takes at a time.",
)
@click.option(
    "--base-port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="TCP port of the bebopd, those of the nodes follow; default: any free ones.",
)
@click.option("-D", "--debug", is_flag=True, help="Let the daemons log more.")
def up(count: int, slots: int, base_port: int, debug: bool) -> None:
    """Start a bebopd and N PCTs."""
    if base_port and base_port + count > 65535:
        raise UsageError(f"--base-port {base_port}: {count + 1} ports do not fit above it")
    limits.load(os.environ)  # what is wrong with them is better said here
    earlier = state.load_any()
    if earlier is not None and local.is_stale(earlier):
        click.echo("yodctl: the daemons of an earlier partition are gone; cleaned up", err=True)
    began = time.monotonic()
    os.umask(0o077)
    os.chdir("/")  # the daemons hold no directory of the user's
    found = local.up(
        count, slots=slots, base_port=base_port, debug=debug, environment=dict(os.environ)
    )
    took_s = time.monotonic() - began
    each = f" of {slots} slots" if slots > 1 else ""
    click.echo(f"{count} nodes{each} are up at {_address(found)} ({took_s:.2f} s)")
    chosen = _chosen_otherwise(found)
    click.echo(f"{chosen or 'yod finds them by itself'}; `yodctl down` takes it down")


@command.command()
def status() -> None:
    """Show whether a partition is up, and its totals."""
    found = state.load_any()
    if found is None or local.is_stale(found):
        gone = " (its daemons are gone; `yodctl up` cleans up)" if found is not None else ""
        chosen = _chosen_otherwise(None)
        click.echo(f"no partition is up{gone}" + (chosen and f"; {chosen}, which pingd shows"))
        sys.exit(FAILED)
    alive = [processes.is_alive(daemon) for daemon in found.daemons]
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.began))
    click.echo(f"partition {found.name}, since {since}")
    click.echo(f"  address    {_address(found)}")
    if found.unix_address:
        click.echo(f"             {found.address}")
    click.echo(f"  key file   {found.key_file}")
    click.echo(f"  logs       {os.path.dirname(found.daemons[0].log)}")
    click.echo(f"  bebopd     process {found.daemons[0].unix_pid}{'' if alive[0] else ', gone'}")
    click.echo(f"  pcts       {sum(alive[1:])} of {len(alive) - 1} alive")
    if not alive[0]:
        raise PartitionError("bebopd is gone; `yodctl down` clears what is left")
    for line in _totals(found):
        click.echo(line)
    if chosen := _chosen_otherwise(found):
        click.echo(chosen)
    if not all(alive):
        gone_nodes = [
            daemon for daemon, lives in zip(found.daemons, alive, strict=True) if not lives
        ]
        raise PartitionError("gone: " + ", ".join(map(str, gone_nodes)))


@command.command()
def down() -> None:
    """End every daemon of the partition, and the jobs that they host."""
    result = local.down(os.environ)
    if result is None:
        click.echo("no partition is up")
        return
    found, ended, killed = result
    gone = len(found.daemons) - ended
    notes = [f"{killed} had to be killed" if killed else "", f"{gone} were gone" if gone else ""]
    said = ", ".join(filter(None, notes))
    click.echo(f"ended {ended} daemons of {len(found.daemons)}" + (f" ({said})" if said else ""))


@command.command("key")
@click.argument("user")
@click.option("--key-file", metavar="FILE", help="The partition's key; default: that of `up`.")
def user_key(user: str, key_file: str | None) -> None:
    """Print the key of USER (a name or a uid) for the partition.

    The user keeps it in a file of mode 0600 and names that file in YOD_KEY_FILE. With it
    yod reaches the partition at host:port; it proves this one user's identity.
    """
    if key_file == "":
        raise UsageError("--key-file needs a value, got an empty one")
    if key_file is None:
        found = state.load()
        if found is None:
            raise PartitionError("no partition is up; name its key with --key-file")
        key_file = found.key_file
    try:
        uid = int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise UsageError(f"no user {shown(user)} here") from None
    try:
        partition_key = read_partition_key(key_file)
    except FileNotFoundError as error:
        raise PartitionError(f"key file {shown(key_file)}: {error.strerror}") from None
    click.echo(user_key_line(partition_key, uid), nl=False)


@command.command("limits")
def show_limits() -> None:
    """Print every limit: its value, what sets it, what it means."""
    in_force = limits.load(os.environ)
    for name, meaning in limits.MEANINGS.items():
        value = getattr(in_force, name)
        text = f"{value:g}" if isinstance(value, float) else str(value)
        click.echo(f"{name:<24} {text:>10}  {limits.variable(name):<28}  {meaning}")


def main() -> None:
    """Entry point."""
    stdio.open_closed()
    status = 0
    try:
        command.main(prog_name="yodctl", standalone_mode=False)
    except UsageError as error:
        status = _fail(str(error), WRONG_USAGE)
    except click.ClickException as error:
        status = _fail(error.format_message(), WRONG_USAGE)
    except click.Abort:
        status = _fail("interrupted", FAILED)
    except YodError as error:
        status = _fail(str(error), FAILED)
    except OSError as error:
        status = _fail(stdio.blame(error), FAILED)
    sys.exit(stdio.ended("yodctl", status, FAILED))


def _chosen_otherwise(found: State | None) -> str:
    """A line for the user if yod will not use what `up` has started; else empty."""
    chosen = os.environ.get("YOD_PARTITION", "")
    if not chosen or (found is not None and chosen in (found.address, found.unix_address)):
        return ""
    return f"YOD_PARTITION is set: yod and pingd use {shown(chosen)}"


def _address(found: State) -> str:
    return found.unix_address or found.address


def _totals(found: State) -> list[str]:
    from native.loop.reactor import Reactor
    from partition import open as opening
    from partition.find import discover
    from partition.status import show
    from partition.status.query import ask

    where = discover.find(_address(found), {"YOD_KEY_FILE": found.key_file})
    in_force = limits.load(os.environ)
    reactor = Reactor()
    opened = opening.open_partition(where, reactor, in_force)
    try:
        rows = ask(opened.port, opened.bebopd, reactor, _address(found), in_force.allocate_s)
    finally:
        opened.close()
        reactor.close()
    return show.totals(show.merge(rows))


def _fail(text: str, exit_status: int) -> int:
    stdio.say(f"yodctl: {text}")
    return exit_status


if __name__ == "__main__":
    main()
