"""The world around batch jobs, with queues, licences, accounts and priorities."""

from collections import Counter

from allocator.queue import file
from allocator.queue.ranking import Ranking
from allocator.queue.table import QueueTable
from native.wire import batch
from native.wire.alloc import Release
from native.wire.base import JobMessage, Terms
from tests.unit.allocator.batch_world import World
from tests.unit.allocator.partition_of import ALICE, BOB

RULES = """
default = "day"

[[queue]]
name = "day"
max_time = "1-0"
priority = 10
per_user = { jobs = 2, slots = 6 }

[[queue]]
name = "long"
total = { jobs = 2, nodes = 3 }
accounts = ["maths", "theory"]

[[queue]]
name = "corner"
nodes = "0..1"

[[account]]
name = "physics"
share = 3

[[account]]
name = "theory"
parent = "physics"
users = ["alice"]

[[account]]
name = "maths"
users = ["bob"]
groups = ["staff"]

[priority]
age = 100
max_age = "10:00"
size = 20
queue = 50
fair_share = 200
half_life = "5:00"

[licences]
matlab = 2
"""
LICENCES = ((), (), (("matlab", 1),), (("matlab", 2),))


class QueueWorld(World):
    """A world whose site has queues."""

    backfills = property(lambda self: True, lambda self, value: None)  # it is the policy of queues

    def site(self):
        self.queues = QueueTable(
            file.parse(RULES, "queues"), lambda uid, group: False, self.disk.batch.charges()
        )
        return {
            **super().site(),
            "admission": self.queues,
            "ranking": lambda slots: Ranking(self.queues, slots),
        }

    def terms(self, wanted):
        is_of_corner = wanted.size < 5 and 2 not in wanted.nodes
        queue = self.choose.choice(("", "day", "long", *(("corner",) if is_of_corner else ())))
        return Terms(queue, "", self.choose.choice(LICENCES), self.choose.choice((0, 0, 30)))

    def receive(self, peer, message, principal=ALICE):
        if isinstance(message, batch.Submit) and message.token[1] < 100:
            principal = BOB
        elif principal.uid == ALICE.uid and isinstance(message, JobMessage) and self.machine:
            tables = [self.machine.batch, self.machine.jobs]
            if isinstance(message, Release):  # a PCT says of all that they are alice's
                tables.reverse()
            owned = next(filter(None, (table.get(message.job_id) for table in tables)), principal)
            principal = principal._replace(uid=owned.uid)
        super().receive(peer, message, principal)

    def handle(self, event):
        super().handle(event)
        if self.machine is not None:
            self.check_limits()

    def check_limits(self):
        """By the slots that jobs have on nodes, which the queues do not look at."""
        self.queues.check()
        had, licences = Counter(), Counter()
        for held in self.machine.jobs:
            if (job := self.machine.batch.get(held.job_id)) is None:
                continue
            slots = sum(holding.slots for holding in held.holdings.values())
            for whose in (job.uid, "all"):
                had[job.terms.queue, whose, "jobs"] += 1
                had[job.terms.queue, whose, "slots"] += slots
                had[job.terms.queue, whose, "nodes"] += len(held.holdings)
            licences.update(dict(job.terms.licences))
            if job.terms.queue == "corner":
                assert held.holdings.keys() <= {0, 1}, "beyond the nodes of its queue"
        for name, queue in self.queues.rules.queues.items():
            for whose in (ALICE.uid, BOB.uid, "all"):
                bounds = queue.total if whose == "all" else queue.per_user
                for what in ("jobs", "slots", "nodes"):
                    most = getattr(bounds, what)
                    there = had[name, whose, what]
                    assert most is None or there <= most, f"{name}: {what} of {whose}: {there}"
        assert licences["matlab"] <= self.queues.rules.licences["matlab"]
