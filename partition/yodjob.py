"""The command yodjob: jobs by their ids."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Any

import click
from msgspec import json

from native import duration, limits, nodelist, options
from native.errors import UsageError, YodError
from native.host import process, stdio, userdirs
from native.text import shown
from native.waitstatus import SIGNAL_BASE
from native.wire import job
from native.wire.base import SIZE_MAX
from native.wire.batch import Cancel, SignalScript
from partition.batch import show as batch_show
from partition.batch.attaching import attach as attach_to
from partition.batch.attaching import ended_with
from partition.batch.ids import Asked
from partition.jobs import show
from partition.jobs.ask import Answer, Silent, ask, ask_all
from partition.submit.signals import early, number_of
from yod.plan.shape import made, spec_of

FAILED = 1
WRONG_USAGE = 2
UNKNOWN_STATUS = 125  # of `wait`: the job's status cannot be had

_IDS = click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
_JSON = click.option("--json", "is_json", is_flag=True, help="For programs.")

_SIGNAL = click.option(
    "-signal", "warning", metavar="[B:]SIG@S", help="Before its time is over: to steps; B: to it."
)
_PARTITION = click.option(
    "--partition", default="", metavar="ADDRESS", help="host:port or unix:PATH of the bebopd."
)

_user_name = cache(userdirs.user_name)


@click.group(
    no_args_is_help=False, context_settings={"help_option_names": ["--help", "-help", "-h"]}
)
@click.version_option(**options.VERSION)
def command() -> None:
    """Hold slots for a command; hand scripts in; look at jobs, signal, end, await them.

    Jobs are found by their ids: local.N is one that yod runs on this host alone, a number is
    the id that the partition gave, and 17.3 is step 3 of allocation 17. Batch jobs are found
    from any host, others where their yod runs.

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
@_SIGNAL
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
    warning: str | None,
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
    time_s = None if time_text is None else duration.parse(time_text, "-time")
    listed = tuple(nodelist.parse(nodes)) if nodes is not None else None
    spec = spec_of(size, listed, "", made(node_count, per_node, cores, None))
    wanted = Wanted(
        spec,
        words or shell,
        inf if wait_s is None else wait_s,
        inf if time_s is None else time_s,
        early(warning, time_s),
        is_exclusive,
    )
    try:
        status = hold(wanted, os.environ, partition=partition, is_quiet=is_quiet, debug=debug)
    except YodError as error:
        sys.exit(_fail(str(error), error.exit_status))
    sys.exit(status if status >= 0 else process.die(-status))


@command.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-sz",
    "-n",
    "size",
    type=click.IntRange(1, SIZE_MAX),
    envvar="YODJOB_SZ",
    metavar="N",
    help="Slots.",
)
@click.option("-list", "nodes", metavar="L", help="Only of these nodes: 5,1..3.")
@click.option("-N", "-nodes", "node_count", metavar="N", help="On so many nodes.")
@click.option("--ranks-per-node", "per_node", metavar="K", help="At most so many there.")
@click.option("--cores-per-rank", "cores", metavar="C", help="So many slots for one.")
@click.option(
    "-time",
    "time_text",
    envvar="YODJOB_TIME",
    metavar="T",
    help="For so long: minutes, or h:mm:ss.",
)
@click.option(
    "-o",
    "-output",
    "output",
    envvar="YODJOB_OUTPUT",
    metavar="FILE",
    help="For output; %j is the id.",
)
@click.option(
    "-name", "-J", "name", envvar="YODJOB_NAME", metavar="NAME", help="Default: the script's."
)
@click.option(
    "-directory", "--chdir", "directory", metavar="DIR", help="To run in; default: this one."
)
@click.option(
    "--wrap", "wrap", metavar="COMMAND", help="A command of the shell, instead of a script."
)
@_SIGNAL
@click.option("--wait", "waits", is_flag=True, help="Wait for its end, with its exit status.")
@click.option("-quiet", "is_quiet", is_flag=True, help="Print the id and nothing else.")
@_PARTITION
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT [ARG]...]")
def submit(
    words: tuple[str, ...],
    wrap: str | None,
    waits: bool,
    is_quiet: bool,
    partition: str,
    **given: Any,
) -> None:
    """Hand SCRIPT in: it runs when its slots are free, also when you have gone.

    Lines `#YOD -sz 4` in its head are options; #SBATCH and #PBS lines are read as well.
    Exit status: 0; 1 it is not taken; 2 wrong usage; with --wait the job's.
    """
    from partition.submit import handing

    if bool(words) == (wrap is not None):
        raise UsageError("say either a script or --wrap COMMAND")
    submitted = handing.submit(words, wrap, given, partition, os.environ)
    for line in submitted.warnings:
        stdio.say(f"yodjob: {line}")
    text = f"; it waits: {shown(submitted.text)}" if submitted.text else ""
    job_id = str(submitted.job_id)
    _print([job_id if is_quiet else f"job {job_id} submitted{text}"])
    sys.stdout.flush()
    if waits:
        sys.exit(_status_of([job_id], Asked([job_id], partition, limits.load(os.environ))))


@command.command()
@_PARTITION
@click.argument("job_id", metavar="ID")
def attach(job_id: str, partition: str) -> None:
    """Show the output of a detached job from its beginning, and follow it.

    The first that attaches has the job's input. Ctrl-C interrupts the job as it does yod,
    Ctrl-\\ leaves, and the job goes on. Exit status: the job's; 1 it cannot be attached to.
    """
    status = attach_to(job_id, Asked([job_id], partition, limits.load(os.environ)), os.environ)
    sys.exit(status)


@command.command(hidden=True)
def alone() -> None:
    """Hold the slots of a detached job where no partition is up."""
    from partition.batch.alone import run

    sys.exit(run())


@command.command(hidden=True)
@click.argument("begun", nargs=-1)
def broker(begun: tuple[str, ...]) -> None:
    """Run the batch job that a pct tells of on standard input.

    BEGUN is what yod-script says of the job's script.
    """
    from partition.batch.broker import run

    sys.exit(run(begun))


@command.command("list")
@_PARTITION
@_JSON
def show_all(is_json: bool, partition: str) -> None:
    """Show your jobs on this host and all batch jobs, a line for each."""
    in_force = limits.load(os.environ)
    asked = Asked([], partition, in_force)
    rows = asked.rows()
    if asked.trouble:
        stdio.say(f"yodjob: no batch jobs are shown: {asked.trouble}")
    known = {str(row.job_id) for row in rows}
    answers = [each for each in ask_all(job.Show(), in_force.job_answer_s) if each.id not in known]
    if is_json:
        records = [batch_show.record(row) for row in rows]
        records += [show.record(answer, _user_name) for answer in answers]
        _print_json({"jobs": records})
    else:
        now = time.time()
        lines = [batch_show.cells(row, now) for row in rows]
        _print(show.table(lines + [show.cells(answer, _user_name) for answer in answers]))


@command.command("show")
@click.option("--events", "has_events", is_flag=True, help="What has happened to them.")
@_PARTITION
@_JSON
@_IDS
def show_some(job_ids: tuple[str, ...], is_json: bool, has_events: bool, partition: str) -> None:
    """Show all that is known of jobs."""
    in_force = limits.load(os.environ)
    asked = Asked(job_ids, partition, in_force)
    rows = {str(row.job_id): row for row in asked.rows()}
    _say_trouble(asked)
    others = [job_id for job_id in job_ids if job_id not in rows]
    events = {job_id: asked.events(int(job_id)) for job_id in asked.ids} if has_events else {}
    answers = [
        answer
        for answer in ask(others, job.Show(), in_force.job_answer_s)
        if not (answer.silent is Silent.UNKNOWN and events.get(answer.id))
    ]
    known = [answer for answer in answers if isinstance(answer.reply, job.Shown)]
    if is_json:
        records = [batch_show.record(row) for row in rows.values()]
        records += [show.record(answer, _user_name) for answer in known]
        if has_events:
            told = {job_id: batch_show.event_records(some) for job_id, some in events.items()}
            _print_json({"jobs": records, "events": told})
        else:
            _print_json({"jobs": records})
    else:
        for job_id in dict.fromkeys(job_ids):
            if job_id in rows:
                _print(batch_show.paragraph(rows[job_id]))
            for answer in known:
                if answer.id == job_id and isinstance(answer.reply, job.Shown):
                    _print(show.paragraph(answer.reply, _user_name))
            _print(batch_show.event_lines(events.get(job_id, ())))
    _demand_done(answers)


@command.command()
@click.option(
    "-count",
    "-n",
    "count",
    type=click.IntRange(1, 10000),
    default=20,
    show_default=True,
    metavar="N",
    help="The last N jobs.",
)
@_PARTITION
@_JSON
def history(count: int, is_json: bool, partition: str) -> None:
    """Show the batch jobs that were handed in last, ended or not."""
    rows = Asked([], partition, limits.load(os.environ)).history(count)
    if is_json:
        _print_json({"jobs": [batch_show.record(row) for row in rows]})
    else:
        _print(batch_show.history(rows))


@command.command("signal")
@_PARTITION
@click.argument("signal_name", metavar="SIGNAL")
@_IDS
def send_signal(signal_name: str, job_ids: tuple[str, ...], partition: str) -> None:
    """Send SIGNAL, a name or a number, to every rank of jobs; of batch jobs to the script."""
    number = number_of(signal_name)
    asked = Asked(job_ids, partition, limits.load(os.environ))
    others = asked.order(job_ids, lambda job_id: SignalScript(job_id, number))
    _demand_done(_ask(others, job.Signal(number)), asked)


@command.command()
@_PARTITION
@_IDS
def cancel(job_ids: tuple[str, ...], partition: str) -> None:
    """End jobs as an interrupt of yod does: SIGTERM to all ranks; again: SIGKILL."""
    asked = Asked(job_ids, partition, limits.load(os.environ))
    others = asked.order(job_ids, Cancel)
    _demand_done(_ask(others, job.Cancel()), asked)


@command.command()
@_PARTITION
@_IDS
def wait(job_ids: tuple[str, ...], partition: str) -> None:
    """Wait until jobs have ended.

    Exit status: the job's. Of several the first, in the order given, that is not 0. 125:
    a job is not there, or its yod was killed.
    """
    sys.exit(_status_of(job_ids, Asked(job_ids, partition, limits.load(os.environ))))


def _status_of(job_ids: Sequence[str], asked: Asked) -> int:
    """The exit status of `wait`."""
    of_batch = {str(row.job_id) for row in asked.rows()}
    _say_trouble(asked)
    others = [job_id for job_id in job_ids if job_id not in of_batch]
    statuses = {}
    for answer in ask(others, job.Wait(), None):
        detached = ended_with(answer.id, os.environ)
        if detached is not None:
            statuses[answer.id] = detached
        elif isinstance(answer.reply, job.Ended):
            statuses[answer.id] = answer.reply.exit_status
        else:
            _complain(answer)
            statuses[answer.id] = UNKNOWN_STATUS
    for row in asked.wait(of_batch):
        statuses[str(row.job_id)] = batch_show.exit_status(row)
    return next(filter(None, (statuses[job_id] for job_id in job_ids)), 0)


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


def _ask(job_ids: Sequence[str], request: job.Request) -> list[Answer]:
    in_force = limits.load(os.environ)
    return ask(job_ids, request, in_force.job_answer_s)


def _demand_done(answers: Sequence[Answer], asked: Asked | None = None) -> None:
    """A line for each job that has not done what it was asked; any is a failure."""
    failed = [answer for answer in answers if answer.trouble]
    for answer in failed:
        _complain(answer)
    lines = asked.failures if asked is not None else []
    if asked is not None:
        _say_trouble(asked)
    for line in lines:
        stdio.say(f"yodjob: {line}")
    if failed or lines:
        sys.exit(FAILED)


def _say_trouble(asked: Asked) -> None:
    """What is asked of this host alone may not be all that there is to know."""
    if asked.trouble and asked.ids:
        stdio.say(f"yodjob: batch jobs cannot be asked about: {asked.trouble}")


def _complain(answer: Answer) -> None:
    stdio.say(f"yodjob: {shown(answer.id)}: {shown(answer.trouble)}")


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(line + "\n" for line in lines))


def _print_json(value: object) -> None:
    sys.stdout.write(json.format(json.encode(value), indent=1).decode() + "\n")


def _fail(text: str, exit_status: int) -> int:
    stdio.say(f"yodjob: {text}")
    return exit_status


if __name__ == "__main__":
    main()
