"""Commands of checkpoints: make one of a job, show those of a directory, go on from one."""

from __future__ import annotations

import os
import sys
import time

import click

from native.host import programs, stdio
from native.text import shown
from native.wire import job
from partition.checkpoint import finding
from partition.commands.words import FAILED, JSON, PARTITION, print_json, print_lines, takes_ids
from partition.jobs.ask import ask

_MB = 1e6


@click.command()
@click.option("--kill", "ends", is_flag=True, help="End the jobs behind their checkpoints.")
@click.option("--check", "is_trial", is_flag=True, help="Only say whether it could be done.")
@PARTITION
@takes_ids
def checkpoint(job_ids: tuple[str, ...], ends: bool, is_trial: bool, partition: str) -> None:
    """Write jobs down that run with --checkpoint-dir, and wait until that is done."""
    has_failed = False
    for answer in ask(job_ids, job.Checkpoint(ends, is_trial), None):
        if isinstance(answer.reply, job.Checkpointed):
            print(f"{answer.id}: {shown(answer.reply.path)}")
        elif isinstance(answer.reply, job.Accepted):
            print(f"{answer.id}: a checkpoint can be made")
        else:
            why = answer.trouble or "it ended before its checkpoint was made"
            stdio.say(f"yodjob: {shown(answer.id)}: no checkpoint: {why}")
            has_failed = True
    if has_failed:
        sys.exit(FAILED)


@click.command("checkpoints")
@JSON
@click.argument("directory", metavar="DIR")
def show_checkpoints(directory: str, is_json: bool) -> None:
    """Show the checkpoints of a directory, the newest first."""
    found = finding.all_in(directory)
    if is_json:
        print_json({"checkpoints": [_record(each) for each in found]})
    else:
        print_lines([_line(each) for each in found])


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
