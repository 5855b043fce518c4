"""A request that fills one node after another finds the slots that the general rule finds."""

import random

import numpy as np
import pytest

from allocator.jobs.assign import slots_on
from allocator.nodes.node import Equipment
from allocator.nodes.placement import ArrayPlacement, fill
from allocator.nodes.policies import POLICIES
from allocator.queue.profile import SMALL_MAX, Profile
from native.ids import PortalId
from native.limits import Limits
from native.wire import batch
from native.wire.alloc import Needs
from native.wire.base import Terms
from tests.unit.allocator.partition_of import ALICE, BOB, spec
from tests.unit.allocator.test_backfill import Backfilled

NODES = 6


def site(chance):
    """A partition of few nodes, of which some have a feature; its line is any."""
    line = chance.choice(((), tuple(chance.sample(range(NODES), chance.randint(1, NODES)))))
    policy = POLICIES[chance.choice(("lowest", "lowest", "best-fit", "minimal-span"))]
    limits = Limits(silent_s=1e9, backfill_count=chance.choice((1, 3, 50)), pass_s=0.0)
    placement = ArrayPlacement(policy, line)
    partition = Backfilled(NODES, chance.randint(1, 5), placement=placement, limits=limits)
    for node in partition.machine.nodes:
        node.equipment = Equipment(chance.randint(4, 16), ("a",) * chance.randint(0, 3))
    halves = frozenset(range(0, NODES, 2)), frozenset(range(1, NODES, 2))
    partition.machine.nodes.features = dict(zip(("fast", "big"), halves, strict=True))
    return partition


def submit(partition, chance):
    """One more job, of the kinds that a site has."""
    needs = chance.choice(
        (
            None,
            None,
            Needs(memory=chance.randint(1, 9)),
            Needs(rank_memory=chance.randint(1, 4)),
            Needs(rank_memory=1, gpus=1),
            Needs(node_gpus=1),
        )
    )
    constraint = chance.choice(("", "", "fast", "big", "fast|big", "[fast|big]", "fast*1"))
    exclude = chance.choice(("", "", "", "1,3"))
    asked = spec(chance.randint(1, partition.machine.nodes.slots()), needs=needs)
    if chance.random() < 0.1:
        asked = spec(1, node_count=1)
    partition.count += 1
    message = batch.Submit(  # it is refused if it could never be met
        partition.count.to_bytes(batch.TOKEN_BYTES, "big"),
        asked,
        "a",
        float(chance.choice((0, 10, 60, 600))),
        b"task",
        is_exclusive=chance.random() < 0.2,
        terms=Terms(constraint=constraint, exclude=exclude),
    )
    source = PortalId(1, 80000 + partition.count)
    partition.receive(source, message, chance.choice((ALICE, BOB)))
    partition.keep()


def history(seed, steps=50):
    """What was given, and when others are expected to begin, after each of many events."""
    chance = random.Random(seed)
    partition = site(chance)
    told = []
    for _ in range(steps):
        partition.now += chance.randint(0, 20)
        running = [job for job in partition.machine.batch if partition.has_slots(job.job_id)[0]]
        if running and chance.random() < 0.3:
            partition.end(chance.choice(running).job_id)
        else:
            submit(partition, chance)
        held = {
            job.job_id: {number: each.slots for number, each in job.holdings.items()}
            for job in partition.machine.jobs
        }
        line = partition.machine._requests._line
        told.append((held, [(each.job_id, each.expected) for each in line]))
    return told


@pytest.mark.parametrize("seed", range(24))
def test_jobs_get_the_same_slots_at_the_same_times_as_by_the_general_rule(seed, monkeypatch):
    fast = history(seed)
    monkeypatch.setattr(Profile, "_filler", lambda *asked: None)
    assert fast == history(seed)
    assert any(held for held, _ in fast)


@pytest.mark.parametrize("seed", range(20))
def test_nodes_are_filled_as_spans_say(seed):
    chance = random.Random(seed)
    placement = ArrayPlacement(line=chance.sample(range(9), chance.randint(0, 9)))
    for number in range(9):
        placement.set_free(number, chance.randint(0, 3))
    nodes = list(placement.in_order())
    free = placement.free_slots()
    for size in range(1, int(free.sum()) + 2):
        spans = placement.filled(size)
        filled = fill(np.array(nodes, dtype=np.int64), free[nodes], size)
        if spans is None:
            assert filled is None
            continue
        assert filled.spans() == spans
        by_node = dict(zip(filled.nodes.tolist(), filled.slots.tolist(), strict=True))
        assert by_node == slots_on((spec(size),), (spans,)) and sum(by_node.values()) == size


def test_a_node_of_very_many_slots_is_counted_right():
    partition = Backfilled(2, SMALL_MAX + 1)
    first = partition.job(2 * SMALL_MAX, 60.0)
    later = partition.job(2 * SMALL_MAX + 2, 60.0)
    assert partition.has_slots(first, later) == [True, False]
    assert partition.begins_in(later) == 60
    partition.end(first)
    assert partition.has_slots(later) == [True]
