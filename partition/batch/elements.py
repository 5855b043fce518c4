"""Ids of elements of arrays as users write them: ``17_3``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from native.errors import PartitionError
from native.limits import Limits
from native.wire.base import Array, Element
from native.wire.batch import HISTORY_MAX, NO_STEP, Cancel, Row
from partition.batch import ask
from partition.find import discover
from partition.find.discover import Where
from partition.submit.array import parse

_SOME = re.compile(r"(\d{1,15})_(?:\[([^\[\]]+)\]|([^\[\]]+))", re.ASCII)
_ID = re.compile(r"(\d{1,15})_(\d{1,10})", re.ASCII)


def numbered(job_ids: Sequence[str], partition: str, limits: Limits) -> list[str]:
    """The same ids, with those of elements as the jobs that these have become.

    Raises:
        PartitionError: an element has not begun, or bebopd does not know it.
    """
    wanted = {
        job_id: Element(int(found[1]), int(found[2]))
        for job_id in job_ids
        if (found := _ID.fullmatch(job_id))
    }
    if not wanted:
        return list(job_ids)
    where = discover.find_outer(partition, os.environ)
    numbers: dict[Element, int] = {}
    if not where.is_embedded:
        numbers = _by_element(ask.rows(where, limits))
        if any(element not in numbers for element in wanted.values()):
            numbers = _by_element(ask.history(where, limits, HISTORY_MAX)) | numbers
    for job_id, element in wanted.items():
        if element not in numbers:
            whole = f"`yodjob cancel {element.array}` ends its array"
            raise PartitionError(f"{job_id}: this element has not begun, or is forgotten; {whole}")
    return [str(numbers[wanted[each]]) if each in wanted else each for each in job_ids]


def split(job_ids: Sequence[str]) -> tuple[list[str], list[tuple[int, Array]]]:
    """Ids of jobs; and elements by their arrays: ``17_3``, ``17_3-9,12``, ``17_[3-9]``.

    Raises:
        UsageError: no indices follow the ``_``.
    """
    plain: list[str] = []
    some: list[tuple[int, Array]] = []
    for job_id in job_ids:
        if (found := _SOME.fullmatch(job_id)) is None:
            plain.append(job_id)
        else:
            some.append((int(found[1]), parse(found[2] or found[3], job_id)))
    return plain, some


def cancel(array_id: int, wanted: Array, where: Where, limits: Limits) -> str:
    """End elements of an array: those that have not begun do not begin any more.

    Returns:
        Why none has been ended; empty: some have.

    Raises:
        PartitionError: bebopd does not answer, or refuses.
    """
    has_some = True
    try:
        ask.order(where, limits, Cancel(array_id, wanted))
    except PartitionError as error:
        if not ask.is_unknown(error):
            raise
        has_some = False
    # From here on none of them begins.
    indices = frozenset(wanted.indices())
    begun: list[ask.Order] = []
    for row in ask.rows(where, limits):
        of = row.element
        if of is None or of.array != array_id or of.index not in indices or row.state.is_final:
            continue
        if row.step == NO_STEP:
            begun.append(Cancel(row.job_id))
    for failure in ask.orders(where, limits, begun) if begun else ():
        if failure is not None and not ask.is_unknown(failure):  # else it has ended meanwhile
            raise failure
    has_some |= bool(begun)
    return "" if has_some else "they have ended, or there are none"


def _by_element(rows: Iterable[Row]) -> dict[Element, int]:
    return {row.element: row.job_id for row in rows if row.element and row.step == NO_STEP}
