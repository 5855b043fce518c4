"""Queues: who may use them, how much of a partition they give, and who is first."""

import pytest

from allocator.jobs.charges import RecordCharge
from native.errors import Refusal
from native.ids import Principal, PrincipalKind
from native.machine import DeadlineReached
from native.wire import batch
from native.wire.alloc import Freed, Grant, Queued, Refused
from native.wire.base import JobEnd, State, Terms
from tests.unit.allocator.partition_of import ALICE, BOB, YOD, pct, spec
from tests.unit.allocator.queue_site import Site, in_queue
from tests.unit.allocator.test_backfill import HOUR_S, Backfilled
from tests.unit.allocator.test_batch import said

ROOT = Principal(PrincipalKind.USER, 0)
OPEN = '[[queue]]\nname = "open"\n'
WEIGHTS = '[priority]\nage = 1000\nmax_age = "10:00"\nqueue = 100\nfair_share = 500\n'


# -- who may, and with how much ----------------------------------------------


@pytest.mark.parametrize(
    ("keys", "size", "time_s", "says"),
    [
        ('max_time = "10"', 1, 601.0, "max_time is 0:10:00, 0:10:01 asked for"),
        ("per_job = { slots = 2 }", 3, 1.0, "per_job.slots is 2, 3 asked for"),
        ("per_user = { slots = 2 }", 3, 1.0, "per_user.slots is 2, 3 asked for"),
        ("total = { slots = 2 }", 3, 1.0, "total.slots is 2, 3 asked for"),
        ('state = "closed"', 1, 1.0, "it is closed, and takes no jobs"),
        ('state = "drained"', 1, 1.0, "it is drained, and takes no jobs"),
        ('users = ["bob"]', 1, 1.0, "alice may not use it (users, groups)"),
        ('groups = ["staff"]', 1, 1.0, "alice may not use it (users, groups)"),
    ],
)
def test_what_could_never_be_met_is_refused_at_once_with_the_limit_and_its_number(
    keys, size, time_s, says
):
    site = Site(OPEN + keys)
    refused = site.refusal(size, time_s=time_s)
    assert (refused.code, refused.text) == (Refusal.NOT_PERMITTED, f"queue open: {says}")


def test_what_is_not_there_is_named():
    site = Site(OPEN + "[licences]\nmatlab = 2\n")
    assert site.refusal(**in_queue("night")).text == "no queue night here; there are open"
    assert site.refusal(**in_queue("", account="maths")).text == "no account maths here"
    ansys, many = (("ansys", 1),), (("matlab", 3),)
    assert site.refusal(**in_queue("", licences=ansys)).text == "no licence ansys here"
    text = "licence matlab: there are 2, 3 asked for"
    assert site.refusal(**in_queue("", licences=many)).text == text


def test_a_partition_without_queues_takes_none_and_says_so():
    partition = Backfilled()
    answer = partition.request(spec(1), terms=Terms("long"))
    assert isinstance(answer, Refused) and answer.code is Refusal.NO_QUEUES
    assert answer.text == "no queue long: this partition has no queues (bebopd --queues)"


def test_a_job_without_a_time_limit_has_that_of_its_queue():
    site = Site(OPEN + 'default_time = "10"\n[[queue]]\nname = "long"\nmax_time = "1-0"\n')
    assert site.row(site.job(1)).time_s == 600.0
    assert site.row(site.job(1, **in_queue("long"))).time_s == 86400.0
    assert site.row(site.job(1, 60.0)).time_s == 60.0
    grant = site.request(spec(1))
    assert isinstance(grant, Grant) and grant.time_s == 600.0


def test_a_time_limit_is_not_changed_beyond_that_of_the_queue_but_by_operators():
    site = Site(OPEN + 'max_time = "10"\n')
    job_id = site.job(1)
    for time_s in (601.0, 0.0):
        (answer,) = said(site.receive(YOD, batch.LimitTime(job_id, time_s), ALICE))
        assert answer.text.startswith("queue open: max_time is 0:10:00, ")
    site.receive(YOD, batch.LimitTime(job_id, 601.0), ROOT)
    assert batch.Done(job_id) in said(site.keep())


def test_jobs_beyond_a_limit_wait_and_hold_back_nobody_else():
    site = Site(OPEN + "per_user = { jobs = 1 }\ntotal = { slots = 3 }\n")
    first, second = site.job(1, HOUR_S), site.job(1, HOUR_S)
    assert site.has_slots(first, second) == [True, False]
    assert site.reason(second) == "place 1 of 1; queue open: per_user.jobs is 1, 1 in use"
    of_bob = site.job(2, HOUR_S, principal=BOB)
    assert site.has_slots(of_bob) == [True]
    site.end(first)
    assert site.has_slots(second) == [True]
    refused = site.request(spec(1), principal=BOB)
    assert refused.text == "queue open: per_user.jobs is 1, 1 in use"
    assert isinstance(site.request(spec(1), principal=BOB, waits=True), Queued)


def test_a_limit_that_is_free_again_is_noticed_though_no_slot_has_changed():
    site = Site(OPEN + "total = { jobs = 1 }\n")
    first, second = site.job(1, HOUR_S), site.job(1, HOUR_S)
    site.handle(DeadlineReached())
    assert site.has_slots(second) == [False]
    site.queues.slots_freed(first)
    site.handle(DeadlineReached())
    site.keep()
    assert site.has_slots(second) == [True]


def test_a_job_that_would_lie_on_too_many_nodes_waits():
    site = Site(OPEN + "total = { nodes = 2 }\n", count=3, slots=1)
    assert site.has_slots(site.job(2), site.job(1)) == [True, False]


def test_only_so_many_are_submitted():
    site = Site(OPEN + "per_user = { submitted = 2, jobs = 1 }\n")
    first = site.job(1)
    site.job(1)
    assert site.refusal().text == "queue open: per_user.submitted is 2, so many have not ended"
    site.job(1, principal=BOB)
    site.end(first)
    site.job(1)


def test_jobs_of_an_earlier_bebopd_count():
    site = Site(OPEN + "per_user = { submitted = 2, jobs = 1 }\n")
    first, second = site.job(1, HOUR_S), site.job(1, HOUR_S)
    later = site.again()
    assert later.refusal().text == "queue open: per_user.submitted is 2, so many have not ended"
    assert later.has_slots(first, second) == [True, False]


def test_a_queue_without_launches_is_for_batch_jobs():
    site = Site(OPEN + "launches = false\n")
    assert "it takes batch jobs only: `yodjob submit` (launches)" in site.request(spec(1)).text
    assert site.has_slots(site.job(1)) == [True]


def test_jobs_lie_on_the_nodes_of_their_queue():
    site = Site(OPEN + 'nodes = "1"\n', count=2, slots=2)
    first, second = site.job(2, HOUR_S), site.job(1, HOUR_S)
    assert list(site.machine.jobs[first].holdings) == [1]
    assert site.has_slots(second) == [False]
    assert "node 0 (node0) is not in its queue" in site.refusal(3).text
    site.end(first)
    assert list(site.machine.jobs[second].holdings) == [1]


def test_licences_are_counted_and_kept_for_the_first_that_waits_for_them():
    site = Site(OPEN + "[licences]\nmatlab = 2\n")
    one, two = (in_queue("", licences=(("matlab", count),)) for count in (1, 2))
    first = site.job(1, HOUR_S, **one)
    both, single, without = site.job(1, 60.0, **two), site.job(1, 60.0, **one), site.job(1, 60.0)
    assert site.has_slots(first, both, single, without) == [True, False, False, True]
    assert site.reason(both) == "place 1 of 2; licence matlab: 2 asked for, 1 of 2 free"
    site.end(first)
    assert site.has_slots(both, single) == [True, False]
    site.end(both)
    assert site.has_slots(single) == [True]


# -- the file changes -------------------------------------------------------------


def test_a_queue_is_closed_and_drained_and_opened_again():
    site = Site(OPEN)
    first, second = site.job(4, HOUR_S), site.job(4, HOUR_S)
    site.follow(OPEN + 'state = "drained"\n')
    site.end(first)
    assert site.reason(second) == "place 1 of 1; queue open is drained"
    site.follow(OPEN + 'state = "closed"\n')
    assert site.has_slots(second) == [True]
    assert site.refusal().code is Refusal.NOT_PERMITTED


def test_jobs_of_a_queue_that_is_gone_wait():
    site = Site(OPEN)
    site.job(4, HOUR_S)
    second = site.job(4, HOUR_S)
    site.follow('[[queue]]\nname = "other"\n')
    assert site.reason(second) == "place 1 of 1; there is no queue open any more"


# -- who is first -------------------------------------------------------------------


def full(text, **options):
    """A site on which a job of nobody's account holds all slots, and that job."""
    site = Site(text, **options)
    return site, site.job(4, HOUR_S)


def test_without_weights_the_order_is_that_of_arrival():
    site, _ = full(OPEN)
    waiting = [site.job(1, HOUR_S) for _ in range(3)]
    assert site.order() == waiting
    assert site.row(waiting[0]).factors == ()


def test_a_queue_of_higher_priority_goes_first_and_age_goes_before_that():
    text = OPEN + 'priority = 1\n[[queue]]\nname = "urgent"\npriority = 2\n' + WEIGHTS
    site, first = full(text)
    old, urgent = site.job(4, HOUR_S), site.job(4, HOUR_S, **in_queue("urgent"))
    assert site.order() == [urgent, old]
    site.wait(10)
    assert [(each.name, each.points) for each in site.row(urgent).factors] == [
        *(("age", 17), ("fair share", 250), ("queue", 100)),
    ]
    site.wait(590)
    younger = site.job(4, HOUR_S, **in_queue("urgent"))
    assert site.order() == [urgent, old, younger]
    site.end(first)
    assert site.has_slots(urgent, old) == [True, False]


def test_who_has_used_less_goes_first():
    site = Site(OPEN + WEIGHTS)
    first = site.job(4, HOUR_S)
    site.wait(100)
    of_alice, of_bob = site.job(4, HOUR_S), site.job(4, HOUR_S, principal=BOB)
    assert site.order() == [of_bob, of_alice]
    site.end(first)
    assert site.has_slots(of_bob, of_alice) == [True, False]


def test_large_or_small_jobs_go_first_as_the_site_wants():
    for favors, is_large_first in (("large", True), ("small", False)):
        site, _ = full(OPEN + f'[priority]\nsize = 10\nsize_favors = "{favors}"\n')
        small, large = site.job(1, HOUR_S), site.job(4, HOUR_S)
        assert site.order() == ([large, small] if is_large_first else [small, large])


def test_operators_set_priorities_and_users_give_up_points():
    site, _ = full(OPEN)
    first, second, third = [site.job(4, HOUR_S) for _ in range(3)]
    site.receive(YOD, batch.Prioritise(first, nice=5), ALICE)
    assert batch.Done(first) in said(site.keep())
    assert site.order() == [second, third, first]
    (answer,) = said(site.receive(YOD, batch.Prioritise(first, nice=4), ALICE))
    assert (answer.code, "given up 5 points" in answer.text) == (Refusal.NOT_PERMITTED, True)
    (answer,) = said(site.receive(YOD, batch.Prioritise(third, priority=9), ALICE))
    assert (answer.code, "only operators" in answer.text) == (Refusal.NOT_PERMITTED, True)
    site.receive(YOD, batch.Prioritise(third, priority=9), ROOT)
    site.keep()
    assert site.order() == [third, second, first]
    assert site.row(third).factors == (batch.Factor("operator", 1.0, 9),)
    site.receive(YOD, batch.Prioritise(third, priority=batch.BY_FACTORS, nice=6), ROOT)
    site.keep()
    assert site.order() == [second, first, third]


def test_a_priority_that_the_disk_refuses_stays_as_it_was():
    site, _ = full(OPEN)
    first, second = site.job(4, HOUR_S), site.job(4, HOUR_S)
    site.receive(YOD, batch.Prioritise(first, nice=5), ALICE)
    (answer,) = [each for each in said(site.keep("full")) if isinstance(each, Refused)]
    assert (answer.code, site.order()) == (Refusal.NOT_RECORDED, [first, second])
    assert site.machine.batch.get(first).terms.nice == 0


def test_a_job_that_runs_has_no_place():
    site, first = full(OPEN)
    (answer,) = said(site.receive(YOD, batch.Prioritise(first, nice=5), ALICE))
    assert answer.code is Refusal.BUSY


def test_a_launch_is_charged_when_it_has_ended():
    site = Site(OPEN + WEIGHTS)
    grant = site.request(spec(2))
    site.wait(10)
    told = site.release(grant.job_id, end=JobEnd(State.COMPLETED, 0, 0, ""))
    told += site.receive(pct(0), Freed.of(grant.job_id, (0,)))
    (charge,) = [each.charge for each in told if isinstance(each, RecordCharge)]
    assert (charge.account, charge.uid) == ("", ALICE.uid)
    assert charge.slot_s == pytest.approx(20.0, rel=0.01)
