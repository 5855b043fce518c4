"""The command pingd: which node is doing what."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import partial

import click

from native import limits, nodelist, options
from native.errors import PartitionError, UsageError, YodError
from native.host import stdio, userdirs
from native.limits import Limits
from native.wire.status import NodeRow, NodeState
from partition.status import show, why

UNREACHABLE = 1  # exit status: no partition, or it does not answer
WRONG_USAGE = 2

_COLOURS = {  # of a terminal, by state
    NodeState.BUSY: 32,
    NodeState.PENDING: 33,
    NodeState.DOWN: 31,
    NodeState.DRAINING: 35,
    NodeState.DRAINED: 35,
    NodeState.TROUBLE: 31,
}

_ADVICE = (
    "pingd: try `yodctl status`, start a partition with `yodctl up --local N`,"
    " or name one with --partition ADDRESS"
)


@click.command(context_settings={"help_option_names": ["-help"], "allow_interspersed_args": False})
@click.option("-parse", "is_parsed", is_flag=True, help="Print colon-separated columns.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.option("-summary", "is_summary", is_flag=True, help="Print totals only.")
@click.option("-list", "-l", "listed", metavar="LIST", help="Only these nodes, as in 5,1..3.")
@click.option("-job", "job_id", type=click.IntRange(min=1), metavar="N", help="Only this job.")
@click.option("-mine", "is_mine", is_flag=True, help="Only jobs of yours.")
@click.option("-all", "is_all", is_flag=True, help="All nodes; the default.")
@click.option(
    "--partition", default="", metavar="ADDRESS", help="host:port or unix:PATH of the bebopd."
)
@click.option("-reserve", "reserve", metavar="USER", help="Reserve these nodes for USER.")
@click.option("-unreserve", "is_unreserved", is_flag=True, help="Give them to all users again.")
@click.option("-reason", "reason", metavar="TEXT", help="With -reserve: why.")
@click.option("--web", metavar="[ADDRESS]", help="Serve a page for browsers, at HOST:PORT.")
@click.option("--watch", "is_watched", is_flag=True, help="Show the table as it changes.")
@click.argument("nodes", required=False, metavar="[LIST]")
@click.version_option(**options.VERSION)
def command(
    is_parsed: bool,
    is_json: bool,
    is_summary: bool,
    listed: str | None,
    job_id: int | None,
    is_mine: bool,
    is_all: bool,
    partition: str,
    reserve: str | None,
    is_unreserved: bool,
    reason: str | None,
    web: str | None,
    is_watched: bool,
    nodes: str | None,
) -> None:
    """Show the nodes of the partition and what they are doing.

    With several conditions, only nodes and jobs that meet all of them are shown. An
    option's name may be shortened to four letters or more, and -l is -list.

    Exit status: 0; 1 the partition is not there or does not answer; 2 wrong usage.
    """
    if nodes is not None and listed is not None:
        raise UsageError("one node list at a time")
    if reserve is not None or is_unreserved or reason is not None:
        has_more = is_parsed or is_json or is_summary or is_watched or is_mine or job_id or web
        if has_more or (reserve is not None) is is_unreserved or (reason and is_unreserved):
            raise UsageError("-reserve USER {-reason TEXT} or -unreserve, with a node list alone")
        _reserve(nodes if nodes is not None else listed, is_all, reserve, reason or "", partition)
        return
    if is_parsed + is_json + is_summary > 1:
        raise UsageError("-parse, --json and -summary exclude each other")
    if web is not None:
        chosen = (is_parsed, is_json, is_summary, is_watched, is_mine, job_id, listed)
        if any(chosen) or (web and nodes):
            raise UsageError("--web shows everything: only --partition goes with it")
        _serve(web or nodes or "", partition)
        return
    text = nodes if nodes is not None else listed
    wanted = nodelist.parse(text) if text is not None else None
    in_force = limits.load(os.environ)
    if is_watched:
        if is_parsed or is_json or is_summary:
            raise UsageError("--watch excludes -parse, --json and -summary")
        _watch(partition, in_force, wanted, job_id, is_mine)
        return
    gc.disable()  # many objects, of which none is garbage before the end
    rows = show.merge(_ask(partition, in_force))
    if wanted is not None and (unknown := set(wanted) - {row.node for row in rows}):
        raise UsageError(f"no node {nodelist.format_nodes(sorted(unknown))} in this partition")
    if job_id is not None and not show.select(rows, job_id=job_id):
        raise UsageError(f"no job {job_id} in this partition; it has ended, or was of another one")
    rows = show.select(rows, nodes=wanted, job_id=job_id, owner=_owner(is_mine))
    if is_parsed:
        _print(show.parse_lines(rows))
        return
    if is_json:
        from msgspec import json

        records = show.records(rows, time.time(), why.stale_s(in_force))
        _print([json.format(json.encode(records), indent=1).decode()])
        return
    if not is_summary:
        _print_table(rows)
        _print(why.lines(rows, time.time(), why.stale_s(in_force)))
    _print(show.totals(rows))


def main() -> None:
    """Entry point."""
    stdio.open_closed()
    status = 0
    try:
        arguments = options.expand(sys.argv[1:], [*options.of_click(command.params), _HELP, _WEB])
        command.main(arguments, prog_name="pingd", standalone_mode=False)
    except UsageError as error:
        status = _fail(str(error), WRONG_USAGE)
    except click.UsageError as error:
        status = _fail(error.format_message(), WRONG_USAGE)
    except PartitionError as error:
        status = _fail(str(error), UNREACHABLE)
        stdio.say(_ADVICE)
    except YodError as error:
        status = _fail(str(error), UNREACHABLE)
    except (BrokenPipeError, KeyboardInterrupt):  # nobody reads any more
        status = UNREACHABLE
    except OSError as error:
        status = _fail(stdio.blame(error), UNREACHABLE)
    sys.exit(stdio.ended("pingd", status, UNREACHABLE))


_HELP = options.Option(("-help",))
_WEB = options.Option(("--web",), takes_value=True, may_lack_value=True)


def _reserve(
    listed: str | None, is_all: bool, user: str | None, reason: str, partition: str
) -> None:
    """Reserve nodes for a user, or give them to all users again."""
    from native.wire.nodes import Unreserve
    from partition.commands import ordering

    if listed is None and not is_all:
        raise UsageError("which nodes? -list LIST, or -all")
    if listed is not None:
        numbers = nodelist.parse(listed)
    else:
        numbers = tuple(row.node for row in show.merge(_ask(partition, limits.load(os.environ))))
    if user is not None:
        _print(ordering.reserve(numbers, user, reason, partition))
    else:
        _print(ordering.give(Unreserve(numbers), partition))


def _serve(web: str, partition: str) -> None:
    from partition.find import discover
    from partition.web import address, serve

    at = address.parse(web)
    where = discover.find(partition, os.environ)
    serve.serve(where, limits.load(os.environ), at, lambda url: _print([f"pingd: open {url}"]))


def _watch(
    partition: str,
    in_force: Limits,
    wanted: tuple[int, ...] | None,
    job_id: int | None,
    is_mine: bool,
) -> None:
    from partition.find import discover
    from partition.status import screen

    nodes = None if wanted is None else frozenset(wanted)
    chosen = partial(show.select, nodes=nodes, job_id=job_id, owner=_owner(is_mine))
    screen.watch(discover.find(partition, os.environ), in_force, chosen)


def _owner(is_mine: bool) -> str | None:
    return userdirs.user_name(os.getuid()) if is_mine else None


def _ask(partition: str, in_force: Limits) -> list[NodeRow]:
    from partition.find import discover
    from partition.status import reached

    return reached.rows(discover.find(partition, os.environ), in_force)


def _print_table(rows: Sequence[NodeRow]) -> None:
    head, *lines = show.plain(rows)
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or "NO_COLOR" in os.environ:
        _print([head, *lines])
        return
    colours = [_COLOURS.get(row.state, 0) for row in rows]
    styled = (f"\x1b[{n}m{line}\x1b[0m" for n, line in zip(colours, lines, strict=True))
    _print([f"\x1b[1m{head}\x1b[0m", *styled])


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))
    sys.stdout.flush()


def _fail(text: str, status: int) -> int:
    stdio.say(f"pingd: {text}")
    return status
