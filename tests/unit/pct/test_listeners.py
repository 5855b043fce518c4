"""The map of the ranks' listeners: up with the word that they are held, down before go."""

from __future__ import annotations

import pytest

from native.errors import PeerProtocolError
from native.ids import PortalId
from native.wire import load, rank
from native.wire.placed import GrantedNode
from pct.events import GiveMap, KeeperGo, StartKeeper
from pct.job.progress import JobState
from pct.job.rules.listeners import LOOPBACK, PIECE, Listeners
from tests.unit.pct.job_of import (
    JOB_ID,
    NID,
    PORTALS,
    PRESENT,
    Tree,
    failure,
    held,
    keeper_spec,
    load_message,
    pct,
    received,
    slowest,
    started,
)

SECRET = b"k" * 32


def port_of(number: int) -> int:
    return 5000 + number


def bring_to_entry(tree: Tree, *places: int) -> None:
    for place in places:
        for number in tree.jobs[place].ranks:
            tree.at(place, started(number, port=port_of(number)), held(number))


def ids_given(tree: Tree, place: int) -> tuple[PortalId, ...]:
    """The map in the file of a place's ranks."""
    (given,) = tree.took(place, GiveMap)
    assert (given.job_id, given.uid) == (JOB_ID, 1000)
    return rank.decode(rank.encode(given.job_id, given.uid, SECRET, given.ids)).ids


def held_below(place: int, ranks: tuple[int, ...], ports: tuple[int, ...]) -> load.Held:
    unix_pids = tuple(3000 + number for number in ranks)
    return load.Held(JOB_ID, ranks, unix_pids, (), slowest(place), True, ports)


def test_every_node_has_the_whole_map_before_its_ranks_go():
    tree = Tree(7, ranks_each=2, mpi=PORTALS)
    tree.everywhere(PRESENT)
    bring_to_entry(tree, 6, 0, 2, 3, 1, 5, 4)
    assert all(tree.took(place, GiveMap) == [] for place in range(7))
    tree.from_yod(load.Go(JOB_ID))
    expected = tuple(PortalId(NID, port_of(number)) for number in range(14))
    for place in range(7):
        assert ids_given(tree, place) == expected
        kinds = [type(action) for action in tree.actions[place]]
        assert kinds.index(GiveMap) < kinds.index(KeeperGo)


def test_yod_is_told_of_no_listener():
    tree = Tree(3, mpi=PORTALS)
    tree.everywhere(PRESENT)
    bring_to_entry(tree, 0, 1, 2)
    assert [message.ports for message in tree.to_yod if isinstance(message, load.Held)] == [()]


def test_a_rank_listens_at_the_address_of_its_node():
    tree = Tree(3, mpi=PORTALS)
    tree.everywhere(PRESENT)
    spec = keeper_spec(tree.actions[1])
    assert (spec.listen_nid, spec.wants_portals) == (NID, True)


def test_a_job_without_portals_pays_nothing():
    tree = Tree(3)
    tree.run()
    spec = keeper_spec(tree.actions[1])
    assert (spec.listen_nid, spec.wants_portals) == (0, False)
    assert all(tree.took(place, GiveMap) == [] for place in range(3))


def on_a_table(size: int) -> tuple[GrantedNode, ...]:
    return tuple(GrantedNode(20 + place, f"n{20 + place}", 1, 7 + place) for place in range(size))


def test_a_partition_in_one_process_listens_at_the_loopback_address():
    listeners = Listeners(load_message(1, nodes=on_a_table(1), mpi=PORTALS))
    assert (listeners.nid, listeners.fault) == (LOOPBACK, "")


def test_a_node_without_an_ipv4_address_says_so_and_starts_nothing():
    tree = Tree(1, nodes=on_a_table(2), mpi=PORTALS)
    text = "node n20 has no IPv4 address for Portals"
    told = failure(load.FailureKind.NO_WIREUP, JobState.FORMING.value, text)
    assert tree.to_yod == [told]
    tree.everywhere(PRESENT)
    assert tree.took(0, StartKeeper) == []


@pytest.mark.parametrize(
    ("ranks", "ports"),
    [((1,), ()), ((2,), (7,)), ((0,), (7,)), ((3,), (7,)), ((1, 2), (7, 8))],
)
def test_a_child_tells_of_each_of_its_own_ranks_and_of_no_other(ranks, ports):
    tree = Tree(3, mpi=PORTALS)
    tree.everywhere(PRESENT)
    lie = received(pct(1), held_below(1, ranks, ports))
    with pytest.raises(PeerProtocolError):
        tree.jobs[0].handle(lie, tree.now)
    bring_to_entry(tree, 0, 1, 2)  # the lie has changed nothing
    tree.from_yod(load.Go(JOB_ID))
    assert ids_given(tree, 0) == tuple(PortalId(NID, port_of(number)) for number in range(3))


def test_go_without_the_whole_map_is_refused_and_nobody_goes():
    tree = Tree(3, mpi=PORTALS)
    tree.everywhere(PRESENT)
    bring_to_entry(tree, 0, 1, 2)
    job = tree.jobs[1]
    for piece in (None, load.Ports(JOB_ID, 0, (7, 8))):
        if piece is not None:
            job.handle(received(pct(0), piece), tree.now)
        with pytest.raises(PeerProtocolError):
            job.handle(received(pct(0), load.Go(JOB_ID)), tree.now)
        assert job.state is JobState.HELD
    job.handle(received(pct(0), load.Ports(JOB_ID, 2, (9,))), tree.now)
    assert KeeperGo(JOB_ID) in job.handle(received(pct(0), load.Go(JOB_ID)), tree.now)


def test_a_large_map_comes_in_pieces():
    message = load_message(2, ranks_each=PIECE, mpi=PORTALS)
    root, leaf = Listeners(message), Listeners(message)
    for number in range(2 * PIECE):
        root.own(number, 1 + number % 65535)
    pieces = root.pieces()
    assert [len(piece.ports) for piece in pieces] == [PIECE, PIECE]
    for piece in pieces:
        leaf.come_down(piece)
    assert leaf.encoded() == root.encoded()


@pytest.mark.parametrize("first", [1, 2])
def test_a_piece_out_of_order_or_beyond_the_end_is_refused(first):
    listeners = Listeners(load_message(2, mpi=PORTALS))
    listeners.come_down(load.Ports(JOB_ID, 0, (7,)))
    with pytest.raises(PeerProtocolError):
        listeners.come_down(load.Ports(JOB_ID, first, (8, 9)))
