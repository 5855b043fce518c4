"""What `yodjob list`, `cancel` and `wait` do, and a reader of plain lines of them without click."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

from native import limits
from native.host import stdio, userdirs
from native.options import read_exact
from native.text import shown
from native.waitstatus import FAILED
from native.wire import job
from native.wire.base import State
from native.wire.batch import Cancel, Row
from partition.batch import show as batch_show
from partition.batch.elements import split
from partition.batch.ids import Asked
from partition.commands.printing import print_json, print_lines
from partition.jobs import show
from partition.jobs.ask import Answer, ask, ask_all
from partition.submit.options import JSON, PARTITION

UNKNOWN_STATUS = 125  # of `wait`: the job's status cannot be had

user_name = cache(userdirs.user_name)


def run(name: str, argv: Sequence[str]) -> bool:
    """Do what a plain line of a command says; False: nothing is done, and click must read it.

    click reads lines with options behind ids, lines that ask for help, and lines that are wrong.
    """
    options = [PARTITION, JSON] if name == "list" else [PARTITION]
    if (found := read_exact(argv, options)) is None:
        return False
    given, words = found
    partition = given.get(PARTITION.spellings[0], "")
    if bool(words) == (name == "list") or any(word.startswith("-") for word in words):
        return False
    match name:
        case "list":
            show_all(JSON.spellings[0] in given, partition)
        case "cancel":
            cancel(words, partition)
        case "wait" if not any("_" in word for word in words):
            wait(words, partition)
        case _:
            return False
    return True


def show_all(is_json: bool, partition: str) -> None:
    """Show the user's jobs on this host and all batch jobs."""
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
