"""Ranks whose output is followed: which, and how their lines are shown."""

from __future__ import annotations

import pytest

from native.errors import UsageError
from native.wire import job
from partition.commands.following import Lines, ranges_of


def test_ranks_become_ranges():
    assert ranges_of("3") == ((3, 3),)
    assert ranges_of("7..4,0,1") == ((0, 1), (4, 7))


def test_more_ranges_than_a_request_has_room_for_are_refused():
    most = ",".join(str(rank * 2) for rank in range(1000, 1000 + job.RANGES_MAX))
    assert len(job.encode(job.Follow(ranges_of(most)))) <= job.REQUEST_MAX_BYTES
    with pytest.raises(UsageError, match="33 ranges of ranks, at most 32"):
        ranges_of(f"{most},0")
    with pytest.raises(UsageError, match="ranks, as in 3 or"):
        ranges_of(str(1 << 30))


def test_one_rank_is_shown_as_it_comes():
    assert Lines(is_labelled=False).add(3, 1, b"a\nb") == b"a\nb"


def test_lines_of_several_ranks_are_whole_and_labelled():
    lines = Lines(is_labelled=True)
    assert lines.add(3, 1, b"a") == b""
    assert lines.add(4, 1, b"x\ny\nz") == b"4: x\n4: y\n"
    assert lines.add(3, 2, b"e\n") == b"3: e\n"
    assert lines.add(3, 1, b"b\n\n") == b"3: ab\n3: \n"
    assert lines.rest() == [(1, b"4: z\n")]
    assert lines.add(1, 1, b"x" * 65536) == b"1: " + b"x" * 65536 + b"\n"
