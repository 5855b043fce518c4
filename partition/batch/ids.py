"""The jobs that a command names: which of them are batch jobs, and what bebopd says of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from native.errors import PartitionError
from native.limits import Limits
from native.text import shown
from native.wire import batch
from native.wire.base import Array
from partition.batch import ask
from partition.find import discover
from partition.jobs.ask import Silent

_ID_END = 1 << 47


class Asked:
    """Jobs by their ids, some of which a bebopd may have as batch jobs.

    Args:
        job_ids: as the user has written them.
        partition: an address; empty: found as by yod.

    Attributes:
        ids: those that a bebopd may know.
        trouble: why bebopd could not be asked; empty: it was, or there is none.
        failures: a line for each batch job that has not done what it was asked.
    """

    def __init__(self, job_ids: Iterable[str], partition: str, limits: Limits) -> None:
        self._limits = limits
        self._where = discover.find_outer(partition, os.environ)
        self.ids = [job_id for job_id in dict.fromkeys(job_ids) if _is_number(job_id)]
        self.trouble = ""
        self.failures: list[str] = []
        self._is_named = bool(partition)
        self._rows: list[batch.Row] | None = None

    def rows(self) -> list[batch.Row]:
        """The batch jobs among them, ids ascending."""
        if self._rows is None:
            self._rows = []
            if self.ids and not self._where.is_embedded:
                try:
                    self._rows = ask.rows(self._where, self._limits, list(map(int, self.ids)))
                except PartitionError as error:
                    self._trouble(error)
        return self._rows

    def every(self, *, is_grouped: bool = False) -> Iterator[list[batch.Row]]:
        """All batch jobs, named or not, in slices, ids ascending.

        Args:
            is_grouped: a row may be that of several jobs.
        """
        if not self._where.is_embedded:
            try:
                yield from ask.slices(self._where, self._limits, is_grouped=is_grouped)
            except PartitionError as error:
                self._trouble(error)

    def _trouble(self, error: PartitionError) -> None:
        if self._is_named:
            raise error
        self.trouble = str(error)

    def order(
        self,
        job_ids: Sequence[str],
        message: Callable[[int], ask.Order],
    ) -> list[str]:
        """Have bebopd do something about the batch jobs among these.

        Returns:
            The others.
        """
        known = {str(row.job_id): row for row in self.rows()}
        there = [job_id for job_id in dict.fromkeys(job_ids) if job_id in known]
        going = [job_id for job_id in there if not known[job_id].state.is_final]
        messages = [message(int(job_id)) for job_id in going]
        errors = ask.orders(self._where, self._limits, messages) if going else []
        failed = dict(zip(going, errors, strict=True))
        for job_id in there:
            error = failed.get(job_id)
            if job_id not in failed or (error is not None and ask.is_unknown(error)):
                self.failures.append(f"{job_id}: {Silent.ENDED.value}")
            elif error is not None:
                self.failures.append(f"{job_id}: {shown(str(error))}")
        return [job_id for job_id in job_ids if job_id not in known]

    def limit(self, job_id: str, time_s: float) -> str:
        """Have bebopd change the time limit of an allocation; why not, empty: it has.

        Nothing where no bebopd has the job.
        """
        if self._where.is_embedded or not _is_number(job_id):
            return ""
        (error,) = ask.orders(self._where, self._limits, [batch.LimitTime(int(job_id), time_s)])
        return "" if error is None or ask.is_unknown(error) else str(error)

    def cancel_elements(self, array_id: int, wanted: Array) -> None:
        """End elements of an array, whether they have begun or not."""
        from partition.batch import elements  # few are named so

        try:
            why = elements.cancel(array_id, wanted, self._where, self._limits)
        except PartitionError as error:
            why = shown(str(error))
        if why:
            self.failures.append(f"{array_id}_{wanted.text}: {why}")

    def wait(self, job_ids: Iterable[str]) -> list[batch.Row]:
        """Batch jobs when they have ended."""
        ids = sorted(map(int, job_ids))
        return ask.wait(self._where, self._limits, ids) if ids else []

    def reach(self, job_id: int) -> batch.Reach | None:
        """How to attach to a batch job, when it runs; None: it does not run any more.

        Raises:
            PartitionError: it is another user's, or bebopd does not answer.
        """
        try:
            reach = ask.reach(self._where, self._limits, job_id)
        except PartitionError as error:
            if ask.is_unknown(error):
                return None
            raise
        return reach if reach.address else None

    @property
    def has_bebopd(self) -> bool:
        """Whether there is one to ask."""
        return not self._where.is_embedded

    def history(self, count: int) -> list[batch.Row]:
        """The last jobs of the user."""
        return ask.history(self._where, self._limits, count)

    def past(self, job_id: str, count: int) -> list[batch.Row]:
        """What the history has of a job and the last of its steps, or of one step.

        Nothing where no partition is up, and of ids that no partition gives.
        """
        allocation, dot, step = job_id.partition(".")
        if self._where.is_embedded or not _is_number(allocation) or (dot and not _is_number(step)):
            return []
        number = int(step) if dot else batch.NO_STEP
        return ask.history(self._where, self._limits, count, (int(allocation),), number)

    def events(self, job_id: int) -> list[batch.Happened]:
        """What has happened to a job of the partition; nothing where none is up."""
        if self._where.is_embedded:
            return []
        return ask.events(self._where, self._limits, job_id)


def _is_number(job_id: str) -> bool:
    return job_id.isascii() and job_id.isdecimal() and 0 < int(job_id) < _ID_END
