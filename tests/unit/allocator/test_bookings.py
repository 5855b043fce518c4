"""Nodes that are reserved for a time: jobs of others are over before, or begin behind it."""

import pytest

from allocator.host.ledger import Ledger
from allocator.nodes.orders import Orders, Reservation
from native.errors import Refusal
from native.machine import DeadlineReached
from native.wire import batch
from native.wire import nodes as wire
from native.wire.alloc import Grant, Queued
from tests.unit.allocator.partition_of import ALICE, BOB, YOD, spec
from tests.unit.allocator.queue_site import Site
from tests.unit.allocator.test_backfill import HOUR_S, Backfilled
from tests.unit.allocator.test_operators import give, refusal, rows

QUEUE = '[[queue]]\nname = "day"\n'
COURSE = """
[[reservation]]
name = "course"
nodes = "1"
users = ["bob"]
start = {}
duration = "1:00:00"
"""


def in_an_hour(partition, **fields):
    """An order that keeps node 1 for bob, for an hour."""
    start = partition.now + 5000.5 + HOUR_S
    return wire.Reserve((1,), BOB.uid, "course", start, HOUR_S, **fields)


def let_pass(partition, seconds):
    """Time, and what is due meanwhile."""
    until = partition.now + seconds
    while (due := partition.machine.deadline()) is not None and due <= until:
        partition.now = max(partition.now, due)
        partition.handle(DeadlineReached())
        partition.keep()
    partition.now = until


@pytest.fixture
def partition():
    return Backfilled(2, 2)


def where(partition, job_id):
    return sorted(partition.machine.jobs[job_id].holdings)


def test_a_job_that_is_over_before_begins_and_one_that_is_not_waits_for_other_nodes(partition):
    give(partition, in_an_hour(partition))
    short = partition.job(4, HOUR_S)
    assert where(partition, short) == [0, 1]
    partition.end(short)
    long = partition.job(2, HOUR_S + 1)
    assert where(partition, long) == [0]
    waits = partition.job(2, HOUR_S + 1)
    assert partition.row(waits).reason == (
        "place 1 of 1; node 1 is reserved for bob, begins in 1:00:00, ends in 2:00:00: course;"
        " it may need them for 1:00:01"
    )
    assert partition.begins_in(waits) == HOUR_S + 1  # on node 0, when that is free


def test_its_users_jobs_have_its_nodes_at_any_time(partition):
    give(partition, in_an_hour(partition))
    assert where(partition, partition.job(4, 5 * HOUR_S, principal=BOB)) == [0, 1]


def test_jobs_of_others_begin_when_it_is_over_though_nothing_happens(partition):
    give(partition, in_an_hour(partition))
    wide = partition.job(4, 2 * HOUR_S)
    assert partition.begins_in(wide) == 2 * HOUR_S
    let_pass(partition, 2 * HOUR_S - 1)
    assert partition.has_slots(wide) == [False]
    let_pass(partition, 2)
    assert partition.has_slots(wide) == [True]


def test_a_job_that_is_there_goes_on(partition):
    job_id = partition.job(4, 5 * HOUR_S)
    (answer,) = give(partition, in_an_hour(partition))
    assert answer.message.jobs == (wire.OwnedJob(job_id, "alice"),)
    let_pass(partition, HOUR_S + 1)
    assert partition.has_slots(job_id) == [True]


def test_a_launch_without_a_limit_gets_other_nodes_or_is_told_why_not(partition):
    give(partition, in_an_hour(partition))
    assert [node.node for node in partition.grant(spec(2)).nodes] == [0]
    refused = partition.request(spec(1))
    assert refused.code is Refusal.BUSY
    assert refused.text.startswith("node 1 is reserved for bob, begins in 1:00:00, ends in 2:00:0")
    waits = partition.request(spec(1), waits=True)
    assert isinstance(waits, Queued) and waits.text.startswith("node 1 is reserved for bob")
    assert isinstance(partition.request(spec(1), principal=BOB), Grant)  # the other is alice's


def test_its_users_are_several_and_it_may_have_no_end(partition):
    order = wire.Reserve((1,), BOB.uid, others=(ALICE.uid,), start=0.0)
    give(partition, order)
    kept = rows(partition)[1].reservation
    assert (kept.owner, kept.start, kept.end) == ("bob, alice", 0.0, 0.0)
    assert where(partition, partition.job(4, HOUR_S)) == [0, 1]


def test_one_that_is_over_is_no_hindrance_and_one_that_has_ended_already_is_refused(partition):
    past = wire.Reserve((1,), BOB.uid, "", partition.now + 5000.5 - HOUR_S, HOUR_S)
    assert refusal(partition, past).text == "a reservation that has ended already"
    give(partition, in_an_hour(partition))
    mine = wire.Reserve((1,), ALICE.uid)
    assert refusal(partition, mine).text.startswith("node 1 is reserved for bob: `yodctl unres")
    let_pass(partition, 2 * HOUR_S + 1)
    give(partition, mine)
    assert where(partition, partition.job(4)) == [0, 1]


def test_the_first_ones_start_is_kept_behind_a_reservation(partition):
    give(partition, in_an_hour(partition))
    wide = partition.job(4, 2 * HOUR_S)
    short, long = partition.job(2, 2 * HOUR_S), partition.job(2, 2 * HOUR_S + 1)
    assert partition.has_slots(wide, short, long) == [False, True, False]
    assert partition.begins_in(wide) == 2 * HOUR_S


def test_a_later_bebopd_keeps_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    kept = Reservation(1001, "bob, alice", "x", "root", 5.0, 50.0, 90.0, (1000,))
    ledger.keep_orders([(1, Orders(reservation=kept))])
    ledger.close()
    later = Ledger(tmp_path / "ledger")
    assert later.orders() == {1: Orders(reservation=kept)}
    later.close()


def test_a_file_keeps_nodes_for_users_and_all_of_them_for_nobody():
    begins = "1970-01-01T02:50:00Z"  # unix time 10200
    site = Site(QUEUE + COURSE.format(begins), 2, 2)
    bound = 10200.0 - site.now - 5000.5
    assert where(site, site.job(4, bound - 1)) == [0, 1]
    site = Site(QUEUE + COURSE.format(begins), 2, 2)
    assert where(site, site.job(2, bound + 1)) == [0]
    assert where(site, site.job(2, bound + 1, principal=BOB)) == [1]
    site.follow(QUEUE + COURSE.format(begins).replace('nodes = "1"\nusers = ["bob"]\n', ""))
    site.end(1)
    site.end(2)
    for who in (ALICE, BOB):
        job_id = site.job(1, bound + 1, principal=who)
        asked = site.receive(YOD, batch.Ask((job_id,)), who)[0].rows[0].reason
        assert "all nodes are reserved for nobody, begins in " in asked


def test_a_file_that_drops_a_reservation_lets_those_begin_that_wait_for_it():
    site = Site(QUEUE + COURSE.format("1970-01-01T02:50:00Z"), 2, 2)
    wide = site.job(4, 1e5)
    assert site.has_slots(wide) == [False]
    site.follow(QUEUE)
    assert site.has_slots(wide) == [True]
