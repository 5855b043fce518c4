"""`yodjob submit`: a script is handed in."""

from __future__ import annotations

import os
from typing import Any

import click

from native.wire.base import SIZE_MAX
from partition.commands import handed
from partition.commands.words import takes
from partition.submit.options import OPTIONS


@click.command(context_settings={"allow_interspersed_args": False})
@takes(OPTIONS, {"size": click.IntRange(1, SIZE_MAX)})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT [ARG]...]")
def submit(words: tuple[str, ...], **given: Any) -> None:
    """Hand SCRIPT in: it runs when its slots are free, also when you have gone.

    Lines `#YOD -sz 4` in its head are options; #SBATCH and #PBS lines are read as well.
    Exit status: 0; 1 it is not taken; 2 wrong usage; with --wait the job's.
    """
    handed.submit(words, given, os.environ)
