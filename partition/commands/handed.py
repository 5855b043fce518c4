"""What `yodjob submit` does with its options, and a reader of them that does without click.

Most of the time of a submission is that of imports, and click would be a fifth more.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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


def submit(words: Sequence[str], given: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Hand a script in, and print what comes of it.

    Args:
        given: the values of all options, by their names; None: not given.

    Raises:
        UsageError, PartitionError: as :func:`partition.submit.handing.submit`.
        SystemExit: the job has been waited for; its status.
    """
    wrap, partition = given["wrap"], given["partition"] or ""
    if bool(words) == (wrap is not None):
        raise UsageError("say either a script or --wrap COMMAND")
    if given["is_test"]:
        from partition.batch.show import forecast_line

        forecast, warnings = handing.test(words, wrap, given, partition, environment)
        _warn(warnings)
        sys.stdout.write(forecast_line(forecast, time.time()) + "\n")
        return
    submitted = handing.submit(words, wrap, given, partition, environment)
    _warn(submitted.warnings)
    text = f"; it waits: {shown(submitted.text)}" if submitted.text else ""
    job_id = str(submitted.job_id)
    told = (
        f"Submitted batch job {job_id}" if given["is_sbatch"] else f"job {job_id} submitted{text}"
    )
    sys.stdout.write((job_id if given["is_quiet"] else told) + "\n")
    sys.stdout.flush()
    if given["waits"]:
        from partition.commands import plain

        plain.wait([job_id], partition)


def _warn(warnings: Iterable[str]) -> None:
    for line in warnings:
        stdio.say(f"yodjob: {line}")
