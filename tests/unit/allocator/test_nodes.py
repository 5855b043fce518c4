"""Nodes: numbers, names, and who is there."""

import pytest

from allocator.nodes.node import NodeConflictError
from allocator.nodes.orders import RecordNode
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Send
from native.wire.status import Accepted, Announce, Rejected
from tests.unit.allocator.partition_of import ALICE, EPOCH, YOD, Partition, pct, spec


def accepted(number, to=None):
    return Send(to or pct(number), Accepted(number, EPOCH, 10.0))


def rejection(actions):
    (action,) = actions
    assert isinstance(action.message, Rejected)
    return action.message.text


def test_a_node_is_there_from_its_first_announcement():
    partition = Partition(0)
    assert partition.announce(3) == [RecordNode(3, "node3"), accepted(3)]
    assert partition.announce(3) == [accepted(3)]
    assert partition.free() == {3: 1}


def test_a_pct_without_a_number_gets_the_lowest_that_nobody_has():
    partition = Partition(0, fixed_names={"c0": 0, "c2": 2}, remembered_names={"d": 3})
    for name, number in [("a", 1), ("b", 4), ("c2", 2), ("d", 3), ("e", 5), ("c0", 0)]:
        source = PortalId(7, number)
        actions = partition.announce(-1, source=source, name=name)
        assert actions[-1] == accepted(number, source)


def test_a_number_is_kept_by_name_over_restarts():
    partition = Partition(0)
    first, again = PortalId(7, 1), PortalId(7, 2)
    partition.announce(-1, source=PortalId(7, 9), name="other")
    partition.announce(-1, source=first, name="a")
    partition.lose(first)
    assert partition.announce(-1, source=again, name="a", incarnation=2)[-1] == accepted(1, again)


def test_a_second_pct_for_a_node_that_is_there_is_rejected():
    partition = Partition(2)
    partition.now += 3
    text = rejection(partition.announce(1, source=PortalId(7, 1), incarnation=9))
    assert text == (
        "node 1 (node1) is there already, at table entry 2, pid 1001 (heard from 3 s ago);"
        " give this one its own --node and --name"
    )
    assert partition.announce(1) == [accepted(1)]


def test_a_second_pct_is_welcome_once_the_first_is_gone():
    partition = Partition(2)
    partition.lose(pct(1))
    other = PortalId(7, 1)
    assert partition.announce(1, source=other, incarnation=9)[-1] == accepted(1, other)
    assert partition.grant(spec(1, 1)).nodes[0].pid == other.pid
    assert partition.lose(pct(1)) == []  # an address that is nobody's any more
    assert partition.free() == {0: 1, 1: 0}


def test_a_restart_at_the_same_address_needs_no_proof_that_the_first_is_dead():
    partition = Partition(2)
    assert partition.announce(1, incarnation=2)[-1] == accepted(1)


@pytest.mark.parametrize(
    ("number", "name", "text"),
    [
        (5, "c0", "c0 is node 0 by the nodes file, and announced itself as node 5"),
        (0, "x", "node 0 is c0 by the nodes file, not x"),
    ],
)
def test_the_nodes_file_is_the_last_word_on_numbers(number, name, text):
    partition = Partition(0, fixed_names={"c0": 0})
    assert rejection(partition.announce(number, name=name)) == text
    assert partition.free() == {}


@pytest.mark.parametrize(
    "principal", [ALICE, Principal(PrincipalKind.JOB, 1000, 1)], ids=["user", "job"]
)
def test_only_who_holds_the_partitions_key_joins(principal):
    announce = Announce(0, "node0", 1, 2, 1000, 1)
    partition = Partition(0)
    text = rejection(partition.receive(pct(0), announce, principal))
    assert text == "a PCT needs the partition's key"
    assert len(partition.machine.nodes) == 0


def test_the_more_nodes_there_are_the_less_often_each_announces_itself():
    partition = Partition(4, limits=Limits(heartbeat_s=10.0, silent_s=35.0, announce_apart_s=4.0))
    (answer,) = partition.announce(0)
    assert answer == Send(pct(0), Accepted(0, EPOCH, 16.0))
    partition.wait(55.0)  # they have as much more time
    assert partition.free() == {0: 1, 1: 1, 2: 1, 3: 1}
    partition.wait(1.0)
    assert partition.free() == {0: 0, 1: 0, 2: 0, 3: 0}


def test_ten_thousand_nodes_announce_themselves_125_times_a_second():
    limits = Limits()
    assert (limits.announced_s(1), limits.announced_s(1250)) == (10.0, 10.0)
    assert 10_000 / limits.announced_s(10_000) == 125.0


def test_an_announcement_that_says_nothing_new_changes_nothing():
    partition = Partition(2)
    table = partition.machine.nodes
    before = table.changes
    partition.announce(0)
    assert table.changes == before
    partition.announce(0, slots=2)
    assert (table.changes, table.slots()) == (before + 1, 3)
    partition.announce(0, slots=2, incarnation=2)
    assert table.changes == before + 2


def test_a_silent_node_is_down_and_back_when_it_speaks():
    partition = Partition(2, limits=Limits())
    partition.wait(30)
    partition.announce(0)
    partition.wait(6)
    assert partition.free() == {0: 1, 1: 0}
    partition.announce(1)
    assert partition.free() == {0: 1, 1: 1}
    partition.wait(100)
    assert partition.free() == {0: 0, 1: 0}
    assert partition.machine.deadline() is None


def test_a_node_whose_connection_is_lost_is_down():
    partition = Partition(2)
    assert partition.lose(pct(0)) == []
    assert partition.free() == {0: 0, 1: 1}
    assert partition.lose(PortalId(99, 99)) == []
    assert partition.lose(pct(0)) == []
    partition.announce(0)
    assert partition.free() == {0: 1, 1: 1}


def test_a_pct_that_takes_another_number_leaves_the_first_one_down():
    partition = Partition(1)
    partition.announce(5, source=pct(0), incarnation=2)
    assert partition.free() == {0: 0, 5: 1}
    partition.announce(0, source=PortalId(7, 0), incarnation=3)
    assert partition.free() == {0: 1, 5: 1}
    partition.lose(pct(0))
    assert partition.free() == {0: 1, 5: 0}


def test_a_node_may_come_back_with_other_slots():
    partition = Partition(1, slots=4)
    partition.grant(spec(3))
    partition.announce(0, slots=2, incarnation=2)
    assert partition.free() == {0: 0}
    partition.announce(0, slots=8, incarnation=3)
    assert partition.free() == {0: 5}


def test_a_message_of_another_conversation_is_logged_and_changes_nothing():
    partition = Partition(1)
    assert partition.receive(pct(0), Accepted(0, 1, 1.0)) == []
    assert partition.receive(YOD, Rejected("x"), ALICE) == []


def test_a_nodes_file_that_has_changed_gives_new_names_their_numbers():
    partition = Partition(0, fixed_names={"c0": 0})
    partition.announce(-1, source=PortalId(7, 0), name="c0")
    partition.machine.nodes.fix({"c0": 0, "c5": 5, "c1": 1}, {})
    for name, number in [("other", 2), ("c5", 5), ("c1", 1)]:
        source = PortalId(7, 10 + number)
        assert partition.announce(-1, source=source, name=name)[-1] == accepted(number, source)


@pytest.mark.parametrize(
    ("fixed", "said"),
    [({"c0": 1}, "c0 is node 0, not 1"), ({"c1": 0}, "node 0 is c0, not c1")],
)
def test_a_nodes_file_that_moves_a_node_that_is_there_changes_nothing(fixed, said):
    partition = Partition(0, fixed_names={"c0": 0})
    partition.announce(-1, source=PortalId(7, 0), name="c0")
    with pytest.raises(NodeConflictError, match=said):
        partition.machine.nodes.fix({"c9": 9, **fixed}, {})
    source = PortalId(7, 1)
    assert partition.announce(-1, source=source, name="c9")[-1] == accepted(1, source)
