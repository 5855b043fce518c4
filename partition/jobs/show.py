"""What yodjob prints, from the answers of launches. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from time import localtime, strftime
from typing import Any

from msgspec.structs import replace

from native.duration import clock, written
from native.text import shown
from native.wire import job
from native.wire.base import CODES, State
from partition.jobs.ask import Answer, Silent

HEADER = ("JOBID", "NAME", "USER", "ST", "TIME", "RANKS", "NODES", "WHERE")
Cells = tuple[str, ...]  # of one line
_RIGHT = ("JOBID", "TIME", "RANKS", "NODES")
UNKNOWN = "?"
NAME_WIDTH = 32  # characters of a name in the table

UserName = Callable[[int], str]
_QUEUE_AT = HEADER.index("USER") + 1


def table(lines: Sequence[Cells]) -> list[str]:
    """A line for each job, in columns, below :data:`HEADER`."""
    return aligned([(line[0], (*line[1:_QUEUE_AT], "", *line[_QUEUE_AT:])) for line in lines])


def with_queue(line: Cells, queue: str) -> Cells:
    """A line without the id, and with the queue of the job."""
    return (*line[1:_QUEUE_AT], queue, *line[_QUEUE_AT:])


def aligned(lines: Sequence[tuple[str, Cells]]) -> list[str]:
    """A line for each job, in columns; if any has a queue these have a column of their own.

    Args:
        lines: ids, each with the rest of its line, as :func:`with_queue` gives it. That of many
            jobs may be one object, which then costs as much as that of one.
    """
    rests = {id(rest): rest for _, rest in lines}
    first, *titles = HEADER
    titles.insert(_QUEUE_AT - 1, "QUEUE")
    shown_ones = list(range(len(titles)))
    if not any(rest[_QUEUE_AT - 1] for rest in rests.values()):
        shown_ones.remove(_QUEUE_AT - 1)
    parts = []
    for column in shown_ones:
        title = titles[column]
        width = max([len(title), *(len(rest[column]) for rest in rests.values())])
        parts.append(f"  {{{column}:{'>' if title in _RIGHT else '<'}{width}}}")
    form = "".join(parts)
    ends = {key: form.format(*rest).rstrip() for key, rest in rests.items()}
    width = max([len(first), *(len(job_id) for job_id, _ in lines)])
    header = first.rjust(width) + form.format(*titles).rstrip()
    return [header, *[job_id.rjust(width) + ends[id(rest)] for job_id, rest in lines]]


def in_columns(lines: Sequence[Cells]) -> list[str]:
    """Lines of as many cells each, one below the other; the first has the titles."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def cells(answer: Answer, user_name: UserName) -> Cells:
    """The line of a job whose launch was asked."""
    reply = answer.reply
    if not isinstance(reply, job.Shown):
        code = CODES[State.SUSPENDED] if answer.silent is Silent.STOPPED else UNKNOWN
        return answer.id, UNKNOWN, UNKNOWN, code, *(UNKNOWN,) * 3, f"process {answer.unix_pid}"
    return (
        reply.id,
        short(reply.name),
        shown(user_name(reply.uid)),
        CODES[reply.state],
        elapsed(reply.elapsed_s),
        str(reply.ranks),
        str(reply.nodes),
        shown(reply.where),
    )


def allocation_of(job_id: str) -> str:
    """The allocation that a job is a step of; empty: of none."""
    allocation, _, _ = job_id.rpartition(".")
    return "" if allocation == "local" else allocation


def with_allocations(answers: Sequence[Answer], suspended: Container[str]) -> list[Answer]:
    """The same jobs, and steps that run in suspended allocations are so, too.

    Args:
        suspended: ids of allocations. Those among the answers are known.
    """
    own = {each.id for each in answers if _state_of(each) is State.SUSPENDED}
    told = []
    for answer in answers:
        allocation, reply = allocation_of(answer.id), answer.reply
        is_in_one = allocation and (allocation in own or allocation in suspended)
        if is_in_one and isinstance(reply, job.Shown) and reply.state is State.RUNNING:
            reply = replace(reply, state=State.SUSPENDED)
            answer = Answer(answer.id, reply, None, answer.unix_pid)
        told.append(answer)
    return told


def _state_of(answer: Answer) -> State | None:
    return answer.reply.state if isinstance(answer.reply, job.Shown) else None


def short(name: str) -> str:
    """A job's name as a table shows it."""
    text = shown(name)
    return text if len(text) <= NAME_WIDTH else text[: NAME_WIDTH - 1] + "…"


def ends_of(reply: job.Shown, unix_s: float) -> float | None:
    """When the time of an allocation will be over, in Unix seconds; None: it has no limit.

    Args:
        unix_s: the time now.
    """
    if not reply.time_s or not reply.elapsed_s:  # before its beginning no time passes
        return None
    return unix_s - reply.elapsed_s + reply.time_s


def ends_text(ends: float, unix_s: float) -> str:
    """When the time of a job will be over, and how much is left."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(ends))
    return f"{at}, in {elapsed(max(0.0, ends - unix_s))}"


def paragraph(reply: job.Shown, user_name: UserName, unix_s: float) -> list[str]:
    """All that is known of one job.

    Args:
        unix_s: the time now.
    """
    ends = ends_of(reply, unix_s)
    lines = {
        "name": shown(reply.name),
        "user": f"{shown(user_name(reply.uid))} ({reply.uid})",
        "state": f"{reply.state.value} ({CODES[reply.state]})",
        "since": strftime("%Y-%m-%d %H:%M:%S", localtime(reply.began)),
        "time": elapsed(reply.elapsed_s),
        **({} if reply.time_s is None else {"limit": written(reply.time_s)}),
        **({} if ends is None else {"ends": ends_text(ends, unix_s)}),
        "ranks": str(reply.ranks),
        "nodes": str(reply.nodes),
        "where": shown(reply.where),
        "partition": shown(reply.partition),
        "yod": f"process {reply.unix_pid}",
    }
    return [f"job {reply.id}", *(f"  {name:<10} {text}".rstrip() for name, text in lines.items())]


def record(answer: Answer, user_name: UserName, unix_s: float) -> dict[str, Any]:
    """One job for programs. What is not known is null.

    Args:
        unix_s: the time now.
    """
    reply = answer.reply
    if not isinstance(reply, job.Shown):
        is_stopped = answer.silent is Silent.STOPPED
        state = State.SUSPENDED if is_stopped else None
        known = {"state": state and state.value, "code": state and CODES[state]}
        empty = ("name", "user", "uid", "began", "elapsed_s", "time_s", "ends")
        where = ("ranks", "nodes", "where", "partition")
        more = {**dict.fromkeys((*empty, *where)), "unix_pid": answer.unix_pid or None}
        return {"id": answer.id, **known, **more}
    return {
        "id": reply.id,
        "state": reply.state.value,
        "code": CODES[reply.state],
        "name": reply.name,
        "user": user_name(reply.uid),
        "uid": reply.uid,
        "began": reply.began,
        "elapsed_s": reply.elapsed_s,
        "time_s": reply.time_s,
        "ends": ends_of(reply, unix_s),
        "ranks": reply.ranks,
        "nodes": reply.nodes,
        "where": reply.where,
        "partition": reply.partition,
        "unix_pid": reply.unix_pid,
    }


def elapsed(seconds: float) -> str:
    """As squeue shows it: minutes:seconds, hours:minutes:seconds or days-hours:..."""
    hours, minutes, left = clock(seconds)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
