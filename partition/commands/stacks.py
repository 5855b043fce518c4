"""`yodjob stack`: where the ranks of a job are."""

from __future__ import annotations

import sys

import click

from native.host import stdio
from native.text import shown
from native.waitstatus import FAILED
from native.wire import job
from partition.commands.printing import print_json, print_lines
from partition.commands.words import JSON
from partition.jobs.ask import ask
from yod.launch.stacks.tree import Tree


@click.command()
@JSON
@click.argument("job_id", metavar="ID")
def stack(job_id: str, is_json: bool) -> None:
    """Show where the ranks of a job are now: their stacks, merged, those that differ last."""
    (answer,) = ask((job_id,), job.Look(), None)
    seen = [*answer.before]
    if isinstance(answer.reply, job.Stacks):
        seen.append(answer.reply)
    if not isinstance(answer.reply, job.Stacks):
        stdio.say(f"yodjob: {shown(job_id)}: {answer.trouble or 'it has ended'}")
        sys.exit(FAILED)
    tree = Tree()
    for each in seen:
        tree.read(each.stacks)
    if is_json:
        print_json({"id": job_id, "stacks": tree.text().splitlines()})
    else:
        print_lines(tree.lines())
    troubles: dict[str, list[str]] = {}
    for each in seen:
        if each.text:
            troubles.setdefault(each.text, []).append(each.node)
    for text, names in troubles.items():
        where = f"{names[0]}: " if names[0] else ""
        more = f" (and {len(names) - 1} nodes more)" if len(names) > 1 else ""
        stdio.say(f"yodjob: {shown(where)}{shown(text)}{more}")
    if not tree.ranks:
        sys.exit(FAILED)
