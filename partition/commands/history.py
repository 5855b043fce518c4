"""The command that shows past jobs and steps."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from native import limits
from native.errors import PartitionError, UsageError
from native.host import stdio
from native.text import shown
from native.waitstatus import FAILED
from native.wire.batch import HISTORY_MAX, Row
from partition.batch import show
from partition.batch.ids import Asked
from partition.commands.printing import print_json, print_lines
from partition.commands.words import JSON, PARTITION

_LAST = 20  # jobs, where no count is given
_NONE_UP = "no partition is up here; yodjob history --log shows the launches of yod"


@click.command()
@click.option(
    "-count",
    "-n",
    "count",
    type=click.IntRange(1, HISTORY_MAX),
    metavar="N",
    help="The last N jobs (default 20), or N rows of each ID (default: all).",
)
@click.option("--log", "is_log", is_flag=True, help="The launches in your user log instead.")
@PARTITION
@JSON
@click.argument("job_ids", nargs=-1, metavar="{ID...}")
def history(
    job_ids: tuple[str, ...], count: int | None, is_log: bool, is_json: bool, partition: str
) -> None:
    """Show your last jobs, ended or not; of IDs the jobs and their steps.

    With --log the launches of your user log, also those of no partition. Operators see the jobs of
    all users. Exit status: 0; 1 an ID has no row.
    """
    if is_log:
        if job_ids or partition:
            raise UsageError("--log takes neither IDs nor a partition: it has all launches of yod")
        _print_log(count or _LAST, is_json)
        return
    asked = Asked([], partition, limits.load(os.environ))
    if not job_ids:
        if not asked.has_bebopd:
            raise PartitionError(_NONE_UP)
        _print(asked.history(count or _LAST), is_json)
        return
    found = {job_id: asked.past(job_id, count or HISTORY_MAX) for job_id in job_ids}
    rows = {(row.job_id, row.step): row for some in found.values() for row in some}
    _print([rows[key] for key in sorted(rows)], is_json)
    missing = [job_id for job_id, some in found.items() if not some]
    for job_id in missing:
        stdio.say(f"yodjob: {shown(job_id)}: the history has no such job of yours")
    if missing:
        sys.exit(FAILED)


def _print(rows: Sequence[Row], is_json: bool) -> None:
    if is_json:
        print_json({"jobs": [show.record(row) for row in rows]})
    else:
        print_lines(show.history(rows))


def _print_log(count: int, is_json: bool) -> None:
    """The last launches of the user log.

    Raises:
        PartitionError: there is none, or it cannot be read.
    """
    from native.host import userdirs
    from partition.jobs import log
    from yod.plan.prepared import LOG_VARIABLE, NO_LOG

    path = os.environ.get(LOG_VARIABLE, "")
    if path == NO_LOG:
        raise PartitionError(f"{LOG_VARIABLE}={NO_LOG}: there is no user log")
    path = path or os.path.join(userdirs.state(os.environ), userdirs.USER_LOG)
    try:
        found = log.last(path, count)
    except OSError as error:
        raise PartitionError(f"{shown(path)}: {(error.strerror or str(error)).lower()}") from error
    if is_json:
        print_json({"launches": [log.record(each) for each in found]})
    else:
        print_lines(log.table(found))
