"""Days of work in queues: what begins is what may, in its order, and orders outlive bebopd."""

import random

import pytest

from allocator.jobs.table import RecordEnd
from native.ids import Principal, PrincipalKind
from native.wire import batch
from native.wire.base import Terms
from tests.unit.allocator.partition_of import ALICE, BOB, YOD
from tests.unit.allocator.queue_site import Site

ROOT = Principal(PrincipalKind.USER, 0)
SITE = """
default = "day"
[[queue]]
name = "day"
priority = 2
per_user = { jobs = 3 }
[[queue]]
name = "night"
priority = 1
total = { slots = 6 }
[priority]
age = 1000
max_age = "5:00"
size = 50
queue = 100
fair_share = 500
half_life = "10:00"
[licences]
matlab = 2
"""
CHOICES = ((), (), (("matlab", 1),), (("matlab", 2),))


class Days(Site):
    """Jobs of two users come, begin and end. What begins is looked at."""

    def __init__(self, chance, **options):
        self.chance = chance
        self.waiting, self.ends = {}, {}
        self.all = {}
        self.orders = {}  # by job, that in which it was looked at last
        self.began, self.used = {}, {}  # by job: when it began; what it had, slots times seconds
        self.recorded = {}  # the same, as bebopd records it
        super().__init__(SITE, count=4, slots=2, **options)

    def come(self):
        size, time_s = self.chance.randint(1, 6), float(self.chance.randint(1, 200))
        queue = self.chance.choice(("day", "night"))
        terms = Terms(queue, "", self.chance.choice(CHOICES), self.chance.choice((0, 0, 50)))
        who = self.chance.choice((ALICE, BOB))
        job_id = self.job(size, time_s, principal=who, terms=terms)
        self.waiting[job_id] = (size, who.uid, terms)
        self.look()

    def go_on(self):
        """Until the next job ends."""
        job_id = min(self.ends, key=self.ends.__getitem__)
        self.now = max(self.now, self.ends.pop(job_id))
        self.used[job_id] = self.all[job_id][0] * (self.now - self.began[job_id])
        self.end(job_id)
        self.look()

    def look(self):
        begun = [each for each in self.waiting if self.has_slots(each) == [True]]
        order = self.order()
        for job_id in begun:
            time_s = self.machine.batch.get(job_id).time_s
            self.ends[job_id] = self.now + time_s * self.chance.choice((0.1, 0.6, 0.99))
            self.began[job_id] = self.now
        self.demand_in_order(begun, order)
        for job_id in begun:
            del self.waiting[job_id]

    def demand_in_order(self, begun, order):
        """The first that its queue lets begin could not with what lower ones have got."""
        claimed = 0
        for job_id in order:
            size, uid, terms = self.waiting[job_id]
            lower = [each for each in begun if self.is_lower(each, job_id)]
            running = {*self.ends} - set(lower)
            sizes = {each: self.all[each] for each in running}
            free = 8 - sum(size for size, _, _ in sizes.values())
            licences = (
                2 - claimed - sum(dict(t.licences).get("matlab", 0) for *_, t in sizes.values())
            )
            wanted = dict(terms.licences).get("matlab", 0)
            mine = sum(1 for _, u, t in sizes.values() if (u, t.queue) == (uid, "day"))
            night = sum(s for s, _, t in sizes.values() if t.queue == "night")
            claimed += wanted
            is_within = mine < 3 if terms.queue == "day" else night + size <= 6
            if wanted <= licences and is_within:  # slots alone it may lack
                assert not (lower and free >= size), f"job {job_id} is delayed by {lower}"
                return  # those behind it may be kept back by it

    def job(self, *words, **fields):
        job_id = super().job(*words, **fields)
        self.all[job_id] = (words[0], fields["principal"].uid, fields["terms"])
        return job_id

    def is_lower(self, begun, waits):
        """Whether one that has begun was behind another when that was decided."""
        order = self.orders[begun]
        return waits in order and order.index(begun) > order.index(waits)

    def handle(self, event):
        line = self.machine._requests._line
        rank = type(line).rank

        def ranked(unix_time):
            rank(line, unix_time)
            order = [each.job_id for each in line]
            self.orders.update(dict.fromkeys(order, order))

        line.rank = ranked
        actions = super().handle(event)
        self.queues.check()
        self.recorded.update(
            (end.job_id, end.slot_s) for end in actions if isinstance(end, RecordEnd)
        )
        return actions


@pytest.mark.parametrize("seed", range(15))
def test_a_lower_priority_delays_none_that_could_have_begun_and_all_run(seed):
    days = Days(random.Random(seed))
    for _ in range(40):
        if days.ends and days.chance.random() < 0.5:
            days.go_on()
        else:
            days.come()
    while days.ends:
        days.go_on()
    assert not days.waiting and not len(days.machine.batch)


@pytest.mark.parametrize("seed", range(5))
def test_slot_seconds_add_up(seed):
    days = Days(random.Random(seed))
    for _ in range(40):
        days.go_on() if days.ends and days.chance.random() < 0.5 else days.come()
    while days.ends:
        days.go_on()
    assert days.recorded == pytest.approx(days.used)
    wasted_s = 8 * (days.now - 1000.0) - sum(days.recorded.values())
    assert wasted_s >= 0.0


@pytest.mark.parametrize("seed", range(15))
def test_the_order_is_the_same_under_a_later_bebopd(seed):
    days = Days(random.Random(seed))
    for _ in range(30):
        if days.ends and days.chance.random() < 0.3:
            days.go_on()
        else:
            days.come()
    for job_id in days.chance.sample(days.order(), min(2, len(days.order()))):
        days.receive(YOD, batch.Prioritise(job_id, priority=700), ROOT)
        days.keep()
    days.now += days.chance.choice((0.0, 100.0, 1e5))
    days.follow(days.text)  # it looks at the line, as a later one does
    assert days.order()
    later = days.again()
    later.machine._requests._line.rank(later.now + 5000.5)
    assert later.order() == days.order()
    assert later.queues._had == days.queues._had
