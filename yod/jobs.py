"""Batch jobs and detached jobs of Python programs, by their ids: docs/api.md.

Each call asks the partition's bebopd once, and waits for the answer. In asyncio programs
``asyncio.to_thread`` keeps the loop free meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from native import limits as limits_module
from native.errors import UsageError, YodError
from native.wire.alloc import NodeSpec
from native.wire.base import State
from native.wire.batch import Cancel, LimitTime, Row, SignalScript
from native.wire.placed import numbers_in
from yod.guest.choices import Nodes
from yod.guest.request import text_of


class JobStatus(Struct, frozen=True):
    """What is known of a batch job.

    Attributes:
        state: as ``PENDING``, ``RUNNING``, ``COMPLETED``: docs/batch.md.
        reason: what it waits for, or why it has ended; empty: nothing to say.
        exit_status: as that of ``yodjob wait``; None: it has not ended.
        signal: that has ended its script; 0: none.
        slots: that it has, or asks for.
        nodes: numbers of the nodes that it has or had.
        submitted, began, ended: unix time; None: not yet.
    """

    id: str
    name: str
    user: str
    state: str
    reason: str
    exit_status: int | None
    signal: int
    slots: int
    nodes: tuple[int, ...]
    submitted: float
    began: float | None
    ended: float | None

    @property
    def has_ended(self) -> bool:
        """It runs no more, and will not run again."""
        return State(self.state).is_final


class BatchJob:
    """A job of a partition, found by its id."""

    def __init__(self, job_id: str, partition: str = "") -> None:
        self.id = job_id
        self._partition = partition

    def __repr__(self) -> str:
        return f"BatchJob({self.id!r})"

    def status(self) -> JobStatus:
        """What is known of it now.

        Raises:
            YodError: there is no such batch job, or bebopd does not answer.
        """
        return self._only(self._asked().rows())

    def wait(self) -> JobStatus:
        """Wait until it has ended.

        Raises:
            YodError: as :meth:`status`.
        """
        return self._only(self._asked().wait([self.id]))

    def cancel(self) -> None:
        """End it, whether it waits or runs; a second time: kill it.

        Raises:
            YodError: it has ended, or is another user's.
        """
        self._order(Cancel)

    def signal(self, number: int) -> None:
        """Send its script a signal.

        Raises:
            YodError: it does not run, or is another user's.
        """
        self._order(lambda job_id: SignalScript(job_id, number))

    def limit_time(self, time_s: float) -> None:
        """Change how long it may run, in seconds from its beginning.

        Raises:
            YodError: it has ended, or is another user's.
        """
        if not time_s >= 1:
            raise UsageError(f"time_s={time_s}: at least 1 second")
        self._order(lambda job_id: LimitTime(job_id, float(time_s)))

    def _order(self, message: Any) -> None:
        asked = self._asked()
        if asked.order([self.id], message):
            raise YodError(f"{self.id}: {asked.trouble or 'no such batch job'}")
        if asked.failures:
            raise YodError(asked.failures[0])

    def _only(self, rows: list[Row]) -> JobStatus:
        if not rows:
            raise YodError(f"{self.id}: no such batch job")
        return _status(rows[0])

    def _asked(self) -> Any:
        from partition.batch.ids import Asked

        asked = Asked([self.id], self._partition, limits_module.load(os.environ))
        if not asked.ids:
            raise UsageError(f"{self.id!r}: the id of a batch job is a number")
        return asked


def submit(
    script: str | os.PathLike[str] | None = None,
    *arguments: str,
    wrap: str | None = None,
    size: int | None = None,
    nodes: Nodes = (),
    time_s: float | None = None,
    output: str | None = None,
    name: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    after: str | None = None,
    exclusive: bool = False,
    constraint: str | None = None,
    switches: str | None = None,
    exclude: Nodes = (),
    partition: str = "",
) -> BatchJob:
    """Hand a script in; it runs when its slots are free.

    Args:
        script: its path; what stands in its head is read.
        wrap: a command of the shell, instead of a script.
        size: slots. Default: what the script says, or one on each of ``nodes``, or 1.
        nodes: only of these nodes: numbers, or text such as ``5,1..3``.
        time_s: how long it may run, in whole seconds.
        output: the file for its output, as ``-o``.
        cwd: where it runs.
        after: the jobs that it waits for, as ``afterok:17,afterany:18``.
        exclusive: all slots of whole nodes, which nobody else uses.
        constraint: features of the nodes, such as ``gpu&ib``.
        switches: below so few leaf switches, as ``--switches``: ``1``, ``2@30:00``.
        exclude: none of these nodes: numbers, or text such as ``3,5..7,n9``.

    Raises:
        YodError: it is not taken; the text says why.
    """
    from partition.submit import handing

    if (script is None) == (wrap is None):
        raise UsageError("either a script or wrap=")
    if time_s is not None and not time_s >= 1:
        raise UsageError(f"time_s={time_s}: at least 1 second")
    given: Mapping[str, Any] = {
        "size": size,
        "nodes": text_of(nodes) or None,
        "time_text": None if time_s is None else f"0:{round(time_s)}",
        "output": output,
        "name": name,
        "after": after,
        "is_exclusive": exclusive,
        "constraint": constraint,
        "switches": switches,
        "exclude": text_of(exclude) or None,
        "directory": None if cwd is None else os.fspath(cwd),
    }
    words = [] if script is None else [os.fspath(script), *arguments]
    taken = handing.submit(words, wrap, given, partition, os.environ)
    return BatchJob(str(taken.job_id), partition)


def detach(command: Sequence[str], *, size: int = 1, partition: str = "") -> BatchJob:
    """Launch a program as a job that runs without a terminal; ``yodjob attach`` shows its output.

    Raises:
        YodError: it is not taken; the text says why.
    """
    from partition.submit import handing

    words = ["yod", f"-sz={size}", "--", *command]
    taken = handing.detach(words, command[0], handing.Wanted(NodeSpec(size)), partition, os.environ)
    return BatchJob(str(taken.job_id), partition)


def jobs(partition: str = "") -> list[JobStatus]:
    """The batch jobs of a partition that have not ended, of all users, ids ascending.

    Raises:
        YodError: bebopd does not answer.
    """
    from partition.batch.ids import Asked

    asked = Asked([], partition, limits_module.load(os.environ))
    found = [_status(row) for rows in asked.every() for row in rows]
    if asked.trouble:
        raise YodError(asked.trouble)
    return found


def _status(row: Row) -> JobStatus:
    from partition.batch.show import exit_status

    return JobStatus(
        id=str(row.job_id),
        name=row.name,
        user=row.owner,
        state=row.state.value,
        reason=row.reason,
        exit_status=exit_status(row) if row.state.is_final else None,
        signal=row.signal,
        slots=row.slots,
        nodes=numbers_in(row.nodes),
        submitted=row.submitted,
        began=row.began or None,
        ended=row.ended or None,
    )
