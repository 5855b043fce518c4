"""What yodjob prints of batch jobs, and of past jobs and steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from time import localtime, strftime
from typing import Any

from native.ids import name_of_job
from native.nodelist import format_spans
from native.text import plural, shown
from native.waitstatus import SIGNAL_BASE
from native.wire.base import CODES, State
from native.wire.batch import NO_STEP, Forecast, Happened, Row
from native.wire.placed import numbers_in
from partition.jobs.ask import Silent
from partition.jobs.show import Cells, elapsed, ends_text, in_columns, short, with_queue

_RAN = ("SUBMITTED", "TIME", "REASON")
HISTORY = ("JOBID", "NAME", "USER", "STATE", "EXIT", "SLOTS", "NODES", *_RAN)
_STATUSES = {
    State.CANCELLED: 143,
    State.PREEMPTED: 143,
    State.TIMEOUT: 124,
    State.NODE_FAIL: 125,
    State.DEADLINE: 124,
}
_NEVER_RAN = 125
_NEVER = elapsed(0.0)
# Names and reasons of a long queue are few.
_shown, _short = lru_cache(shown), lru_cache(short)


def exit_status(row: Row) -> int:
    """What `yodjob wait` ends with."""
    if row.signal and row.exit_status == SIGNAL_BASE + row.signal:
        return row.exit_status  # of yod, which a signal has ended
    if row.state in _STATUSES:
        return _STATUSES[row.state]
    status = SIGNAL_BASE + row.signal if row.signal else row.exit_status
    return _NEVER_RAN if row.state is State.FAILED and not status else status


def cells(row: Row, unix_s: float) -> Cells:
    """The line of `yodjob list`.

    Args:
        unix_s: the time now.
    """
    where = _where(row)
    if row.begins > unix_s and not row.began:
        where = f"{where} (begins {_time(row.begins)})".strip()
    elif row.reason:
        where = f"{where} ({_shown(row.reason)})".strip()
    ran = elapsed(max(0.0, (row.ended or unix_s) - row.began)) if row.began else _NEVER
    return (
        name_of(row),
        _short(row.name),
        _shown(row.owner),
        CODES[row.state],
        ran,
        str(row.slots),
        str(row.node_count or ""),
        where,
    )


def lines(rows: Sequence[Row], unix_s: float) -> list[tuple[int, str, Cells]]:
    """What `yodjob list` says of rows that may be those of several jobs: number, id and the rest.

    Args:
        unix_s: the time now.
    """
    found: list[tuple[int, str, Cells]] = []
    for row in rows:
        line = cells(row, unix_s)
        rest = with_queue(line, _shown(row.queue))
        found.append((row.job_id, line[0], rest))
        found += [(job_id, str(job_id), rest) for job_id, _ in row.also]
    found.sort(key=itemgetter(0))
    return found


def why_no_steps(row: Row) -> str:
    """Why a command finds no step of a batch job on its host."""
    if row.state.is_final:
        return Silent.ENDED.value
    if not row.began:
        return "it waits, and has nothing to be written down"
    where = "" if not (found := _where(row)) else f"; it has {found}"
    return f"no yod of it runs on this host now{where}"


def ends_of(row: Row) -> float | None:
    """When the time of a job will be over, in Unix seconds; None: it has none, or does not run."""
    return row.began + row.time_s if row.began and row.time_s and not row.ended else None


def paragraph(row: Row, unix_s: float) -> list[str]:
    """All that is known of one job.

    Args:
        unix_s: the time now.
    """
    ends = ends_of(row)
    lines = {
        "name": shown(row.name),
        "user": f"{shown(row.owner)} ({row.uid})",
        "state": f"{row.state.value} ({CODES[row.state]})",
        "reason": shown(row.reason),
        "queue": shown(row.queue),
        "account": shown(row.account),
        "licences": ", ".join(f"{shown(name)}:{count}" for name, count in row.licences),
        "priority": _priority(row),
        "slots": str(row.slots),
        "where": _where(row),
        "time limit": elapsed(row.time_s) if row.time_s else "",
        "submitted": _time(row.submitted),
        "begins": "" if row.began else _time(row.begins),
        "deadline": _time(row.deadline),
        "expected": _expected(row, unix_s),
        "began": _time(row.began),
        "ends": "" if ends is None else ends_text(ends, unix_s),
        "ended": _time(row.ended),
        "exit": _exit(row),
        "held": f"{row.slot_s:.0f} slot seconds" if row.slot_s else "",
    }
    told = (f"  {name:<10} {text}" for name, text in lines.items() if text)
    also = "" if row.element is None else f" (job {row.job_id})"
    return [f"job {name_of(row)}{also}", *told]


def why(row: Row, unix_s: float) -> str:
    """In a sentence why a job is where it is.

    Args:
        unix_s: the time now.
    """
    state = row.state.value.lower()
    if row.state is not State.PENDING:
        when = "since" if not row.ended else "ended"
        text = f"{state}, {when} {_time(row.ended or row.began)}"
        return f"{text}: {shown(row.reason)}" if row.reason else text
    text = shown(row.reason) or "its turn comes"
    if row.begins > unix_s:
        text += f"; it begins not before {_time(row.begins)} (in {elapsed(row.begins - unix_s)})"
    if row.factors:
        text += f"; priority {_priority(row)}"
    if expected := _expected(row, unix_s):
        return f"{state}: {text}; expected to begin {expected}"
    return f"{state}: {text}; when it begins is not known"


def priority(row: Row) -> int | None:
    """The points of a job that waits; None: the order is that of arrival."""
    return sum(factor.points for factor in row.factors) if row.factors else None


def _priority(row: Row) -> str:
    """The points, and what they are made of."""
    if not row.factors:
        return ""
    parts = [
        f"{shown(each.name)} {each.points}" + (f" ({each.value:.2f})" if each.value < 1 else "")
        for each in row.factors
    ]
    return f"{priority(row)} = {', '.join(parts)}"


def _expected(row: Row, unix_s: float) -> str:
    if not row.expected:
        return ""
    left_s = max(0.0, row.expected - unix_s)
    return f"by {_time(row.expected)} (in {elapsed(left_s)})"


def name_of(row: Row) -> str:
    """What people call the job or step: ``17``, ``17.3``, ``17_5`` of an array, ``17_[6-9]``."""
    if row.element is not None and row.step == NO_STEP:
        return f"{row.element.array}_{row.element.index}"
    if row.left is not None and row.left.count:
        return f"{row.job_id}_[{row.left.text}]"
    return str(row.job_id) if row.step == NO_STEP else name_of_job(row.step, str(row.job_id))


def happened(row: Row) -> list[Happened]:
    """What its row says of a step's history."""
    slots = plural(row.slots, "slot")
    told = [Happened(row.submitted, f"asked for {slots}")] if row.submitted < row.began else []
    told.append(Happened(row.began, f"granted: {slots} on {_where(row)}"))
    if row.ended:
        said = f"{row.state.value}: {row.reason}" if row.reason else row.state.value
        told.append(Happened(row.ended, said))
    return told


def forecast_line(forecast: Forecast, unix_s: float) -> str:
    """What `yodjob submit --test-only` prints.

    Args:
        unix_s: the time now.
    """
    if not forecast.at:
        return f"the job would be taken; when it would begin is not known: {shown(forecast.text)}"
    when = "now" if forecast.at <= unix_s + 1.0 else f"by {_time(forecast.at)}"
    more = ",..." if sum(count for _, count in forecast.nodes) < forecast.node_count else ""
    noun = "node" if forecast.node_count == 1 else "nodes"
    return f"the job would begin {when}, on {noun} {format_spans(forecast.nodes)}{more}"


def history(rows: Sequence[Row]) -> list[str]:
    """A line for each job, in columns."""
    return in_columns([HISTORY, *map(_past, rows)])


def _past(row: Row) -> Cells:
    title = (name_of(row), short(row.name), shown(row.owner), row.state.value, _exit(row))
    ran_s = row.ended - row.began if row.ended and row.began else 0.0
    times = (_time(row.submitted), elapsed(max(0.0, ran_s)))
    return (*title, str(row.slots), str(row.node_count or ""), *times, shown(row.reason))


def record(row: Row) -> dict[str, Any]:
    """One job for programs. What is not known is null."""
    return {
        "id": str(row.job_id) if row.step == NO_STEP else name_of(row),
        "array": None if row.element is None else str(row.element.array),
        "index": None if row.element is None else row.element.index,
        "left": None if row.left is None else row.left.text,
        "state": row.state.value,
        "code": CODES[row.state],
        "name": row.name,
        "user": row.owner,
        "uid": row.uid,
        "reason": row.reason or None,
        "slots": row.slots,
        "nodes": list(numbers_in(row.nodes)),
        "node_count": row.node_count,
        "submitted": row.submitted,
        "expected": row.expected or None,
        "begins": row.begins or None,
        "deadline": row.deadline or None,
        "began": row.began or None,
        "ended": row.ended or None,
        "time_s": row.time_s or None,
        "ends": ends_of(row),
        "exit_status": exit_status(row) if row.state.is_final else None,
        "signal": row.signal or None,
        "slot_s": row.slot_s or None,
        "queue": row.queue or None,
        "account": row.account or None,
        "licences": dict(row.licences),
        "priority": priority(row),
        "factors": {each.name: [each.value, each.points] for each in row.factors},
    }


def event_lines(events: Sequence[Happened]) -> list[str]:
    """A line for each thing that has happened."""
    return [f"  {_time(each.at)}  {shown(each.text)}" for each in events]


def event_records(events: Sequence[Happened]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [{"at": each.at, "text": each.text} for each in events]


def _where(row: Row) -> str:
    """Its nodes; those that did not fit are dots."""
    if not row.nodes:
        return ""
    more = ",..." if sum(count for _, count in row.nodes) < row.node_count else ""
    return f"{'node' if row.node_count == 1 else 'nodes'} {format_spans(row.nodes)}{more}"


def _exit(row: Row) -> str:
    if not row.state.is_final:
        return ""
    if row.signal:
        return f"signal {row.signal}"
    has_run = row.exit_status or row.state is State.COMPLETED
    return str(row.exit_status) if has_run else ""


def _time(unix_s: float) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(unix_s)) if unix_s else ""
