"""Commands of checkpoints: make one of a job, show those of a directory, go on from one."""

from __future__ import annotations

import os
import sys
import time
from itertools import chain

import click

from native import limits
from native.host import programs, stdio
from native.text import shown
from native.waitstatus import FAILED
from native.wire import job
from partition.checkpoint import finding
from partition.commands.printing import print_json, print_lines
from partition.commands.words import JSON, PARTITION, takes_ids
from partition.jobs.ask import Silent, ask
from partition.jobs.steps import with_steps

_MB = 1e6
_ENDED = "it ended before its checkpoint was made"


@click.command()
@click.option("--kill", "ends", is_flag=True, help="End the jobs behind their checkpoints.")
@click.option("--check", "is_trial", is_flag=True, help="Only say whether it could be done.")
@PARTITION
@takes_ids
def checkpoint(job_ids: tuple[str, ...], ends: bool, is_trial: bool, partition: str) -> None:
    """Write jobs down that run with --checkpoint-dir, and wait until that is done.

    A batch job or an allocation is its steps whose yods run on this host: all of them are
    written down, or, if one of them cannot be, none. A job whose script is written down by
    CRIU is the script, with its steps.
    """
    wanted = with_steps(job_ids)
    for answer in ask([each for each in wanted if wanted[each] != [each]], job.Show(), None):
        if isinstance(answer.reply, job.Shown) and answer.reply.is_saved_whole:
            wanted[answer.id] = [answer.id]
    whole = {job_id: steps for job_id, steps in wanted.items() if steps != [job_id]}
    failed: dict[str, str] = {}
    if whole and not is_trial:
        for answer in ask(chain.from_iterable(whole.values()), job.Checkpoint(ends, True), None):
            if not isinstance(answer.reply, job.Accepted):
                failed[answer.id] = answer.trouble or _ENDED
        for job_id, steps in whole.items():
            if not failed.keys().isdisjoint(steps):
                wanted[job_id] = []  # its other steps stay as they are
    asked = list(dict.fromkeys(chain.from_iterable(wanted.values())))
    unknown = []
    for answer in ask(asked, job.Checkpoint(ends, is_trial), None):
        if isinstance(answer.reply, job.Checkpointed):
            print(f"{answer.id}: {shown(answer.reply.path)}")
        elif isinstance(answer.reply, job.Accepted):
            print(f"{answer.id}: a checkpoint can be made")
        else:
            failed[answer.id] = answer.trouble or _ENDED
            if answer.silent is Silent.UNKNOWN:
                unknown.append(answer.id)
    failed |= _why_no_steps(unknown, partition)
    for job_id, why in failed.items():
        stdio.say(f"yodjob: {shown(job_id)}: no checkpoint: {why}")
    if failed:
        sys.exit(FAILED)


def _why_no_steps(job_ids: list[str], partition: str) -> dict[str, str]:
    """Of jobs that are not here: why, of those that are batch jobs."""
    if not any(job_id.isdecimal() for job_id in job_ids):
        return {}
    from partition.batch import show  # most are found here
    from partition.batch.ids import Asked

    rows = Asked(job_ids, partition, limits.load(os.environ)).rows()
    return {str(row.job_id): show.why_no_steps(row) for row in rows}


@click.command("checkpoints")
@JSON
@click.argument("directory", metavar="DIR")
def show_checkpoints(directory: str, is_json: bool) -> None:
    """Show the checkpoints of a directory, the newest first."""
    found, others = finding.all_in(directory), finding.unfinished(directory)
    if is_json:
        print_json(
            {
                "checkpoints": [_record(each) for each in found],
                "unfinished": [each._asdict() for each in others],
            }
        )
    else:
        print_lines([*map(_unfinished, others), *map(_line, found)])


@click.command()
@click.argument("directory", metavar="DIR")
def restart(directory: str) -> None:
    """Go on from the newest whole checkpoint of a directory: as yod --restart DIR."""
    words = [*programs.command_line("yod"), "--restart", directory]
    sys.stdout.flush()
    os.execv(words[0], words)


def _line(found: finding.Found) -> str:
    manifest = found.manifest
    if manifest is None:
        return f"{shown(os.path.basename(found.path))}  not whole: {found.trouble}"
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.created))
    ranks = f"{manifest.ranks} ranks"
    amount = f"{manifest.size / _MB:.1f} MB"
    name = shown(os.path.basename(found.path))
    return f"{name}  {made}  {ranks}  {amount}  {shown(manifest.recipe.job)}"


def _unfinished(found: finding.Unfinished) -> str:
    name = shown(os.path.basename(found.path))
    amount = f"{found.nodes} nodes have written {found.size / _MB:.1f} MB"
    return f"{name}  being made, or left behind: {amount}"


def _record(found: finding.Found) -> dict[str, object]:
    manifest = found.manifest
    if manifest is None:
        return {"path": found.path, "is_whole": False, "trouble": found.trouble}
    return {
        "path": found.path,
        "is_whole": True,
        "created": manifest.created,
        "ranks": manifest.ranks,
        "size": manifest.size,
        "job": manifest.recipe.job,
    }
