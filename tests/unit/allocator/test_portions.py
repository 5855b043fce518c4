"""Nodes that only batch jobs get, and nodes that only interactive launches get."""

import pytest

from allocator.host.ledger import Ledger
from allocator.jobs.assign import RequestRefused
from allocator.nodes import nodesfile
from allocator.nodes.access import Claim
from allocator.nodes.orders import Drain, Orders
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.placement_list import ListPlacement
from allocator.queue.backfill import Backfill
from native.errors import Refusal, UsageError
from native.machine import Send
from native.wire import nodes as wire
from native.wire.alloc import Freed, Grant, Hosting, Queued
from native.wire.status import Portion
from tests.unit.allocator.partition_of import ALICE, Partition, pct, spec
from tests.unit.allocator.test_operators import YODCTL, give, refusal, rows

BATCH = {"batch_job": "17.pbs"}


@pytest.fixture(params=[ListPlacement, ArrayPlacement])
def partition(request):
    """Node 0 is for batch jobs, node 1 for interactive ones, node 2 for any."""
    portions = {0: Portion.BATCH, 1: Portion.INTERACTIVE}
    return Partition(3, placement=request.param(), portions=portions)


def test_each_kind_of_job_gets_its_nodes_and_those_for_any(partition):
    assert [each.node for each in partition.grant(spec(2)).nodes] == [1, 2]
    refused = partition.request(spec(1))
    assert (refused.code, refused.text) == (
        Refusal.BUSY,
        "1 rank requested, 0 of 3 slots free now"
        " (nodes 1..2 are in use, node 0 (node0) is for batch jobs only)",
    )
    assert [each.node for each in partition.grant(spec(1), **BATCH).nodes] == [0]


def test_what_a_kind_of_job_can_never_get_is_refused(partition):
    refused = partition.request(spec(3), waits=True)
    assert refused.code is Refusal.NOT_ENOUGH_NODES
    assert refused.text == (
        "3 ranks requested, 2 slots there (node 0 (node0) is for batch jobs only)"
    )
    refused = partition.request(spec(1, 1), waits=True, **BATCH)
    assert "node 1 (node1) is for interactive jobs only" in refused.text


def test_a_batch_job_of_bebopds_own_is_one(partition):
    requests = partition.machine._requests
    requests.could(Claim(ALICE.uid, is_batch=True), spec(1, 0))
    with pytest.raises(RequestRefused, match="for interactive jobs only"):
        requests.could(Claim(ALICE.uid, is_batch=True), spec(1, 1))


def test_an_operator_changes_it_whatever_the_file_says(partition):
    assert give(partition, wire.Dedicate((0, 2), Portion.INTERACTIVE)) == [
        Send(YODCTL, wire.Changed((0, 2), (), (), 0))
    ]
    found = [rows(partition)[number].portion for number in range(3)]
    assert found == [Portion.INTERACTIVE] * 3
    assert isinstance(partition.request(spec(3)), Grant)
    assert refusal(partition, wire.Dedicate((0,), Portion.ANY), ALICE).code is Refusal.NOT_PERMITTED


def test_given_to_any_jobs_a_node_of_the_file_is_for_all(partition):
    give(partition, wire.Dedicate((0, 1), Portion.ANY))
    give(partition, wire.Resume((0, 1)))  # that is another order
    assert isinstance(partition.request(spec(3)), Grant)


def test_a_file_that_has_changed_counts_where_no_operator_has_spoken(partition):
    give(partition, wire.Dedicate((1,), Portion.INTERACTIVE))
    names = {f"node{number}": number for number in range(3)}
    partition.machine.nodes.fix(names, {1: Portion.BATCH, 2: Portion.BATCH})
    partition.machine.check()
    found = [rows(partition)[number].portion for number in range(3)]
    assert found == [Portion.ANY, Portion.INTERACTIVE, Portion.BATCH]
    assert [each.node for each in partition.grant(spec(2)).nodes] == [0, 1]


def test_reservation_and_portion_both_count(partition):
    give(partition, wire.Reserve((0, 1), 1000))
    assert [each.node for each in partition.grant(spec(1, 0), **BATCH).nodes] == [0]
    refused = partition.request(spec(1, 0))
    assert "node 0 (node0) is for batch jobs only" in refused.text
    partition.announce(0)
    assert partition.free() == {0: 0, 1: 1, 2: 1}


def test_a_ledger_keeps_portions(tmp_path):
    drained = Orders(Drain("fan", "root", 6.0), portion=Portion.BATCH)
    orders = {1: Orders(portion=Portion.ANY), 2: drained}
    ledger = Ledger(tmp_path / "records")
    ledger.keep_orders(list(orders.items()))
    ledger.close()
    ledger = Ledger(tmp_path / "records")
    assert ledger.orders() == orders
    ledger.close()


def test_a_nodes_file_says_which_jobs_a_node_is_for():
    found = nodesfile.parse("a for=batch\nb\nc for=interactive\n", "f")
    assert found.portions == {0: Portion.BATCH, 2: Portion.INTERACTIVE}
    for text in ("a for=any", "a for=batch for=batch", "a for=batch for=interactive"):
        with pytest.raises(UsageError, match="one of for=batch and for=interactive is meant"):
            nodesfile.parse(text, "f")


# -- nodes that are not shared


@pytest.fixture(params=[ListPlacement, ArrayPlacement])
def unshared(request):
    """Nodes 0 and 1 of 4 slots are given to one job at a time; node 2 is shared."""
    return Partition(3, 4, placement=request.param(), exclusive={0, 1})


def test_a_node_that_is_not_shared_is_a_jobs_as_a_whole(unshared):
    first = unshared.grant(spec(1))
    assert [(span.node, span.slots) for span in first.nodes.spans] == [(0, 4)]
    assert unshared.free() == {0: 0, 1: 4, 2: 4}
    second = unshared.grant(spec(1), spec(2))  # members of one job may share it
    assert [(span.node, span.slots) for span in second.nodes.spans] == [(1, 4)]
    third = unshared.grant(spec(1))
    assert [(span.node, span.slots) for span in third.nodes.spans] == [(2, 1)]
    assert unshared.free() == {0: 0, 1: 0, 2: 3}
    unshared.receive(pct(0), Hosting(first.job_id))
    unshared.receive(pct(0), Freed.of(first.job_id, (0,)))
    assert unshared.free() == {0: 4, 1: 0, 2: 3}


def test_a_job_on_nodes_of_both_kinds_has_what_it_asked_for_of_those_that_are_shared(unshared):
    grant = unshared.grant(spec(10))
    assert [(span.node, span.count, span.slots) for span in grant.nodes.spans] == [
        (0, 2, 4),
        (2, 1, 2),
    ]
    assert unshared.free() == {0: 0, 1: 0, 2: 2}


def test_a_node_becomes_one_that_is_not_shared_by_the_nodes_file(unshared):
    unshared.grant(spec(1, 2))
    names = {f"node{number}": number for number in range(3)}
    unshared.machine.nodes.fix(names, {}, {2})
    unshared.machine.check()
    assert unshared.free() == {0: 4, 1: 4, 2: 0}
    assert nodesfile.parse("a share=no\nb\n", "f").exclusive == {0}


# -- the line


@pytest.fixture
def planned():
    """The same partition with backfill."""
    portions = {0: Portion.BATCH, 1: Portion.INTERACTIVE}
    return Partition(3, placement=ArrayPlacement(), portions=portions, policy=Backfill)


def test_who_waits_for_nodes_of_one_kind_holds_back_nobody_of_the_other(planned):
    planned.grant(spec(1, 2))
    assert isinstance(planned.request(spec(2), waits=True), Queued)  # nodes 1 and 2
    assert [each.node for each in planned.grant(spec(1), **BATCH).nodes] == [0]


def test_what_waits_behind_gets_what_those_before_may_not_have(planned):
    on_batch = planned.grant(spec(1), **BATCH)
    on_any = planned.grant(spec(1, 2))
    assert isinstance(planned.request(spec(2), waits=True), Queued)
    assert isinstance(planned.request(spec(1), waits=True, **BATCH), Queued)
    planned.receive(pct(0), Hosting(on_batch.job_id))
    actions = planned.receive(pct(0), Freed.of(on_batch.job_id, (0,)))
    granted = [each.message for each in actions if isinstance(getattr(each, "message", 0), Grant)]
    assert [list(grant.nodes.numbers()) for grant in granted] == [[0]]
    assert on_any.job_id in {job.job_id for job in planned.machine.jobs}


def test_who_comes_behind_another_gets_no_slot_of_a_node_that_is_not_shared():
    partition = Partition(1, 4, placement=ArrayPlacement(), exclusive={0}, policy=Backfill)
    first = partition.grant(spec(4))
    assert isinstance(partition.request(spec(1), waits=True), Queued)
    assert isinstance(partition.request(spec(1), waits=True), Queued)
    partition.receive(pct(0), Hosting(first.job_id))
    actions = partition.receive(pct(0), Freed.of(first.job_id, (0,)))
    granted = [each.message for each in actions if isinstance(getattr(each, "message", 0), Grant)]
    assert len(granted) == 1
