"""The key-value machine: pairs, fences that end once when all are in, published names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.wire import codec
from native.wire.pmi import Fence, FenceIn, FenceKind, KeyValue, Participants
from pct.account import Account, OverLimit
from pct.wireup import kvs
from pct.wireup.kvs import Fences, KeyValueSpace, Names, joined, pieces, share

ALL = (Participants(0, ()),)
WORLD = (FenceKind.PMI, ALL)
PAIR = Participants(0, (1, 2))


def fences(waits_here=True, *children: int) -> Fences:
    """Fences that all wait for the same."""
    return Fences(lambda meeting: (waits_here, set(children)), Account())


def pair(key: bytes, value: bytes = b"v") -> KeyValue:
    return KeyValue(key, value)


def fence(number=0, kind=FenceKind.PMI, participants=ALL) -> Fence:
    return Fence(kind, participants, number)


# -- pairs -----------------------------------------------------------------


def test_a_pair_is_seen_at_once_where_it_was_put():
    space = KeyValueSpace(Account())
    space.put(b"k", b"v")
    assert space.get(b"k") == b"v"
    assert space.get(b"other") is None


def test_only_what_was_put_since_the_last_fence_goes_up_and_the_last_value_of_a_key():
    space = KeyValueSpace(Account())
    space.put(b"old", b"1")
    assert space.take_fresh() == (pair(b"old", b"1"),)
    space.put(b"new", b"2")
    space.put(b"new", b"3")
    assert space.take_fresh() == (pair(b"new", b"3"),)
    assert space.take_fresh() == ()
    assert space.get(b"old") == b"1"


def test_what_a_fence_has_brought_is_seen_and_does_not_go_up_again():
    space = KeyValueSpace(Account())
    space.spread((pair(b"far", b"1"),))
    assert space.get(b"far") == b"1"
    assert space.take_fresh() == ()


def test_pairs_are_refused_beyond_the_limit_and_a_smaller_value_gives_room_back():
    account = Account(2000)
    space = KeyValueSpace(account)
    space.put(b"k", bytes(1700))
    with pytest.raises(OverLimit, match="at most 2000 bytes"):
        space.put(b"other", b"")
    space.put(b"k", b"")
    space.put(b"other", b"")
    space.check()
    assert space.get(b"k") == b""
    space.clear()
    assert account.used_bytes == 0


@given(
    puts=st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.binary(max_size=9), st.integers(0, 2))
    )
)
def test_what_pairs_hold_is_what_there_is_however_they_come(puts):
    account = Account()
    space = KeyValueSpace(account)
    for key, value, way in puts:
        if way == 0:
            space.put(key, value)
        elif way == 1:
            space.spread((pair(key, value), pair(key, value + b"!")))
        else:
            space.take_fresh()
        space.check()
    space.clear()
    assert account.used_bytes == 0


# -- fences ----------------------------------------------------------------


def test_a_fence_is_full_when_this_node_and_the_last_child_are_in():
    here = fences(True, 1, 2)
    assert here.merge(1, fence(), (pair(b"a"),), True)
    assert here.take_full() == []
    here.enter(WORLD, (pair(b"b"),))
    assert here.take_full() == []
    assert here.merge(2, fence(), (pair(b"c"),), False)
    assert here.take_full() == []
    assert here.merge(2, fence(), (pair(b"d"),), True)
    assert here.take_full() == [(fence(), [(pair(b"a"), pair(b"b"), pair(b"c"), pair(b"d"))])]


def test_a_full_fence_goes_up_once():
    here = fences(True)
    here.enter(WORLD, ())
    assert here.take_full() == [(fence(), [()])]
    assert here.take_full() == []


def test_a_fence_in_which_nobody_is_does_not_go_up_however_few_it_waits_for():
    here = fences(False)
    assert here.take_full() == []


def test_a_node_without_participants_passes_on_what_its_children_bring():
    here = fences(False, 2)
    here.merge(2, fence(), (pair(b"a"),), True)
    assert here.take_full() == [(fence(), [(pair(b"a"),)])]


def test_who_is_no_longer_awaited_is_not_waited_for():
    awaited = {1, 2}
    here = Fences(lambda meeting: (True, set(awaited)), Account())
    here.enter(WORLD, ())
    here.merge(1, fence(), (), True)
    assert here.take_full() == []
    awaited.discard(2)
    assert here.take_full() == [(fence(), [()])]


def test_what_a_child_brought_before_it_was_lost_still_goes_up():
    here = fences(True)
    here.merge(1, fence(), (pair(b"a"),), True)
    here.enter(WORLD, ())
    assert here.take_full() == [(fence(), [(pair(b"a"),)])]


def test_pieces_that_come_down_are_given_out_with_the_last_one():
    here = fences(True)
    here.enter(WORLD, ())
    here.take_full()
    assert here.come_down(fence(), (pair(b"a"),), False) is None
    assert here.come_down(fence(), (pair(b"b"),), True) == [pair(b"a"), pair(b"b")]
    assert here.come_down(fence(), (pair(b"b"),), True) is None  # long known


def test_a_fence_that_is_over_is_followed_by_the_next_number():
    here = fences(True, 1)
    for number in range(3):
        assert here.merge(1, fence(number), (), True)
        assert not here.merge(1, fence(number + 1), (), True)
        here.enter(WORLD, ())
        ((full, _),) = here.take_full()
        assert full.number == number
        assert here.come_down(fence(number + 1), (), True) is None
        assert here.come_down(fence(number), (), True) == []
        assert not here.merge(1, fence(number), (), True)


def test_a_node_that_is_in_no_fence_follows_the_numbers_all_the_same():
    here = fences(False)
    assert here.come_down(fence(0), (), True) == []
    assert here.merge(1, fence(1), (), True)


@pytest.mark.parametrize(
    "other",
    [
        fence(kind=FenceKind.PMIX),
        fence(kind=FenceKind.CONNECT),
        fence(participants=(PAIR,)),
        fence(participants=(Participants(0, ()), Participants(1, ()))),
    ],
)
def test_fences_of_another_kind_or_of_others_count_by_themselves(other):
    here = fences(True)
    here.enter(WORLD, ())
    here.enter((other.kind, other.participants), (pair(b"x"),))
    assert [full for full, _ in here.take_full()] == [fence(), other]
    assert here.come_down(fence(), (), True) == []
    assert here.merge(1, fence(1), (), True)
    assert not here.merge(1, Fence(other.kind, other.participants, 1), (), True)


def test_fences_of_very_many_different_participants_do_not_fill_the_memory():
    here = fences(False)
    for rank in range(kvs.FENCES_MAX + 10):
        here.come_down(fence(participants=(Participants(0, (rank,)),)), (), True)
    assert here.merge(1, fence(1, participants=(Participants(0, (rank,)),)), (), True)
    assert here.merge(1, fence(0, participants=(Participants(0, (0,)),)), (), True)


def test_fences_hold_what_is_in_flight_and_nothing_of_it_afterwards():
    account = Account()
    here = Fences(lambda meeting: (True, {1}), account)
    here.enter(WORLD, (pair(b"a", bytes(1000)),))
    here.merge(1, fence(), (pair(b"b", bytes(1000)),), True)
    here.check()
    assert account.used_bytes > 2000
    here.take_full()
    here.check()
    assert account.used_bytes < 1000
    here.come_down(fence(), (pair(b"a", bytes(1000)),), False)
    here.check()
    assert account.used_bytes > 1000
    here.come_down(fence(), (), True)
    here.check()
    assert account.used_bytes < 1000
    here.clear()
    assert account.used_bytes == 0


def test_a_fence_that_brings_more_than_the_node_may_keep_is_refused():
    here = Fences(lambda meeting: (True, {1}), Account(3000))
    here.merge(1, fence(), (pair(b"a", bytes(2000)),), False)
    for bring in (
        lambda: here.merge(1, fence(), (pair(b"b", bytes(2000)),), True),
        lambda: here.enter(WORLD, (pair(b"b", bytes(2000)),)),
        lambda: here.come_down(fence(), (pair(b"b", bytes(2000)),), True),
    ):
        with pytest.raises(OverLimit, match="at most 3000 bytes"):
            bring()
        here.check()


def test_known_fences_of_many_ranks_are_counted_with_their_ranks():
    account = Account()
    here = Fences(lambda meeting: (False, set()), account)
    for first in range(10):
        ranks = tuple(range(first, first + 1000))
        here.come_down(fence(participants=(Participants(0, ranks),)), (), True)
    here.check()
    assert account.used_bytes > 10 * 1000 * 36


# -- pieces ----------------------------------------------------------------


@given(
    pairs=st.dictionaries(
        st.binary(min_size=1, max_size=64), st.binary(max_size=4096), max_size=120
    )
)
def test_pairs_are_cut_into_pieces_that_each_fit_a_message(pairs):
    given_pairs = [KeyValue(*each) for each in pairs.items()]
    cut = pieces(given_pairs)
    assert [each for piece in cut for each in piece] == given_pairs
    assert cut
    for piece in cut:
        codec.encode(FenceIn((1 << 47) - 1, fence(), piece, True))


def test_many_large_pairs_make_several_pieces():
    pairs = [KeyValue(b"%064d" % number, bytes(4096)) for number in range(100)]
    cut = pieces(pairs)
    assert len(cut) == 3
    for piece in cut:
        codec.encode(FenceIn(1, fence(), piece, False))


@given(
    sizes=st.lists(
        st.sampled_from([0, 1, 100, kvs.SHARE_BYTES, kvs.SHARE_BYTES + 1, 3 * kvs.SHARE_BYTES]),
        max_size=5,
    ),
    data=st.data(),
)
def test_shares_of_nodes_are_joined_in_the_order_of_the_places(sizes, data):
    parts = [bytes([65 + place]) * size for place, size in enumerate(sizes)]
    pairs = [each for place, part in enumerate(parts) for each in share(place, part)]
    mixed = data.draw(st.permutations(pairs))
    assert joined(mixed) == b"".join(parts)
    for piece in pieces(mixed):
        codec.encode(FenceIn(1, fence(), piece, False))


def test_places_and_pieces_sort_as_numbers():
    pairs = [*share(256, b"z"), *share(2, b"b"), *share(65536, b"!")]
    assert joined(pairs) == b"bz!"
    many = share(0, bytes(300 * kvs.SHARE_BYTES) + b"end")
    assert joined(list(reversed(many))).endswith(b"end")


# -- names -----------------------------------------------------------------


def test_a_name_is_found_until_it_is_taken_away():
    names = Names(Account())
    assert names.publish((pair(b"a"), pair(b"b")), False) == ""
    assert names.lookup((b"b", b"none", b"a"), False) == (pair(b"b"), pair(b"a"))
    assert names.lookup((b"none",), False) == ()
    assert names.unpublish((b"a",)) is True
    assert names.unpublish((b"a", b"b")) is False
    assert names.lookup((b"a", b"b"), False) == ()


def test_a_name_that_is_there_is_not_published_again_nor_anything_beside_it():
    names = Names(Account())
    names.publish((pair(b"a"),), False)
    assert names.publish((pair(b"b"), pair(b"a", b"other")), False) == "it is published already"
    assert names.publish((pair(b"c"), pair(b"c", b"other")), False) == "it is published already"
    assert names.lookup((b"a", b"b", b"c"), False) == (pair(b"a"),)


def test_who_waits_for_names_waits_for_all_of_them():
    names = Names(Account())
    names.publish((pair(b"a"),), False)
    assert names.lookup((b"a", b"b"), True) is None
    names.publish((pair(b"b"),), False)
    assert names.lookup((b"a", b"b"), True) == (pair(b"a"), pair(b"b"))


def test_a_name_that_is_read_once_is_gone_after_it_was_found():
    names = Names(Account())
    names.publish((pair(b"once"),), True)
    names.publish((pair(b"stays"),), False)
    assert names.lookup((b"once", b"missing"), True) is None  # nobody has had it
    assert names.lookup((b"once", b"stays", b"once"), False) == (pair(b"once"), pair(b"stays"))
    assert names.lookup((b"once", b"stays"), False) == (pair(b"stays"),)
    assert names.publish((pair(b"once"),), False) == ""


def test_names_have_a_limit_which_counts_what_is_there():
    account = Account(3000)
    names = Names(account)
    assert names.publish(tuple(map(pair, (b"a", b"b", b"c"))), False) == ""
    with pytest.raises(OverLimit, match="at most 3000 bytes"):
        names.publish((pair(b"d", bytes(2500)),), False)
    names.unpublish((b"a",))
    assert names.publish((pair(b"d", bytes(2000)),), True) == ""
    with pytest.raises(OverLimit):
        names.publish((pair(b"e", bytes(1000)),), False)
    names.lookup((b"d",), False)
    assert names.publish((pair(b"e", bytes(1000)),), False) == ""
    names.check()
    names.clear()
    assert account.used_bytes == 0


def test_the_size_of_names_is_known_before_they_are_taken():
    names = Names(Account())
    names.publish((pair(b"a", bytes(1000)), pair(b"b", bytes(2000))), True)
    assert 3000 < names.size_of((b"a", b"b", b"a", b"none")) < 3100
    assert names.lookup((b"a",), False) == (pair(b"a", bytes(1000)),)
