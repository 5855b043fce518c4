"""What `yodjob list`, `show`, `signal`, `cancel` and `wait` do.

And a reader of plain lines of them without click.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

from native import limits
from native.errors import PartitionError
from native.host import stdio, userdirs
from native.options import Option, read_exact
from native.text import shown
from native.waitstatus import FAILED
from native.wire import job
from native.wire.base import State
from native.wire.batch import Cancel, Row, SignalScript
from partition.batch import show as batch_show
from partition.batch.elements import split
from partition.batch.ids import Asked
from partition.commands.printing import print_json, print_lines
from partition.jobs import show
from partition.jobs.ask import Answer, Silent, ask, ask_all
from partition.submit.options import EVENTS, JSON, PARTITION
from yod.plan.signals import number_of

UNKNOWN_STATUS = 125  # of `wait`: the job's status cannot be had
OPTIONS: dict[str, tuple[Option, ...]] = {
    "list": (PARTITION, JSON),
    "show": (PARTITION, JSON, EVENTS),
    "signal": (PARTITION,),
    "cancel": (PARTITION,),
    "wait": (PARTITION,),
}

user_name = cache(userdirs.user_name)


def run(name: str, argv: Sequence[str], most_jobs: int | None = None) -> bool:
    """Do what a plain line of a command says; False: nothing is done, and click must read it.

    click reads lines with options behind ids, lines that ask for help, and lines that are wrong.

    Args:
        most_jobs: a list of more batch jobs than these is not shown, either; None: any is.
    """
    if (found := read_exact(argv, OPTIONS[name])) is None:
        return False
    given, words = found
    partition = given.get(PARTITION.spellings[0], "")
    is_json = JSON.spellings[0] in given
    if bool(words) == (name == "list") or any(word.startswith("-") for word in words):
        return False
    match name:
        case "list":
            return show_all(is_json, partition, most_jobs)
        case "cancel":
            cancel(words, partition)
        case _ if any("_" in word for word in words):  # elements of arrays, as most do not name
            return False
        case "show":
            show_some(words, is_json, EVENTS.spellings[0] in given, partition)
        case "signal" if words[1:]:
            send_signal(words[0], words[1:], partition)
        case "wait":
            wait(words, partition)
        case _:
            return False
    return True


def show_all(is_json: bool, partition: str, most_jobs: int | None) -> bool:
    """Show the user's jobs on this host and all batch jobs; False: there are more than these."""
    gc.disable()  # a long queue is many objects, and none of them in a cycle
    in_force = limits.load(os.environ)
    asked = Asked([], partition, in_force)
    now = time.time()
    known: set[str] = set()
    stopped: set[str] = set()
    records: list[dict[str, Any]] = []
    lines: list[tuple[str, show.Cells]] = []
    for rows in asked.every(is_grouped=not is_json):  # bebopd makes the next slice meanwhile
        stopped |= suspended(rows)
        if is_json:
            known.update(str(row.job_id) for row in rows)
            records += map(batch_show.record, rows)
        else:
            some = batch_show.lines(rows, now)
            known.update(each[1] for each in some)
            lines += [each[1:] for each in some]
        if most_jobs is not None and len(known) > most_jobs:
            return False
    if asked.trouble:
        stdio.say(f"yodjob: no batch jobs are shown: {asked.trouble}")
    answers = [each for each in ask_all(job.Show(), in_force.job_answer_s) if each.id not in known]
    answers = show.with_allocations(answers, stopped)
    if is_json:
        records += [show.record(answer, user_name, now) for answer in answers]
        print_json({"jobs": records})
    else:
        own = [show.cells(answer, user_name) for answer in answers]
        print_lines(show.aligned([*lines, *((line[0], show.with_queue(line, "")) for line in own)]))
    return True


def show_some(job_ids: Sequence[str], is_json: bool, has_events: bool, partition: str) -> None:
    """Show all that is known of jobs.

    Raises:
        SystemExit: one is not known.
    """
    in_force = limits.load(os.environ)
    asked = Asked(job_ids, partition, in_force)
    rows = {str(row.job_id): row for row in asked.rows()}
    say_trouble(asked)
    others = [job_id for job_id in job_ids if job_id not in rows]
    events = {job_id: asked.events(int(job_id)) for job_id in asked.ids} if has_events else {}
    answers = []
    for answer in ask(others, job.Show(), in_force.job_answer_s):
        if answer.silent is Silent.UNKNOWN and "." in answer.id:
            for row in _past_of(asked, answer.id, 1):
                rows[answer.id] = row
                events[answer.id] = batch_show.happened(row) if has_events else []
        if not (answer.silent is Silent.UNKNOWN and (answer.id in rows or events.get(answer.id))):
            answers.append(answer)
    answers = _with_allocations(answers, partition, in_force)
    known = [answer for answer in answers if isinstance(answer.reply, job.Shown)]
    now = time.time()
    if is_json:
        records = [batch_show.record(row) for row in rows.values()]
        records += [show.record(answer, user_name, now) for answer in known]
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
                    print_lines(show.paragraph(answer.reply, user_name, now))
            print_lines(batch_show.event_lines(events.get(job_id, ())))
    demand_done(answers)


def _past_of(asked: Asked, job_id: str, count: int) -> list[Row]:
    """What the history has of a job, or of a step; nothing where bebopd cannot be asked."""
    try:
        return asked.past(job_id, count)
    except PartitionError:
        return []


def _with_allocations(
    answers: list[Answer], partition: str, in_force: limits.Limits
) -> list[Answer]:
    """With the state of the steps' allocations, which are asked for it."""
    ids = {show.allocation_of(each.id) for each in answers if each.silent is None} - {""}
    if not ids:
        return answers
    rows = Asked(ids, partition, in_force).rows()
    asked = ask(ids, job.Show(), in_force.job_answer_s)
    told = show.with_allocations([*answers, *asked], suspended(rows))
    return told[: len(answers)]


def send_signal(signal_name: str, job_ids: Sequence[str], partition: str) -> None:
    """Send a signal to every rank of jobs; of batch jobs to the script.

    Raises:
        UsageError: there is no such signal.
        SystemExit: one did not get it.
    """
    number = number_of(signal_name)
    asked = Asked(job_ids, partition, limits.load(os.environ))
    others = asked.order(job_ids, lambda job_id: SignalScript(job_id, number))
    demand_done(ask_here(others, job.Signal(number)), asked)


def cancel(job_ids: Sequence[str], partition: str) -> None:
    """End jobs and elements of arrays.

    Raises:
        SystemExit: one could not be.
    """
    plain, some = split(job_ids)
    asked = Asked(job_ids, partition, limits.load(os.environ))
    for array_id, wanted in some:
        asked.cancel_elements(array_id, wanted)
    others = asked.order(plain, Cancel)
    demand_done(ask_here(others, job.Cancel()), asked)


def wait(job_ids: Sequence[str], partition: str) -> NoReturn:
    """Wait until jobs have ended.

    Raises:
        SystemExit: they have; with the status of the first, in the order given, that is not 0.
    """
    asked = Asked(job_ids, partition, limits.load(os.environ))
    of_batch = {str(row.job_id) for row in asked.rows()}
    say_trouble(asked)
    others = [job_id for job_id in job_ids if job_id not in of_batch]
    statuses = _of_others(others) if others else {}
    for row in asked.wait(of_batch):
        statuses[str(row.job_id)] = batch_show.exit_status(row)
    sys.exit(next(filter(None, (statuses[job_id] for job_id in job_ids)), 0))


def _of_others(job_ids: Sequence[str]) -> dict[str, int]:
    """The exit statuses of jobs that are no batch jobs, when they have ended."""
    from partition.batch.attaching import ended_with  # few wait for such

    statuses = {}
    for answer in ask(job_ids, job.Wait(), None):
        detached = ended_with(answer.id, os.environ)
        if detached is not None:
            statuses[answer.id] = detached
        elif isinstance(answer.reply, job.Ended):
            statuses[answer.id] = answer.reply.exit_status
        else:
            _complain(answer)
            statuses[answer.id] = UNKNOWN_STATUS
    return statuses


def suspended(rows: Sequence[Row]) -> set[str]:
    """The ids of those that are."""
    return {str(row.job_id) for row in rows if row.state is State.SUSPENDED}


def ask_here(job_ids: Sequence[str], request: job.Request) -> list[Answer]:
    """The answers of jobs whose yods run on this host."""
    in_force = limits.load(os.environ)
    return ask(job_ids, request, in_force.job_answer_s)


def demand_done(answers: Sequence[Answer], asked: Asked | None = None) -> None:
    """A line for each job that has not done what it was asked; any is a failure.

    Raises:
        SystemExit: there is one.
    """
    failed = [answer for answer in answers if answer.trouble]
    for answer in failed:
        _complain(answer)
    lines = asked.failures if asked is not None else []
    if asked is not None:
        say_trouble(asked)
    for line in lines:
        stdio.say(f"yodjob: {line}")
    if failed or lines:
        sys.exit(FAILED)


def say_trouble(asked: Asked) -> None:
    """What is asked of this host alone may not be all that there is to know."""
    if asked.trouble and asked.ids:
        stdio.say(f"yodjob: batch jobs cannot be asked about: {asked.trouble}")


def _complain(answer: Answer) -> None:
    stdio.say(f"yodjob: {shown(answer.id)}: {shown(answer.trouble)}")
