"""How an allocation has ended, for the partition's history. Pure."""

from __future__ import annotations

import signal

from native.waitstatus import SIGNAL_BASE
from native.wire.base import JobEnd, State, clipped

LOST = 125  # exit status: there was no allocation, or it ended before the command


def end_of(status: int | None, told: tuple[State, str] | None) -> JobEnd:
    """The end of an allocation.

    Args:
        status: of the process that holds it, negative: a signal ends it; None: it still held it.
        told: state and reason, where the command has not ended by itself.
    """
    if status is None:
        return JobEnd(State.NODE_FAIL, LOST, 0, "its daemons have ended")
    if told is not None:
        state, text = told
        return JobEnd(state, status & 0xFF, 0, clipped(text))
    if status < 0:
        name = signal.Signals(-status).name
        return JobEnd(State.CANCELLED, SIGNAL_BASE - status, -status, f"ended by {name}")
    return JobEnd(State.FAILED if status else State.COMPLETED, status & 0xFF, 0, "")
