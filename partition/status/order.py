"""An order for nodes, a request to end jobs: read from words, and told of afterwards. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from native import nodelist
from native.errors import UsageError
from native.nodelist import named_nodes
from native.text import shown
from native.wire.base import NAME_MAX
from native.wire.nodes import (
    ORDERED_MAX,
    Changed,
    Dedicate,
    Drain,
    Ending,
    EndJobs,
    JobsEnding,
    Order,
    OwnedJob,
    Reserve,
    Restart,
    Resume,
    Unreserve,
)


def nodes_of(lists: Sequence[str]) -> tuple[int, ...]:
    """The nodes of several node lists, each once.

    Raises:
        UsageError: one is no node list, or they have too many nodes.
    """
    numbers = tuple(dict.fromkeys(number for each in lists for number in nodelist.parse(each)))
    if len(numbers) > ORDERED_MAX:
        raise UsageError(f"{len(numbers)} nodes, at most {ORDERED_MAX} at a time")
    return numbers


def reason_of(text: str | None) -> str:
    """Why nodes are drained.

    Raises:
        UsageError: there is no reason, or none that others could read.
    """
    if text is None or not text.strip():
        raise UsageError('nodes are drained for a reason: -reason TEXT, as in -reason "fan"')
    return readable(text)


def readable(text: str) -> str:
    """A reason that others can read.

    Raises:
        UsageError: it is none.
    """
    if not text.isprintable():
        raise UsageError(f"-reason {shown(text)}: must be one line of text")
    if len(text) > NAME_MAX:
        raise UsageError(f"-reason: {len(text)} characters, at most {NAME_MAX}")
    return text


def told(order: Order, changed: Changed) -> list[str]:
    """What has become of an order, for its operator."""
    idle = [number for number in changed.nodes if number not in set(changed.busy)]
    jobs = _jobs(changed.jobs, changed.job_count)
    match order:
        case Drain():
            of_idle, of_busy = "drained", f"draining: {jobs} still there"
        case Resume():
            of_idle = of_busy = "resumed"
            idle = list(changed.nodes)
        case Restart(_, is_forced):
            of_idle = "to restart now"
            of_busy = f"to restart now, which ends {jobs}"
            if not is_forced:
                of_busy = f"to restart when free of jobs; {jobs} still there"
        case Reserve(start=start):
            later = f" from {datetime.fromtimestamp(start):%Y-%m-%d %H:%M:%S} on" if start else ""
            of_idle, of_busy = f"reserved{later}", f"reserved{later}: {jobs} still there"
        case Dedicate(_, portion):
            of_idle = f"for {portion.value} jobs"
            of_busy = f"{of_idle}: {jobs} still there"
        case Unreserve():
            of_idle = of_busy = "given to all users again"
            idle = list(changed.nodes)
        case _:
            raise AssertionError(f"no case for {order!r}")
    others = sorted(set(order.nodes) - set(changed.nodes))
    lines = [f"{named_nodes(idle)} {of_idle}" if idle else ""]
    if changed.busy and not isinstance(order, Resume | Unreserve):
        lines.append(f"{named_nodes(changed.busy)} {of_busy}")
    before = "reserved" if isinstance(order, Unreserve) else "drained"
    lines.append(f"{named_nodes(others)} not {before} before" if others else "")
    return [line for line in lines if line]


_SENT = {
    Ending.INTERRUPT: "SIGTERM to",
    Ending.NICEKILL: "SIGTERM, and SIGKILL later, to",
    Ending.RESET: "SIGKILL to",
}


def ending(asked: EndJobs, ending: JobsEnding) -> list[str]:
    """What has become of a request to end jobs."""
    if not ending.job_count:
        lines = ["no job there that you may end"]
    else:
        nodes = "1 node" if ending.node_count == 1 else f"{ending.node_count} nodes"
        lines = [f"{_SENT[asked.how]} {_jobs(ending.jobs, ending.job_count)} on {nodes}"]
    if others := ending.other_count:
        lines.append("1 job is another user's" if others == 1 else f"{others} jobs are others'")
    return lines


def _jobs(jobs: Sequence[OwnedJob], count: int) -> str:
    said = [f"{job.job_id} ({shown(job.owner)})" for job in jobs]
    more = count - len(said)
    word = "job" if count == 1 else "jobs"
    return f"{word} {', '.join(said)}" + (f" and {more} more" if more else "")
