"""What ledgers of earlier releases have of past jobs, for the history.

They had all jobs in a table ``jobs`` and their lines in a table ``events``.
"""

from __future__ import annotations

import json
import sqlite3

from msgspec import Struct
from msgspec.structs import replace

from allocator.host import history
from allocator.jobs.accounting import row_of
from allocator.records import Statement
from native.wire import codec
from native.wire.base import State
from native.wire.batch import SPANS_MAX

NOT_TOLD = "how it ended was not recorded by the bebopd of that time"


class Moved(Struct, frozen=True):
    """Statements, in the order in which they are to be carried out.

    Attributes:
        past: for the history.
        kept, removed: for the ledger, when the history has them.
    """

    past: list[Statement] = []
    kept: list[Statement] = []
    removed: list[Statement] = []


def moved(ledger: sqlite3.Connection) -> Moved:
    """What is to be done about a ledger's old tables; nothing where it has none."""
    tables = {row[0] for row in ledger.execute("SELECT name FROM sqlite_master")}
    found = Moved([], [], [])
    if "jobs" in tables:
        _jobs(ledger, found)
        found.removed.append(("DROP TABLE jobs", ()))
    if "events" in tables:
        lines = ledger.execute("SELECT job_id, at, text FROM events ORDER BY rowid")
        found.past.extend(history.event(*line) for line in lines)
        found.removed.append(("DROP TABLE events", ()))
    return found


def _jobs(ledger: sqlite3.Connection, found: Moved) -> None:
    columns = "job_id, uid, program, size, nodes, granted, ended"
    # A batch job was in both tables.
    batch = {row[0] for row in ledger.execute("SELECT job_id FROM batch")}
    for job_id, uid, program, size, nodes, granted, ended in ledger.execute(
        f"SELECT {columns} FROM jobs"
    ):
        if job_id in batch:
            continue
        numbers = json.loads(nodes)
        row = replace(
            row_of(job_id, uid, str(uid), program, size, None, granted, granted),
            nodes=_spans(numbers)[:SPANS_MAX],
            node_count=len(numbers),
        )
        if ended is None:
            encoded = codec.encode_part(row)
            found.kept.append(("INSERT OR IGNORE INTO open_jobs VALUES (?, ?)", (job_id, encoded)))
            continue
        past = replace(row, ended=ended, state=State.FAILED, reason=NOT_TOLD)
        found.past.append(history.final(past, is_batch=False))
        found.past.append(history.held(job_id, ended, size * max(0.0, ended - granted)))


def _spans(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Node numbers in any order as first numbers and counts."""
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and sum(spans[-1]) == number:
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((number, 1))
    return tuple(spans)
