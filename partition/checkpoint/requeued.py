"""What a step of a batch job that was requeued goes on from: its own last checkpoint."""

from __future__ import annotations

import os

from native.text import shown
from partition.checkpoint import finding, preparing
from partition.checkpoint.preparing import Restarted
from yod.plan.checkpoint import Backend, Checkpointing
from yod.plan.invocation import Invocation
from yod.plan.plan import Member


def last(chosen: Checkpointing, members: list[Member], invocation: Invocation) -> Restarted | None:
    """The newest whole checkpoint that this step of this job has made; None: there is none.

    A script may have several steps with one directory: a step is known by its words and its
    ranks. Other jobs may have used the directory before.

    Raises:
        YodError: it is not as it was written.
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


def told(found: Restarted, invocation: Invocation) -> str:
    """A line for the user."""
    job_id = preparing.batch_job(invocation)
    return f"job {shown(job_id)} was requeued: goes on from {shown(found.path)}"
