"""Commands that suspend jobs, and resume them."""

from __future__ import annotations

import os

import click

from native import limits
from native.wire import job
from native.wire.batch import Suspend
from partition.batch.ids import Asked
from partition.commands.asked import demand_done
from partition.commands.words import IDS, PARTITION
from partition.jobs.ask import ask


@click.command()
@PARTITION
@IDS
def suspend(job_ids: tuple[str, ...], partition: str) -> None:
    """Stop every process of jobs. They keep their slots; no step of an allocation begins."""
    _order(job_ids, partition, is_on=True)


@click.command()
@PARTITION
@IDS
def resume(job_ids: tuple[str, ...], partition: str) -> None:
    """Continue jobs that are suspended."""
    _order(job_ids, partition, is_on=False)


def _order(job_ids: tuple[str, ...], partition: str, *, is_on: bool) -> None:
    in_force = limits.load(os.environ)
    asked = Asked(job_ids, partition, in_force)
    others = asked.order(job_ids, lambda job_id: Suspend(job_id, is_on))
    request = job.Suspend() if is_on else job.Resume()
    demand_done(ask(others, request, in_force.job_answer_s), asked)
