"""What `yodjob submit` does with its options, and a reader of them that does without click.

Most of the time of a submission is that of imports, and click would be a fifth more.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from native.errors import UsageError
from native.host import stdio
from native.options import read_exact
from native.text import shown
from native.wire.base import SIZE_MAX
from partition.submit import handing
from partition.submit.options import OPTIONS


def read(
    argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[Sequence[str], dict[str, Any]] | None:
    """The words of a command line, and its options as click gives them; None: click must read it.

    That is a line with short forms, one that asks for help, and one that is wrong.
    """
    if (found := read_exact(argv, OPTIONS.values())) is None:
        return None
    said, words = found
    given: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        value = said.get(option.spellings[0])
        if not option.takes_value:
            given[name] = value is not None
        elif value is None and option.variable:
            given[name] = environment.get(option.variable) or None
        else:
            given[name] = value
    if (size := given["size"]) is not None:
        if not (size.isascii() and size.isdecimal() and 1 <= int(size) <= SIZE_MAX):
            return None
        given["size"] = int(size)
    return words, given


class Told(Struct, frozen=True):
    """What the user is told.

    Attributes:
        warnings: lines for standard error.
        line: for standard output.
        job_id: of the job; empty: none was handed in.
    """

    warnings: Sequence[str]
    line: str
    job_id: str = ""


def submit(words: Sequence[str], given: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Hand a script in, and print what comes of it.

    Args:
        given: the values of all options, by their names; None: not given.

    Raises:
        UsageError, PartitionError: as :func:`partition.submit.handing.submit`.
        SystemExit: the job has been waited for; its status.
    """
    told = hand_in(words, given, environment)
    for line in told.warnings:
        stdio.say(f"yodjob: {line}")
    sys.stdout.write(f"{told.line}\n")
    sys.stdout.flush()
    if told.job_id and given["waits"]:
        from partition.commands import plain

        plain.wait([told.job_id], given["partition"] or "")


def hand_in(words: Sequence[str], given: Mapping[str, Any], environment: Mapping[str, str]) -> Told:
    """Hand a script in, or ask when it would run. The arguments are as for :func:`submit`.

    Raises:
        UsageError, PartitionError: as :func:`partition.submit.handing.submit`.
    """
    wrap, partition = given["wrap"], given["partition"] or ""
    if bool(words) == (wrap is not None):
        raise UsageError("say either a script or --wrap COMMAND")
    if given["is_test"]:
        from partition.batch.show import forecast_line

        forecast, warnings = handing.test(words, wrap, given, partition, environment)
        return Told(warnings, forecast_line(forecast, time.time()))
    submitted = handing.submit(words, wrap, given, partition, environment)
    job_id = str(submitted.job_id)
    if given["is_quiet"]:
        line = job_id
    elif given["is_sbatch"]:
        line = f"Submitted batch job {job_id}"
    else:
        text = f"; it waits: {shown(submitted.text)}" if submitted.text else ""
        line = f"job {job_id} submitted{text}"
    return Told(submitted.warnings, line, job_id)
