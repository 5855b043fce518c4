"""The tables of PROTOCOL.md, section 5, as tests read them, and messages that several tests try.

A table has a row for each message and a column for each state: what the message does
there. "no" must be refused, "late" must do nothing, "yes" must be taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from native.wire import group, pmi
from tests.unit.pct import job_of
from tests.wire import protocol

ID = job_of.JOB_ID
MODEX = pmi.Modex(pmi.Process(0, 0))
ALONE = pmi.Alone(ID, 3, b"/lib/libmpi.so.12", "alone")
TIMES = group.Times(ID, 10, (group.NodeTimes(21, 0),))
EXCESS = pmi.Excess(ID, "n3", "at most 1000 bytes")


def table_after(place: str) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the first table below a line that begins so."""
    _, found, rest = protocol.TEXT.partition(f"\n{place}")
    assert found, place
    block = re.search(r"^\|(?:.*\|\n)+", rest, re.M)
    assert block
    lines = [line.split("|")[1:-1] for line in block[0].splitlines()]
    columns, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return columns, rows


def cells_of(heading: str, labels: int) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """(label, column, cell) of a table whose first columns are the label."""
    columns, rows = table_after(heading)
    for row in rows:
        assert len(row) == len(columns)
        for column, cell in zip(columns[labels:], row[labels:], strict=True):
            yield tuple(row[:labels]), column, cell


def ask(source: int, target: int, question: pmi.Question = MODEX) -> pmi.Ask:
    return pmi.Ask(ID, source, target, 1, question)
