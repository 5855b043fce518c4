"""`yodjob submit`: a script is handed in."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Any

import click

from native import allocated, limits
from native.errors import UsageError
from native.host import stdio
from native.text import shown
from native.wire.base import SIZE_MAX
from partition.commands.words import PARTITION, SIGNAL, bound, in_queue, print_lines
from partition.submit import handing


@click.command(context_settings={"allow_interspersed_args": False})
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
@click.option("--mem", "memory", metavar="SIZE", help="Memory on each node: 512M, 4G.")
@click.option("--mem-per-rank", "rank_memory", metavar="SIZE", help="Memory for each slot of -sz.")
@click.option("--gpus-per-node", "node_gpus", metavar="N", help="GPUs on each node.")
@click.option("--gpus-per-rank", "gpus", metavar="N", help="GPUs for each slot of -sz.")
@bound
@click.option("--distribution", metavar="HOW", help="Over nodes: block, cyclic, plane=K.")
@click.option("--exclusive", "is_exclusive", is_flag=True, help="All slots of unused nodes.")
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
@in_queue
@click.option("-nice", "--nice", "nice", metavar="N", help="Give up so many points of priority.")
@click.option("--requeue-on", "requeue_on", metavar="STATUS", help="Then it waits again: 75.")
@click.option("--requeue", "requeue_lost", is_flag=True, help="It does when nodes are lost.")
@click.option("--after", "after", metavar="afterok:ID", help="When other jobs have ended well.")
@click.option(
    "-begin", "--begin", "-b", "begin", metavar="WHEN", help="Not before: 18:30, now+2:00:00."
)
@click.option(
    "-deadline", "--deadline", "deadline", metavar="WHEN", help="Over by then, or not begun."
)
@click.option(
    "-array", "--array", "-a", "array", metavar="RANGES", help="Many: 0-99, or 0-99%10 at once."
)
@SIGNAL
@click.option("-hold", "--hold", "-H", "is_held", is_flag=True, help="Until `yodjob release`.")
@click.option("--test-only", "is_test", is_flag=True, help="Say when and where it would begin.")
@click.option("--wait", "waits", is_flag=True, help="Wait for its end, with its exit status.")
@click.option(
    "--as",
    "systems",
    envvar=allocated.SYSTEMS_VARIABLE,
    metavar="WHOSE",
    help="Variables for the script also as slurm, or pbs.",
)
@click.option("--as-sbatch", "is_sbatch", is_flag=True, help="Say so in sbatch's words.")
@click.option("-quiet", "is_quiet", is_flag=True, help="Print the id and nothing else.")
@PARTITION
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT [ARG]...]")
def submit(
    words: tuple[str, ...],
    wrap: str | None,
    waits: bool,
    is_quiet: bool,
    is_test: bool,
    is_sbatch: bool,
    partition: str,
    **given: Any,
) -> None:
    """Hand SCRIPT in: it runs when its slots are free, also when you have gone.

    Lines `#YOD -sz 4` in its head are options; #SBATCH and #PBS lines are read as well.
    Exit status: 0; 1 it is not taken; 2 wrong usage; with --wait the job's.
    """
    if bool(words) == (wrap is not None):
        raise UsageError("say either a script or --wrap COMMAND")
    if is_test:
        from partition.batch.show import forecast_line

        forecast, warnings = handing.test(words, wrap, given, partition, os.environ)
        _warn(warnings)
        print_lines([forecast_line(forecast, time.time())])
        return
    submitted = handing.submit(words, wrap, given, partition, os.environ)
    _warn(submitted.warnings)
    text = f"; it waits: {shown(submitted.text)}" if submitted.text else ""
    job_id = str(submitted.job_id)
    told = f"Submitted batch job {job_id}" if is_sbatch else f"job {job_id} submitted{text}"
    print_lines([job_id if is_quiet else told])
    sys.stdout.flush()
    if waits:
        from partition.batch.ids import Asked
        from partition.commands.asked import status_of

        sys.exit(status_of([job_id], Asked([job_id], partition, limits.load(os.environ))))


def _warn(warnings: Iterable[str]) -> None:
    for line in warnings:
        stdio.say(f"yodjob: {line}")
