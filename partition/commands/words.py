"""What several commands take, and how they print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click
from msgspec import json

from native import limits

FAILED = 1

JSON = click.option("--json", "is_json", is_flag=True, help="For programs.")
SIGNAL = click.option(
    "-signal", "warning", metavar="[B:]SIG@S", help="Before its time is over: to steps; B: to it."
)
PARTITION = click.option(
    "--partition", default="", metavar="ADDRESS", help="host:port or unix:PATH of the bebopd."
)


def print_lines(lines: Sequence[str]) -> None:
    """To standard output."""
    sys.stdout.write("".join(line + "\n" for line in lines))


def print_json(value: object) -> None:
    """To standard output, for programs."""
    sys.stdout.write(json.format(json.encode(value), indent=1).decode() + "\n")


_BOUND = (
    ("--ranks-per-socket", "per_socket", "K", "At most so many on a socket; bound to cores."),
    ("--sockets-per-node", "sockets", "S", "On so many sockets of each node; likewise."),
    ("--ranks-per-numa", "per_numa", "K", "At most so many in a NUMA node; likewise."),
    ("--ranks-per-core", "per_core", "1", "Each is bound to cores of its own."),
    ("--threads-per-core", "threads", "T", "Bound to so many hardware threads of each core."),
)


def in_queue(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options about queues; it takes each as text or None."""
    for names, variable, metavar, text in reversed(
        (
            (("-queue", "-p", "queue"), "YODJOB_QUEUE", "NAME", "Of the partition; see bebopd."),
            (("-account", "-A", "account"), "YODJOB_ACCOUNT", "NAME", "That is charged for it."),
            (("-licenses", "-L", "licences"), None, "NAME:N", "Needed while it has slots."),
            (("--constraint", "-C", "constraint"), None, "EXPR", "Features of its nodes: a&b."),
        )
    ):
        command = click.option(*names, envvar=variable, metavar=metavar, help=text)(command)
    return command


def bound(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that bind ranks to cores; it takes each as text or None."""
    for option, name, metavar, text in reversed(_BOUND):
        command = click.option(option, name, metavar=metavar, help=text)(command)
    return command


def takes_ids(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the ids of jobs, those of elements of arrays as numbers."""

    @wraps(command)
    def numbered(job_ids: tuple[str, ...], partition: str, **given: Any) -> Any:
        if any("_" in job_id for job_id in job_ids):
            from partition.batch import elements  # few are named so

            job_ids = tuple(elements.numbered(job_ids, partition, limits.load(os.environ)))
        return command(job_ids=job_ids, partition=partition, **given)

    return click.argument("job_ids", nargs=-1, required=True, metavar="ID...")(numbered)
