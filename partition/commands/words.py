"""What several commands take."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import click

from native import limits
from native.options import Option
from partition.submit import options

F = TypeVar("F", bound=Callable[..., Any])


def takes(
    options: Mapping[str, Option], types: Mapping[str, click.ParamType[Any]] | None = None
) -> Callable[[F], F]:
    """Give a command options of ours; it takes each by its name, as text or None, or as a flag.

    Args:
        types: of values that are no text, by the options' names.
    """

    def given(command: F) -> F:
        for name, option in reversed(list(options.items())):
            command = click.option(
                *option.spellings,
                name,
                type=(types or {}).get(name),
                is_flag=not option.takes_value or None,
                envvar=option.variable or None,
                metavar=option.metavar or None,
                help=option.help,
            )(command)
        return command

    return given


PARTITION = click.option(
    *options.PARTITION.spellings,
    default="",
    metavar=options.PARTITION.metavar,
    help=options.PARTITION.help,
)
JSON = takes({"is_json": options.JSON})


def takes_ids(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the ids of jobs, those of elements of arrays as numbers."""

    @wraps(command)
    def numbered(job_ids: tuple[str, ...], partition: str, **given: Any) -> Any:
        if any("_" in job_id for job_id in job_ids):
            from partition.batch import elements  # few are named so

            job_ids = tuple(elements.numbered(job_ids, partition, limits.load(os.environ)))
        return command(job_ids=job_ids, partition=partition, **given)

    return click.argument("job_ids", nargs=-1, required=True, metavar="ID...")(numbered)
