"""What became of a job, from the end of its broker. Pure."""

from __future__ import annotations

from msgspec import msgpack

from native.text import shown
from native.waitstatus import how_it_ended
from native.wire.base import TEXT_MAX, JobEnd, State, clipped
from native.wire.batch import BrokerEnded
from native.wire.codec import NONSENSE

_NOT_STARTED = -1


def outcome_of(message: BrokerEnded, is_cancelled: bool) -> JobEnd:
    """The outcome that a broker tells; what its end tells where it says nothing of use.

    The owner may have made it say anything: it concerns nobody else.
    """
    told = _decoded(message.outcome)
    if told is None:
        text = shown(message.outcome.decode(errors="replace")[-TEXT_MAX // 2 :].strip())
        if message.wait_status == _NOT_STARTED:
            said = f"its broker could not be started: {text}" if text else "its broker never ran"
            return JobEnd(State.CANCELLED if is_cancelled else State.FAILED, 0, 0, clipped(said))
        ended = f"its broker ended unexpectedly: {how_it_ended(message.wait_status)}"
        state = State.CANCELLED if is_cancelled else State.NODE_FAIL
        return JobEnd(state, 0, 0, clipped(f"{ended}: {text}" if text else ended))
    if is_cancelled and told.state is not State.COMPLETED:
        return JobEnd(State.CANCELLED, told.exit_status, told.signal, told.reason)
    return told


def _decoded(data: bytes) -> JobEnd | None:
    try:
        outcome = msgpack.decode(data, type=JobEnd)
    except NONSENSE:
        return None
    return outcome if outcome.state.is_final else None
