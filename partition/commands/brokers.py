"""Commands that our own daemons and commands start: what holds slots for a job, and the saver."""

from __future__ import annotations

import sys

import click


@click.command(hidden=True)
def alone() -> None:
    """Hold the slots of a detached job where no partition is up."""
    from partition.batch.alone import run

    sys.exit(run())


@click.command(hidden=True)
@click.argument("begun", nargs=-1)
def broker(begun: tuple[str, ...]) -> None:
    """Run the batch job that a pct tells of on standard input.

    BEGUN is what yod-script says of the job's script.
    """
    from partition.batch.broker import run

    sys.exit(run(begun))


@click.command(hidden=True)
@click.argument("words", nargs=-1)
def saver(words: tuple[str, ...]) -> None:
    """Save the ranks of a node, or make a checkpoint whole, as the pct says."""
    from partition.savers.saver import run

    sys.exit(run(words))
