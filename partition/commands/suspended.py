"""Commands that suspend jobs, and resume them; that hold batch jobs, release and requeue them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from native import limits
from native.host import stdio
from native.text import shown
from native.waitstatus import FAILED
from native.wire import job
from native.wire.batch import Hold, Requeue, Suspend
from partition.batch.ids import Asked
from partition.commands.plain import demand_done
from partition.commands.words import PARTITION, takes_ids
from partition.jobs.ask import ask


@click.command()
@PARTITION
@takes_ids
def suspend(job_ids: tuple[str, ...], partition: str) -> None:
    """Stop every process of jobs. They keep their slots; no step of an allocation begins."""
    _order(job_ids, partition, is_on=True)


@click.command()
@PARTITION
@takes_ids
def resume(job_ids: tuple[str, ...], partition: str) -> None:
    """Continue jobs that are suspended."""
    _order(job_ids, partition, is_on=False)


@click.command()
@PARTITION
@takes_ids
def hold(job_ids: tuple[str, ...], partition: str) -> None:
    """Keep batch jobs that wait from the line. What an operator holds, operators release."""
    _hold(job_ids, partition, is_on=True)


@click.command()
@PARTITION
@takes_ids
def release(job_ids: tuple[str, ...], partition: str) -> None:
    """Let batch jobs that are held in the line again, behind all others."""
    _hold(job_ids, partition, is_on=False)


@click.command()
@PARTITION
@takes_ids
def requeue(job_ids: tuple[str, ...], partition: str) -> None:
    """End batch jobs that run, and let them wait again: same id, same place. Twice: kill."""
    asked = Asked(job_ids, partition, limits.load(os.environ))
    _demand_batch(asked.order(job_ids, Requeue), asked, "runs")


def _demand_batch(others: Sequence[str], asked: Asked, does: str) -> None:
    """A line for each that is no batch job, or has not done what it was asked."""
    for job_id in others:
        stdio.say(f"yodjob: {shown(job_id)}: no batch job of this id {does} here")
    demand_done([], asked)
    if others:
        sys.exit(FAILED)


def _hold(job_ids: tuple[str, ...], partition: str, *, is_on: bool) -> None:
    asked = Asked(job_ids, partition, limits.load(os.environ))
    _demand_batch(asked.order(job_ids, lambda job_id: Hold(job_id, is_on)), asked, "waits")


def _order(job_ids: tuple[str, ...], partition: str, *, is_on: bool) -> None:
    in_force = limits.load(os.environ)
    asked = Asked(job_ids, partition, in_force)
    others = asked.order(job_ids, lambda job_id: Suspend(job_id, is_on))
    request = job.Suspend() if is_on else job.Resume()
    demand_done(ask(others, request, in_force.job_answer_s), asked)
