"""Who is next where later requests may pass earlier ones."""

import random

import pytest

from allocator.jobs.assign import RequestRefused
from allocator.nodes.access import STRANGER
from allocator.nodes.node import Equipment
from allocator.nodes.placement import ArrayPlacement
from allocator.queue.backfill import Backfill
from allocator.queue.profile import OVERDUE_S
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.wire import batch
from native.wire.alloc import Freed, Grant, Needs, Queued, Refused
from native.wire.runs import Binding, CoreGroup
from tests.unit.allocator.partition_of import ALICE, YOD, pct, spec
from tests.unit.allocator.test_batch import BatchPartition

HOUR_S = 3600.0


class Backfilled(BatchPartition):
    """A partition that backfills. Its jobs are numbered as they are submitted."""

    def __init__(self, count=1, slots=4, **options):
        self.count = 0
        options = {"placement": ArrayPlacement(), "policy": Backfill, **options}
        super().__init__(count, slots, **options)

    def job(self, size, time_s=0.0, **fields):
        """Submit a job; gives its id."""
        self.count += 1
        principal = fields.pop("principal", ALICE)
        wanted = fields.pop("spec", None) or spec(size)
        token = self.count.to_bytes(batch.TOKEN_BYTES, "big")
        source = PortalId(1, 80000 + self.count)
        message = batch.Submit(token, wanted, "a", time_s, b"task", **fields)
        self.receive(source, message, principal)
        self.keep()
        return max(job.job_id for job in self.machine.batch)

    def could(self, asked):
        """Whether the partition could ever give this."""
        try:
            self.machine._requests.could(STRANGER, asked)
        except RequestRefused:
            return False
        return True

    def state(self, job_id):
        job = self.machine.batch.get(job_id)
        return None if job is None else job.state

    def has_slots(self, *job_ids):
        return [self.machine.jobs.get(job_id) is not None for job_id in job_ids]

    def row(self, job_id):
        (answer,) = self.receive(YOD, batch.Ask((job_id,)), ALICE)
        return answer.rows[0]

    def begins_in(self, job_id):
        """Seconds until it is expected to begin; None: not known."""
        expected = self.row(job_id).expected
        return round(expected - self.now - 5000.5) if expected else None

    def end(self, job_id):
        """Its script has ended, and its nodes have no process of it left."""
        job = self.machine.batch.get(job_id)
        root, nodes = job.root, list(self.machine.jobs[job_id].holdings)
        self.receive(pct(root), batch.Started(job_id))
        self.keep()
        self.receive(pct(root), batch.BrokerEnded(job_id, 0, b""))
        self.keep()
        self.receive(pct(root), Freed.of(job_id, nodes))
        self.keep()


def test_a_job_that_is_over_before_passes_one_that_waits():
    partition = Backfilled()
    first = partition.job(3, HOUR_S)
    wide, short = partition.job(4, HOUR_S), partition.job(1, HOUR_S - 1)
    assert partition.has_slots(first, wide, short) == [True, False, True]


def test_a_job_that_would_still_run_then_does_not():
    partition = Backfilled()
    first = partition.job(3, HOUR_S)
    wide, long = partition.job(4, HOUR_S), partition.job(1, HOUR_S + 1)
    assert partition.has_slots(first, wide, long) == [True, False, False]
    assert partition.row(long).reason.startswith("place 2 of 2; what is free is kept")


def test_a_job_that_has_no_limit_passes_nobody_who_could_need_its_slots():
    partition = Backfilled()
    partition.job(3, HOUR_S)
    wide, unlimited = partition.job(4, HOUR_S), partition.job(1)
    assert partition.has_slots(wide, unlimited) == [False, False]


def test_nor_does_it_where_those_before_it_have_no_limit_either():
    partition = Backfilled(2, 1)
    partition.job(1)
    wide, unlimited = partition.job(2), partition.job(1)
    assert partition.has_slots(wide, unlimited) == [False, False]
    assert isinstance(partition.request(spec(1)), Refused)
    short = partition.job(1, HOUR_S)
    assert partition.has_slots(wide, unlimited, short) == [False, False, True]


def test_jobs_that_end_together_free_their_slots_together():
    partition = Backfilled(4, 1)
    for number in (0, 1):
        partition.job(1, spec=spec(1, number))
    wide = partition.job(3, spec=spec(3, 0, 1, 2))
    partition.end(partition.job(1, 60.0, spec=spec(1, 3)))  # what is planned is planned anew
    unlimited = partition.job(1)
    assert partition.has_slots(wide, unlimited) == [False, True]
    assert list(partition.machine.jobs[unlimited].holdings) == [3]


def test_slots_that_the_first_does_not_need_are_free_for_any_time():
    partition = Backfilled(2, 2)
    partition.job(1, HOUR_S, spec=spec(1, 0))
    of_node_0, unlimited = partition.job(2, spec=spec(2, 0)), partition.job(1)
    assert partition.has_slots(of_node_0, unlimited) == [False, True]
    assert partition.machine.jobs[unlimited].holdings.keys() == {1}  # not the slot of node 0


def test_the_expected_start_is_told_and_is_not_known_behind_a_job_without_limit():
    partition = Backfilled()
    first = partition.job(4, HOUR_S)
    second, third = partition.job(4, HOUR_S), partition.job(2, HOUR_S)
    assert partition.begins_in(second) == HOUR_S
    assert partition.begins_in(third) == 2 * HOUR_S
    partition.wait(10)
    assert partition.begins_in(second) == HOUR_S - 10
    partition.end(first)
    assert partition.has_slots(second) == [True]
    assert partition.begins_in(third) == HOUR_S
    unlimited = Backfilled()
    unlimited.job(4)
    assert unlimited.begins_in(unlimited.job(1, HOUR_S)) is None


def test_a_yod_gets_what_nobody_who_waits_needs_and_else_is_told_for_whom_it_is_kept():
    partition = Backfilled(2, 2)
    partition.job(1, HOUR_S, spec=spec(1, 0))
    partition.job(2, spec=spec(2, 0))
    granted = partition.request(spec(1))
    assert isinstance(granted, Grant) and granted.nodes[0].node == 1
    partition = Backfilled()
    partition.job(3, HOUR_S)
    wide = partition.job(4)
    refused = partition.request(spec(1))
    assert isinstance(refused, Refused) and refused.code is Refusal.BUSY
    assert f"1 free slot is kept for job {wide} of alice" in refused.text


def test_a_yod_that_waits_is_in_the_same_line():
    partition = Backfilled()
    first = partition.job(3, HOUR_S)
    queued = partition.request(spec(2), waits=True)
    assert isinstance(queued, Queued)
    assert partition.has_slots(partition.job(1, 2 * HOUR_S)) == [True]  # it leaves 2 of 4
    partition.end(first)
    assert YOD in {job.requester for job in partition.machine.jobs}


def test_a_time_limit_that_is_changed_changes_what_is_expected():
    partition = Backfilled()
    first = partition.job(4, HOUR_S)
    second = partition.job(4, HOUR_S)
    partition.receive(YOD, batch.LimitTime(first, 2 * HOUR_S), ALICE)
    partition.keep()
    assert partition.begins_in(second) == 2 * HOUR_S


def test_only_so_many_have_an_expected_start_and_only_so_many_are_tried():
    limits = Limits(silent_s=1e6, backfill_count=1, backfill_tested_count=3)
    partition = Backfilled(limits=limits)
    partition.job(3, HOUR_S)
    waiting = [partition.job(4, HOUR_S) for _ in range(3)]
    assert [partition.begins_in(each) for each in waiting] == [HOUR_S, None, None]
    assert partition.has_slots(partition.job(1, 60.0)) == [False]  # the fourth in the line


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_memory_and_whole_nodes_are_kept_as_well_as_slots(is_exclusive):
    partition = Backfilled(2, 2)
    partition.job(1, HOUR_S, spec=spec(1, 0))
    partition.job(1, HOUR_S, spec=spec(1, 1))
    fields = {"is_exclusive": True} if is_exclusive else {"spec": spec(2, 0, 1, one_per_node=True)}
    both = partition.job(2, HOUR_S, **fields)
    if not is_exclusive:
        assert partition.has_slots(both) == [True]
        return
    long, short = partition.job(1, 2 * HOUR_S, spec=spec(1, 0)), partition.job(1, HOUR_S)
    assert partition.has_slots(both, long, short) == [False, False, True]


@pytest.fixture
def counted():
    """Two nodes of four slots with memory and GPUs."""
    partition = Backfilled(2, 4)
    for node in partition.machine.nodes:
        node.equipment = Equipment(4096, ("a", "a"))
    return partition


def test_who_waits_for_memory_is_expected_when_it_is_free_and_keeps_no_slot_beside(counted):
    whole = Needs(memory=4096)
    first, other = (
        counted.job(1, time_s, spec=spec(1, needs=whole)) for time_s in (HOUR_S, 2 * HOUR_S)
    )
    second = counted.job(1, HOUR_S, spec=spec(1, needs=whole))
    third = counted.job(1, HOUR_S, spec=spec(1, needs=whole))
    assert counted.has_slots(first, other, second, third) == [True, True, False, False]
    assert [counted.begins_in(each) for each in (second, third)] == [HOUR_S, 2 * HOUR_S]
    long = [counted.job(1, 9 * HOUR_S) for _ in range(4)]  # beside them; none has any memory
    assert counted.has_slots(*long) == [True] * 4
    assert [counted.begins_in(each) for each in (second, third)] == [HOUR_S, 2 * HOUR_S]
    counted.end(first)
    assert counted.has_slots(second) == [True]


def test_who_would_have_the_memory_of_one_that_waits_does_not_pass_it(counted):
    for number in (0, 1):
        counted.job(1, HOUR_S, spec=spec(1, number, needs=Needs(memory=2048)))
    both = spec(2, 0, 1, one_per_node=True, needs=Needs(memory=4096))
    waits = counted.job(2, HOUR_S, spec=both)
    small = spec(1, needs=Needs(rank_memory=1024))
    long, short = counted.job(1, HOUR_S + 1, spec=small), counted.job(1, HOUR_S, spec=small)
    assert counted.has_slots(waits, long, short) == [False, False, True]
    assert counted.begins_in(waits) == HOUR_S


def test_gpus_are_kept_as_memory_is(counted):
    for number in (0, 1):
        counted.job(1, HOUR_S, spec=spec(1, number, needs=Needs(gpus=1)))
    waits = counted.job(2, HOUR_S, spec=spec(2, needs=Needs(gpus=2)))
    one = spec(1, needs=Needs(gpus=1))
    long, short = counted.job(1, HOUR_S + 1, spec=one), counted.job(1, HOUR_S, spec=one)
    assert counted.has_slots(waits, long, short) == [False, False, True]
    assert counted.has_slots(counted.job(1, 2 * HOUR_S)) == [True]
    assert counted.begins_in(waits) == HOUR_S


def test_what_several_that_wait_keep_is_counted_at_each_time(counted):
    counted.job(1, HOUR_S, spec=spec(1, 0, needs=Needs(memory=4096)))
    counted.job(1, 4 * HOUR_S, spec=spec(1, 1, needs=Needs(memory=4096)))
    half = Needs(memory=2048)
    first, second, third = (counted.job(1, HOUR_S, spec=spec(1, needs=half)) for _ in range(3))
    expected = [counted.begins_in(each) for each in (first, second, third)]
    assert expected == [HOUR_S, HOUR_S, 2 * HOUR_S]


def test_a_node_that_came_back_with_less_memory_is_waited_for(counted):
    counted.job(1, HOUR_S, spec=spec(1, 0, needs=Needs(memory=4096)))
    counted.machine.nodes.get(0).equipment = Equipment(1024, ("a", "a"))
    waits = counted.job(1, HOUR_S, spec=spec(1, 0, needs=Needs(memory=1024)))
    assert counted.begins_in(waits) == HOUR_S


@pytest.fixture
def bound():
    """Two nodes of four slots, each with two sockets of two cores."""
    partition = Backfilled(2, 4)
    for node in partition.machine.nodes:
        cores = tuple(CoreGroup(socket, socket, 1, 2) for socket in (0, 1))
        node.equipment = Equipment(cores=cores)
    return partition


BOUND = Needs(binding=Binding())


def test_who_waits_for_cores_to_be_bound_to_keeps_these_and_no_node(bound):
    first, other = (bound.job(3, HOUR_S, spec=spec(3, 0, needs=BOUND)) for _ in range(2))
    assert bound.has_slots(first, other) == [True, False]
    assert bound.begins_in(other) == HOUR_S
    long = bound.job(1, 9 * HOUR_S, spec=spec(1, 0))  # beside them; it is bound to none
    assert bound.has_slots(long) == [True]
    assert bound.begins_in(other) == HOUR_S


def test_nobody_has_cores_of_one_that_waits_for_them(bound):
    one = Needs(binding=Binding(per_socket=1))
    bound.job(2, HOUR_S, spec=spec(2, 0, needs=one))
    waits = bound.job(4, HOUR_S, spec=spec(4, 0, needs=BOUND))
    long, short = (bound.job(1, each, spec=spec(1, 0, needs=one)) for each in (HOUR_S + 1, HOUR_S))
    assert bound.has_slots(waits, long, short) == [False, False, True]
    assert bound.begins_in(waits) == HOUR_S


def test_cores_of_several_that_wait_are_counted_at_each_time(bound):
    bound.job(4, HOUR_S, spec=spec(4, 0, needs=BOUND))
    bound.job(4, 4 * HOUR_S, spec=spec(4, 1, needs=BOUND))
    waiting = [bound.job(2, HOUR_S, spec=spec(2, needs=BOUND)) for _ in range(3)]
    assert [bound.begins_in(each) for each in waiting] == [HOUR_S, HOUR_S, 2 * HOUR_S]


def wanted(chance, total, is_counted):
    """A request of any size, that may need memory or GPUs as well, or cores to be bound to."""
    size = chance.randint(1, total)
    if not is_counted or chance.random() < 0.3:
        return spec(size)
    if is_counted == "bound":
        per_socket, sockets = chance.choice(((0, 0), (1, 0), (2, 0), (0, 1)))
        return spec(size, needs=Needs(binding=Binding(per_socket=per_socket, sockets=sockets)))
    if chance.random() < 0.5:
        return spec(size, needs=Needs(rank_memory=chance.randint(0, 2), gpus=chance.randint(0, 1)))
    count = chance.randint(1, min(size, 4))
    needs = Needs(memory=chance.randint(0, 4), node_gpus=chance.randint(0, 2))
    return spec(size, node_count=count, needs=needs)


@pytest.mark.parametrize("is_counted", [False, True, "bound"])
@pytest.mark.parametrize("seed", range(20))
def test_nobody_delays_the_first_and_all_run(seed, is_counted):
    """Jobs of any size and time, which end before their limits."""
    chance = random.Random(seed)
    partition = Backfilled(chance.randint(1, 4), chance.randint(1, 4))
    total = partition.machine.nodes.slots()
    for node in partition.machine.nodes:
        memory, gpus = chance.randint(2, 8), ("a",) * chance.randint(1, 3)
        cores = tuple(CoreGroup(each, each, 1, chance.randint(1, 3)) for each in (0, 1))
        node.equipment = Equipment(memory, gpus, cores)
    ends, promised, waiting = {}, {}, []

    def look():
        for job_id in [each for each in waiting if partition.has_slots(each) == [True]]:
            job = partition.machine.batch.get(job_id)
            ends[job_id] = partition.now + job.time_s * chance.choice((0.1, 0.5, 0.99))
            waiting.remove(job_id)
            if job_id in promised:
                assert partition.now <= promised[job_id] + 1e-3, "later than was promised"
        if waiting and (expected := partition.row(waiting[0]).expected):
            before = promised.get(waiting[0], float("inf"))
            soon = partition.now + OVERDUE_S  # when what should have ended is expected to end
            assert expected - 5000.5 <= max(before, soon) + 1e-3, "delayed"
            promised[waiting[0]] = expected - 5000.5

    for _ in range(60):
        if chance.random() < 0.6 and partition.count < 25:
            asked = wanted(chance, total, is_counted)
            time_s = float(chance.randint(1, 100))
            if partition.could(asked):
                waiting.append(partition.job(0, time_s, spec=asked))
        elif ends:
            job_id = min(ends, key=ends.__getitem__)
            partition.now = max(partition.now, ends.pop(job_id))
            partition.end(job_id)
        look()
    while ends:
        job_id = min(ends, key=ends.__getitem__)
        partition.now = max(partition.now, ends.pop(job_id))
        partition.end(job_id)
        look()
    assert not waiting and not len(partition.machine.batch)
