"""The key-value space: pairs spread by barriers that end once, when all are in."""

from hypothesis import given
from hypothesis import strategies as st

from native.wire import codec
from native.wire.pmi import FenceIn, KeyValue
from pct.kvs import KeyValueSpace, pieces


def test_a_pair_is_seen_at_once_where_it_was_put():
    space = KeyValueSpace((0, 1), [])
    space.put(b"k", b"v")
    assert space.get(b"k") == b"v"
    assert space.get(b"other") is None


def test_a_barrier_is_full_when_the_last_rank_and_the_last_child_are_in():
    space = KeyValueSpace((0, 1), [1, 2])
    assert space.enter(0) is False
    assert space.merge_child(1, (KeyValue(b"a", b"1"),), is_last=True) is False
    assert space.enter(1) is False
    assert space.merge_child(2, (KeyValue(b"b", b"2"),), is_last=False) is False
    assert space.merge_child(2, (KeyValue(b"c", b"3"),), is_last=True) is True
    assert space.take_fresh() == [
        (KeyValue(b"a", b"1"), KeyValue(b"b", b"2"), KeyValue(b"c", b"3"))
    ]


def test_a_full_barrier_goes_up_once():
    space = KeyValueSpace((0,), [])
    assert space.enter(0) is True
    space.take_fresh()
    assert space.enter(0) is False
    assert space.leave(5) is False


def test_only_what_was_put_since_the_last_barrier_goes_up():
    space = KeyValueSpace((0,), [])
    space.put(b"old", b"1")
    space.enter(0)
    space.take_fresh()
    assert space.release() == {0}
    assert space.number == 1
    space.put(b"new", b"2")
    space.enter(0)
    assert space.take_fresh() == [(KeyValue(b"new", b"2"),)]
    assert space.get(b"old") == b"1"


def test_what_comes_down_is_seen_and_does_not_go_up_again():
    space = KeyValueSpace((0,), [])
    space.spread((KeyValue(b"far", b"1"),))
    assert space.get(b"far") == b"1"
    space.enter(0)
    assert space.take_fresh() == [()]


def test_a_rank_that_has_left_is_not_waited_for():
    space = KeyValueSpace((0, 1, 2), [])
    space.enter(0)
    space.enter(1)
    assert space.leave(2) is True


def test_ranks_that_leave_make_no_barrier_by_themselves():
    space = KeyValueSpace((0, 1), [])
    assert space.leave(0) is False
    assert space.leave(1) is False


def test_the_ranks_inside_go_on_when_the_barrier_is_over():
    space = KeyValueSpace((4, 5), [1])
    space.enter(4)
    space.enter(5)
    assert space.release() == {4, 5}
    assert space.inside == set()


@given(
    pairs=st.dictionaries(
        st.binary(min_size=1, max_size=64), st.binary(max_size=4096), max_size=120
    )
)
def test_pairs_are_cut_into_pieces_that_each_fit_a_message(pairs):
    cut = pieces(pairs)
    assert [(pair.key, pair.value) for piece in cut for pair in piece] == list(pairs.items())
    assert cut
    for piece in cut:
        codec.encode(FenceIn((1 << 47) - 1, 1, piece, True))


def test_many_large_pairs_make_several_pieces():
    pairs = {b"%064d" % number: bytes(4096) for number in range(100)}
    cut = pieces(pairs)
    assert len(cut) == 4
    for piece in cut:
        codec.encode(FenceIn(1, 0, piece, False))
