"""The command pingd: which node is doing what; requests on jobs and nodes."""

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
from native.waitstatus import WRONG_USAGE
from native.wire.status import NodeRow, NodeState
from partition.status import show, why

UNREACHABLE = 1  # exit status: no partition, or it does not answer

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
@click.option("-pbsjob", "batch_job", metavar="N", help="Only jobs of this batch job.")
@click.option("-mine", "is_mine", is_flag=True, help="Only jobs of yours.")
@click.option("-all", "is_all", is_flag=True, help="All nodes; the default.")
@click.option(
    "--partition", default="", metavar="ADDRESS", help="host:port or unix:PATH of the bebopd."
)
@click.option("-interrupt", "is_interrupt", is_flag=True, help="Send SIGTERM to these jobs.")
@click.option("-nicekill", "is_nicekill", is_flag=True, help="The same, and SIGKILL 300 s later.")
@click.option("-reset", "is_reset", is_flag=True, help="Kill these jobs; free their nodes.")
@click.option("-kill", "is_kill", is_flag=True, help="Kill the pcts of these nodes, and all jobs.")
@click.option("-NoInquire", "is_sure", is_flag=True, help="Do not ask whether that is meant.")
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
    batch_job: str | None,
    is_mine: bool,
    is_all: bool,
    partition: str,
    is_interrupt: bool,
    is_nicekill: bool,
    is_reset: bool,
    is_kill: bool,
    is_sure: bool,
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
    text = nodes if nodes is not None else listed
    asked = {
        "-interrupt": is_interrupt,
        "-nicekill": is_nicekill,
        "-reset": is_reset,
        "-kill": is_kill,
        "-reserve": reserve is not None,
        "-unreserve": is_unreserved,
    }
    if requests := [name for name, is_given in asked.items() if is_given]:
        if requests[1:] or is_parsed or is_json or is_summary or is_watched or web is not None:
            raise UsageError(f"{requests[0]} is a request: one at a time, and nothing is shown")
        if reason is not None and reserve is None:
            raise UsageError("-reason goes with -reserve")
        chosen = text, job_id, batch_job, _owner(is_mine), is_all
        _print(_request(requests[0], chosen, reserve, reason, is_sure, partition))
        return
    if reason is not None:
        raise UsageError("-reason goes with -reserve")
    if is_parsed + is_json + is_summary > 1:
        raise UsageError("-parse, --json and -summary exclude each other")
    if web is not None:
        others = (is_parsed, is_json, is_summary, is_watched, is_mine, job_id, batch_job, listed)
        if any(others) or (web and nodes):
            raise UsageError("--web shows everything: only --partition goes with it")
        _serve(web or nodes or "", partition)
        return
    wanted = nodelist.parse(text) if text is not None else None
    in_force = limits.load(os.environ)
    if is_watched:
        if is_parsed or is_json or is_summary:
            raise UsageError("--watch excludes -parse, --json and -summary")
        _watch(partition, in_force, wanted, job_id, batch_job, is_mine)
        return
    gc.disable()  # many objects, of which none is garbage before the end
    rows = show.merge(_ask(partition, in_force))
    if wanted is not None and (unknown := set(wanted) - {row.node for row in rows}):
        raise UsageError(f"no node {nodelist.format_nodes(sorted(unknown))} in this partition")
    if job_id is not None and not show.select(rows, job_id=job_id):
        raise UsageError(f"no job {job_id} in this partition; it has ended, or was of another one")
    owner = _owner(is_mine)
    stale_s = why.stale_s(in_force, len(rows))
    rows = show.select(rows, nodes=wanted, job_id=job_id, owner=owner, batch_job=batch_job)
    if is_parsed:
        _print(show.parse_lines(rows))
        return
    if is_json:
        from msgspec import json

        records = show.records(rows, time.time(), stale_s)
        _print([json.format(json.encode(records), indent=1).decode()])
        return
    if not is_summary:
        _print_table(rows)
        _print(why.lines(rows, time.time(), stale_s))
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
        from partition.status.query import OrderRefused

        status = _fail(str(error), UNREACHABLE)
        if not isinstance(error, OrderRefused):
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


def _request(
    name: str,
    chosen: tuple[str | None, int | None, str | None, str | None, bool],
    user: str | None,
    reason: str | None,
    is_sure: bool,
    partition: str,
) -> list[str]:
    """Make a request; lines that say what comes of it."""
    from native.wire.nodes import Ending
    from partition.commands import requests

    of = requests.Chosen(*chosen)

    def rows() -> list[NodeRow]:
        return show.merge(_ask(partition, limits.load(os.environ)))

    if name in ("-reserve", "-unreserve"):
        return requests.reserve(user, reason, of, partition, rows)
    if name == "-kill":
        return requests.kill_pcts(of, not is_sure, partition, rows)
    return requests.end(Ending(name[1:]), of, not is_sure, partition)


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
    batch_job: str | None,
    is_mine: bool,
) -> None:
    from partition.find import discover
    from partition.status import screen

    nodes = None if wanted is None else frozenset(wanted)
    owner = _owner(is_mine)
    chosen = partial(show.select, nodes=nodes, job_id=job_id, owner=owner, batch_job=batch_job)
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
