"""Commands that look at jobs, signal, end and await them."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import click

from native import limits
from native.errors import PartitionError, UsageError
from native.host import stdio, userdirs
from native.text import shown
from native.wire import job
from native.wire.base import State
from native.wire.batch import Cancel, LimitTime, Prioritise, Row, SignalScript
from partition.batch import show as batch_show
from partition.batch.attaching import attach as attach_to
from partition.batch.attaching import ended_with
from partition.batch.elements import numbered, split
from partition.batch.ids import Asked
from partition.commands.words import FAILED, JSON, PARTITION, print_json, print_lines, takes_ids
from partition.jobs import show
from partition.jobs.ask import Answer, Silent, ask, ask_all
from partition.submit.directives import changed_time
from partition.submit.terms import points, priority_of
from yod.plan.signals import number_of

UNKNOWN_STATUS = 125  # of `wait`: the job's status cannot be had

_user_name = cache(userdirs.user_name)


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
    gc.disable()  # a long queue is many objects, and none of them in a cycle
    in_force = limits.load(os.environ)
    asked = Asked([], partition, in_force)
    now = time.time()
    known: set[str] = set()
    suspended: set[str] = set()
    records: list[dict[str, Any]] = []
    lines: list[show.Cells] = []
    queues: list[str] = []
    for rows in asked.every():  # bebopd makes the next slice meanwhile
        known.update(str(row.job_id) for row in rows)
        suspended |= _suspended(rows)
        if is_json:
            records += map(batch_show.record, rows)
        else:
            lines += [batch_show.cells(row, now) for row in rows]
            queues += [shown(row.queue) for row in rows]
    if asked.trouble:
        stdio.say(f"yodjob: no batch jobs are shown: {asked.trouble}")
    answers = [each for each in ask_all(job.Show(), in_force.job_answer_s) if each.id not in known]
    answers = show.with_allocations(answers, suspended)
    if is_json:
        records += [show.record(answer, _user_name, now) for answer in answers]
        print_json({"jobs": records})
    else:
        lines += [show.cells(answer, _user_name) for answer in answers]
        print_lines(show.table(lines, queues))


@click.command("show")
@click.option("--events", "has_events", is_flag=True, help="What has happened to them.")
@PARTITION
@JSON
@takes_ids
def show_some(job_ids: tuple[str, ...], is_json: bool, has_events: bool, partition: str) -> None:
    """Show all that is known of jobs."""
    in_force = limits.load(os.environ)
    asked = Asked(job_ids, partition, in_force)
    rows = {str(row.job_id): row for row in asked.rows()}
    _say_trouble(asked)
    others = [job_id for job_id in job_ids if job_id not in rows]
    events = {job_id: asked.events(int(job_id)) for job_id in asked.ids} if has_events else {}
    answers = []
    for answer in ask(others, job.Show(), in_force.job_answer_s):
        if answer.silent is Silent.UNKNOWN and "." in answer.id:
            for row in past_of(asked, answer.id, 1):
                rows[answer.id] = row
                events[answer.id] = batch_show.happened(row) if has_events else []
        if not (answer.silent is Silent.UNKNOWN and (answer.id in rows or events.get(answer.id))):
            answers.append(answer)
    answers = _with_allocations(answers, partition, in_force)
    known = [answer for answer in answers if isinstance(answer.reply, job.Shown)]
    now = time.time()
    if is_json:
        records = [batch_show.record(row) for row in rows.values()]
        records += [show.record(answer, _user_name, now) for answer in known]
        if has_events:
            told = {job_id: batch_show.event_records(some) for job_id, some in events.items()}
            print_json({"jobs": records, "events": told})
        else:
            print_json({"jobs": records})
    else:
        for job_id in dict.fromkeys(job_ids):
            if job_id in rows:
                print_lines(batch_show.paragraph(rows[job_id], now))
            for answer in known:
                if answer.id == job_id and isinstance(answer.reply, job.Shown):
                    print_lines(show.paragraph(answer.reply, _user_name, now))
            print_lines(batch_show.event_lines(events.get(job_id, ())))
    demand_done(answers)


@click.command("why")
@PARTITION
@takes_ids
def why_waits(job_ids: tuple[str, ...], partition: str) -> None:
    """Say why batch jobs wait, with their priorities, and when they are expected to begin."""
    asked = Asked(job_ids, partition, limits.load(os.environ))
    rows = {str(row.job_id): row for row in asked.rows()}
    _say_trouble(asked)
    now = time.time()
    for job_id in dict.fromkeys(job_ids):
        if job_id in rows:
            print_lines([f"job {job_id}: {batch_show.why(rows[job_id], now)}"])
        else:
            stdio.say(f"yodjob: {shown(job_id)}: no batch job of this id is known here")
    if len(rows) < len(set(job_ids)):
        sys.exit(FAILED)


def past_of(asked: Asked, job_id: str, count: int) -> list[Row]:
    """What the history has of a job, or of a step; nothing where bebopd cannot be asked."""
    try:
        return asked.past(job_id, count)
    except PartitionError:
        return []


def _suspended(rows: Sequence[Row]) -> set[str]:
    return {str(row.job_id) for row in rows if row.state is State.SUSPENDED}


def _with_allocations(
    answers: list[Answer], partition: str, in_force: limits.Limits
) -> list[Answer]:
    """With the state of the steps' allocations, which are asked for it."""
    ids = {show.allocation_of(each.id) for each in answers if each.silent is None} - {""}
    if not ids:
        return answers
    rows = Asked(ids, partition, in_force).rows()
    asked = ask(ids, job.Show(), in_force.job_answer_s)
    told = show.with_allocations([*answers, *asked], _suspended(rows))
    return told[: len(answers)]


@click.command("signal")
@PARTITION
@click.argument("signal_name", metavar="SIGNAL")
@takes_ids
def send_signal(signal_name: str, job_ids: tuple[str, ...], partition: str) -> None:
    """Send SIGNAL, a name or a number, to every rank of jobs; of batch jobs to the script."""
    number = number_of(signal_name)
    asked = Asked(job_ids, partition, limits.load(os.environ))
    others = asked.order(job_ids, lambda job_id: SignalScript(job_id, number))
    demand_done(_ask(others, job.Signal(number)), asked)


@click.command()
@PARTITION
@click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
def cancel(job_ids: tuple[str, ...], partition: str) -> None:
    """End jobs as an interrupt of yod does: SIGTERM to all ranks; again: SIGKILL.

    17_3 and 17_3-9 are elements of array 17, whether they have begun or not.
    """
    plain, some = split(job_ids)
    asked = Asked(job_ids, partition, limits.load(os.environ))
    for array_id, wanted in some:
        asked.cancel_elements(array_id, wanted)
    others = asked.order(plain, Cancel)
    demand_done(_ask(others, job.Cancel()), asked)


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
    demand_done([_limited(answer, time_text) for answer in _ask(others, job.Show())], asked)


def _limited(answer: Answer, time_text: str) -> Answer:
    """Change the time limit of an allocation. Its answer says what the limit was."""
    reply = answer.reply
    if not isinstance(reply, job.Shown):
        return answer
    time_s = 0.0 if reply.time_s is None else changed_time(reply.time_s, time_text)
    (limited,) = _ask([answer.id], job.LimitTime(time_s))  # refused by what has none
    return limited


@click.command()
@PARTITION
@takes_ids
def wait(job_ids: tuple[str, ...], partition: str) -> None:
    """Wait until jobs have ended.

    Exit status: the job's. Of several the first, in the order given, that is not 0. 125:
    a job is not there, or its yod was killed.
    """
    sys.exit(status_of(job_ids, Asked(job_ids, partition, limits.load(os.environ))))


def status_of(job_ids: Sequence[str], asked: Asked) -> int:
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


def _ask(job_ids: Sequence[str], request: job.Request) -> list[Answer]:
    in_force = limits.load(os.environ)
    return ask(job_ids, request, in_force.job_answer_s)


def demand_done(answers: Sequence[Answer], asked: Asked | None = None) -> None:
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
