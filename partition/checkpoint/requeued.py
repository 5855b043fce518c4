"""What a step of a batch job that was requeued goes on from: its own last checkpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence

from native.text import shown
from partition.checkpoint import files, finding, preparing
from partition.checkpoint.preparing import Restarted
from yod.plan.checkpoint import Backend, Checkpointing
from yod.plan.invocation import Invocation
from yod.plan.plan import Member


def last(chosen: Checkpointing, members: list[Member], invocation: Invocation) -> Restarted | None:
    """The newest whole checkpoint that this step of this job has made; None: there is none.

    A script may have several steps with one directory: a step is known by its words and its
    ranks. Other jobs may have used the directory before.

    Raises:
        YodError: this yod cannot read it.
    """
    job_id = preparing.batch_job(invocation)
    path = os.path.abspath(chosen.directory)
    if not job_id or not os.path.isdir(path):
        return None
    backend = (chosen.backend or Backend.SIGNAL).value
    words = [(member.spec.size, member.words) for member in members]
    for found in finding.all_in(path):
        if found.manifest is None:
            continue
        recipe = found.manifest.recipe
        if recipe.batch_job != job_id or recipe.backend != backend:
            continue
        if words == [(each.spec.size, each.words) for each in recipe.members]:
            return preparing.restarted(found.path, may_lack=False)
    return None


def last_path(kept: str, job_id: str, words: Sequence[str]) -> str:
    """The checkpoint that a step has made just now; empty: there is none.

    Args:
        kept: where it keeps them, or one of them that it went on from.
        job_id: whose step it is.
        words: of its program; empty: any.
    """
    path = os.path.abspath(kept)
    if os.path.basename(path).startswith(files.PREFIX):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        return ""
    for found in finding.all_in(path):
        if found.manifest is None or found.manifest.recipe.batch_job != job_id:
            continue
        if not words or list(found.manifest.recipe.members[0].words) == list(words):
            return found.path
    return ""


def told(found: Restarted, invocation: Invocation) -> str:
    """A line for the user."""
    job_id = preparing.batch_job(invocation)
    return f"job {shown(job_id)} was requeued: goes on from {shown(found.path)}"
