"""Orders of operators: nodes are drained, resumed, restarted."""

import pytest
from msgspec.structs import replace

from allocator.jobs.grants import Operators
from allocator.nodes.orders import Drain, Orders, OrdersRecorded, RecordOrders, Restart
from native.errors import Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Send
from native.wire import nodes as wire
from native.wire.alloc import Freed, Grant, Hosting, Queued, Refused, Revoke, Unfit
from native.wire.group import WriteDown
from native.wire.status import HostedJob, NodeState, Portion, Query
from tests.unit.allocator.partition_of import ALICE, BOB, DAEMON, YOD, Partition, pct, spec

ROOT = Principal(PrincipalKind.USER, 0)
YODCTL = PortalId(1, 80000)
FAN = wire.Drain((1,), "fan")
SINCE = 6000.5  # what a partition_of has as unix time at its beginning


def record(partition, order, principal=ROOT):
    """The order as it is to be written."""
    (action,) = partition.receive(YODCTL, order, principal)
    assert isinstance(action, RecordOrders) and action.asker == YODCTL
    return action


def give(partition, order, principal=ROOT):
    """What bebopd does when the order is on the disk; the first is the answer."""
    action = record(partition, order, principal)
    return partition.handle(OrdersRecorded(action.changes, action.asker))


def refusal(partition, order, principal=ROOT):
    (answer,) = partition.receive(YODCTL, order, principal)
    assert isinstance(answer.message, Refused)
    return answer.message


def rows(partition):
    (answer,) = partition.receive(YODCTL, Query(), ALICE)
    return {row.node: row for row in answer.message.rows}


def states(partition):
    return {number: row.state for number, row in rows(partition).items()}


def restart_now(number, is_forced=False):
    return Send(pct(number), wire.RestartNow(is_forced))


def test_a_drained_node_is_given_to_no_job():
    partition = Partition(3)
    assert give(partition, FAN) == [Send(YODCTL, wire.Changed((1,), (), (), 0))]
    assert partition.free() == {0: 1, 1: 0, 2: 1}
    assert [each.node for each in partition.grant(spec(2)).nodes] == [0, 2]
    refused = partition.request(spec(1))
    assert (refused.code, refused.text) == (
        Refusal.BUSY,
        "1 rank requested, 0 of 3 slots free now (node 1 (node1) is drained, nodes 0,2 are in use)",
    )
    refused = partition.request(spec(1, 1, one_per_node=True))
    assert refused.text == "1 rank requested on 1, 0 of 1 slot free now (node 1 (node1) is drained)"


def test_a_drain_counts_only_when_it_is_on_the_disk():
    partition = Partition(1)
    action = record(partition, wire.Drain((0,), "fan"))
    assert states(partition) == {0: NodeState.FREE}
    (answer,) = partition.handle(OrdersRecorded(action.changes, action.asker, "disk is full"))
    assert answer.message == Refused(
        Refusal.NOT_RECORDED, "the orders for nodes 0 are not recorded: disk is full"
    )
    assert isinstance(partition.request(spec(1)), Grant)


def test_jobs_end_undisturbed_on_a_node_that_drains():
    partition = Partition(2)
    job_id = partition.grant(spec(2)).job_id
    partition.receive(pct(0), Hosting(job_id))
    changed = wire.Changed((0, 1), (0, 1), (wire.OwnedJob(job_id, "alice"),), 1)
    told = WriteDown(job_id, "node 0 (node0) is drained by root: fan")
    answers = [Send(YOD, told), Send(YODCTL, changed)]
    assert give(partition, wire.Drain((1, 0), "fan")) == answers
    assert states(partition) == dict.fromkeys((0, 1), NodeState.DRAINING)
    partition.receive(pct(0), Freed.of(job_id, (0, 1)))
    assert states(partition) == dict.fromkeys((0, 1), NodeState.DRAINED)
    assert partition.free() == {0: 0, 1: 0}


def test_each_drain_tells_the_jobs_of_its_nodes_and_no_other_order_does():
    partition = Partition(2, slots=2)
    job_id = partition.grant(spec(3)).job_id
    partition.grant(spec(1), source=PortalId(1, 70009))
    told = WriteDown(job_id, "node 0 (node0) is drained by root: fan")
    drain = wire.Drain((0,), "fan")
    assert give(partition, drain)[:-1] == [Send(YOD, told)]
    partition.now += 1
    assert give(partition, drain)[:-1] == [Send(YOD, told)]
    for order in (wire.Resume((0,)), wire.Restart((0,)), wire.Dedicate((0,), Portion.BATCH)):
        assert len(give(partition, order)) == 1, order


def test_a_job_whose_yod_is_unknown_is_told_nothing_and_ends_undisturbed():
    partition = Partition(0)
    partition.announce(0, jobs=(HostedJob(7, 1000, 1, (0, 1, 1, 1), 5.0),))
    (answer,) = give(partition, wire.Drain((0,), "fan"))
    assert answer.message.job_count == 1


def test_the_table_has_the_reason_the_operator_and_the_time():
    partition = Partition(2)
    give(partition, FAN)
    drain = rows(partition)[1].drain
    assert (drain.reason, drain.by, drain.since) == ("fan", "root", SINCE)
    assert rows(partition)[0].drain is None
    partition.now += 9
    give(partition, wire.Drain((1,), "disk"), DAEMON)
    drain = rows(partition)[1].drain
    assert (drain.reason, drain.since) == ("disk", SINCE + 9)


def test_a_resumed_node_is_given_to_jobs_again():
    partition = Partition(3)
    give(partition, wire.Drain((1, 2), "fan"))
    (answer,) = give(partition, wire.Resume((0, 1)))
    assert answer.message.nodes == (1,)  # node 0 was not drained
    assert states(partition)[1] is NodeState.FREE
    assert states(partition)[2] is NodeState.DRAINED
    assert [each.node for each in partition.grant(spec(2)).nodes] == [0, 1]


def test_a_request_that_waits_gets_a_node_that_is_resumed_or_has_restarted():
    for order, ends in ((FAN, wire.Resume((1,))), (wire.Restart((1,)), None)):
        partition = Partition(2)
        give(partition, order)
        queued = partition.request(spec(2), waits=True)
        text = "2 ranks requested, 1 of 2 slots free now (node 1 (node1) is drained)"
        assert queued == Queued(1, text)
        if ends is not None:
            actions = give(partition, ends)
        else:
            (fulfilled,) = (
                action
                for action in partition.announce(1, incarnation=2)
                if isinstance(action, RecordOrders)
            )
            actions = partition.handle(OrdersRecorded(fulfilled.changes, None))
        assert Grant in {type(each.message) for each in actions if isinstance(each, Send)}


def test_a_node_stays_drained_when_it_goes_down_restarts_and_comes_back():
    partition = Partition(2)
    give(partition, FAN)
    partition.lose(pct(1))
    assert states(partition)[1] is NodeState.DOWN and rows(partition)[1].drain is not None
    partition.announce(1, incarnation=2, source=pct(1, restarts=1))
    assert states(partition)[1] is NodeState.DRAINED
    partition.lose(pct(1, restarts=1))
    give(partition, wire.Resume((1,)))
    partition.announce(1, incarnation=3)
    assert states(partition)[1] is NodeState.FREE


def test_a_later_bebopd_goes_by_the_orders_before_and_after_the_node_announces_itself():
    orders = {1: Orders(Drain("fan", "root", 5.0)), 7: Orders(Drain("disk", "root", 6.0))}
    partition = Partition(1, orders=orders, remembered_names={"n7": 7})
    assert states(partition) == {0: NodeState.FREE, 1: NodeState.DOWN, 7: NodeState.DOWN}
    assert (rows(partition)[7].name, rows(partition)[7].slots) == ("n7", 0)
    partition.announce(1, jobs=(HostedJob(9, 1000, 1, (0,), 3.0),))
    assert states(partition)[1] is NodeState.DRAINING
    give(partition, wire.Resume((1, 7)))
    assert states(partition) == {0: NodeState.FREE, 1: NodeState.BUSY}


@pytest.mark.parametrize(
    ("order", "code", "text"),
    [
        (
            wire.Drain((1, 5, 6), "fan"),
            Refusal.UNKNOWN_NODE,
            "no nodes 5..6 here; this partition has nodes 0..1",
        ),
        (
            wire.Resume((5,)),
            Refusal.UNKNOWN_NODE,
            "no node 5 here; this partition has nodes 0..1",
        ),
        (
            wire.Restart((3,)),
            Refusal.UNKNOWN_NODE,
            "node 3 has not announced itself: it has no PCT",
        ),
        (
            wire.Drain((1,), " "),
            Refusal.BAD_REQUEST,
            "a node is drained for a reason, none was given",
        ),
    ],
    ids=["unknown", "one unknown", "absent", "blank"],
)
def test_an_order_that_is_not_possible_changes_nothing(order, code, text):
    partition = Partition(2, fixed_names={"c3": 3})
    assert refusal(partition, order) == Refused(code, text)
    assert set(states(partition).values()) == {NodeState.FREE}


def test_a_node_of_the_nodes_file_is_drained_before_it_announces_itself():
    partition = Partition(0, fixed_names={"c3": 3})
    give(partition, wire.Drain((3,), "fan"))
    assert rows(partition)[3].name == "c3"
    partition.announce(3, name="c3")
    assert states(partition) == {3: NodeState.DRAINED}


@pytest.mark.parametrize("order", [FAN, wire.Resume((1,)), wire.Restart((1,), True)])
@pytest.mark.parametrize(
    ("only_uid", "principal", "text"),
    [
        (None, ROOT, ""),
        (None, DAEMON, ""),
        (None, ALICE, "alice may not change nodes of partition `local`: root may"),
        (1000, ALICE, ""),
        (1000, ROOT, ""),
        (1000, BOB, "bob may not change nodes of partition `local`: root and alice may"),
    ],
)
def test_root_and_the_user_of_the_daemons_may_give_orders(order, only_uid, principal, text):
    partition = Partition(2, only_uid=only_uid)
    if not text:
        record(partition, order, principal)
        return
    assert refusal(partition, order, principal) == Refused(Refusal.NOT_PERMITTED, text)


@pytest.mark.parametrize("order", [FAN, wire.Resume((1,)), wire.Restart((1,), True)])
def test_members_of_the_operators_group_may_give_orders_and_others_are_told_who_may(order):
    partition = Partition(2, operators=Operators("bebop", lambda uid: uid == BOB.uid))
    record(partition, order, BOB)
    text = "alice may not change nodes of partition `local`: root and group bebop may"
    assert refusal(partition, order, ALICE) == Refused(Refusal.NOT_PERMITTED, text)


def test_a_member_of_the_operators_group_may_release_a_job_of_another_and_sees_all():
    partition = Partition(1, operators=Operators("bebop", lambda uid: uid == BOB.uid))
    job_id = partition.grant(spec(1)).job_id
    assert partition.release(job_id, principal=BOB) == [Send(pct(0), Revoke(job_id))]


def test_a_key_of_a_job_gives_nobody_the_rights_of_their_group():
    partition = Partition(1, operators=Operators("bebop", lambda uid: True))
    job_id = partition.grant(spec(1)).job_id
    of_another_job = Principal(PrincipalKind.JOB, BOB.uid, job_id + 1)
    assert Send(pct(0), Revoke(job_id)) not in partition.release(job_id, principal=of_another_job)


def test_an_operator_may_release_a_job_of_another():
    for principal in (ROOT, DAEMON):
        partition = Partition(1)
        job_id = partition.grant(spec(1)).job_id
        (refused,) = partition.release(job_id, principal=BOB)
        assert refused.message.code is Refusal.NOT_PERMITTED
        assert partition.release(job_id, principal=principal) == [Send(pct(0), Revoke(job_id))]


def test_an_answer_names_as_many_jobs_as_fit():
    partition = Partition(1, slots=200, limits=Limits(silent_s=1e6, jobs_per_node_count=512))
    for _ in range(200):
        partition.grant(spec(1))
    *_, answer = give(partition, wire.Drain((0,), "fan"))
    assert [job.job_id for job in answer.message.jobs] == list(range(1, wire.JOBS_MAX + 1))
    assert answer.message.job_count == 200


# -- restart -----------------------------------------------------------------


def test_the_pct_of_a_node_without_jobs_is_told_to_restart_at_once():
    partition = Partition(2)
    answer, told = give(partition, wire.Restart((1,)))
    assert answer == Send(YODCTL, wire.Changed((1,), (), (), 0))
    assert told == restart_now(1)
    assert states(partition)[1] is NodeState.DRAINED
    assert rows(partition)[1].drain.reason == "restart" and rows(partition)[1].is_restarting


def test_the_pct_of_a_busy_node_is_told_when_its_last_job_has_ended():
    partition = Partition(1, slots=2)
    first, second = (partition.grant(spec(1)).job_id for _ in range(2))
    (answer,) = give(partition, wire.Restart((0,)))
    assert answer.message.busy == (0,)
    assert partition.receive(pct(0), Freed.of(first, (0,)))[1:] == []
    assert restart_now(0) in partition.receive(pct(0), Freed.of(second, (0,)))


def test_a_forced_restart_does_not_wait_for_jobs():
    partition = Partition(1)
    job_id = partition.grant(spec(1)).job_id
    answer, told = give(partition, wire.Restart((0,), True))
    assert answer.message.jobs == (wire.OwnedJob(job_id, "alice"),)
    assert told == restart_now(0, True)


def test_another_pct_of_the_node_fulfils_the_order_and_a_drain_stays():
    for order, after in ((None, NodeState.FREE), (FAN, NodeState.DRAINED)):
        partition = Partition(2)
        if order is not None:
            give(partition, order)
        give(partition, wire.Restart((1,)))
        assert restart_now(1) in partition.announce(1)  # it has not heard, or does not obey
        # Its end may be noticed later than the announcement of its successor.
        actions = partition.announce(1, incarnation=2, source=pct(1, restarts=1))
        (record,) = [action for action in actions if isinstance(action, RecordOrders)]
        assert states(partition)[1] is NodeState.DRAINED
        assert partition.handle(OrdersRecorded(record.changes, record.asker)) == []
        assert states(partition)[1] is after and not rows(partition)[1].is_restarting


def test_an_order_to_restart_is_given_again_by_a_later_bebopd():
    orders = {0: Orders(None, Restart("root", 5.0, incarnation=1, is_forced=False))}
    partition = Partition(0, orders=orders)
    hosted = (HostedJob(9, 1000, 1, (0,), 3.0),)
    assert restart_now(0) not in partition.announce(0, jobs=hosted)
    assert restart_now(0) in partition.receive(pct(0), Freed.of(9, (0,)))
    later = Partition(0, orders=orders)
    actions = later.announce(0, incarnation=2)
    assert RecordOrders(((0, Orders()),), None) in actions and restart_now(0) not in actions


def test_a_restart_that_has_not_begun_is_taken_back_by_a_resume():
    partition = Partition(1)
    job_id = partition.grant(spec(1)).job_id
    give(partition, wire.Restart((0,)))
    give(partition, wire.Resume((0,)))
    assert restart_now(0) not in partition.receive(pct(0), Freed.of(job_id, (0,)))
    assert partition.free() == {0: 1}


STUCK = Unfit(1, 1, "cannot be killed: process 17 (dd, state D)")


def test_a_node_whose_pct_cannot_kill_a_jobs_processes_is_drained_with_the_reason():
    partition = Partition(3)
    job_id = partition.grant(spec(2)).job_id
    (action,) = partition.receive(pct(1), replace(STUCK, job_id=job_id), DAEMON)
    assert isinstance(action, RecordOrders)
    partition.handle(OrdersRecorded(action.changes, action.asker))
    row = rows(partition)[1]
    assert row.state is NodeState.DRAINING
    assert row.drain.reason == f"job {job_id}: {STUCK.text}"


def test_the_reason_of_an_operators_drain_is_kept_when_processes_cannot_be_killed():
    partition = Partition(3)
    give(partition, FAN)
    assert partition.receive(pct(1), STUCK, DAEMON) == []
    assert rows(partition)[1].drain.reason == "fan"
