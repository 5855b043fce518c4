"""`yodjob submit`: from its words to bebopd's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from native import limits as limits_module
from native import nodelist
from native.errors import PartitionError, UsageError
from native.options import Option, parse
from native.text import shown
from partition.batch import directives, output
from partition.batch.submit import hand_in, read_script, submission, wrapped
from partition.find import discover
from yod.plan.plan import spec_of

# What a #YOD line may say; the names are those of the command's parameters.
_OPTIONS = {
    "size": Option(("-sz", "-n"), True),
    "nodes": Option(("-list",), True),
    "time_text": Option(("-time",), True),
    "output": Option(("-o", "-output"), True),
    "name": Option(("-name", "-J"), True),
    "directory": Option(("-directory", "--chdir"), True),
}


class Taken(Struct, frozen=True):
    """A job that bebopd has taken.

    Attributes:
        text: what it waits for; empty: for nothing.
        warnings: of lines in the script that have no effect.
    """

    job_id: int
    text: str
    warnings: tuple[str, ...]


def submit(
    words: Sequence[str],
    wrap: str | None,
    given: Mapping[str, Any],
    partition: str,
    environment: Mapping[str, str],
) -> Taken:
    """Hand a job in.

    Args:
        words: the script and its arguments.
        wrap: a command of the shell instead; None: there is a script.
        given: options of the command line, by the parameters' names; None: not given.

    Raises:
        UsageError: the script, an option or a line of the script is wrong.
        PartitionError: it is not taken.
    """
    script = wrapped(wrap) if wrap is not None else read_script(words)
    try:
        text = script.content.decode(errors="surrogateescape")
        read = directives.read(text, list(_OPTIONS.values()))
        said, _ = parse(read.words, list(_OPTIONS.values()))
    except UsageError as error:
        raise UsageError(f"{shown(script.name)}, {error}") from None
    chosen = {
        name: given[name] if given.get(name) is not None else _last(said.get(option.spellings[0]))
        for name, option in _OPTIONS.items()
    }
    pattern = chosen["output"] or output.DEFAULT
    output.check(pattern)
    nodes = tuple(nodelist.parse(chosen["nodes"])) if chosen["nodes"] is not None else None
    time_text = chosen["time_text"]
    message = submission(
        script,
        spec_of(_size(chosen["size"]), nodes, ""),
        chosen["name"] or "",
        0.0 if time_text is None else directives.time_s(time_text),
        chosen["directory"] or "",
        pattern,
        partition,
    )
    where = discover.find_outer(partition, environment)
    if where.is_embedded:
        raise PartitionError(
            "no partition is up here that would keep the job: `yodctl up --local N` brings one up"
        )
    submitted = hand_in(where, limits_module.load(environment), message)
    return Taken(submitted.job_id, submitted.text, tuple(read.warnings))


def _last(values: list[str] | None) -> str | None:
    return values[-1] if values else None


def _size(value: int | str | None) -> int | None:
    return directives.size(value) if isinstance(value, str) else value
