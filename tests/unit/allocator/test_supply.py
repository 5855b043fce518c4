"""Memory and GPUs over time: when a request for them is expected to begin."""

import random

import pytest

from allocator.jobs.assign import fits_beside
from allocator.nodes.node import Equipment
from allocator.queue.backfill import Backfill
from native.wire.alloc import Needs
from tests.unit.allocator.partition_of import spec
from tests.unit.allocator.test_backfill import HOUR_S, Backfilled, wanted


def with_memory(chance, nodes, slots):
    partition = Backfilled(nodes, slots)
    for node in partition.machine.nodes:
        node.equipment = Equipment(chance.randint(2, 8), ("a",) * chance.randint(1, 3))
    return partition


def fitting(partition, chance):
    """A request that the partition could meet."""
    total = partition.machine.nodes.slots()
    while not partition.could(asked := wanted(chance, total, is_counted=True)):
        pass
    return asked


@pytest.mark.parametrize("seed", range(40))
def test_the_first_that_waits_is_expected_when_enough_has_ended_and_not_later(seed):
    chance = random.Random(seed)
    partition = with_memory(chance, chance.randint(1, 4), chance.randint(1, 4))
    began = partition.now
    ends = {}
    while True:
        asked, time_s = fitting(partition, chance), float(chance.randint(1, 99))
        job_id = partition.job(0, time_s, spec=asked)
        if partition.has_slots(job_id) == [False]:
            break
        ends[job_id] = time_s
    nodes, times = partition.machine.nodes, sorted({*ends.values()})
    expected = next(
        at
        for at in times
        if fits_beside((asked,), nodes, [job for job, end in ends.items() if end > at], False)
    )
    assert partition.now == began
    assert partition.begins_in(job_id) == round(expected)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_remembered_of_jobs_is_what_they_have(seed):
    """Jobs begin and end; a node has less at last."""
    chance = random.Random(seed)
    partition = with_memory(chance, 4, 3)
    policy = partition.machine._requests._policy
    assert isinstance(policy, Backfill)
    for _ in range(60):
        running = [job for job in partition.machine.batch if partition.machine.jobs.get(job.job_id)]
        if chance.random() < 0.5 and partition.count < 40:
            partition.job(0, 60.0, spec=fitting(partition, chance))
        elif running:
            partition.end(chance.choice(running).job_id)
        demand_right(policy, partition.machine.nodes)
    node = partition.machine.nodes.get(0)
    node.equipment = Equipment(1, node.gpus)
    partition.machine.nodes.described += 1
    demand_right(policy, partition.machine.nodes)


def demand_right(policy, nodes):
    """What the policy remembers is what the nodes say."""
    for name, total in (
        ("memory", lambda each: each.memory),
        ("gpus", lambda each: len(each.gpus)),
    ):
        now = policy._stocks[name].now(64)
        for node in nodes:
            given = sum(getattr(share, name) for share in node.given.values())
            assert now[node.number] == total(node) - given


def test_a_member_has_its_memory_beside_that_of_the_others():
    partition = Backfilled(1, 4)
    node = partition.machine.nodes.get(0)
    node.equipment = Equipment(4, node.gpus)
    partition.job(1, HOUR_S, spec=spec(1, needs=Needs(memory=2)))
    refused = partition.request(
        spec(1, needs=Needs(memory=2)), spec(1, needs=Needs(memory=2)), waits=True
    )
    assert "2 ranks" in refused.text
    waits = partition.job(2, HOUR_S, spec=spec(2, needs=Needs(rank_memory=2)))
    assert partition.begins_in(waits) is None  # behind what has no limit
