"""What happens where a node looks at the ranks of a job, and what is done for that."""

from __future__ import annotations

from native.machine import JobEvent
from pct.events import HelperAction


class LookerEnded(JobEvent, frozen=True):
    """No process of what looked at ranks is left.

    Attributes:
        stacks: what it has found.
        trouble: what is wrong with it; empty: nothing is.
    """

    stacks: bytes
    trouble: str


class RunLooker(HelperAction, frozen=True):
    """Start what looks at ranks, as the job's owner; answered by :class:`LookerEnded`.

    Attributes:
        words: its arguments.
    """

    words: tuple[bytes, ...]
    uid: int
    gid: int
    groups: tuple[int, ...]


class KillLooker(HelperAction, frozen=True):
    """Kill what looks at ranks."""
