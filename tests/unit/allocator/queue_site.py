"""A partition whose site has queues, and whose disk outlives its bebopd."""

import random

from allocator.batch.job import RecordBatchJob
from allocator.jobs.grants import Owner
from allocator.queue import file
from allocator.queue.ranking import Ranking
from allocator.queue.table import QueueTable
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import Terms
from native.wire.status import Announce, HostedJob
from tests.unit.allocator.batch_disk import Disk
from tests.unit.allocator.partition_of import ALICE, NAMES, pct, spec
from tests.unit.allocator.test_backfill import Backfilled
from tests.unit.allocator.test_batch import OTHER, said


class Site(Backfilled):
    """A partition with queues, whose disk outlives its bebopd."""

    def __init__(self, text, count=1, slots=4, disk=None, **options):
        self.disk = disk or Disk()
        self.queues = QueueTable(
            file.parse(text, "queues"),
            lambda uid, group: False,
            self.disk.batch.charges(),
            lambda uid: Owner(uid, NAMES[uid], uid) if uid in NAMES else None,
        )
        self.text, self.size = text, (count, slots)
        super().__init__(
            count,
            slots,
            admission=self.queues,
            ranking=lambda total: Ranking(self.queues, total),
            earlier=self.disk.batch.earlier(),
            **options,
        )
        self.count = len(self.machine.batch)

    def handle(self, event):
        records = super().handle(event)
        kept = [each for each in records if isinstance(each, RecordBatchJob)]
        if kept:
            self.disk.batch.keep(kept)
        return records

    def again(self, kind=None):
        """The same under a later bebopd, whose nodes have the jobs that run."""
        later = (kind or Site)(self.text, 0, self.size[1], self.disk, next_job_id=1000)
        later.now = self.now
        later.machine.hold("nodes may come")  # else some begin before all are there
        for number in range(self.size[0]):
            jobs = [
                HostedJob(each.job_id, each.uid, each.holdings[number].slots, (0,), 1.0)
                for each in self.machine.jobs
                if number in each.holdings
            ]
            brokers = tuple(job.job_id for job in self.machine.batch if job.root == number)
            nid, pid = pct(number)
            words = (f"node{number}", self.size[1], nid, pid, 1, tuple(jobs), brokers)
            later.receive(pct(number), Announce(number, *words))
        return later

    def order(self):
        return [each.job_id for each in self.machine._requests._line]

    def refusal(self, size=1, principal=ALICE, time_s=60.0, **fields):
        """What is said to a job that is not taken."""
        message = batch.Submit(random.randbytes(16), spec(size), "a", time_s, b"task", **fields)
        answers = said(self.receive(OTHER, message, principal))
        assert [type(each) for each in answers] == [Refused], answers
        return answers[0]

    def reason(self, job_id):
        return self.row(job_id).reason

    def follow(self, text):
        self.queues.follow(file.parse(text, "queues"))
        self.machine.rules_changed()
        self.receive(OTHER, batch.Ask(), ALICE)
        self.keep()


def in_queue(name, **more):
    """Fields of a job."""
    return {"terms": Terms(name, **more)}
