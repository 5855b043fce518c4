"""`yodjob slurm`: commands of Slurm's, for those who are used to them."""

from __future__ import annotations

import os
import sys

import click

from native.host import stdio
from partition.submit.slurm import ours


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": [],
    }
)
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ARG]...")
def slurm(name: str, words: tuple[str, ...]) -> None:
    """Do what Slurm's command NAME does: sbatch, srun, salloc, squeue, scancel, sacct and others.

    What has no counterpart is refused. `share/yod/slurm` has scripts of these names.
    """
    command = ours(name, words)
    for line in command.warnings:
        stdio.say(f"{name}: {line}")
    program = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), command.words[0])
    sys.stdout.flush()
    os.execv(program, [program, *command.words[1:]])
