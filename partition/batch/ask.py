"""Asks bebopd about batch jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from native.errors import PartitionError, Refusal
from native.ids import PortalId
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Port
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import Message
from partition.find.discover import Where
from partition.find.talking import reached, talk


class RefusedError(PartitionError):
    """bebopd refuses; the text says why.

    Attributes:
        code: the kind of reason.
    """

    def __init__(self, refused: Refused) -> None:
        self.code = refused.code
        super().__init__(refused.text)


_Changes = batch.LimitTime | batch.Suspend | batch.Hold | batch.Prioritise | batch.Requeue
Order = batch.Cancel | batch.SignalScript | _Changes
_Opened = tuple[Port, PortalId, Reactor]  # of :func:`reached`


def rows(where: Where, limits: Limits, job_ids: Sequence[int] = ()) -> list[batch.Row]:
    """The batch jobs with these ids that bebopd knows, ids ascending.

    Args:
        job_ids: none: all that have not ended.

    Raises:
        PartitionError: there is no bebopd, or it does not answer.
    """
    if not job_ids:
        return list(chain.from_iterable(slices(where, limits)))
    return _rows_of(where, limits, job_ids, limits.allocate_s, waits=False)


def slices(where: Where, limits: Limits, *, is_grouped: bool = False) -> Iterator[list[batch.Row]]:
    """All batch jobs that have not ended, in slices, ids ascending.

    Where they are grouped a row may be that of several jobs, and goes by the first of them.
    While the caller looks at one bebopd makes the next.

    Raises:
        PartitionError: as :func:`rows`.
    """
    asked: Message | None = batch.Ask(is_grouped=is_grouped)
    with reached(where, limits) as opened:
        port, bebopd, _ = opened
        is_cut = True
        while is_cut:
            found, is_cut = _slice(opened, where, asked, limits.allocate_s)
            if is_cut:
                last = max(row.also[-1][0] if row.also else row.job_id for row in found)
                port.send(bebopd, batch.Ask(after=last, is_grouped=is_grouped))
                asked = None
            yield found


def wait(where: Where, limits: Limits, job_ids: Sequence[int]) -> list[batch.Row]:
    """The same, when all of them have ended.

    Raises:
        PartitionError: as :func:`rows`.
    """
    return _rows_of(where, limits, job_ids, None, waits=True)


def history(
    where: Where,
    limits: Limits,
    count: int,
    job_ids: Sequence[int] = (),
    step: int = batch.NO_STEP,
) -> list[batch.Row]:
    """The last jobs of the user, ids ascending; or some jobs and their steps, or one step.

    Raises:
        PartitionError: as :func:`rows`.
    """
    message = batch.History(count, tuple(job_ids), step)
    return _rows(where, limits, message, limits.allocate_s)


def events(where: Where, limits: Limits, job_id: int) -> list[batch.Happened]:
    """What has happened to a job of the partition, the oldest first.

    Raises:
        PartitionError: as :func:`rows`.
    """
    found: list[batch.Happened] = []

    def take(answer: Message) -> bool:
        match answer:
            case batch.Events(_, piece, is_last):
                found.extend(piece)
                return is_last
        return False

    _ask(where, limits, batch.AskEvents(job_id), limits.allocate_s, take)
    return found


def reach(where: Where, limits: Limits, job_id: int) -> batch.Reach:
    """How to attach to a job, when it runs.

    Raises:
        RefusedError: it has ended, or is another user's.
        PartitionError: as :func:`rows`.
    """
    found: list[batch.Reach] = []

    def take(answer: Message) -> bool:
        if isinstance(answer, batch.Reach):
            found.append(answer)
        return bool(found)

    _ask(where, limits, batch.AskReach(job_id), None, take)
    return found[0]


def order(where: Where, limits: Limits, message: Order) -> None:
    """Have bebopd end, signal, suspend or resume a job, or limit its time.

    Raises:
        RefusedError: it refuses.
        PartitionError: as :func:`rows`.
    """
    (error,) = orders(where, limits, [message])
    if error is not None:
        raise error


def orders(where: Where, limits: Limits, messages: Sequence[Order]) -> list[PartitionError | None]:
    """The same of several, one after the other; what each of them raises.

    Where bebopd is lost, or does not answer, it is not asked for the rest.
    """
    errors: list[PartitionError | None] = []
    try:
        with reached(where, limits) as opened:
            for message in messages:
                try:
                    _talk(opened, where, message, limits.allocate_s, _is_done)
                    errors.append(None)
                except RefusedError as error:
                    errors.append(error)
    except PartitionError as error:
        errors += [error] * (len(messages) - len(errors))
    return errors


def _is_done(answer: Message) -> bool:
    return isinstance(answer, batch.Done)


def is_unknown(error: PartitionError) -> bool:
    """bebopd knows no such batch job."""
    return isinstance(error, RefusedError) and error.code is Refusal.UNKNOWN_JOB


def _rows_of(
    where: Where, limits: Limits, job_ids: Sequence[int], wait_s: float | None, *, waits: bool
) -> list[batch.Row]:
    """As many jobs in each question as it may have."""
    found: list[batch.Row] = []
    for start in range(0, len(job_ids), batch.ASKED_MAX):
        some = tuple(job_ids[start : start + batch.ASKED_MAX])
        found += _rows(where, limits, batch.Ask(some, waits=waits), wait_s)
    return sorted(found, key=lambda row: row.job_id)


def _rows(where: Where, limits: Limits, message: Message, wait_s: float | None) -> list[batch.Row]:
    with reached(where, limits) as opened:
        return _slice(opened, where, message, wait_s)[0]


def _slice(
    opened: _Opened, where: Where, message: Message | None, wait_s: float | None
) -> tuple[list[batch.Row], bool]:
    """An answer, and whether there are more rows.

    Args:
        message: as the request of :func:`partition.find.talking.talk`.
    """
    found: list[batch.Row] = []
    is_cut = False

    def take(answer: Message) -> bool:
        nonlocal is_cut
        match answer:
            case batch.Rows(piece, is_last, is_cut):
                found.extend(piece)
                return is_last
        return False

    _talk(opened, where, message, wait_s, take)
    return found, is_cut


def _ask(
    where: Where,
    limits: Limits,
    message: Message,
    wait_s: float | None,
    take: Callable[[Message], bool],
) -> None:
    with reached(where, limits) as opened:
        _talk(opened, where, message, wait_s, take)


def _talk(
    opened: _Opened,
    where: Where,
    message: Message | None,
    wait_s: float | None,
    take: Callable[[Message], bool],
) -> None:
    refused: list[Refused] = []

    def take_all(answer: Message) -> bool:
        if isinstance(answer, Refused):
            refused.append(answer)
        return bool(refused) or take(answer)

    talk(*opened, where.name, wait_s, message, take_all)
    if refused:
        raise RefusedError(refused[0])
