"""Requests: who gets which ranks where, and what a refusal says."""

import pytest

from allocator.jobs.accounting import RecordGrant
from allocator.jobs.batch import Word, Words
from allocator.requests import ReserveJobIds
from native.errors import Refusal
from native.ids import Principal, PrincipalKind
from native.wire import codec
from native.wire.alloc import Credential, Freed, NodeRequest, NodeSpec, Refused
from native.wire.base import MESSAGE_MAX_BYTES, TEXT_MAX
from native.wire.placed import GrantedNode
from native.wire.runs import Run
from tests.unit.allocator.partition_of import (
    ALICE,
    BOB,
    EPOCH,
    YOD,
    Partition,
    pct,
    ranks_by_node,
    spec,
)


def test_a_grant_says_everything_that_its_job_needs():
    partition = Partition(3, slots=2)
    grant = partition.grant(spec(3), program="a.out")
    assert grant.job_id == 1
    assert grant.uid == 1000
    assert list(grant.nodes) == [
        GrantedNode(0, "node0", *pct(0), slots=2),
        GrantedNode(1, "node1", *pct(1), slots=1),
    ]
    assert list(grant.runs) == [Run(0, 2), Run(1, 1)]
    assert grant.expires == 6061  # 6000.5 and pending_s, whole seconds
    assert grant.job_key == b"1 1000 6061"
    assert grant.credential_mac == b"mac of " + grant.credential[:8]
    assert codec.decode_credential(grant.credential) == Credential(
        *(1, 1000, 1000, (), EPOCH, 6061),
        nodes_digest=codec.nodes_digest(grant.nodes),
    )
    assert grant.pending_s == 60.0
    assert partition.free() == {0: 0, 1: 1, 2: 2}


def test_a_job_takes_the_slots_that_others_left():
    partition = Partition(3, slots=2)
    assert ranks_by_node(partition.grant(spec(1))) == [0]
    assert ranks_by_node(partition.grant(spec(3))) == [0, 1, 1]
    assert ranks_by_node(partition.grant(spec(2))) == [2, 2]


@pytest.mark.parametrize(
    ("specs", "nodes"),
    [
        ([spec(4, 5, 1, 2, 3, one_per_node=True)], [5, 1, 2, 3]),
        ([spec(3, 5, 1, 2)], [5, 5, 1]),
        ([spec(2), spec(1)], [0, 0, 1]),
        ([spec(2), spec(2, 0, 1, one_per_node=True)], [0, 1, 0, 1]),
        ([spec(1), spec(1, 0, 1), spec(2, 0)], [1, 1, 0, 0]),
        ([spec(2, 5, 4, one_per_node=True), spec(1, 5)], [5, 4, 5]),
    ],
    ids=["list", "size and list", "members", "all of a list first", "part before any", "shared"],
)
def test_members_get_what_they_ask_for_in_file_order(specs, nodes):
    assert ranks_by_node(Partition(6, slots=2).grant(*specs)) == nodes


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        (spec(2, node_count=2), [0, 1]),
        (spec(5, node_count=3), [0, 0, 1, 1, 2]),
        (spec(4, node_count=2), [0, 0, 1, 1]),
        (spec(3, 5, 4, 3, node_count=2), [5, 5, 4]),
        (spec(3, per_node=1), [0, 1, 2]),
        (spec(5, per_node=2), [0, 0, 1, 1, 2]),
        (spec(4, 3, 1, per_node=2), [3, 3, 1, 1]),
        (spec(2, cores=2), [0, 1]),
        (spec(2, 4, 2, cores=2, one_per_node=True), [4, 2]),
        (spec(7, plane=1), [0, 1, 2, 3, 4, 5, 0]),
        (spec(4, 5, 3, plane=1), [5, 3, 5, 3]),
        (spec(4, node_count=2, plane=1), [0, 1, 0, 1]),
        (spec(5, plane=2), [0, 0, 1, 1, 2]),
    ],
    ids=[
        *("nodes", "even", "full", "list", "one each", "two each", "each of list", "cores", "both"),
        *("cyclic", "cyclic on a list", "cyclic on two", "plane"),
    ],
)
def test_ranks_lie_on_as_many_nodes_as_are_asked_for(wanted, nodes):
    assert ranks_by_node(Partition(6, slots=2).grant(wanted)) == nodes


def test_a_rank_holds_its_cores_on_its_node():
    partition = Partition(2, slots=5)
    grant = partition.grant(spec(3, cores=2), spec(1))
    assert ranks_by_node(grant) == [0, 0, 1, 0]
    assert tuple(node.slots for node in grant.nodes) == (5, 2)
    assert partition.free() == {0: 0, 1: 3}
    assert {job.job_id: job.ranks_on(0) for job in partition.machine.jobs} == {1: (0, 1, 3)}
    partition.receive(pct(0), Freed.of(1, (0, 1)))
    assert partition.free() == {0: 5, 1: 5}


def test_an_exclusive_job_has_all_slots_of_nodes_that_nobody_else_uses():
    partition = Partition(4, slots=3)
    partition.grant(spec(1))
    grant = partition.grant(spec(4), is_exclusive=True)
    assert ranks_by_node(grant) == [1, 1, 1, 2]
    assert tuple(node.slots for node in grant.nodes) == (3, 3)
    assert partition.free() == {0: 2, 1: 0, 2: 0, 3: 3}
    assert ranks_by_node(partition.grant(spec(3))) == [0, 0, 3]
    refused = partition.request(spec(1), is_exclusive=True)
    assert refused == Refused(
        Refusal.BUSY,
        "1 rank requested, 0 of 12 slots free now (nodes 0..3 are in use);"
        " --exclusive takes unused nodes only",
        0,
    )
    partition.receive(pct(1), Freed.of(2, (1, 2)))
    assert partition.free() == {0: 0, 1: 3, 2: 3, 3: 2}


def test_members_of_an_exclusive_job_share_its_nodes():
    grant = Partition(2, slots=4).grant(spec(2, cores=2), spec(3, node_count=1), is_exclusive=True)
    assert ranks_by_node(grant) == [0, 0, 1, 1, 1]
    grant = Partition(2, slots=4).grant(spec(2), spec(2), is_exclusive=True)
    assert tuple(node.slots for node in grant.nodes) == (4,)


def test_nodes_with_room_for_an_even_share_come_before_others():
    partition = Partition(4, slots=4)
    partition.grant(spec(3))  # leaves one slot of node 0
    assert ranks_by_node(partition.grant(spec(4, node_count=2))) == [1, 1, 2, 2]
    assert ranks_by_node(partition.grant(spec(7, node_count=3))) == [1, 1, 2, 2, 3, 3, 3]


def test_a_member_that_needs_several_nodes_chooses_before_one_that_takes_any():
    grant = Partition(2, slots=2).grant(spec(2), spec(2, node_count=2))
    assert ranks_by_node(grant) == [0, 1, 0, 1]


def test_nodes_are_ordered_by_their_lowest_rank():
    grant = Partition(3, slots=2).grant(spec(2, 2, 1, one_per_node=True), spec(3))
    assert [node.node for node in grant.nodes] == [2, 1, 0]
    assert list(grant.runs) == [Run(0, 1), Run(1, 1), Run(2, 2), Run(1, 1)]


@pytest.mark.parametrize(
    ("specs", "code", "text", "which"),
    [
        (
            [spec(8)],
            Refusal.NOT_ENOUGH_NODES,
            "8 ranks requested, partition `local` has 4 slots on 4 nodes",
            -1,
        ),
        (
            [spec(2), spec(4)],
            Refusal.NOT_ENOUGH_NODES,
            "6 ranks requested, partition `local` has 4 slots on 4 nodes",
            -1,
        ),
        (
            [spec(3, 1, 2)],
            Refusal.NOT_ENOUGH_NODES,
            "3 ranks requested on 1..2, 2 slots there",
            0,
        ),
        (
            [spec(1, 1), spec(1, 1)],
            Refusal.NOT_ENOUGH_NODES,
            "1 rank requested on 1, 1 slot there for all members",
            1,
        ),
        (
            [spec(1), spec(1, 9, 1)],
            Refusal.UNKNOWN_NODE,
            "no node 9 here; this partition has nodes 0..3",
            1,
        ),
        (
            [spec(1, 9, 7)],
            Refusal.UNKNOWN_NODE,
            "no nodes 9,7 here; this partition has nodes 0..3",
            0,
        ),
        ([spec(2, 1, 1)], Refusal.BAD_REQUEST, "a node is listed twice", 0),
        (
            [spec(2, 1, one_per_node=True)],
            Refusal.BAD_REQUEST,
            "2 ranks, one on each of 1 node",
            0,
        ),
        ([spec(1, node_count=2)], Refusal.BAD_REQUEST, "1 rank on 2 nodes", 0),
        ([spec(4, 1, 2, node_count=3)], Refusal.BAD_REQUEST, "3 nodes of a list of 2", 0),
        (
            [spec(4, node_count=2, per_node=1)],
            Refusal.BAD_REQUEST,
            "4 ranks on 2 nodes, at most 1 on each",
            0,
        ),
        (
            [spec(4, node_count=3, plane=2)],
            Refusal.BAD_REQUEST,
            "4 ranks on 3 nodes in turn, 2 ranks at a time",
            0,
        ),
        (
            [spec(5, node_count=5)],
            Refusal.NOT_ENOUGH_NODES,
            "5 nodes requested, the partition has 4",
            0,
        ),
        (
            [spec(4, node_count=2, per_node=2)],
            Refusal.NOT_ENOUGH_NODES,
            "4 ranks requested on 2 nodes, at most 2 on each, 4 slots there on 4 nodes,"
            " at most 1 on one",
            0,
        ),
        (
            [spec(3, cores=2)],
            Refusal.NOT_ENOUGH_NODES,
            "3 ranks of 2 slots requested, partition `local` has 4 slots on 4 nodes",
            -1,
        ),
        (
            [spec(1, cores=2)],
            Refusal.NOT_ENOUGH_NODES,
            "1 rank of 2 slots requested, 4 slots there on 4 nodes, at most 1 on one",
            0,
        ),
    ],
)
def test_what_the_partition_never_has_is_refused_with_numbers(specs, code, text, which):
    assert Partition(4).request(*specs) == Refused(code, text, which)


def test_nodes_that_are_missing_after_a_start_may_still_come():
    partition = Partition(1, began=997.0)
    text = "2 ranks requested, partition `local` has 1 slot on 1 node"
    more = " (bebopd began 3 s ago, more nodes may come)"
    assert partition.request(spec(2)).text == text + more
    assert (
        partition.request(spec(1, 4)).text
        == "no node 4 here; this partition has node 0 only" + more
    )
    partition.now += 7
    assert partition.request(spec(2)).text == text


def test_what_is_held_by_others_is_refused_as_busy():
    partition = Partition(4)
    partition.grant(spec(2))
    partition.lose(pct(3))
    for specs, text in [
        (
            [spec(3)],
            "3 ranks requested, 1 of 4 slots free now (node 3 (node3) is down,"
            " nodes 0..1 are in use)",
        ),
        (
            [spec(2, 1, 2)],
            "2 ranks requested on 1..2, 1 of 2 slots free now (node 1 (node1) is in use)",
        ),
        (
            [spec(1, 3, one_per_node=True)],
            "1 rank requested on 3, 0 of 1 slot free now (node 3 (node3) is down)",
        ),
        (
            [spec(2, 1, 2, 3, node_count=2)],
            "2 ranks requested on 2 of nodes 1..3, 1 of 3 slots free now (node 3 (node3) is down,"
            " node 1 (node1) is in use)",
        ),
    ]:
        assert partition.request(*specs) == Refused(Refusal.BUSY, text, 0)
    assert partition.free() == {0: 0, 1: 0, 2: 1, 3: 0}


def test_a_refusal_takes_nothing():
    partition = Partition(4, slots=2)
    partition.grant(spec(4))
    before = partition.free()
    partition.request(spec(2, 2, 3, one_per_node=True), spec(2), spec(2))
    assert partition.free() == before
    assert partition.grant(spec(1)).job_id == 2


def test_an_empty_partition_says_so():
    assert Partition(0).request(spec(1)) == Refused(
        Refusal.NOT_ENOUGH_NODES, "1 rank requested, partition `local` has 0 slots on 0 nodes"
    )


def test_a_refusal_fits_into_its_message_whatever_it_lists():
    partition = Partition(1)
    refused = partition.request(spec(1, *range(2, 8000, 2)))
    assert len(refused.text) == TEXT_MAX
    assert codec.decode(codec.encode(refused)) == refused


def test_more_ranks_than_a_job_can_have_are_refused():
    refused = Partition(1).request(spec(1 << 20), spec(1))
    assert refused.text == "1048577 ranks requested, a job has at most 1048576"


def test_a_user_who_is_not_known_gets_nothing():
    stranger = Principal(PrincipalKind.USER, 4242)
    assert Partition(1).request(spec(1), principal=stranger) == Refused(
        Refusal.NOT_PERMITTED, "no user has uid 4242 on bebopd's host"
    )


def test_a_partition_of_one_user_serves_nobody_else():
    partition = Partition(1, only_uid=1000, name="alices")
    assert partition.request(spec(1), principal=BOB) == Refused(
        Refusal.NOT_PERMITTED, "partition `alices` belongs to alice and runs nobody else's jobs"
    )
    assert partition.grant(spec(1), principal=ALICE).uid == 1000


def test_an_application_may_not_ask_for_nodes():
    job = Principal(PrincipalKind.JOB, 1000, 5)
    refused = Partition(1).request(spec(1), principal=job)
    assert refused == Refused(
        Refusal.NOT_PERMITTED, "NodeRequest is not for this peer (JOB) to send"
    )


def test_a_grant_too_large_for_a_message_is_refused():
    partition = Partition(0)
    partition.checks = False
    for number in range(2000):
        partition.announce(number, name=f"{number:x>250}", source=pct(3 * number))
    assert partition.request(spec(2000)).text == (
        "a grant of 2000 nodes does not fit in a message: their numbers, names and addresses"
        " count up in 2001 pieces; a nodes file that numbers them as names and addresses count up"
        " makes fewer"
    )
    assert sum(partition.free().values()) == 2000
    assert len(partition.grant(spec(900)).nodes) == 900


def test_ranks_that_change_their_node_too_often_are_refused():
    partition = Partition(2, slots=20000)
    refused = partition.request(spec(40000, plane=1))
    assert refused.text == (
        "40000 ranks lie in 20000 pieces on their nodes, at most 16384:"
        " deal more at a time (--distribution=plane=K)"
    )
    grant = partition.grant(spec(40000, plane=2))
    assert len(codec.encode(grant)) < MESSAGE_MAX_BYTES
    assert grant.runs.size == 40000


def test_a_batch_job_holds_no_more_nodes_than_it_was_given():
    words = Words("pbs", interactive=2, believed_s=60.0)
    words.take("12", Word("alice", 3), 1000.0)
    partition = Partition(6, slots=2, batch_limits=words)
    partition.grant(spec(3), batch_job="12")  # nodes 0 and 1
    assert partition.request(spec(5), batch_job="12") == Refused(
        Refusal.BATCH_LIMIT, "batch job 12 has 3 nodes, 2 of them in use: 2 more requested"
    )
    partition.grant(spec(3), batch_job="12")  # the rest of node 1, and node 2
    assert partition.request(spec(1), batch_job="12").code is Refusal.BATCH_LIMIT
    partition.grant(spec(3))  # of no batch job
    assert partition.request(spec(2)) == Refused(
        Refusal.BATCH_LIMIT,
        "2 nodes are for jobs outside of batch jobs, 2 of them in use: 1 more requested",
    )


def test_job_ids_are_reserved_before_they_are_used():
    partition = Partition(200)
    reserved = 65
    for expected in range(1, 201):
        actions = partition.receive(YOD, NodeRequest((spec(1),)), ALICE)
        assert actions[0].message.job_id == expected
        assert expected < reserved
        for action in actions:
            if isinstance(action, ReserveJobIds):
                reserved = action.end


def test_a_grant_is_recorded_after_it_is_sent():
    actions = Partition(2).receive(YOD, NodeRequest((spec(2),), "a.out", ""), ALICE)
    nodes = actions[0].message.nodes
    assert list(nodes.numbers()) == [0, 1]
    (recorded,) = actions[1:]
    assert isinstance(recorded, RecordGrant)
    row = recorded.row
    assert (row.job_id, row.uid, row.owner, row.name) == (1, 1000, "alice", "a.out")
    assert (row.slots, row.nodes, row.node_count) == (2, ((0, 2),), 2)


@pytest.mark.parametrize("numbers", [range(100, 300), [*range(299, 100, -1)], [5, *range(400)]])
def test_a_long_list_asks_for_the_same_however_it_travels(numbers):
    nodes = tuple(dict.fromkeys(numbers))
    wanted = NodeSpec(len(nodes), nodes, one_per_node=True)
    arrived = codec.decode(codec.encode(NodeRequest((wanted.packed(),)))).specs[0]
    assert arrived.unpacked() == wanted
    granted = Partition(400).grant(arrived)
    assert ranks_by_node(granted) == list(nodes)


def test_a_list_of_a_hundred_thousand_nodes_fits_in_a_request():
    wanted = NodeSpec(100_000, tuple(range(100_000)), one_per_node=True)
    assert len(codec.encode(NodeRequest((wanted.packed(),)))) < 100


def test_a_list_longer_than_the_partition_is_refused_before_it_is_made():
    longest = NodeSpec(1, (), ranges=((0, 1 << 20),))
    assert Partition(2).request(longest) == Refused(
        Refusal.UNKNOWN_NODE, "a list of 1048576 nodes; this partition has nodes 0..1", 0
    )
