"""Nodes that are reserved are given to one user's jobs."""

import pytest

from allocator.host.ledger import Ledger
from allocator.nodes.access import Claim
from allocator.nodes.orders import Drain, Orders, OrdersRecorded, RecordOrders, Reservation
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.placement_list import ListPlacement
from native.errors import Refusal
from native.machine import Send
from native.wire import nodes as wire
from native.wire.alloc import Freed, Grant, Hosting, Queued, Refused
from native.wire.nodes import NodeEventKind
from native.wire.status import NodeState
from tests.unit.allocator.partition_of import ALICE, BOB, Partition, pct, spec
from tests.unit.allocator.test_operators import YODCTL, give, record, refusal, rows, states

BOBS = wire.Reserve((1, 2), 1001, "demo")
KEPT = Reservation(1001, "bob", "demo", "root", 5.0)


@pytest.fixture(params=[ListPlacement, ArrayPlacement])
def partition(request):
    return Partition(3, placement=request.param())


def test_a_reserved_node_is_given_to_its_users_jobs_alone(partition):
    assert give(partition, BOBS) == [Send(YODCTL, wire.Changed((1, 2), (), (), 0))]
    assert [each.node for each in partition.grant(spec(1)).nodes] == [0]
    refused = partition.request(spec(1))
    text = "1 rank requested, 0 of 3 slots free now (node 0 (node0) is in use, nodes 1..2 are"
    assert (refused.code, refused.text) == (Refusal.BUSY, f"{text} reserved for bob)")
    grant = partition.grant(spec(2), principal=BOB)
    assert [each.node for each in grant.nodes] == [1, 2]
    partition.receive(pct(1), Hosting(grant.job_id))
    partition.receive(pct(1), Freed.of(grant.job_id, (1, 2)))
    assert partition.request(spec(1)).code is Refusal.BUSY
    assert isinstance(partition.request(spec(2), principal=BOB), Grant)


def test_its_user_gets_other_nodes_too(partition):
    give(partition, BOBS)
    assert [each.node for each in partition.grant(spec(3), principal=BOB).nodes] == [0, 1, 2]


@pytest.mark.parametrize(
    "asked", [{}, {"node_count": 2}, {"cores": 1, "per_node": 1}], ids=["slots", "nodes", "each"]
)
@pytest.mark.parametrize("is_exclusive", [False, True])
def test_what_is_never_met_because_of_a_reservation_is_refused_and_says_so(
    partition, asked, is_exclusive
):
    give(partition, BOBS)
    refused = partition.request(spec(2, **asked), waits=True, is_exclusive=is_exclusive)
    assert refused.code is Refusal.NOT_ENOUGH_NODES
    assert refused.text.endswith(", 1 slot there (nodes 1..2 are reserved for bob)")
    assert isinstance(
        partition.request(spec(2, **asked), principal=BOB, is_exclusive=is_exclusive), Grant
    )


def test_a_listed_node_that_is_reserved_is_refused(partition):
    give(partition, BOBS)
    refused = partition.request(spec(1, 2, one_per_node=True), waits=True)
    assert refused.code is Refusal.NOT_ENOUGH_NODES
    assert refused.text == (
        "1 rank requested on 2, 0 slots there (node 2 (node2) is reserved for bob)"
    )
    assert partition.request(spec(4)).text == (
        "4 ranks requested, partition `local` has 3 slots on 3 nodes"
    )


def test_jobs_of_others_go_on_to_their_end(partition):
    job_id = partition.grant(spec(3)).job_id
    changed = wire.Changed((1, 2), (1, 2), (wire.OwnedJob(job_id, "alice"),), 1)
    assert give(partition, BOBS) == [Send(YODCTL, changed)]
    partition.receive(pct(0), Hosting(job_id))
    assert set(states(partition).values()) == {NodeState.BUSY}
    partition.receive(pct(0), Freed.of(job_id, (0, 1, 2)))
    assert [each.node for each in partition.grant(spec(1)).nodes] == [0]
    assert partition.request(spec(1)).code is Refusal.BUSY


def test_a_request_that_waits_already_goes_on_waiting_and_holds_back_nobody(partition):
    job_id = partition.grant(spec(1), principal=BOB).job_id
    assert isinstance(partition.request(spec(3), waits=True), Queued)
    kept = partition.request(spec(1), principal=BOB, waits=True)
    assert kept == Queued(2, "2 free slots are kept for alice, who waits for 3 ranks")
    actions = give(partition, BOBS)
    sent = [each.message for each in actions if isinstance(each, Send)]
    assert [type(each) for each in sent] == [wire.Changed, Grant]  # to bob
    give(partition, wire.Unreserve((1, 2)))
    partition.receive(pct(0), Hosting(job_id))
    partition.receive(pct(0), Freed.of(job_id, (0,)))
    partition.receive(pct(1), Hosting(sent[1].job_id))
    actions = partition.receive(pct(1), Freed.of(sent[1].job_id, (1,)))
    granted = [each.message for each in actions if isinstance(each, Send)]
    assert [type(each) for each in granted] == [Grant]  # to alice


def test_a_node_that_is_reserved_for_one_user_is_reserved_for_another_when_that_is_over(partition):
    give(partition, BOBS)
    refused = refusal(partition, wire.Reserve((0, 2), 1000))
    assert (refused.code, refused.text) == (
        Refusal.BAD_REQUEST,
        "node 2 is reserved for bob: `yodctl unreserve 2` first",
    )
    assert rows(partition)[0].reservation is None
    (answer,) = give(partition, wire.Unreserve((0, 1, 2)))
    assert answer.message.nodes == (1, 2)  # node 0 was not reserved
    give(partition, wire.Reserve((0, 2), 1000))
    assert [each.node for each in partition.grant(spec(3)).nodes] == [0, 1, 2]


def test_reservation_and_drain_are_orders_of_their_own(partition):
    give(partition, BOBS)
    give(partition, wire.Drain((1,), "fan"))
    assert partition.request(spec(2), principal=BOB, source=pct(77)) is not None
    give(partition, wire.Resume((1,)))
    kept = rows(partition)[1].reservation
    assert (kept.owner, kept.reason, kept.by) == ("bob", "demo", "root")
    give(partition, wire.Drain((1,), "fan"))
    give(partition, wire.Unreserve((1,)))
    assert rows(partition)[1].drain.reason == "fan"


def test_only_operators_reserve_and_only_for_users_there_are(partition):
    for order in (BOBS, wire.Unreserve((1,))):
        assert refusal(partition, order, BOB).code is Refusal.NOT_PERMITTED
    refused = refusal(partition, wire.Reserve((1,), 4242))
    assert (refused.code, refused.text) == (
        Refusal.BAD_REQUEST,
        "no user has uid 4242 on bebopd's host",
    )


def test_a_reservation_counts_only_when_it_is_on_the_disk(partition):
    action = record(partition, BOBS)
    (answer,) = partition.handle(OrdersRecorded(action.changes, action.asker, "disk is full"))
    assert isinstance(answer.message, Refused)
    assert isinstance(partition.request(spec(3)), Grant)


def test_a_later_bebopd_goes_by_it_before_and_after_the_node_announces_itself():
    partition = Partition(1, orders={1: Orders(reservation=KEPT)}, remembered_names={"n1": 1})
    assert rows(partition)[1].reservation.owner == "bob"
    partition.announce(1)
    assert [each.node for each in partition.grant(spec(1, 0)).nodes] == [0]
    assert partition.request(spec(1)).code is Refusal.BUSY
    assert isinstance(partition.request(spec(1), principal=BOB), Grant)


def test_a_ledger_keeps_reservations(tmp_path):
    orders = {1: Orders(reservation=KEPT), 2: Orders(Drain("fan", "root", 6.0), None, KEPT)}
    ledger = Ledger(tmp_path / "records")
    ledger.keep_orders(list(orders.items()))
    ledger.close()
    ledger = Ledger(tmp_path / "records")
    assert ledger.orders() == orders
    ledger.keep_orders([(1, Orders())])
    assert ledger.orders() == {2: orders[2]}
    ledger.close()


def test_what_is_ordered_is_in_the_nodes_history(partition):
    action = record(partition, BOBS)
    partition.handle(OrdersRecorded(action.changes, action.asker, by=action.by))
    action = record(partition, wire.Unreserve((1,)))
    assert isinstance(action, RecordOrders)
    partition.handle(OrdersRecorded(action.changes, action.asker, by=action.by))
    events = [(each.node, each.kind, each.text, each.by) for each in partition.history[-3:]]
    assert events == [
        (1, NodeEventKind.RESERVED, "for bob: demo", "root"),
        (2, NodeEventKind.RESERVED, "for bob: demo", "root"),
        (1, NodeEventKind.UNRESERVED, "", "root"),
    ]


def test_a_batch_job_waits_only_for_what_its_user_may_have(partition):
    give(partition, BOBS)
    requests = partition.machine._requests
    requests.could(Claim(BOB.uid, is_batch=True), spec(3))
    with pytest.raises(Exception, match="reserved for bob"):
        requests.could(Claim(ALICE.uid, is_batch=True), spec(3))
