"""An operator's order for nodes: read from the words of a command, and told of afterwards. Pure."""

from __future__ import annotations

from collections.abc import Sequence

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
    Order,
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
    jobs = _jobs(changed)
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
        case Reserve():
            of_idle, of_busy = "reserved", f"reserved: {jobs} still there"
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


def _jobs(changed: Changed) -> str:
    said = [f"{job.job_id} ({shown(job.owner)})" for job in changed.jobs]
    more = changed.job_count - len(said)
    word = "job" if changed.job_count == 1 else "jobs"
    return f"{word} {', '.join(said)}" + (f" and {more} more" if more else "")
