"""`yodjob attach`: to a job that runs, or to what is left of one that has ended."""

from __future__ import annotations

import os
from collections.abc import Mapping

from native import limits as limits_module
from native.errors import PartitionError
from native.host import userdirs
from native.text import shown
from native.wire.batch import Row
from partition.attach import client
from partition.attach.spool import Spool, directory
from partition.batch import show
from partition.batch.ids import Asked


def attach(job_id: str, asked: Asked, environment: Mapping[str, str]) -> int:
    """Show the output of a job, follow it while it runs, have its input.

    Returns:
        The job's exit status; 0: the user has left.

    Raises:
        PartitionError: it cannot be attached to; the text says why.
    """
    row = next((row for row in asked.rows() if str(row.job_id) == job_id), None)
    if row is None:
        raise PartitionError(f"{shown(job_id)}: {asked.trouble or 'no batch job with this id'}")
    limits = limits_module.load(environment)
    if not row.state.is_final:
        reach = asked.reach(row.job_id)
        if reach is not None:
            status = client.follow(reach, limits, job_id)
            if status is None:
                return 0
        (row,) = asked.wait([job_id])
        if reach is not None:
            return show.exit_status(row)
    client.replay(_spool_of(row, environment, limits.spool_bytes))
    return show.exit_status(row)


def _spool_of(row: Row, environment: Mapping[str, str], limit_bytes: int) -> Spool:
    """The spool of a job that has ended.

    Raises:
        PartitionError: it is not to be seen here.
    """
    above = os.path.dirname(directory(userdirs.state(environment), "any"))
    try:
        names = [name for name in os.listdir(above) if name.startswith(f"{row.job_id}@")]
        return Spool(os.path.join(above, names[-1]), limit_bytes)
    except (OSError, IndexError):
        how = f"{row.state.value}: {row.reason}" if row.reason else row.state.value
        raise PartitionError(
            f"job {row.job_id} has ended ({how}), and no output of it is kept on this host"
        ) from None
