"""A thousand launches at once in one launch server, with faults by seeds.

What runs is the server's own code, on the virtual clock; see :mod:`tests.sim.server`. One seed
alone: ``pytest "tests/sim/test_launch_server.py::test_a_thousand_launches_at_once[0]"``; the same
seed gives the same run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.sim.server import scenario
from tests.sim.server.world import ServerSim

AT_ONCE = 800  # of a thousand; some have no launch, are refused, or are dead before the last comes
FEWER_AT_ONCE = 500  # where there are slots for half of them
KINDS_OF_FAULT = 45  # of 63


def a_thousand(seed: int) -> ServerSim:
    sim = scenario.crowd(seed)
    has_room = seed % 4 != 3
    if not sim.is_ending:
        assert sim.most >= (AT_ONCE if has_room else FEWER_AT_ONCE)
        assert len(sim.struck) >= KINDS_OF_FAULT
    return sim


@pytest.mark.parametrize("seed", [0])
def test_a_thousand_launches_at_once(seed: int):
    a_thousand(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 30))
def test_a_thousand_launches_at_once_under_more_seeds(seed: int):
    a_thousand(seed)


@pytest.mark.parametrize("seed", [*range(14), 104, 132])  # the last: a server that ends
def test_few_launches_with_many_faults(seed: int):
    scenario.small(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(14, 500))
def test_few_launches_with_many_faults_under_more_seeds(seed: int):
    scenario.small(seed)


def test_a_seed_gives_the_same_run():
    runs = [scenario.small(5) for _ in range(2)]
    assert runs[0].clock.last() == runs[1].clock.last()
    assert runs[0].clock.count == runs[1].clock.count


def test_the_work_for_a_launch_does_not_grow_with_the_number_of_launches():
    few, many = (calls_for(clients) / clients for clients in (15, 90))
    assert many < 1.1 * few


def calls_for(clients: int) -> int:
    """Calls of functions, those of C included, in the server's loop."""
    with counted_calls() as calls:
        scenario.crowd(8, clients, harmed=0.0)
    return calls[0]


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Counts calls that the loop has made."""
    calls = [0]

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)
