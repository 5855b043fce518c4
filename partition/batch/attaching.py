"""`yodjob attach`: to a job that runs, or to what is left of one that has ended."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import msgpack

from native import limits as limits_module
from native.errors import PartitionError
from native.host import userdirs
from native.limits import Limits
from native.text import shown
from native.waitstatus import exit_status
from native.wire import job
from native.wire.batch import Reach, Row, Serving
from partition.attach import client, spool
from partition.attach.spool import Spool
from partition.batch import show
from partition.batch.detached import LOCAL
from partition.batch.ids import Asked
from partition.jobs.ask import ask


def attach(job_id: str, asked: Asked, environment: Mapping[str, str]) -> int:
    """Show the output of a job, follow it while it runs, have its input.

    Returns:
        The job's exit status; 0: the user has left.

    Raises:
        PartitionError: it cannot be attached to; the text says why.
    """
    limits = limits_module.load(environment)
    row = None
    if not job_id.startswith(LOCAL):
        row = next((row for row in asked.rows() if str(row.job_id) == job_id), None)
    if row is None:
        return _attach_unknown(job_id, asked.trouble, environment, limits)
    if not row.state.is_final:
        reach = asked.reach(row.job_id)
        if reach is not None and client.follow(reach, limits, job_id) is None:
            return 0
        (row,) = asked.wait([job_id])
        if reach is not None:
            return show.exit_status(row)
    kept = _spool_of(job_id, environment, limits)
    if kept is None:
        raise PartitionError(f"job {job_id} has ended ({_how(row)}), {_NOTHING_KEPT}")
    client.replay(kept)
    return show.exit_status(row)


_NOTHING_KEPT = "and no output of it is kept on this host"


def _how(row: Row) -> str:
    return f"{row.state.value}: {row.reason}" if row.reason else row.state.value


def ended_with(job_id: str, environment: Mapping[str, str]) -> int | None:
    """The exit status of a detached job of this host that has ended; None: it is none."""
    kept = _spool_of(job_id, environment, limits_module.load(environment))
    ended = b"" if kept is None else kept.noted(spool.ENDED)
    return exit_status(int(ended)) if ended.isdigit() else None


def _attach_unknown(
    job_id: str, trouble: str, environment: Mapping[str, str], limits: Limits
) -> int:
    """Attach to a job that no bebopd has as a batch job: one that its user has left."""
    kept = _spool_of(job_id, environment, limits)
    status = ended_with(job_id, environment)
    if (kept is None or status is not None) and _runs_here(job_id, limits):
        raise PartitionError(f"job {job_id} is at a terminal: a line ~d there leaves it")
    if kept is None:
        what = "detached job" if job_id.startswith(LOCAL) or "." in job_id else "batch job"
        where = " on this host" if what == "detached job" else ""
        raise PartitionError(f"{shown(job_id)}: {trouble or f'no {what} with this id{where}'}")
    if status is None:
        serving = msgpack.decode(kept.noted(spool.REACH), type=Serving)
        number = int(job_id.rpartition(".")[2])
        reach = Reach(number, os.geteuid(), serving.address, serving.key)
        followed = client.follow(reach, limits, job_id)
        return 0 if followed is None else followed
    client.replay(kept)
    return status


def _runs_here(job_id: str, limits: Limits) -> bool:
    """Whether a launch on this host has the id."""
    (answer,) = ask([job_id], job.Show(), limits.job_answer_s)
    return answer.silent is None


def _spool_of(job_id: str, environment: Mapping[str, str], limits: Limits) -> Spool | None:
    """The spool of a job; None: there is none to be seen here."""
    above = os.path.dirname(spool.directory(userdirs.state(environment), "any"))
    try:
        names = [name for name in os.listdir(above) if name.startswith(f"{job_id}@")]
        return Spool(os.path.join(above, names[-1]), limits.spool_bytes)
    except (OSError, IndexError):
        return None
