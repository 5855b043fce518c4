"""In any order of events jobs stand still for others, and go on or end. No slot runs twice.

What is asserted of batch jobs and of queues in any world is asserted here as well.
"""

import random

import pytest

from allocator.batch.job import BatchJob
from allocator.batch.lenders import Lenders
from allocator.lending.loans import lent
from native.wire.base import Terms
from tests.unit.allocator import batch_world
from tests.unit.allocator.partition_of import spec
from tests.unit.allocator.queue_world import QueueWorld

STEPS = 150
RULES = """
[[queue]]
name = "spare"
preempt_mode = "suspend"

[[queue]]
name = "day"

[[queue]]
name = "urgent"
preempts = ["spare"]

[licences]
matlab = 2
"""


class LendingWorld(QueueWorld):
    """A world in which jobs of one queue stand still for those of another."""

    rules = RULES
    specs = (spec(1), spec(1), spec(2), spec(4), spec(2, 1))

    def __init__(self, choose):
        super().__init__(choose)
        self.haste = max(self.haste, 0.3)
        self.scripts_end = False  # by themselves, before everything settles

    def terms(self, wanted):
        return Terms(self.choose.choice(("spare", "spare", "spare", "day", "urgent", "urgent")))


def play(seed):
    return batch_world.play(random.Random(seed), STEPS, LendingWorld)


@pytest.mark.parametrize("seed", range(16))
def test_no_slot_runs_twice_and_who_stands_still_goes_on_or_ends(seed):
    play(seed)


def test_these_worlds_have_jobs_that_stand_still_for_others():
    assert sum(play(seed).stopped for seed in range(12)) >= 4


def who_stands_still_never_goes_on(patch):
    patch.setattr(Lenders, "_go_on", lambda self, job, node, now: [])


def who_lends_runs_on(patch):
    patch.setattr(BatchJob, "lend", lambda self, to, unix_time: None)


def what_is_lent_counts_for_nobody(patch):
    patch.setattr("allocator.nodes.node.lent", lambda loans, held: 2 * lent(loans, held))


DEFECTS = (
    who_stands_still_never_goes_on,
    who_lends_runs_on,
    what_is_lent_counts_for_nobody,
)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_rule_that_is_broken_is_noticed(defect, monkeypatch):
    defect(monkeypatch)
    for seed in range(8, 300):  # the first in which many a one is noticed
        try:
            play(seed)
        except AssertionError:
            return
    pytest.fail("nobody has noticed")
