"""The PMIx servers of a job's nodes exchange data, tables and names through its tree."""

import pytest

from native.errors import PeerProtocolError
from native.wire import pmi, pmix
from native.wire.load import Mpi, Protocol
from native.wire.pmi import FenceKind, KeyValue
from pct.pmi_events import PmixSend
from pct.wireup import pmix as link
from tests.unit.pct.job_of import (
    JOB_ID,
    PMIX,
    PRESENT,
    SPACE,
    Tree,
    ended,
    fence,
    load_message,
    pct,
    received,
    server,
    spawn,
    started,
)
from tests.unit.pct.pmix_of import answered, done, enters, process, running

BOTH = Mpi((Protocol.PMI1, Protocol.PMIX))


# -- fences ----------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_fence_brings_every_nodes_data_to_every_server_in_the_order_of_the_places(size):
    tree = running(size)
    for place in reversed(range(size)):
        assert done(tree, 0) == []
        tree.at(place, enters(10 + place, b"<%d>" % place))
    everything = b"".join(b"<%d>" % place for place in range(size))
    for place in range(size):
        assert done(tree, place) == [pmix.FenceDone(10 + place, 0, everything)]


@pytest.mark.parametrize("size", [3, 7])
def test_data_of_any_size_arrives_whole(size):
    tree = running(size)
    data = [bytes([place]) * (300_000 + place) for place in range(size - 1)] + [b""]
    for place in range(size):
        tree.at(place, enters(1, data[place]))
    for place in range(size):
        assert done(tree, place) == [pmix.FenceDone(1, 0, b"".join(data))]


def test_the_same_fence_again_is_another():
    tree = running(3)
    for turn in range(3):
        for place in range(3):
            tree.at(place, enters(turn, b"%d" % turn))
        assert done(tree, 1)[-1] == pmix.FenceDone(turn, 0, b"%d" % turn * 3)


@pytest.mark.parametrize(
    ("size", "ranks"), [(3, (1, 2)), (3, (0, 2)), (3, (2,)), (7, (3, 6)), (7, (1, 4, 5)), (7, (4,))]
)
def test_a_fence_of_some_ranks_waits_for_their_nodes_only(size, ranks):
    tree = running(size)
    some = tuple(map(process, ranks))
    for place in ranks:
        assert not any(done(tree, each) for each in range(size))
        tree.at(place, enters(5, b"<%d>" % place, processes=some))
    data = b"".join(b"<%d>" % place for place in ranks)
    for place in range(size):
        expected = [pmix.FenceDone(5, 0, data)] if place in ranks else []
        assert done(tree, place) == expected


def test_all_ranks_by_name_are_the_whole_world():
    tree = running(3)
    tree.at(0, enters(1, b"a"))
    tree.at(1, enters(1, b"b", processes=tuple(map(process, range(3)))))
    tree.at(2, enters(1, b"c", processes=(process(2), process(-1))))
    assert done(tree, 0) == [pmix.FenceDone(1, 0, b"abc")]


def test_fences_of_different_ranks_do_not_wait_for_one_another():
    tree = running(7)
    pair, other = (process(3), process(4)), (process(5), process(6))
    tree.at(3, enters(1, b"a", processes=pair))
    tree.at(5, enters(1, b"c", processes=other))
    tree.at(6, enters(1, b"d", processes=other))
    assert done(tree, 5) == done(tree, 6) == [pmix.FenceDone(1, 0, b"cd")]
    assert done(tree, 3) == []
    tree.at(4, enters(1, b"b", processes=pair))
    assert done(tree, 3) == done(tree, 4) == [pmix.FenceDone(1, 0, b"ab")]


@pytest.mark.parametrize("kind", [FenceKind.CONNECT, FenceKind.DISCONNECT])
def test_a_connect_is_a_fence_of_its_own(kind):
    tree = running(3)
    for place in range(3):
        tree.at(place, enters(1, b"data"))
    for place in range(3):
        tree.at(place, enters(2, kind=kind))
    assert [done(tree, place)[1:] for place in range(3)] == [[pmix.FenceDone(2, 0, b"")]] * 3


def test_a_fence_of_nobody_known_is_answered_at_once():
    tree = running(3)
    for serial, who in enumerate((process(3), process(0, "other"))):
        tree.at(1, enters(serial, b"x", processes=(who,)))
        assert done(tree, 1)[-1] == pmix.FenceDone(serial, -46, b"")


def test_a_fence_that_names_too_many_ranks_for_a_message_is_refused(monkeypatch):
    monkeypatch.setattr(link, "FENCE_RANKS_MAX", 2)
    tree = running(7)
    tree.at(1, enters(1, processes=tuple(map(process, (1, 2, 3)))))
    assert done(tree, 1) == [pmix.FenceDone(1, -29, b"")]
    tree.at(1, enters(2, processes=(process(1),)), enters(3))  # all are named by none
    assert done(tree, 1)[1:] == [pmix.FenceDone(2, 0, b"")]


def test_a_server_may_not_be_in_one_fence_twice():
    tree = running(3)
    tree.at(1, enters(1))
    with pytest.raises(PeerProtocolError, match="in a fence twice"):
        tree.at(1, enters(2))


def test_a_fence_of_all_does_not_wait_for_ranks_that_have_ended():
    tree = running(7)
    for place in (0, 1, 3, 4, 5, 6):
        tree.at(place, enters(1, b"<%d>" % place))
    assert done(tree, 0) == []
    tree.at(2, ended(2))
    tree.wait(1.0)
    assert done(tree, 5) == [pmix.FenceDone(1, 0, b"<0><1><3><4><5><6>")]


def test_a_fence_of_some_ranks_does_not_wait_for_one_that_has_ended_beside_one_that_lives():
    """The subtree of a participant that had ended was waited for while anybody lived there."""
    tree = running(7)
    some = (process(0), process(3))
    tree.at(0, enters(1, b"a", processes=some))
    tree.at(3, ended(3))
    tree.wait(0.1)
    tree.wait(1.0)
    assert done(tree, 0) == [pmix.FenceDone(1, 0, b"a")]


def test_a_subtree_that_ends_during_a_fence_ends_the_wait_for_it():
    tree = running(7)
    tree.at(0, enters(1, b"a"))
    tree.at(2, enters(1, b"c"))
    for place in (5, 6):
        tree.at(place, enters(1, b"x"))
    for rank in (3, 4, 1):
        tree.at(rank, ended(rank))
    tree.wait(1.0)
    assert done(tree, 6) == [pmix.FenceDone(1, 0, b"acxx")]


def test_a_fence_that_was_not_asked_for_lets_nobody_go():
    job = running(3).jobs[1]
    out = pmi.FenceOut(JOB_ID, fence(FenceKind.PMIX), (KeyValue(bytes(8), b"x"),), True)
    assert job.handle(received(pct(0), out), 0) == []


# -- data of one rank ------------------------------------------------------


@pytest.mark.parametrize(("asks", "owner"), [(3, 6), (6, 3), (0, 4), (4, 0), (3, 4), (1, 3)])
def test_a_ranks_data_is_fetched_from_its_node_over_the_tree(asks, owner):
    tree = running(7)
    tree.at(asks, server(pmix.GetRemote(21, process(owner))))
    (wanted,) = tree.told(owner, pmix.GetModex)
    assert wanted.process == process(owner)
    tree.at(owner, server(pmix.ModexData(wanted.serial, 0, b"blob")))
    assert answered(tree, asks) == [pmix.Answer(21, 0, (KeyValue(b"data", b"blob"),))]


def test_data_of_a_rank_that_is_not_there_is_answered_at_once():
    tree = running(3)
    tree.at(0, server(pmix.GetRemote(1, process(3))), server(pmix.GetRemote(2, process(-1))))
    tree.at(2, ended(2))
    tree.at(0, server(pmix.GetRemote(3, process(2))))
    assert answered(tree, 0) == [pmix.Answer(serial, -46, ()) for serial in (1, 2, 3)]


def test_data_that_exceeds_a_message_is_refused():
    tree = running(3)
    tree.at(0, server(pmix.GetRemote(1, process(1))))
    tree.at(1, server(pmix.ModexData(1, 0, bytes(300_000))))
    (refused,) = answered(tree, 0)
    assert refused.status == -29


# -- tables of processes ---------------------------------------------------


def row(rank: int, unix_pid: int, nspace: str = SPACE, program: bytes = b"/home/a.out"):
    return pmix.TableRow(process(rank, nspace), unix_pid, program)


def test_a_table_has_the_ranks_of_its_node_also_those_that_have_ended():
    tree = running(3, 2)
    (program,) = {found.path for found in load_message().objects}
    tree.at(1, ended(3), server(pmix.GetTable(5, (SPACE,))))
    assert tree.told(1, pmix.Table) == [
        pmix.Table(5, (row(2, 3002, program=program), row(3, 3003, program=program)))
    ]
    assert tree.told(0, pmix.Table) == tree.told(2, pmix.Table) == []


def test_ranks_that_have_not_been_started_are_in_the_table_without_a_process():
    tree = Tree(1, 2, mpi=PMIX)
    tree.at(0, PRESENT, started(0), server(pmix.GetTable(1, (SPACE,))))
    (table,) = tree.told(0, pmix.Table)
    assert [each.unix_pid for each in table.rows] == [3000, 0]


def test_a_table_has_the_worlds_that_are_asked_for_in_their_order():
    tree = running(2, mpi=PMIX)
    tree.from_yod(spawn(1, 0, 0, 1, first_rank=2))
    tree.at(0, started(2, world=1), started(3, world=1))
    spawned = f"{SPACE}_1"
    tree.at(0, server(pmix.GetTable(1, (spawned, SPACE, spawned))))
    (table,) = tree.told(0, pmix.Table)
    worker = b"/bin/worker"
    assert table.rows[:2] == (row(0, 3002, spawned, worker), row(1, 3003, spawned, worker))
    assert [each.process for each in table.rows[2:]] == [process(0)]


def test_a_table_of_a_world_that_there_is_not_is_a_violation():
    tree = running(1)
    with pytest.raises(PeerProtocolError, match="there is no world"):
        tree.at(0, server(pmix.GetTable(1, (SPACE, "another"))))


# -- names -----------------------------------------------------------------


def publish(serial, *names, is_read_once=False, rank=0):
    pairs = tuple(KeyValue(name, b"value of " + name) for name in names)
    return server(pmix.PublishNames(serial, process(rank), pairs, is_read_once))


def lookup(serial, *names, is_waiting=False):
    return server(pmix.LookupNames(serial, names, is_waiting))


def test_names_are_published_once_and_found_from_everywhere():
    tree = running(3)
    tree.at(1, publish(1, b"a", b"b", rank=1))
    tree.at(2, publish(1, b"a", rank=2), lookup(2, b"b", b"c", b"a"))
    assert [answer.status for answer in answered(tree, 1)] == [0]
    assert [answer.status for answer in answered(tree, 2)] == [-11, 0]
    assert answered(tree, 2)[1].pairs == (
        KeyValue(b"b", b"value of b"),
        KeyValue(b"a", b"value of a"),
    )
    tree.at(0, server(pmix.UnpublishNames(1, (b"a", b"b"))), lookup(2, b"a"))
    assert answered(tree, 0) == [pmix.Answer(1, 0, ()), pmix.Answer(2, -46, ())]


def test_who_waits_for_names_is_answered_when_all_are_there():
    tree = running(3)
    tree.at(2, lookup(5, b"a", b"b", is_waiting=True))
    tree.at(1, publish(1, b"a", rank=1))
    assert answered(tree, 2) == []
    tree.at(0, publish(1, b"b"))
    (answer,) = answered(tree, 2)
    assert (answer.serial, len(answer.pairs)) == (5, 2)


def test_a_name_of_pmix_is_none_of_pmi():
    tree = running(3, mpi=BOTH)
    tree.at(1, publish(1, b"ocean", rank=1))
    (asked,) = [
        action.message
        for action in tree.jobs[2].handle(lookup(1, b"ocean"), 0)
        if not isinstance(action, PmixSend)
    ]
    assert asked.question == pmi.Lookup((b"pmix:ocean",), False)
