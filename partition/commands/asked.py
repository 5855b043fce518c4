"""Commands that look at jobs, signal, end and await them."""

from __future__ import annotations

import os
import sys
import time

import click

from native import limits
from native.errors import UsageError
from native.host import stdio
from native.text import shown
from native.waitstatus import FAILED
from native.wire import job
from native.wire.batch import LimitTime, Prioritise
from partition.batch import show as batch_show
from partition.batch.attaching import attach as attach_to
from partition.batch.elements import numbered
from partition.batch.ids import Asked
from partition.commands import plain
from partition.commands.plain import ask_here, demand_done, say_trouble
from partition.commands.printing import print_lines
from partition.commands.words import JSON, PARTITION, takes, takes_ids
from partition.jobs.ask import Answer
from partition.submit.directives import changed_time
from partition.submit.options import EVENTS
from partition.submit.terms import points, priority_of


@click.command()
@click.option("--ranks", help="Only these, of any job whose yod is here: 3, or 0,4..7.")
@click.option("--follow", "follows", is_flag=True, help="Show what ranks write from now on.")
@PARTITION
@click.argument("job_id", metavar="ID")
def attach(job_id: str, partition: str, ranks: str | None, follows: bool) -> None:
    """Show the output of a detached job from its beginning, and follow it.

    The first that attaches has the job's input. Ctrl-C interrupts the job as it does yod,
    a line ~d or Ctrl-\\ leaves, and the job goes on. Exit status: the job's; 1 it cannot be
    attached to.

    With --follow or --ranks: show what the ranks of a job write from now on, be it detached or
    at its terminal. The job has its input as before, and Ctrl-C ends this command only.
    """
    if ranks is not None or follows:
        from partition.commands.following import follow

        sys.exit(follow(job_id, ranks))
    (job_id,) = numbered([job_id], partition, limits.load(os.environ))
    status = attach_to(job_id, Asked([job_id], partition, limits.load(os.environ)), os.environ)
    sys.exit(status)


@click.command("list")
@PARTITION
@JSON
def show_all(is_json: bool, partition: str) -> None:
    """Show your jobs on this host and all batch jobs, a line for each."""
    plain.show_all(is_json, partition, None)


@click.command("show")
@takes({"has_events": EVENTS})
@PARTITION
@JSON
@takes_ids
def show_some(job_ids: tuple[str, ...], is_json: bool, has_events: bool, partition: str) -> None:
    """Show all that is known of jobs."""
    plain.show_some(job_ids, is_json, has_events, partition)


@click.command("why")
@PARTITION
@takes_ids
def why_waits(job_ids: tuple[str, ...], partition: str) -> None:
    """Say why batch jobs wait, with their priorities, and when they are expected to begin."""
    asked = Asked(job_ids, partition, limits.load(os.environ))
    rows = {str(row.job_id): row for row in asked.rows()}
    say_trouble(asked)
    now = time.time()
    for job_id in dict.fromkeys(job_ids):
        if job_id in rows:
            print_lines([f"job {job_id}: {batch_show.why(rows[job_id], now)}"])
        else:
            stdio.say(f"yodjob: {shown(job_id)}: no batch job of this id is known here")
    if len(rows) < len(set(job_ids)):
        sys.exit(FAILED)


@click.command("signal")
@PARTITION
@click.argument("signal_name", metavar="SIGNAL")
@takes_ids
def send_signal(signal_name: str, job_ids: tuple[str, ...], partition: str) -> None:
    """Send SIGNAL, a name or a number, to every rank of jobs; of batch jobs to the script."""
    plain.send_signal(signal_name, job_ids, partition)


@click.command()
@PARTITION
@click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
def cancel(job_ids: tuple[str, ...], partition: str) -> None:
    """End jobs as an interrupt of yod does: SIGTERM to all ranks; again: SIGKILL.

    17_3 and 17_3-9 are elements of array 17, whether they have begun or not.
    """
    plain.cancel(job_ids, partition)


@click.command()
@click.option("-time", "time_text", metavar="{+|-}T", help="From the start.")
@click.option("-prio", "--prio", "priority", metavar="N|auto", help="Operators: its priority.")
@click.option("-nice", "--nice", "nice", metavar="N", help="Give up so many points of priority.")
@PARTITION
@takes_ids
def update(
    time_text: str | None,
    priority: str | None,
    nice: str | None,
    job_ids: tuple[str, ...],
    partition: str,
) -> None:
    """Change how long jobs may run, to T or by T more or less; the priority of waiting ones.

    Times count from the beginning of a job, also of one that runs.
    """
    if time_text is None and priority is None and nice is None:
        raise UsageError("say -time, -prio or -nice")
    asked = Asked(job_ids, partition, limits.load(os.environ))
    if priority is not None or nice is not None:
        wanted = priority_of(priority), None if nice is None else points(nice)
        for job_id in asked.order(job_ids, lambda job_id: Prioritise(job_id, *wanted)):
            asked.failures.append(f"{shown(job_id)}: no batch job of this id waits here")
    if time_text is None:
        demand_done([], asked)
        return
    before = {row.job_id: row.time_s for row in asked.rows()}
    after = {job_id: changed_time(time_s, time_text) for job_id, time_s in before.items()}
    others = asked.order(job_ids, lambda job_id: LimitTime(job_id, after[job_id]))
    shown_here = ask_here(others, job.Show())
    demand_done([_limited(answer, time_text, asked) for answer in shown_here], asked)


def _limited(answer: Answer, time_text: str, asked: Asked) -> Answer:
    """Change the time limit of an allocation. Its answer says what the limit was.

    bebopd keeps to the limit as well, and may refuse another one.
    """
    reply = answer.reply
    if not isinstance(reply, job.Shown):
        return answer
    time_s = 0.0
    if reply.time_s is not None:
        time_s = changed_time(reply.time_s, time_text)
        if text := asked.limit(answer.id, time_s):
            return Answer(answer.id, job.Refused(text), None)
    (limited,) = ask_here([answer.id], job.LimitTime(time_s))  # refused by what has none
    return limited


@click.command()
@PARTITION
@takes_ids
def wait(job_ids: tuple[str, ...], partition: str) -> None:
    """Wait until jobs have ended.

    Exit status: the job's. Of several the first, in the order given, that is not 0. 125:
    a job is not there, or its yod was killed.
    """
    plain.wait(job_ids, partition)
