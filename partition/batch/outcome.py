"""What a broker says of how its job has ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from native.waitstatus import UNKNOWN, exit_status
from native.wire.base import JobEnd, State, clipped
from partition.broker.machine import CANCELLED, TIMED_OUT

NOT_KNOWN = "its exit status is not known"


def outcome_of(
    status: int,
    wait_status: int | None,
    errors: Sequence[str],
    *,
    is_by_command: bool,
    has_lost_nodes: bool = False,
) -> JobEnd:
    """How a job has ended.

    Args:
        status: of the allocation; it tells why where that is not the script's doing.
        wait_status: of the script, which may be unknown; None: it has not ended.
        errors: what was told of the allocation.
        is_by_command: the allocation has ended because the script has, or could not be started.
        has_lost_nodes: some of its nodes were lost before that.
    """
    reason = clipped("; ".join(errors))
    code, number = _code_and_signal(wait_status)
    if is_by_command and wait_status is not None:
        state = State.FAILED if wait_status else State.COMPLETED
        if wait_status == UNKNOWN:
            reason = reason or NOT_KNOWN
    elif is_by_command:  # it could not be started
        state, code = State.FAILED, status
    elif status == TIMED_OUT:
        state = State.TIMEOUT
    elif status < 0 or reason == CANCELLED:
        state = State.CANCELLED
    else:
        state = State.NODE_FAIL
    return JobEnd(state, code, number, reason, has_lost_nodes)


def _code_and_signal(wait_status: int | None) -> tuple[int, int]:
    if wait_status is None:
        return 0, 0
    number = 0 if wait_status == UNKNOWN else wait_status & 0x7F
    return 0 if number else exit_status(wait_status), number
