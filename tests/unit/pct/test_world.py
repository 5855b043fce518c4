"""One world of a job, as each node sees it."""

import pytest

from native.errors import PeerProtocolError
from native.wire.pmi import Process
from pct.account import Account
from pct.wireup.world import World, Worlds

PLACES = [0, 0, 1, 3, 2, 3]  # of ranks 0 to 5
CHILD_OF = {1: 1, 3: 1, 2: 2}  # of the root of a tree of four


def world(place=0, number=0, first_rank=0, child_of=None) -> World:
    of = CHILD_OF if child_of is None else child_of
    return World(number, f"space{number}", first_rank, PLACES, [0] * 6, place, of, Account())


def test_a_node_knows_its_own_ranks_and_how_many_live_below_each_child():
    root = world()
    assert set(root.local) == root.alive == {0, 1}
    assert root.alive_below == {1: 3, 2: 1}
    assert root.size == 6
    leaf = world(3, child_of={})
    assert set(leaf.local) == {3, 5} and leaf.alive_below == {}


def test_a_rank_of_the_job_is_one_of_one_world_only():
    first, second = world(), world(number=1, first_rank=6)
    assert [first.rank_of(rank) for rank in (-1, 0, 5, 6)] == [None, 0, 5, None]
    assert [second.rank_of(rank) for rank in (5, 6, 11, 12)] == [None, 0, 5, None]


def test_what_is_put_in_one_world_is_not_in_another():
    first, second = world(), world(number=1)
    first.space.put(b"k", b"v")
    first.node_space.put(b"k", b"v")
    first.alive.discard(0)
    assert second.space.get(b"k") is None and second.node_space.get(b"k") is None
    assert second.alive == {0, 1} and set(first.local) == {0, 1}


def test_worlds_are_found_by_number_name_and_rank():
    worlds = Worlds()
    first, second = world(), world(number=1, first_rank=8)
    worlds.add(first)
    worlds.add(second)
    assert list(worlds) == [first, second]
    assert worlds[1] is worlds.get(1) is worlds.named("space1") is second
    assert worlds.of(9) == (second, 1)
    assert worlds.local(9) == Process(1, 1)
    assert worlds.local(10) is None  # elsewhere
    for nobody in (6, 7, 14):  # a launcher's daemon, or none
        assert worlds.of(nobody) is None and worlds.local(nobody) is None
    assert worlds.get(2) is None and worlds.named("other") is None
    with pytest.raises(PeerProtocolError, match="there is no world 2"):
        worlds[2]
    worlds.clear()
    assert list(worlds) == [] and worlds.named("space0") is None
