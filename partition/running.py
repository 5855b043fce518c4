"""Which jobs would end if this user's partition and launch server on this host were taken down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from native.allocated import KEY_VARIABLE
from native.errors import PartitionError
from native.host.userdirs import user_name
from native.limits import Limits
from native.nodelist import named_nodes
from native.text import shown
from native.wire import job
from partition.find import discover
from partition.find.state import State
from partition.jobs.ask import ask_all
from partition.status import reached, show
from partition.up import processes

NAMED_MAX = 16  # jobs


def jobs(found: State | None, server_pid: int | None, limits: Limits) -> str:
    """These jobs in words, with their owners; empty: there are none.

    Args:
        found: the partition.
        server_pid: the launch server's process.
    """
    names = _of_server(server_pid, limits) if server_pid is not None else {}
    more = ""
    if found is not None:
        try:
            names |= _of_partition(found, limits)
        except PartitionError:  # bebopd is gone, or is stopped
            more = _on_nodes(found)
    return " and ".join(filter(None, (listed(names), more)))


def listed(names: Mapping[str, str]) -> str:
    """``jobs 3 (ann), 4 (bob)``; empty: there are none.

    Args:
        names: their owners, by id.
    """
    words = [f"{job_id} ({shown(owner)})" for job_id, owner in names.items()]
    if len(words) > NAMED_MAX:
        words[NAMED_MAX:] = [f"and {len(words) - NAMED_MAX} more"]
    return ("job " if len(names) == 1 else "jobs ") + ", ".join(words) if words else ""


def _of_server(unix_pid: int, limits: Limits) -> dict[str, str]:
    """Owners of the launches that a launch server of ours runs, by id."""
    answers = ask_all(job.Show(), limits.job_answer_s)
    us = user_name(os.geteuid())
    return {answer.id: us for answer in answers if answer.unix_pid == unix_pid}


def _of_partition(found: State, limits: Limits) -> dict[str, str]:
    """Owners of the jobs that bebopd knows, by id.

    Raises:
        PartitionError: it does not answer.
    """
    if not processes.is_alive(found.daemons[0]):
        raise PartitionError("bebopd is gone")
    where = discover.find(found.unix_address or found.address, {KEY_VARIABLE: found.key_file})
    soon = replace(limits, allocate_s=min(limits.allocate_s, limits.job_answer_s))
    rows = show.merge(reached.rows(where, soon))
    return {str(job.job_id): job.owner for row in rows for job in row.jobs}


def _on_nodes(found: State) -> str:
    """The nodes that host a job, as their PCTs' children tell; empty: none."""
    if found.started:
        return "what runs on other hosts (bebopd does not answer)"
    busy = [
        daemon.node
        for daemon in found.daemons[1:]
        if processes.is_alive(daemon) and _has_children(daemon.unix_pid)
    ]
    return f"jobs on {named_nodes(busy)} (bebopd does not answer)" if busy else ""


def _has_children(unix_pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{unix_pid}/task/{unix_pid}/children").read_text().strip())
    except OSError:  # it has just ended
        return False
