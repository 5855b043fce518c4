"""The command yodctl: brings a partition up on this host, and takes it down."""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module

import click

from native import limits, options
from native.errors import PartitionError, UsageError, YodError
from native.host import config, stdio
from native.text import shown
from native.waitstatus import FAILED, WRONG_USAGE
from native.wire import nodes as wire
from native.wire.base import SLOTS_MAX
from native.wire.status import NodeRow, Portion
from partition.commands import up as bringing
from partition.find import state, warm
from partition.find.state import State
from partition.status import order, show, why
from partition.up import local, processes
from partition.up import warm as warm_server

JOBS_RUN = 3
PART_UP = 4
LOCAL_MAX = 1024

_NODES = click.argument("lists", nargs=-1, required=True, metavar="LIST...")
_PARTITION = click.option(
    "--partition", default="", metavar="ADDRESS", help="host:port or unix:PATH of the bebopd."
)
_FORCE = click.option("-force", "--force", "is_forced", is_flag=True, help="End jobs for it.")


class JobsRunError(YodError):
    """What is to be taken down has jobs."""


@click.group(
    no_args_is_help=False, context_settings={"help_option_names": ["--help", "-help", "-h"]}
)
@click.version_option(**options.VERSION)
def command() -> None:
    """Bring a partition up, look at it, take it down; take nodes out of use, and back.

    Exit status: 0; 1 no partition is up, or a part of it is missing, or it did not come
    up, or you are no operator; 2 wrong usage, or no such node; 3 jobs run; 4 some hosts came
    up, others did not.
    """


@command.command()
@click.option(
    "--local",
    "count",
    type=click.IntRange(1, LOCAL_MAX),
    metavar="N",
    help="Start N nodes on this host, with daemons of their own.",
)
@click.option("--ssh", "nodes", metavar="NODES", help="Start a node on each of n[1-8],gpu1.")
@click.option("--hosts", "host_file", metavar="FILE", help="The same, on the hosts of a file.")
@click.option(
    "--ssh-command",
    envvar="YOD_SSH",
    default="ssh",
    metavar="COMMAND",
    help="ssh with options, as `ssh -F FILE`; default: YOD_SSH, else ssh.",
)
@click.option("--address", default="", metavar="HOST", help="Where those hosts reach this one.")
@click.option("--ship", "ships", is_flag=True, help="Send yod to those hosts that lack it.")
@click.option(
    "--slots",
    type=click.IntRange(1, SLOTS_MAX),
    metavar="K",
    help="Ranks that each node takes at a time; default: 1, without --local any number.",
)
@click.option(
    "--base-port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="TCP port of the bebopd, those of the nodes follow; default: any free ones.",
)
@click.option("-D", "--debug", is_flag=True, help="Let the daemons log more.")
def up(
    count: int | None,
    nodes: str | None,
    host_file: str | None,
    ssh_command: str,
    address: str,
    ships: bool,
    slots: int | None,
    base_port: int,
    debug: bool,
) -> None:
    """Make launches on this host warm; with --local or --ssh start a bebopd and PCTs as well."""
    limits.load(os.environ)  # what is wrong with them is better said here
    given = {"--local": count, "--ssh": nodes, "--hosts": host_file}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)}: a partition has one or the other")
    if nodes is not None or host_file is not None:
        hosts = bringing.wished_hosts(nodes, host_file)
        bringing.of_hosts(hosts, ssh_command, address, slots or 0, base_port, debug, ships)
        return
    if address or ships:
        raise UsageError(f"{'--address' if address else '--ship'} is for --ssh and --hosts")
    if count is not None:
        bringing.of_this_host(count, slots or 1, base_port, debug)
        return
    if base_port or debug:
        raise UsageError(f"{'--base-port' if base_port else '-D'} is for --local and --ssh")
    from partition.find import batch

    if (job := batch.job(os.environ)) is not None and job.needs_pcts:
        bringing.of_job(job)
        return
    bringing.warm(slots)


@command.command("end-pcts", hidden=True)
@click.argument("tag")
def end_pcts(tag: str) -> None:
    """On a host of another yodctl: end the pcts that it has started here."""
    from partition.up import tagged

    ended, killed = tagged.end(tag, local.END_S)
    click.echo(f"ended {ended}, killed {killed}")


@command.command(hidden=True)
def spread() -> None:
    """On a host of another yodctl: reach further hosts."""
    from partition.hosts.ssh import relay

    relay.main()


@command.command()
def status() -> None:
    """Show whether launches are warm, whether a partition is up, and its totals."""
    warmth = warm.look(os.environ)
    if warmth.reason:
        click.echo(f"launches on this host are cold: {warmth.reason}")
    else:
        click.echo(f"launches on this host are warm: process {warmth.unix_pid} runs them")
    found = state.load_any()
    if found is None or local.is_stale(found):
        gone = " (its daemons are gone; `yodctl up` cleans up)" if found is not None else ""
        chosen = bringing.chosen_otherwise(None)
        click.echo(f"no partition is up{gone}" + (chosen and f"; {chosen}, which pingd shows"))
        sys.exit(FAILED if warmth.reason or gone else 0)
    alive = [processes.is_alive(daemon) for daemon in found.daemons]
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.began))
    click.echo(f"partition {found.name}, since {since}")
    click.echo(f"  address    {bringing.address_of(found)}")
    if found.unix_address:
        click.echo(f"             {found.address}")
    click.echo(f"  key file   {found.key_file}")
    click.echo(f"  logs       {os.path.dirname(found.daemons[0].log)}")
    click.echo(f"  bebopd     process {found.daemons[0].unix_pid}{'' if alive[0] else ', gone'}")
    if found.is_of_job:
        click.echo(
            f"  starter    process {found.daemons[1].unix_pid}{'' if alive[1] else ', gone'}"
        )
        click.echo(f"  until      the end of {found.name}, or `yodctl down`")
    elif found.tag:
        click.echo(f"  ssh        {found.ssh}")
    else:
        click.echo(f"  pcts       {sum(alive[1:])} of {len(alive) - 1} alive")
    if not alive[0]:
        by_ssh = "`yodctl up --ssh` starts it again, " if found.started else ""
        again = by_ssh or local.way_back(found, ", ")
        raise PartitionError(f"bebopd is gone; {again}`yodctl down` clears what is left")
    rows = _rows(found)
    out = why.out_of_use(rows, time.time(), why.stale_s(limits.load(os.environ), len(rows)))
    for line in (*show.totals(rows), *out):
        click.echo(line)
    if running := _running(rows):
        click.echo(f"`yodctl down --force` would end {running}")
    if chosen := bringing.chosen_otherwise(found):
        click.echo(chosen)
    if not all(alive):
        again = local.way_back(found)
        gone = ", ".join(map(str, local.dead(found)))
        raise PartitionError(f"gone: {gone}{again and f'; {again}'}")
    if found.tag and not found.is_of_job:
        from partition.hosts import told

        click.echo(told.hosts_up(found, rows))
        if lines := told.hosts_missing(found, rows):
            raise PartitionError("\n".join(lines))


@command.command()
@_FORCE
def down(is_forced: bool) -> None:
    """End the launch server and every daemon of the partition; with -force jobs as well."""
    lost = _jobs()
    if lost and not is_forced:
        raise JobsRunError(f"{lost} would end: to end jobs say `yodctl down --force`")
    ended_pid = warm_server.down(os.environ)
    if ended_pid is not None:
        click.echo(f"ended the launch server (process {ended_pid})")
    left: dict[str, str] = {}
    result = local.down(os.environ, lambda found: bringing.end_hosts(found, left))
    if result is None:
        if ended_pid is None:
            click.echo("nothing is up")
        return
    found, ended, killed = result
    gone = len(found.daemons) - ended
    notes = [f"{killed} had to be killed" if killed else "", f"{gone} were gone" if gone else ""]
    said = ", ".join(filter(None, notes))
    click.echo(f"ended {ended} daemons of {len(found.daemons)}" + (f" ({said})" if said else ""))
    if lost:
        click.echo(f"ended with it: {lost}")
    if found.is_of_job:
        click.echo(f"the hosts stay those of {found.name}: the next yod there starts pcts again")
    if found.started:
        from partition.hosts import told

        click.echo(told.hosts_ended(found, left))
        if left:
            raise PartitionError("\n".join(told.hosts_left(left)))


@command.command()
@click.option("-reason", "--reason", metavar="TEXT", help="Why; others see it in pingd.")
@_PARTITION
@_NODES
def drain(lists: tuple[str, ...], reason: str | None, partition: str) -> None:
    """Give nodes to no job from now on, for a reason; the jobs that are there go on."""
    nodes = order.nodes_of(lists)
    _order(wire.Drain(nodes, order.reason_of(reason)), partition)


@command.command()
@_PARTITION
@_NODES
def resume(lists: tuple[str, ...], partition: str) -> None:
    """Give nodes to jobs again."""
    _order(wire.Resume(order.nodes_of(lists)), partition)


@command.command()
@_FORCE
@_PARTITION
@_NODES
def restart(lists: tuple[str, ...], is_forced: bool, partition: str) -> None:
    """Restart the PCTs of nodes when their jobs have ended; with -force at once."""
    _order(wire.Restart(order.nodes_of(lists), is_forced), partition)


@command.command()
@click.option("-user", "--user", required=True, metavar="U,U", help="Users: names or uids.")
@click.option("-reason", "--reason", default="", metavar="TEXT", help="Why; others see it.")
@click.option("-start", "--start", default="", metavar="TIME", help="From then on, not now.")
@click.option("-duration", "--duration", "lasts", default="", metavar="T", help="For so long.")
@_PARTITION
@_NODES
def reserve(lists: tuple[str, ...], partition: str, user: str, reason: str, **times: str) -> None:
    """Give nodes to jobs of some users only, from now on or for a time."""
    from partition.commands import ordering

    lines = ordering.reserve(order.nodes_of(lists), user, reason, partition, **times)
    click.echo("\n".join(lines))


@command.command()
@click.argument("portion", type=click.Choice([each.value for each in Portion]))
@_PARTITION
@_NODES
def dedicate(portion: str, lists: tuple[str, ...], partition: str) -> None:
    """Give nodes to batch jobs only, to interactive ones only, or to any."""
    _order(wire.Dedicate(order.nodes_of(lists), Portion(portion)), partition)


@command.command()
@_PARTITION
@_NODES
def unreserve(lists: tuple[str, ...], partition: str) -> None:
    """Give nodes to jobs of all users again."""
    _order(wire.Unreserve(order.nodes_of(lists)), partition)


@command.command()
@click.option(
    "-count",
    "-n",
    "count",
    type=click.IntRange(1, wire.HISTORY_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help="The last N.",
)
@_PARTITION
@click.option("--json", "is_json", is_flag=True, help="For programs.")
@click.argument("lists", nargs=-1, metavar="{LIST...}")
def events(lists: tuple[str, ...], count: int, is_json: bool, partition: str) -> None:
    """Show what has happened to nodes, the oldest first; without a LIST to all of them."""
    from partition.find import discover
    from partition.status import node_events, reached

    asked = wire.AskNodeEvents(order.nodes_of(lists), count)
    where = discover.find(partition, os.environ)
    found = reached.events(where, limits.load(os.environ), asked)
    click.echo(node_events.text(found, is_json), nl=False)


@command.command("key")
@click.argument("user")
@click.option(
    "--key-file", metavar="FILE", help="The partition's key; default: that of `up`, /etc/yod/key."
)
def user_key(user: str, key_file: str | None) -> None:
    """Print the key of USER (a name or a uid) for the partition.

    The user keeps it in ~/.config/yod/key, with mode 0600, or names another file in YOD_KEY_FILE.
    With it yod reaches the partition at host:port; it proves this one user's identity.
    """
    from partition.commands import keys

    click.echo(keys.user_key(user, key_file), nl=False)


@command.command("limits")
def show_limits() -> None:
    """Print every limit: its value, what sets it, what it means."""
    in_force = limits.load(os.environ)
    for name, meaning in limits.MEANINGS.items():
        value = getattr(in_force, name)
        text = f"{value:g}" if isinstance(value, float) else str(value)
        click.echo(f"{name:<24} {text:>10}  {limits.variable(name):<28}  {meaning}")


@command.command()
@click.argument("daemon", type=click.Choice(["bebopd", "pct"]), metavar="bebopd|pct")
def unit(daemon: str) -> None:
    """Print a unit of systemd for a daemon, as /etc/systemd/system/bebopd.service."""
    from native.host import programs
    from partition.up import units

    click.echo(units.unit(daemon, programs.command_line(daemon)[0]), nl=False)


@command.command()
@_PARTITION
@click.option("--config", "config_file", metavar="FILE", help="Check this yod.conf, nothing else.")
@click.option("--nodes", "is_deep", is_flag=True, help="Have a rank on each node look at it.")
def doctor(partition: str, config_file: str | None, is_deep: bool) -> None:
    """Say what on this host, or of its partition, stands in the way of jobs, and what to do."""
    from partition.doctor import finding, host
    from partition.doctor import partition as of_partition

    path = config_file or config.PATH
    if config_file or os.path.exists(path):
        found = config.read(path)
        for daemon, module in (("bebopd", "allocator.command.cli"), ("pct", "pct.command.cli")):
            found.defaults(daemon, import_module(module).command.params)
        click.echo(f"{shown(path)}: nothing is wrong")
    if config_file:
        return
    findings = [*host.findings(os.environ)]
    try:
        in_force = limits.load(os.environ)
    except UsageError:  # it is among the findings
        pass
    else:
        findings += of_partition.findings(partition, os.environ, in_force, is_deep=is_deep)
    click.echo("\n".join(finding.lines(findings)))
    if finding.has_problem(findings):
        sys.exit(FAILED)


@command.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print a script that completes options, subcommands and ids for a shell."""
    from partition.completion import words

    script = import_module(f"partition.completion.{shell}").script
    click.echo(script(words.lines()), nl=False)


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
    except JobsRunError as error:
        status = _fail(str(error), JOBS_RUN)
    except bringing.PartUpError as error:
        status = _fail(str(error), PART_UP)
    except YodError as error:
        status = _fail(str(error), FAILED)
    except OSError as error:
        status = _fail(stdio.blame(error), FAILED)
    sys.exit(stdio.ended("yodctl", status, FAILED))


def _rows(found: State) -> list[NodeRow]:
    from partition.find import discover
    from partition.status import reached

    where = discover.find(bringing.address_of(found), {"YOD_KEY_FILE": found.key_file})
    return show.merge(reached.rows(where, limits.load(os.environ)))


def _running(rows: list[NodeRow]) -> str:
    """The jobs on these nodes; empty: none."""
    from partition import running

    return running.listed({str(job.job_id): job.owner for row in rows for job in row.jobs})


def _jobs() -> str:
    """The jobs that would be lost with partition and launch server; empty: none."""
    from partition import running

    server_pid = warm_server.running(os.environ)
    return running.jobs(state.load_any(), server_pid, limits.load(os.environ))


def _order(given: wire.Order, partition: str) -> None:
    """Give an order to the partition that pingd shows, and say what comes of it."""
    from partition.commands import ordering

    click.echo("\n".join(ordering.give(given, partition)))


def _fail(text: str, exit_status: int) -> int:
    stdio.say(f"yodctl: {text}")
    return exit_status


if __name__ == "__main__":
    main()
