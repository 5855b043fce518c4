"""Lines that are folded make messages that the transport takes, whatever their ranks are."""

from __future__ import annotations

import pytest

from native.wire import codec
from native.wire.base import DATA_MAX, JOB_ID_MAX, SIZE_MAX
from native.wire.io import OUTPUT_MAX_BYTES, RUNS_FEW, RUNS_MAX, Lines, Output, room_bytes
from pct.job.rules.merge import MergingRelay

JOB_ID = 5
LINE = b"x" * 79 + b"\n"
RUNS = RUNS_FEW * 2 // 3  # of two children together: too many for the largest piece


def node(*places: int) -> MergingRelay:
    relay = MergingRelay(JOB_ID, 1, 1 << 22, 0.05, places)
    relay.begin()
    return relay


def every_fourth(first: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((4 * place + first, 4 * place + first, 0) for place in range(RUNS))


def sent(relay: MergingRelay) -> list[Lines]:
    relay.check()
    messages, _ = relay.take()
    for message in messages:
        codec.encode(message)  # raises where it is too long
    return [message for message in messages if isinstance(message, Lines)]


def test_the_largest_pieces_of_output_fit_into_messages() -> None:
    most = (1 << 63) - 1
    codec.encode(Output(JOB_ID_MAX, SIZE_MAX - 1, 2, most, bytes(OUTPUT_MAX_BYTES)))
    for count in (1, RUNS_FEW, RUNS_FEW + 1, RUNS_MAX):
        runs = ((SIZE_MAX - 1, SIZE_MAX - 1, most),) * count
        codec.encode(Lines(JOB_ID_MAX, 2, runs, bytes(room_bytes(count))))


def test_long_blocks_that_many_ranks_have_are_cut_between_lines() -> None:
    relay, block = node(1, 2), LINE * (OUTPUT_MAX_BYTES // len(LINE))
    for place in (1, 2):
        relay.pass_lines(place, Lines(JOB_ID, 1, every_fourth(2 * place), block), 0.0)
    messages = sent(relay)
    assert b"".join(message.data for message in messages) == block
    assert all(message.data.endswith(b"\n") for message in messages)
    assert {len(message.runs) for message in messages} == {2 * RUNS}


@pytest.mark.parametrize("size", [DATA_MAX, DATA_MAX + 1, OUTPUT_MAX_BYTES - 1])
def test_a_long_line_of_a_child_goes_on_whole(size: int) -> None:
    relay, line = node(1, 2), b"x" * (size - 1) + b"\n"
    for place in (1, 2):
        relay.pass_lines(place, Lines(JOB_ID, 1, every_fourth(2 * place), line), 0.0)
    relay.due(0.05)
    messages = sent(relay)
    assert {message.data for message in messages} == {line}
    assert sum(len(message.runs) for message in messages) == 2 * RUNS
