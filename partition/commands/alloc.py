"""`yodjob alloc`: slots for a command or a shell."""

from __future__ import annotations

import os
import sys
from math import inf

import click

from native import duration, nodelist
from native.errors import UsageError, YodError
from native.host import process, stdio
from native.wire.base import SIZE_MAX
from partition.broker.driver import hold
from partition.broker.wanted import Wanted
from partition.commands.words import takes
from partition.find import batch
from partition.submit.options import BOUND, IN_QUEUE, SIGNAL
from partition.submit.signals import early
from partition.submit.terms import terms
from yod.plan.shape import made, spec_of


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-sz", "-n", "size", type=click.IntRange(1, SIZE_MAX), metavar="N", help="Slots.")
@click.option("-list", "nodes", metavar="L", help="Only of these nodes: 5,1..3.")
@click.option("-N", "-nodes", "node_count", type=int, metavar="N", help="On so many nodes.")
@click.option("--ranks-per-node", "per_node", type=int, metavar="K", help="At most so many there.")
@click.option("--cores-per-rank", "cores", type=int, metavar="C", help="So many slots for one.")
@click.option("--mem", "memory", metavar="SIZE", help="Memory on each node: 512M, 4G.")
@click.option("--mem-per-rank", "rank_memory", metavar="SIZE", help="Memory for each slot of -sz.")
@click.option("--gpus-per-node", "node_gpus", type=int, metavar="N", help="GPUs on each node.")
@click.option("--gpus-per-rank", "gpus", type=int, metavar="N", help="GPUs for each slot of -sz.")
@takes(BOUND)
@click.option("--distribution", metavar="HOW", help="Over nodes: block, cyclic, plane=K.")
@click.option("--exclusive", "is_exclusive", is_flag=True, help="All slots of unused nodes.")
@click.option("-time", "time_text", metavar="T", help="For so long: minutes, or h:mm:ss.")
@takes({**IN_QUEUE, "warning": SIGNAL})
@click.option("-wait", "wait_s", type=click.FloatRange(0), metavar="S", help="For nodes, at most.")
@click.option("--partition", default="", metavar="ADDRESS", help="host:port, unix:PATH, embedded.")
@click.option("-quiet", "is_quiet", is_flag=True, help="No status messages.")
@click.option("--json", "is_json", is_flag=True, help="For programs: hold until end of input.")
@click.option("-D", "debug", is_flag=True, help="Show what the allocation's daemons say.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND [ARG]...]")
def alloc(
    size: int | None,
    nodes: str | None,
    node_count: int | None,
    per_node: int | None,
    cores: int | None,
    memory: str | None,
    rank_memory: str | None,
    node_gpus: int | None,
    gpus: int | None,
    distribution: str | None,
    is_exclusive: bool,
    time_text: str | None,
    queue: str | None,
    account: str | None,
    licences: str | None,
    constraint: str | None,
    switches: str | None,
    exclude: str | None,
    warning: str | None,
    wait_s: float | None,
    partition: str,
    is_quiet: bool,
    is_json: bool,
    debug: bool,
    words: tuple[str, ...],
    **binding: str | None,
) -> None:
    """Hold slots while COMMAND runs, or a shell: each yod in it is a step.

    The request waits for its turn. Exit status: the command's; 124 the time was over; 125
    there are no nodes, or they were lost; 126, 127 the command cannot be started.
    """
    if is_json and words:
        raise UsageError("--json and a command exclude each other")
    shell = () if is_json else (os.environ.get("SHELL") or "/bin/sh",)
    time_s = None if time_text is None else duration.parse(time_text, "-time")
    listed = tuple(nodelist.parse(nodes)) if nodes is not None else None
    shape = made(
        node_count,
        per_node,
        cores,
        distribution,
        memory=memory,
        rank_memory=rank_memory,
        node_gpus=node_gpus,
        gpus=gpus,
        **binding,
    )
    spec = spec_of(size, listed, "", shape)
    wanted = Wanted(
        spec,
        words or shell,
        inf if wait_s is None else wait_s,
        inf if time_s is None else time_s,
        early(warning, time_s),
        is_exclusive,
        batch.id_of(os.environ),
        terms(queue, account, licences, constraint=constraint, switches=switches, exclude=exclude),
    )
    try:
        status = hold(wanted, os.environ, partition=partition, is_quiet=is_quiet, debug=debug)
    except YodError as error:
        stdio.say(f"yodjob: {error}")
        sys.exit(error.exit_status)
    sys.exit(status if status >= 0 else process.die(-status))
