"""The command yodjob: jobs by their ids."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from math import inf

import click
from msgspec import json

from native import duration, limits, nodelist, options
from native.errors import UsageError, YodError
from native.host import process, stdio, userdirs
from native.text import shown
from native.waitstatus import SIGNAL_BASE
from native.wire import job
from native.wire.base import SIZE_MAX
from partition.jobs import show
from partition.jobs.ask import Answer, ask, ask_all
from yod.plan.shape import made, spec_of

FAILED = 1
WRONG_USAGE = 2
UNKNOWN_STATUS = 125  # of `wait`: the job's status cannot be had
SIGNAL_MAX = 64

_IDS = click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
_JSON = click.option("--json", "is_json", is_flag=True, help="For programs.")

_user_name = cache(userdirs.user_name)


@click.group(
    no_args_is_help=False, context_settings={"help_option_names": ["--help", "-help", "-h"]}
)
@click.version_option(**options.VERSION)
def command() -> None:
    """Hold slots for a command; look at jobs, signal them, end them, wait for them.

    Jobs are found by their ids. They are yours, and their yod runs on this host: local.N is
    one that yod runs on this host alone, a number is the id that the partition gave, and
    17.3 is step 3 of allocation 17.

    Exit status: 0; 1 a job is not there, does not answer or refuses; 2 wrong usage. That
    of `alloc` is the command's, that of `wait` the job's.
    """


@command.command(context_settings={"allow_interspersed_args": False})
@click.option("-sz", "-n", "size", type=click.IntRange(1, SIZE_MAX), metavar="N", help="Slots.")
@click.option("-list", "nodes", metavar="L", help="Only of these nodes: 5,1..3.")
@click.option("-N", "-nodes", "node_count", type=int, metavar="N", help="On so many nodes.")
@click.option("--ranks-per-node", "per_node", type=int, metavar="K", help="At most so many there.")
@click.option("--cores-per-rank", "cores", type=int, metavar="C", help="So many slots for one.")
@click.option("--exclusive", "is_exclusive", is_flag=True, help="All slots of unused nodes.")
@click.option("-time", "time_text", metavar="T", help="For so long: minutes, or h:mm:ss.")
@click.option("-wait", "wait_s", type=click.FloatRange(0), metavar="S", help="For nodes, at most.")
@click.option("--partition", default="", metavar="ADDRESS", help="host:port, unix:PATH, embedded.")
@click.option("-quiet", "is_quiet", is_flag=True, help="No status messages.")
@click.option("--json", "is_json", is_flag=True, help="For programs: hold until end of input.")
@click.option("-D", "debug", is_flag=True, help="Show what the allocation's daemons say.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND [ARG]...]")
def alloc(
    size: int | None,
    nodes: str | None,
    node_count: int | None,
    per_node: int | None,
    cores: int | None,
    is_exclusive: bool,
    time_text: str | None,
    wait_s: float | None,
    partition: str,
    is_quiet: bool,
    is_json: bool,
    debug: bool,
    words: tuple[str, ...],
) -> None:
    """Hold slots while COMMAND runs, or a shell: each yod in it is a step.

    The request waits for its turn. Exit status: the command's; 124 the time was over; 125
    there are no nodes, or they were lost; 126, 127 the command cannot be started.
    """
    from partition.broker.driver import hold
    from partition.broker.machine import Wanted

    if is_json and words:
        raise UsageError("--json and a command exclude each other")
    shell = () if is_json else (os.environ.get("SHELL") or "/bin/sh",)
    listed = tuple(nodelist.parse(nodes)) if nodes is not None else None
    spec = spec_of(size, listed, "", made(node_count, per_node, cores, None))
    wanted = Wanted(
        spec,
        words or shell,
        inf if wait_s is None else wait_s,
        inf if time_text is None else duration.parse(time_text, "-time"),
        is_exclusive,
    )
    try:
        status = hold(wanted, os.environ, partition=partition, is_quiet=is_quiet, debug=debug)
    except YodError as error:
        sys.exit(_fail(str(error), error.exit_status))
    sys.exit(status if status >= 0 else process.die(-status))


@command.command("list")
@_JSON
def show_all(is_json: bool) -> None:
    """Show your jobs, a line for each."""
    in_force = limits.load(os.environ)
    answers = list(ask_all(job.Show(), in_force.job_answer_s))
    if is_json:
        _print_json({"jobs": [show.record(answer, _user_name) for answer in answers]})
    else:
        _print(show.table(answers, _user_name))


@command.command("show")
@_JSON
@_IDS
def show_some(job_ids: tuple[str, ...], is_json: bool) -> None:
    """Show all that is known of jobs."""
    answers = _ask(job_ids, job.Show())
    known = [answer for answer in answers if isinstance(answer.reply, job.Shown)]
    if is_json:
        _print_json({"jobs": [show.record(answer, _user_name) for answer in known]})
    else:
        for answer in known:
            assert isinstance(answer.reply, job.Shown)
            _print(show.paragraph(answer.reply, _user_name))
    _demand_done(answers)


@command.command("signal")
@click.argument("signal_name", metavar="SIGNAL")
@_IDS
def send_signal(signal_name: str, job_ids: tuple[str, ...]) -> None:
    """Send SIGNAL, a name or a number, to every rank of jobs."""
    _demand_done(_ask(job_ids, job.Signal(_signal_number(signal_name))))


@command.command()
@_IDS
def cancel(job_ids: tuple[str, ...]) -> None:
    """End jobs as an interrupt of yod does: SIGTERM to all ranks; again: SIGKILL."""
    _demand_done(_ask(job_ids, job.Cancel()))


@command.command()
@_IDS
def wait(job_ids: tuple[str, ...]) -> None:
    """Wait until jobs have ended.

    Exit status: the job's. Of several the first, in the order given, that is not 0. 125:
    a job is not there, or its yod was killed.
    """
    answers = ask(job_ids, job.Wait(), None)
    statuses = []
    for answer in answers:
        if isinstance(answer.reply, job.Ended):
            statuses.append(answer.reply.exit_status)
        else:
            _complain(answer)
            statuses.append(UNKNOWN_STATUS)
    sys.exit(next(filter(None, statuses), 0))


def main() -> None:
    """Entry point."""
    stdio.open_closed()
    status = 0
    try:
        command.main(prog_name="yodjob", standalone_mode=False)
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
    sys.exit(stdio.ended("yodjob", status, FAILED))


def _ask(job_ids: tuple[str, ...], request: job.Request) -> list[Answer]:
    in_force = limits.load(os.environ)
    return ask(job_ids, request, in_force.job_answer_s)


def _demand_done(answers: Sequence[Answer]) -> None:
    """A line for each job that has not done what it was asked; any is a failure."""
    failed = [answer for answer in answers if answer.trouble]
    for answer in failed:
        _complain(answer)
    if failed:
        sys.exit(FAILED)


def _complain(answer: Answer) -> None:
    stdio.say(f"yodjob: {shown(answer.id)}: {shown(answer.trouble)}")


def _signal_number(text: str) -> int:
    """A number, or a name with or without SIG.

    Raises:
        UsageError: no such signal.
    """
    name = text.upper().removeprefix("SIG")
    if name.isdecimal():
        number = int(name)
    else:
        number = getattr(signal.Signals.__members__.get(f"SIG{name}"), "value", 0)
    if not 1 <= number <= SIGNAL_MAX:
        raise UsageError(f"no signal {shown(text)}: a name as USR1, or 1 to {SIGNAL_MAX}")
    return int(number)


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))


def _print_json(value: object) -> None:
    sys.stdout.write(json.format(json.encode(value), indent=1).decode() + "\n")


def _fail(text: str, exit_status: int) -> int:
    stdio.say(f"yodjob: {text}")
    return exit_status


if __name__ == "__main__":
    main()
