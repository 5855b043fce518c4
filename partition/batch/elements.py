"""Ids of elements of arrays as users write them: ``17_3``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from native.errors import PartitionError
from native.limits import Limits
from native.wire.base import Element
from native.wire.batch import HISTORY_MAX, NO_STEP, Row
from partition.batch import ask
from partition.find import discover

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


def _by_element(rows: Iterable[Row]) -> dict[Element, int]:
    return {row.element: row.job_id for row in rows if row.element and row.step == NO_STEP}
