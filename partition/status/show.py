"""What pingd prints, from the rows of bebopd's table. Pure.

The words and columns of :func:`parse_lines` are read by other programs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from native.duration import clock
from native.nodelist import format_nodes
from native.wire.status import NodeJob, NodeRow, NodeState, is_batch_job
from partition.status import why

HEADER = ("Node", "Name", "State", "Job", "Ranks", "Owner", "Elapsed")
PARSE_HEADER = "nid:name:status:reserved:session:job-id:spid:rank:owner:hours:minutes:seconds"
UNKNOWN = "_"
_PLAIN = re.compile("[!-9;-~]*")
# Not counted where there are none
_RARE = (NodeState.DRAINING, NodeState.DRAINED, NodeState.TROUBLE)


def merge(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """One row for each node, with one entry for each job: bebopd sends large ones in parts."""
    nodes: dict[int, NodeRow] = {}
    for row in rows:
        first = nodes.setdefault(row.node, row)
        if first is not row:
            nodes[row.node] = replace(first, jobs=_joined((*first.jobs, *row.jobs)))
    return list(nodes.values())


def _joined(parts: Iterable[NodeJob]) -> tuple[NodeJob, ...]:
    """Each job once, with the ranks of all its parts."""
    jobs: dict[int, NodeJob] = {}
    for part in parts:
        earlier = jobs.get(part.job_id)
        jobs[part.job_id] = replace(part, ranks=earlier.ranks + part.ranks) if earlier else part
    return tuple(jobs.values())


def select(
    rows: Iterable[NodeRow],
    *,
    nodes: Collection[int] | None = None,
    job_id: int | None = None,
    owner: str | None = None,
    batch_job: str | None = None,
) -> list[NodeRow]:
    """The rows and jobs that meet every condition given.

    Args:
        nodes: numbers.
        job_id: only this job, and nodes that have it.
        owner: only jobs of this user, and nodes that have one.
        batch_job: only jobs of this job of a batch system, and nodes that have one.
    """
    chosen = []
    for row in rows:
        if nodes is not None and row.node not in nodes:
            continue
        if job_id is not None or owner is not None or batch_job is not None:
            jobs = tuple(
                job
                for job in row.jobs
                if job_id in (None, job.job_id)
                and owner in (None, job.owner)
                and (batch_job is None or is_batch_job(job.batch_job, batch_job))
            )
            if not jobs:
                continue
            row = replace(row, jobs=jobs)
        chosen.append(row)
    return chosen


def cells(row: NodeRow) -> tuple[str, ...]:
    """One line of the display, under HEADER; several jobs are joined by commas."""
    node, name, state = str(row.node), printable(row.name), row.state.value
    if not row.jobs:
        return node, name, state, "", "", "", ""
    return (
        node,
        name,
        state,
        ",".join(str(job.job_id) for job in row.jobs),
        "; ".join(ranks(job) for job in row.jobs),
        ",".join(dict.fromkeys(printable(job.owner) for job in row.jobs)),
        elapsed(max(job.elapsed_s for job in row.jobs)),
    )


def plain(rows: Sequence[NodeRow]) -> list[str]:
    """The display as lines of text in columns."""
    table = [HEADER, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    # Numbers to the right, words to the left.
    sides = [">" if column in (0, 3) else "<" for column in range(len(HEADER))]
    line = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [line.format(*each).rstrip() for each in table]


def ranks(job: NodeJob) -> str:
    """A job's ranks on a node, which ascend, as a list."""
    here = job.ranks
    if here and here[-1] - here[0] == len(here) - 1:  # most are
        return str(here[0]) if len(here) == 1 else f"{here[0]}..{here[-1]}"
    return format_nodes(here)


def totals(rows: Sequence[NodeRow]) -> list[str]:
    """Nodes by state, and slots."""
    count = {state: sum(row.state is state for row in rows) for state in NodeState}
    used, slots = sum(row.slots_used for row in rows), sum(row.slots for row in rows)
    jobs = {job.job_id for row in rows for job in row.jobs}
    counts = [
        f"{number} {state.value}" for state, number in count.items() if number or state not in _RARE
    ]
    lines = [
        f"{_count(len(rows), 'node')}: " + ", ".join(counts),
        f"{_count(slots, 'slot')}: {used} in use by {_count(len(jobs), 'job')}",
    ]
    reserved = [row for row in rows if row.reservation is not None]
    if reserved:
        busy = sum(bool(row.slots_used) for row in reserved)
        lines.append(f"{_count(len(reserved), 'node')} reserved: {busy} of them with jobs")
    return lines


def parse_lines(rows: Sequence[NodeRow]) -> list[str]:
    """The display for programs: a header, then a line for each node and job."""
    lines = [PARSE_HEADER]
    for row in rows:
        reserved = "false" if row.reservation is None else "true"
        start = f"{row.node}:{printable(row.name)}:{row.state.value}:{reserved}"
        for job in row.jobs:
            hours, minutes, seconds = clock(job.elapsed_s)
            said = ranks(job) or UNKNOWN
            owner = printable(job.owner) or UNKNOWN
            session = printable(job.batch_job) or UNKNOWN
            lines.append(
                f"{start}:{session}:{job.job_id}:{UNKNOWN}:{said}:{owner}:{hours}:{minutes}:{seconds}"
            )
        if not row.jobs:
            lines.append(start + f":{UNKNOWN}" * 8)
    return lines


def records(rows: Sequence[NodeRow], now: float, stale_s: float) -> dict[str, Any]:
    """The display for programs, as JSON has it; ids are strings.

    Args:
        now, stale_s: as for :func:`why.lines`.
    """
    return {"nodes": [_record(row, why.reason(row, now, stale_s)) for row in rows]}


def _record(row: NodeRow, reason: str) -> dict[str, Any]:
    jobs = [
        {
            "id": str(job.job_id),
            "ranks": ranks(job),
            "owner": job.owner,
            "elapsed_s": job.elapsed_s,
            "is_pending": job.is_pending,
            "batch_job": job.batch_job or None,
        }
        for job in row.jobs
    ]
    return {
        "node": row.node,
        "name": row.name,
        "state": row.state.value,
        "slots": row.slots,
        "slots_used": row.slots_used,
        "jobs": jobs,
        "drain": row.drain and asdict(row.drain),
        "is_restarting": row.is_restarting,
        "reservation": row.reservation and asdict(row.reservation),
        "portion": row.portion.value,
        "why": reason or None,
    }


def elapsed(seconds: float) -> str:
    """hhhh:mm:ss."""
    hours, minutes, left = clock(seconds)
    return f"{hours:04}:{minutes:02}:{left:02}"


def printable(name: str) -> str:
    """A name without characters that move the cursor or break a line or a column."""
    if _PLAIN.fullmatch(name):  # nearly all
        return name
    return "".join(c if c.isprintable() and c not in ": " else "?" for c in name)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
