"""The command yod-pilot: sessions, their pilots and tasks; a task for each line of a file."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import click
from msgspec import json

from native import options
from native.errors import UsageError, YodError
from native.host import stdio
from native.waitstatus import FAILED, SIGNAL_BASE, WRONG_USAGE

if TYPE_CHECKING:
    from yod.pilot.client.asking import Seen
    from yod.pilot.wire.messages import Over

_HELP = {"help_option_names": ["--help", "-help", "-h"]}


@click.group(no_args_is_help=False, context_settings=_HELP)
@click.version_option(**options.VERSION)
def command() -> None:
    """Look at sessions of yod.pilot below the present directory; run a task for each line.

    Exit status: 0; 1 there is no such session or task, or a task of `map` has failed;
    2 wrong usage.
    """


@command.command("list")
@click.argument("sessions", nargs=-1)
@click.option("--failed", is_flag=True, help="The tasks that have failed, and why.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def show_list(sessions: tuple[str, ...], failed: bool, as_json: bool) -> None:
    """Sessions, with how many tasks are in each state."""
    seen = _seen(sessions)
    if not seen:
        stdio.say(f"yod-pilot: there is no session in {os.getcwd()}")
    if failed:
        rows = [(each.uid, over) for each in seen for over in each.failed()]
        if as_json:
            _print_json([{"session": uid, **_of_over(over)} for uid, over in rows])
            return
        for uid, over in rows:
            last = (over.stderr.strip().splitlines() or [""])[-1]
            click.echo("  ".join(filter(None, (uid, over.uid, over.reason, last))))
        return
    if as_json:
        _print_json([_of_seen(each) for each in seen])
        return
    for each in seen:
        counts = ", ".join(f"{n} {state}" for state, n in sorted(each.counts.items()))
        pilots = ", ".join(f"{uid} {state}" for uid, (state, _) in each.pilots.items())
        click.echo(f"{each.uid}  {pilots or 'no pilots'}; {counts or 'no tasks'}")


@command.command("show")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def show_one(session: str, as_json: bool) -> None:
    """The pilots and tasks of a session."""
    (seen,) = _seen((session,))
    if as_json:
        tasks = [
            {"uid": uid, "state": state, "pilot": seen.given.get(uid, "")}
            | (_of_over(seen.over[uid]) if uid in seen.over else {})
            for uid, state in seen.tasks.items()
        ]
        _print_json({**_of_seen(seen), "all": tasks})
        return
    for uid, (state, reason) in seen.pilots.items():
        click.echo("  ".join(filter(None, (uid, state, reason))))
    for uid, state in seen.tasks.items():
        over = seen.over.get(uid)
        words = (uid, state, over.reason) if over else (uid, state, seen.given.get(uid, ""))
        click.echo("  ".join(filter(None, words)))


@command.command("why")
@click.argument("task")
@click.argument("session", required=False)
def why(task: str, session: str | None) -> None:
    """Why a task stands where it does, in a sentence."""
    every = [each for each in _seen((session,) if session else ()) if task in each.tasks]
    if not every:
        raise YodError(f"there is no task {task} in the sessions here")
    for each in every:
        where = f"{each.uid}: " if len(every) > 1 else ""
        reason = each.why(task)
        click.echo(f"{where}{task} is {each.tasks[task]}{reason and f': {reason}'}")


@command.command("map", context_settings={"allow_interspersed_args": False})
@click.option("-cores", type=click.IntRange(min=1), help="Cores of the pilot.", metavar="N")
@click.option("--resource", default="local.localhost", help="Where the pilot is.", metavar="NAME")
@click.option("-runtime", type=float, default=1440.0, help="Minutes, at most.", metavar="M")
@click.option("--session", help="Its name; one that is there goes on.", metavar="NAME")
@click.option("--output", type=click.File("wb"), help="All output, in order.", metavar="FILE")
@click.option("-quiet", is_flag=True, help="No words but errors.")
@click.argument("file", type=click.File("r"))
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def map_lines(
    cores: int | None,
    resource: str,
    runtime: float,
    session: str | None,
    output: object,
    quiet: bool,
    file: object,
    words: tuple[str, ...],
) -> None:
    """Run COMMAND once for each line of FILE; `{}` in it is the line, else it is the last word.

    Only tasks that have not succeeded run when a session goes on.
    """
    from yod.pilot.client.mapping import run

    lines = [line.rstrip("\n") for line in file]  # type: ignore[attr-defined]
    said = None if quiet else sys.stderr
    failed = run(lines, list(words), cores, resource, runtime, session, output, said)
    sys.exit(FAILED if failed else 0)


@command.command("plot")
@click.argument("sessions", nargs=-1)
@click.option("--output", help="The file; .png, .svg and .pdf are known.", metavar="FILE")
@click.option("--web", is_flag=True, help="A page for browsers, in one file.")
@click.option("--trace", is_flag=True, help="A trace for ui.perfetto.dev.")
@click.option("--json", "as_json", is_flag=True, help="The sums, to standard output.")
@click.option("--radical", is_flag=True, help="The files that RADICAL-Analytics wants, too.")
def plot(
    sessions: tuple[str, ...],
    output: str | None,
    web: bool,
    trace: bool,
    as_json: bool,
    radical: bool,
) -> None:
    """Draw where the time of sessions went, each for itself."""
    if web + trace + as_json + radical > 1:
        raise UsageError("plot: one of --web, --trace, --json and --radical at a time")
    if output and (as_json or radical):
        raise UsageError("plot: --output names one picture; --json and --radical make none")
    paths = list(sessions) or [os.path.relpath(each) for each in _below()]
    if not paths:
        raise YodError(f"there is no session in {os.getcwd()}")
    if len(paths) > 1 and (output or as_json):
        raise UsageError(f"plot: --output and --json are for one session, not for {len(paths)}")
    if as_json:
        from yod.pilot.plot import pictures

        _print_json(pictures.sums(paths[0]))
        return
    for path in paths:
        _draw(path, output, web, trace, radical)


def _draw(session: str, output: str | None, web: bool, trace: bool, radical: bool) -> None:
    if radical:
        from yod.pilot.plot.radical import write

        click.echo("\n".join(write(session)))
        return
    from yod.pilot.plot import pictures

    what = pictures.PAGE if web else pictures.TRACE if trace else pictures.FIGURE
    drawn = pictures.draw(session, what, output)
    click.echo(drawn.path)
    for text in drawn.wrong:
        stdio.say(f"yod-pilot: {text}")


def _below() -> list[str]:
    from yod.pilot.client.asking import sessions_below

    return sessions_below(os.getcwd())


def _seen(sessions: tuple[str, ...]) -> list[Seen]:
    from yod.pilot.client.asking import Seen

    return [Seen(path) for path in [os.path.abspath(each) for each in sessions] or _below()]


def _of_seen(seen: Seen) -> dict[str, object]:
    pilots = [{"uid": u, "state": s, "reason": why} for u, (s, why) in seen.pilots.items()]
    return {"session": seen.uid, "path": seen.path, "pilots": pilots, "tasks": dict(seen.counts)}


def _of_over(over: Over) -> dict[str, object]:
    return {
        "uid": over.uid,
        "state": over.state,
        "exit_code": over.exit_code,
        "reason": over.reason,
        "stderr": over.stderr,
    }


def _print_json(what: object) -> None:
    click.echo(json.encode(what).decode())


def main() -> None:
    """Entry point."""
    stdio.open_closed()
    status = 0
    try:
        command.main(prog_name="yod-pilot", standalone_mode=False)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else FAILED
    except UsageError as error:
        status = _fail(str(error), WRONG_USAGE)
    except click.ClickException as error:
        status = _fail(error.format_message(), WRONG_USAGE)
    except (click.Abort, KeyboardInterrupt):
        status = SIGNAL_BASE + signal.SIGINT
    except YodError as error:
        status = _fail(str(error), FAILED)
    except OSError as error:
        status = _fail(stdio.blame(error), FAILED)
    sys.exit(stdio.ended("yod-pilot", status, FAILED))


def _fail(text: str, exit_status: int) -> int:
    stdio.say(f"yod-pilot: {text}")
    return exit_status


if __name__ == "__main__":
    main()
