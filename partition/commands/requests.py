"""The requests of pingd: end jobs, kill PCTs, reserve nodes. One for each run of the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from msgspec import Struct

from native import nodelist
from native.errors import UsageError, YodError
from native.nodelist import named_nodes
from native.text import shown
from native.wire.nodes import ORDERED_MAX, Ending, EndJobs, Restart, Unreserve
from native.wire.status import NodeRow
from partition.commands import ordering
from partition.status import show

_VERBS = {
    Ending.INTERRUPT: "interrupt",
    Ending.NICEKILL: "interrupt and later kill",
    Ending.RESET: "kill",
}


class NothingDoneError(YodError):
    """A request has changed nothing."""


class Chosen(Struct, frozen=True):
    """What a request is about: what meets every condition.

    Attributes:
        listed: a node list; None: any node.
        job_id, batch_job: None: any job.
        owner: the user who asks, by name; None: of any user.
        is_all: everything, where nothing else is said.
    """

    listed: str | None
    job_id: int | None
    batch_job: str | None
    owner: str | None
    is_all: bool

    @property
    def is_of_jobs(self) -> bool:
        """It chooses jobs, not only nodes."""
        return (self.job_id, self.batch_job, self.owner) != (None, None, None)

    def numbers(self) -> tuple[int, ...]:
        """The nodes that are listed; empty: any.

        Raises:
            UsageError: it is no node list, or they are too many.
        """
        found = nodelist.parse(self.listed) if self.listed is not None else ()
        if len(found) > ORDERED_MAX:
            raise UsageError(f"{len(found)} nodes, at most {ORDERED_MAX} at a time")
        return found

    def words(self) -> str:
        """In words, for a question."""
        said = [
            f"job {self.job_id}" if self.job_id is not None else "",
            f"jobs of batch job {shown(self.batch_job)}" if self.batch_job is not None else "",
            "jobs of yours" if self.owner is not None else "",
        ]
        what = " and ".join(filter(None, said)) or "all jobs"
        return what + (f" on {named_nodes(self.numbers())}" if self.listed is not None else "")


def end(how: Ending, chosen: Chosen, inquires: bool, partition: str) -> list[str]:
    """End jobs; lines that say which.

    Raises:
        UsageError: nothing is chosen, or there is no such job or node.
        PartitionError: bebopd is not there, or refuses.
        NothingDoneError: there is nothing to end, or that is not meant.
    """
    _demand_choice(chosen)
    if how is Ending.NICEKILL and chosen.listed is not None:
        raise UsageError(
            "-nicekill is for whole jobs: -job, -pbsjob, -mine or -all, without a list"
        )
    asked = EndJobs(
        how,
        chosen.numbers(),
        chosen.job_id or 0,
        os.getuid() if chosen.owner is not None else -1,
        chosen.batch_job or "",
    )
    if inquires:
        _inquire(f"{_VERBS[how]} {chosen.words()}")
    lines, has_any = ordering.end(asked, partition)
    if not has_any:
        raise NothingDoneError("; ".join(lines))
    return lines


def kill_pcts(
    chosen: Chosen, inquires: bool, partition: str, rows: Callable[[], list[NodeRow]]
) -> list[str]:
    """Kill the PCTs of nodes, with all jobs there; each begins anew.

    Raises:
        UsageError, PartitionError, NothingDoneError: as :func:`end`.
    """
    _demand_choice(chosen)
    numbers = _nodes_of(chosen, rows)
    if inquires:
        _inquire(f"kill the pcts of {named_nodes(numbers)}, and every job there")
    return ordering.give(Restart(numbers, is_forced=True), partition)


def reserve(
    user: str | None,
    reason: str | None,
    chosen: Chosen,
    partition: str,
    rows: Callable[[], list[NodeRow]],
) -> list[str]:
    """Reserve nodes for a user; None: give them to all users again.

    Raises:
        UsageError, PartitionError, NothingDoneError: as :func:`end`.
    """
    if chosen.is_of_jobs or (user is None and reason is not None):
        raise UsageError("-reserve USER {-reason TEXT} or -unreserve, with a node list alone")
    if chosen.listed is None and not chosen.is_all:
        raise UsageError("which nodes? -list LIST, or -all")
    numbers = _nodes_of(chosen, rows)
    if user is not None:
        return ordering.reserve(numbers, user, reason or "", partition)
    return ordering.give(Unreserve(numbers), partition)


def _demand_choice(chosen: Chosen) -> None:
    if chosen.listed is None and not chosen.is_of_jobs and not chosen.is_all:
        raise UsageError("of what? -job N, -pbsjob N, -mine, -list LIST or -all")


def _nodes_of(chosen: Chosen, rows: Callable[[], list[NodeRow]]) -> tuple[int, ...]:
    """The nodes of these jobs, or those that are listed.

    Raises:
        UsageError: there are none, or too many.
    """
    if chosen.listed is not None and not chosen.is_of_jobs:
        return chosen.numbers()
    found = show.select(
        rows(),
        nodes=chosen.numbers() or None,
        job_id=chosen.job_id,
        owner=chosen.owner,
        batch_job=chosen.batch_job,
    )
    if not found:
        raise UsageError("no node here meets all conditions")
    if len(found) > ORDERED_MAX:
        raise UsageError(f"{len(found)} nodes, at most {ORDERED_MAX} at a time: -list LIST")
    return tuple(row.node for row in found)


def _inquire(what: str) -> None:
    """Ask at a terminal whether this is meant.

    Raises:
        NothingDoneError: it is not.
    """
    if not sys.stdin.isatty():
        return
    sys.stderr.write(f"pingd: {what}? (y/n) ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NothingDoneError("nothing was done")
