"""Batch jobs stand still while those of another queue have their slots."""

import pytest

from allocator.batch.job import RecordEvent
from native.errors import Refusal
from native.limits import Limits
from native.machine import DeadlineReached, PeerGone, Send
from native.wire import batch, codec
from native.wire.alloc import Grant, Needs, NodeRequest, NodeSpec, Refused
from native.wire.base import State
from native.wire.placed import NodeLoan
from native.wire.status import Announce, HostedJob
from tests.unit.allocator.partition_of import ALICE, YOD, pct, spec
from tests.unit.allocator.queue_site import in_queue
from tests.unit.allocator.test_batch import OTHER, said
from tests.unit.allocator.test_preemption import HOUR_S, RULES, Preempting

SUSPEND = RULES.format("suspend")
TWO_TIERS = (
    SUSPEND
    + """
[[queue]]
name = "first"
preempts = ["paid", "free"]
"""
)


class Lending(Preempting):
    """A site, and what the brokers of its jobs are told of standing still."""

    def __init__(self, text=SUSPEND, *words, **options):
        self.orders = []
        super().__init__(text, *words, **options)

    def handle(self, event):
        actions = super().handle(event)
        for action in actions:
            match action:
                case Send(_, batch.Suspend(job_id, is_on)):
                    self.orders.append((job_id, "stop" if is_on else "go on"))
                case Send(_, batch.LimitTime(job_id, time_s)):
                    self.orders.append((job_id, time_s))
        return actions

    def loans(self):
        """Slots by borrower and lender, on all nodes together."""
        found = {}
        for node in self.machine.nodes:
            for borrower, loans in node.loans.items():
                for loan in loans:
                    key = borrower, loan.lender
                    found[key] = found.get(key, 0) + loan.slots
        return found


def credential_of(site, job_id):
    return codec.decode_credential(site.machine.batch.get(job_id).grant.credential)


def test_a_job_stands_still_for_another_and_goes_on_when_that_has_ended():
    site = Lending()
    free = site.runs(4, "free")
    site.orders.clear()
    paid = site.waits(2)
    assert site.told == [], "nobody ends"
    assert site.has_slots(paid) == [True]
    assert site.orders == [(free, 0.0), (free, "stop")]
    assert (site.row(free).state, site.reason(free)) == (
        *(State.SUSPENDED, f"its slots are lent to job {paid} of alice (queue paid)"),
    )
    assert credential_of(site, paid).loans == (NodeLoan(0, 1, free, 0, 2),)
    site.orders.clear()
    site.wait(600.0)
    site.end(paid)
    assert site.orders == [(free, HOUR_S + 600.0), (free, "go on")]
    assert (site.row(free).state, site.reason(free)) == (State.RUNNING, "")
    assert site.loans() == {}


def test_its_time_limit_does_not_count_the_time():
    site = Lending(limits=Limits(silent_s=1e6))
    free = site.runs(4, "free")
    paid = site.waits(4)
    site.wait(2 * HOUR_S)
    assert site.row(free).state is State.SUSPENDED
    left = site.machine._lenders._batch().times.left
    assert left(free) == pytest.approx(HOUR_S - 1.0)
    site.end(paid)
    assert left(free) == pytest.approx(HOUR_S - 1.0)
    site.wait(HOUR_S + site.limits.kill_wait_s + site.limits.overtime_s + 10.0)
    assert site.told[-1] == (free, "killed")


def test_what_is_not_lent_is_nobodys_but_of_those_who_may_have_it():
    site = Lending()
    site.runs(4, "free")
    first = site.waits(1)
    day, free = site.waits(1, "day"), site.waits(1, "free")
    assert site.has_slots(first, day, free) == [True, False, False]
    second = site.waits(2)
    assert site.has_slots(second) == [True]
    assert sorted(site.loans().values()) == [1, 2]
    site.end(first)
    assert [each for each in site.orders if each[1] == "go on"] == []
    assert site.has_slots(day, free) == [False, False]


def test_it_goes_on_when_the_last_of_them_has_left_and_others_wait_for_its_end():
    site = Lending()
    free = site.runs(4, "free")
    first, second = site.waits(1), site.waits(2)
    later = site.waits(4, "free")
    for job_id in (second, first):
        assert site.row(free).state is State.SUSPENDED
        site.end(job_id)
    assert site.row(free).state is State.RUNNING
    assert site.has_slots(later) == [False]


def test_free_slots_are_taken_before_those_of_others_and_the_youngest_stands_still():
    site = Lending(SUSPEND, 2, 4)
    old, young = site.runs(3, "free"), site.runs(3, "free")
    paid = site.waits(4)
    assert site.loans() == {(paid, young): 2}
    assert site.row(old).state is State.RUNNING


def test_memory_is_not_lent():
    site = Lending(SUSPEND, 0)
    nid, pid = pct(0)
    site.receive(pct(0), Announce(0, "node0", 4, nid, pid, 1, (), (), 1000))
    free = site.runs(4, "free", spec=NodeSpec(4, needs=Needs(memory=600)))
    large = site.waits(1, spec=NodeSpec(1, needs=Needs(memory=500)))
    assert site.has_slots(large) == [False]
    small = site.waits(1, spec=NodeSpec(1, needs=Needs(memory=400)))
    assert (site.has_slots(small), site.row(free).state) == ([False], State.RUNNING)
    site.receive(OTHER, batch.Cancel(large), ALICE)
    assert (site.has_slots(small), site.row(free).state) == ([True], State.SUSPENDED)


def test_its_user_may_cancel_it_and_the_other_keeps_its_slots():
    site = Lending()
    free = site.runs(4, "free")
    paid = site.waits(3)
    site.receive(OTHER, batch.Cancel(free), ALICE)
    site.leaves(free)
    assert (site.loans(), site.has_slots(paid)) == ({}, [True])
    assert site.machine.nodes.get(0).free() == 1
    (ended,) = [row for row in site.disk.batch.ended() if row.job_id == free]
    assert (ended.state, ended.reason) == (State.CANCELLED, "by alice")


def test_its_user_may_not_have_it_go_on_but_may_have_it_stay():
    site = Lending()
    free = site.runs(4, "free")
    paid = site.waits(3)
    (answer,) = said(site.receive(OTHER, batch.Suspend(free, False), ALICE))
    assert isinstance(answer, Refused) and answer.code is Refusal.BUSY
    assert answer.text == (
        f"job {free} is suspended for job {paid} of alice (queue paid):"
        " it goes on when that has ended"
    )
    site.receive(OTHER, batch.Suspend(free, True), ALICE)
    site.orders.clear()
    site.end(paid)
    assert site.orders[-1] == (free, "stop")
    assert site.row(free).state is State.SUSPENDED
    site.receive(OTHER, batch.Suspend(free, False), ALICE)
    assert site.row(free).state is State.RUNNING


def test_one_that_has_slots_of_others_does_not_stand_still_itself():
    text = TWO_TIERS.replace('name = "paid"\n', 'name = "paid"\npreempt_mode = "suspend"\n')
    site = Lending(text)
    site.runs(4, "free")
    paid = site.waits(4)
    site.receive(pct(0), batch.Started(paid))
    first = site.waits(2, "first")
    assert (site.has_slots(first), site.row(paid).state) == ([False], State.RUNNING)
    site.end(paid)
    site.wait(0.0)
    site.keep()
    assert site.has_slots(first) == [True]


def test_where_standing_still_would_not_do_the_others_end():
    site = Lending(TWO_TIERS.replace('name = "paid"\n', 'name = "paid"\npreempt_mode = "cancel"\n'))
    free, paid = site.runs(1, "free"), site.runs(3, "paid")
    site.waits(1, "first")
    assert (site.told, site.row(free).state) == ([], State.SUSPENDED)
    site.waits(3, "first")
    assert site.told == [(paid, "ended")]


def test_a_launch_has_a_job_stand_still():
    site = Lending()
    free = site.runs(4, "free")
    request = NodeRequest((spec(2),), waits=True, **in_queue("paid"))
    *_, grant = [each for each in said(site.receive(YOD, request, ALICE)) if type(each) is Grant]
    assert codec.decode_credential(grant.credential).loans == (NodeLoan(0, 1, free, 0, 2),)
    assert site.reason(free) == "its slots are lent to alice (queue paid)"


def test_it_goes_on_where_the_node_of_the_other_is_lost():
    site = Lending(SUSPEND, 2, 2)
    free = site.runs(4, "free", spec=NodeSpec(4))
    paid = site.waits(2, spec=spec(2, 1))
    assert site.loans() == {(paid, free): 2}
    site.handle(PeerGone(pct(1), "connection reset"))
    assert site.orders[-1] == (free, "go on")
    assert site.row(free).state is State.RUNNING


def announced(site, number, jobs, brokers):
    nid, pid = pct(number)
    words = (f"node{number}", site.size[1], nid, pid, 1, tuple(jobs), brokers)
    site.receive(pct(number), Announce(number, *words))


@pytest.mark.parametrize("ends", [False, True])
def test_a_later_bebopd_knows_who_stands_still_and_for_whom(ends):
    site = Lending(SUSPEND, 2, 2)
    free = site.runs(4, "free", spec=NodeSpec(4))
    paid = site.runs(2, "paid", spec=spec(2, 1))
    later = Lending(SUSPEND, 0, 2, site.disk, next_job_id=1000)
    later.now = site.now + 100.0
    lender = [HostedJob(free, ALICE.uid, 2, (2 * number,), 1.0) for number in (0, 1)]
    loan = NodeLoan(1, 1, free, 0, 2)
    borrower = HostedJob(paid, ALICE.uid, 2, (0,), 1.0, loans=(loan,))
    announced(later, 0, lender[:1], (free,))
    assert later.row(free).state is State.SUSPENDED, "node 1 has not spoken yet"
    there = [] if ends else [borrower]
    announced(later, 1, [*lender[1:], *there], () if ends else (paid,))
    assert later.row(free).state is (State.RUNNING if ends else State.SUSPENDED)
    orders = [what for job_id, what in later.orders if job_id == free]
    assert orders[-1] == ("go on" if ends else "stop")
    if not ends:
        assert later.loans() == {(paid, free): 2}
        later.end(paid)
        assert later.row(free).state is State.RUNNING


def test_a_later_bebopd_waits_for_a_lost_node_for_so_long_only():
    site = Lending(SUSPEND, 2, 2)
    free = site.runs(4, "free", spec=NodeSpec(4))
    site.runs(2, "paid", spec=spec(2, 1))
    later = Lending(SUSPEND, 0, 2, site.disk, next_job_id=1000)
    later.now = site.now
    announced(later, 0, [HostedJob(free, ALICE.uid, 2, (0,), 1.0)], (free,))
    later.wait(later.limits.node_fail_s - 1)
    assert later.row(free).state is State.SUSPENDED
    later.wait(2.0)
    later.handle(DeadlineReached())
    assert later.row(free).state is State.RUNNING


def test_who_waits_is_expected_behind_the_one_that_stands_still():
    site = Lending(limits=Limits(silent_s=1e6))
    site.runs(4, "free")
    site.waits(4)
    site.wait(10.0)
    later = site.waits(4, "free")
    site.wait(10.0)
    expected = site.row(later).expected - site.machine._wall_clock()
    assert 2 * HOUR_S - 60.0 <= expected <= 2 * HOUR_S


def test_the_history_says_who_stood_still_for_whom():
    site = Lending()
    free = site.runs(4, "free")
    paid = site.waits(4)
    site.end(paid)
    told = [(each.job_id, each.text) for each in site.history if isinstance(each, RecordEvent)]
    assert (free, f"suspended for job {paid} of alice (queue paid)") in told
    assert (paid, f"suspends 1 job: {free}") in told
    assert (free, "the others have left its slots") in told
