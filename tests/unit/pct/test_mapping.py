"""PMI_process_mapping: where every rank is, as short as can be, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pct.wireup.mapping import MAPPING_MAX, process_mapping


def spread(value):
    """The place of each rank, as the libraries read it."""
    assert value.startswith(b"(vector,(") and value.endswith(b"))")
    blocks = value[len(b"(vector,(") : -2].split(b"),(")
    return [
        first + index
        for first, count, each in (map(int, block.split(b",")) for block in blocks)
        for index in range(count)
        for _ in range(each)
    ]


@pytest.mark.parametrize(
    ("places", "mapping"),
    [
        ([0], b"(vector,(0,1,1))"),
        ([0, 0, 1, 1], b"(vector,(0,2,2))"),
        ([0, 1, 0, 1], b"(vector,(0,2,1),(0,2,1))"),
        ([0, 0, 0, 1], b"(vector,(0,1,3),(1,1,1))"),
        ([0, 1, 1, 2, 2, 3], b"(vector,(0,1,1),(1,2,2),(3,1,1))"),
        ([2, 1, 0], b"(vector,(2,1,1),(1,1,1),(0,1,1))"),
        ([5, 5, 6, 6], b"(vector,(5,2,2))"),
    ],
    ids=["one", "block", "cyclic", "irregular", "mixed", "backwards", "spawned elsewhere"],
)
def test_the_process_mapping_of_ranks_on_places(places, mapping):
    assert process_mapping(places) == mapping


@given(places=st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_the_process_mapping_says_where_every_rank_is(places):
    value = process_mapping(places)
    assert spread(value) == places and len(value) <= MAPPING_MAX


def test_a_large_job_in_blocks_has_a_short_mapping():
    places = [node for node in range(4096) for _ in range(128)]
    assert process_mapping(places) == b"(vector,(0,4096,128))"


def test_a_large_job_dealt_round_has_one_too():
    assert spread(process_mapping(list(range(4096)) * 48)) == list(range(4096)) * 48


@pytest.mark.parametrize("places", [[0, 2] * 500, [0, 1, 2] * 300, [3 * n for n in range(5000)]])
def test_a_mapping_that_mpich_4_has_no_room_for_is_left_out(places):
    """Libraries without one compare host names; MPICH 4 dies of one that is cut off."""
    assert process_mapping(places) == b""


def test_the_longest_mapping_is_just_within_the_limit():
    longest = max(len(process_mapping([0, 2] * count)) for count in range(1, 60))
    assert MAPPING_MAX - 16 < longest <= MAPPING_MAX
