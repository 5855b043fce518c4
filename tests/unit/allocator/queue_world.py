"""The world around batch jobs, with queues, licences, accounts and priorities."""

from collections import Counter
from math import inf

from allocator.jobs.excluding import excluded
from allocator.jobs.grants import Owner
from allocator.jobs.job import JobState
from allocator.lending.loans import borrowers
from allocator.nodes.placement import ArrayPlacement
from allocator.queue import file
from allocator.queue.ranking import Ranking
from allocator.queue.table import QueueTable
from native.wire import batch
from native.wire.alloc import Release
from native.wire.base import JobMessage, State, Terms
from tests.unit.allocator.batch_world import SLOTS, World
from tests.unit.allocator.partition_of import ALICE, BOB, NAMES

RULES = """
default = "day"

[[queue]]
name = "day"
max_time = "1-0"
priority = 10
per_user = { jobs = 2, slots = 6 }
preempt_mode = "requeue"
preempt_grace = "0:20"

[[queue]]
name = "long"
total = { jobs = 2, nodes = 3 }
accounts = ["maths", "theory"]
preempt_mode = "cancel"

[[queue]]
name = "corner"
nodes = "0..1"

[[queue]]
name = "urgent"
priority = 1
preempts = ["day", "long"]

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

[[reservation]]
name = "course"
nodes = "2"
users = ["bob"]
start = 1970-01-01T01:56:00Z  # in a quarter of an hour
duration = "10:00"

[[reservation]]
name = "repair"
start = 1970-01-01T02:26:00Z
duration = "10:00"
"""
COUNTS = ("left*1&right*1", "[left*1|right*1]")
CONSTRAINTS = ("", "", "left", "left&right", "[left|right]", *COUNTS)
FEATURES = {"left": frozenset((0, 1)), "right": frozenset((1, 2))}
EXCLUDED = ("", "", "0", "node1", "node[0-1]")
LEAVES = (0, 0, 1)  # the leaf switch of each node
LICENCES = ((), (), (("matlab", 1),), (("matlab", 2),))


class QueueWorld(World):
    """A world whose site has queues."""

    rules = RULES
    backfills = property(lambda self: True, lambda self, value: None)  # it is the policy of queues
    preempted = 0
    stopped = 0  # how often one stands still for others
    impatient = 0  # who began below more leaf switches than they wanted

    def site(self):
        self.queues = QueueTable(
            file.parse(self.rules, "queues"),
            lambda uid, group: False,
            self.disk.batch.charges(),
            lambda uid: Owner(uid, NAMES[uid], uid),
        )
        return {
            **super().site(),
            "admission": self.queues,
            "ranking": lambda slots: Ranking(self.queues, slots),
        }

    def placement(self):
        return ArrayPlacement(line=range(3), leaf_of=LEAVES)

    def terms(self, wanted):
        is_of_corner = wanted.size < 5 and 2 not in wanted.nodes
        corner = ("corner",) if is_of_corner else ()
        queue = self.choose.choice(("", "day", "long", "urgent", *corner))
        terms = (self.choose.choice(LICENCES), self.choose.choice((0, 0, 30)))
        is_small = wanted.size <= SLOTS and not wanted.nodes and queue != "corner"
        constraint = self.choose.choice(CONSTRAINTS) if is_small else ""
        switches = self.choose.choice((0, 0, 0, 1)), self.choose.choice((0.0, 5.0, 60.0))
        exclude = self.choose.choice(EXCLUDED) if is_small and not constraint else ""
        return Terms(queue, "", *terms, 0, constraint, False, False, *switches, exclude)

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

    def settle(self):
        ends = max([reserved.end for reserved in self.queues.rules.reserved], default=0.0)
        self.pass_time(max(1.0, ends - self.unix_time()))
        super().settle()

    def check_switches(self, line):
        """Who begins below more leaf switches than it wants has waited as long as it wanted."""
        for waiting in line:
            held = self.machine.jobs.get(waiting.given or waiting.job_id)
            terms = waiting.request.terms
            if held is None or not terms.switches or held.granted != self.now:
                continue
            if len({LEAVES[number] for number in held.holdings}) > terms.switches:
                patience_s = min(terms.switches_s or inf, self.limits.switches_wait_s)
                assert self.now - waiting.since >= patience_s, "below many switches, and too soon"
                self.impatient += 1

    def begin_bebopd(self, *words):
        super().begin_bebopd(*words)
        if self.machine is not None:
            self.machine.nodes.features = FEATURES

    def handle(self, event):
        there = self.machine.batch if self.machine is not None else ()
        ended = {job.job_id for job in there if job.is_preempted}
        lent = {job.job_id for job in there if job.lent_since}
        line = list(self.machine._requests._line) if self.machine is not None else ()
        super().handle(event)
        if self.machine is not None:
            self.check_limits()
            self.check_switches(line)
            self.check_reserved()
            self.check_preempted(ended)
            self.check_standing(lent)

    def check_preempted(self, before):
        """Who ends for others is of a queue that does, and somebody who may wants its slots."""
        ended = [job for job in self.machine.batch if job.is_preempted and job.job_id not in before]
        assert {job.terms.queue for job in ended} <= {"day", "long"}
        assert all(job.is_requeued == (job.terms.queue == "day") for job in ended)
        line = [waiting.request.terms.queue for waiting in self.machine._requests._line]
        assert not ended or "urgent" in line, "they end for nobody"
        self.preempted += len(ended)

    def stands_still(self, job_id):
        job = self.machine.batch.get(job_id) if self.machine is not None else None
        return job is not None and job.stands_still

    def check_standing(self, before):
        """No slot is held by two jobs that run, and who lends none stands still for nobody."""
        there = {job.job_id: job for job in self.machine.batch}
        still = {job_id for job_id, job in there.items() if job.stands_still}
        self.stopped += len(still - before)
        assert {there[job_id].terms.queue for job_id in still} <= {"spare"}
        lent = borrowers(self.machine.nodes, only_up=True)
        for job_id in lent.keys() | still:
            job = there.get(job_id)
            root = self.machine.nodes.get(job.root) if job is not None else None
            if job is None or job.is_ending or root is None or not root.is_up:
                continue  # it ends, or cannot be told
            if job.state is State.RUNNING and self.machine._lenders._heard_by <= self.now:
                assert (job_id in still) == (job_id in lent), "it stands still, or should"
        for node in self.machine.nodes:
            run = [slots for job_id, slots in node.held.items() if job_id not in lent]
            assert sum(run) <= node.slots or not node.is_up, "a slot runs twice"

    def check_reserved(self):
        """No job begins on a node that is kept for others before it may have ended."""
        rules = self.queues.rules.reserved
        for held in self.machine.jobs:
            job, now = self.machine.batch.get(held.job_id), self.unix_time()
            if job is None or held.state is not JobState.PENDING or held.granted != self.now:
                continue
            for reserved in rules:
                nodes = held.holdings.keys() & (reserved.nodes or held.holdings.keys())
                if not nodes or NAMES[job.uid] in reserved.members.users:
                    continue
                ends = now + (job.time_s or inf)
                assert ends <= reserved.start or now >= reserved.end, f"on {reserved.name}'s nodes"

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
            if job.terms.constraint:
                left, right = (held.holdings.keys() <= nodes for nodes in FEATURES.values())
                is_met = {"left": left, "left&right": left and right, "[left|right]": left or right}
                one = [held.holdings.keys() & nodes for nodes in FEATURES.values()]
                is_met |= {"left*1&right*1": all(one), "[left*1|right*1]": any(one)}
                is_less = "*" in job.terms.constraint and held.state is JobState.RELEASING
                assert is_less or is_met[job.terms.constraint], "nodes without its features"
            if job.terms.exclude:
                them = excluded(job.terms.exclude, self.machine.nodes, may_lack=True)
                assert not held.holdings.keys() & them.nodes, "nodes that it excludes"
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
