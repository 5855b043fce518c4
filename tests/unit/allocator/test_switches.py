"""Jobs that want few leaf switches: what they get, how long they wait, and what they take then."""

from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.jobs.assign import attempt
from allocator.jobs.switches import below_few, nodes_of
from allocator.nodes.access import STRANGER
from allocator.nodes.node import Node
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.policies import POLICIES
from allocator.nodes.table import NodeTable
from allocator.nodes.topology import parse
from allocator.queue.switches import few_or_more
from native.errors import Refusal, UsageError
from native.limits import Limits
from native.machine import DeadlineReached
from native.wire.alloc import Grant, NodeSpec, Refused
from native.wire.base import Terms
from tests.unit.allocator.partition_of import spec
from tests.unit.allocator.test_backfill import HOUR_S, Backfilled
from tests.unit.allocator.test_placement import filled, pairs
from yod.plan import switches

LEAVES = (0, 0, 1, 1)
ONE = Terms(switches=1)


class Switched(Backfilled):
    """Two leaf switches with two nodes of two slots each."""

    def __init__(self, leaves=LEAVES, **options):
        placement = ArrayPlacement(line=range(4), leaf_of=leaves)
        super().__init__(4, 2, placement=placement, **options)

    def nodes_of(self, job_id):
        return sorted(self.machine.jobs[job_id].holdings)

    def fill(self, *nodes, slots=1):
        """A job with so many slots of each of these nodes."""
        return [self.job(slots, 2 * HOUR_S, spec=spec(slots, node)) for node in nodes]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=5),
    st.sampled_from(sorted(POLICIES)),
    st.integers(1, 3),
    st.data(),
)
def test_they_are_found_wherever_there_are_so_few(below, policy, most, data):
    free = [count for leaf in below for count in leaf]
    leaves = [number for number, leaf in enumerate(below) for _ in leaf]
    if not any(free):
        return
    size = data.draw(st.integers(1, sum(free)))
    cores = data.draw(st.integers(1, 2))
    wanted = NodeSpec(size, cores=cores)
    there = ArrayPlacement(POLICIES[policy], range(len(free)), leaves)
    placement = filled(there, dict(enumerate(free)))
    placement.switches = most
    picks = attempt((wanted,), NodeTable(placement, {}, {}, {}, {}), placement, Node.left)
    rooms = [sum(count // cores for count in leaf) for leaf in below]
    could = max(sum(each) for each in combinations(rooms, min(most, len(rooms)))) >= size
    assert isinstance(picks, list) == could
    if could:
        assert placement.leaves_of(nodes_of(picks)) <= most
        assert sum(span.slots * span.count for span in picks[0]) == size


def placed(free, most, *wanted):
    """The nodes of members, in order; None: they are not placed."""
    placement = filled(ArrayPlacement(line=range(len(free)), leaf_of=LEAVES), dict(enumerate(free)))
    placement.switches = most
    picks = below_few(wanted, NodeTable(placement, {}, {}, {}, {}), placement, Node.left)
    if isinstance(picks, int):
        return None
    return [[node for node, _ in pairs(each)] for each in picks]


def test_of_those_that_do_the_switch_with_least_free_is_taken():
    assert placed([0, 1, 1, 0], 1, NodeSpec(1)) == [[1]]
    assert placed([1, 0, 2, 2], 1, NodeSpec(2)) == [[2]]
    assert placed([1, 0, 1, 1], 1, NodeSpec(2)) == [[2, 3]]


def test_counts_of_nodes_lists_and_members_are_below_few_switches_too():
    assert placed([1, 0, 1, 1], 1, NodeSpec(2, node_count=2)) == [[2, 3]]
    assert placed([2, 0, 2, 0], 1, NodeSpec(2, node_count=2)) is None
    assert placed([2, 0, 2, 0], 2, NodeSpec(2, node_count=2)) == [[0, 2]]
    assert placed([1, 1, 1, 1], 1, NodeSpec(2, (0, 2, 3))) == [[2, 3]]
    assert placed([1, 1, 1, 1], 1, NodeSpec(2, (0, 2), one_per_node=True)) is None
    assert placed([1, 0, 1, 1], 1, NodeSpec(1), NodeSpec(1)) == [[2], [3]]
    assert placed([1, 0, 1, 1], 1, NodeSpec(1), NodeSpec(2)) is None


def test_a_job_that_finds_so_few_begins_at_once():
    partition = Switched()
    partition.fill(0, slots=1)
    assert partition.nodes_of(partition.job(4, HOUR_S, terms=ONE)) == [2, 3]


def test_one_that_does_not_waits_and_takes_more_at_its_time():
    partition = Switched()
    partition.fill(1, 3)
    job_id = partition.job(4, HOUR_S, terms=Terms(switches=1, switches_s=60.0))
    assert partition.has_slots(job_id) == [False]
    assert partition.begins_in(job_id) == 60
    reason = partition.row(job_id).reason
    assert "4 ranks requested below one leaf switch, 6 of 8 slots free now" in reason
    assert reason.endswith("; it takes more switches in 0:01:00")
    partition.wait(59.9)
    assert partition.has_slots(job_id) == [False]
    partition.wait(0.2)
    assert partition.nodes_of(job_id) == [0, 1, 2]


def test_it_begins_as_soon_as_there_are_so_few():
    partition = Switched()
    busy = partition.fill(1, 3)
    job_id = partition.job(4, HOUR_S, terms=Terms(switches=1, switches_s=60.0))
    partition.end(busy[0])
    assert partition.nodes_of(job_id) == [0, 1]


def test_the_time_begins_when_it_would_begin_with_more():
    partition = Switched()
    busy = partition.fill(1, 3)
    rest = partition.fill(0, 2, slots=2)
    job_id = partition.job(4, HOUR_S, terms=Terms(switches=1, switches_s=60.0))
    partition.wait(1000.0)
    assert partition.begins_in(job_id) == 2 * HOUR_S - 1000
    partition.end(rest[0])
    partition.wait(59.0)
    assert partition.has_slots(job_id) == [False], "it would be below two switches"
    partition.wait(2.0)
    assert partition.nodes_of(job_id) == [0, 1, 3]
    assert partition.has_slots(*busy) == [True, True]


@pytest.mark.parametrize(("asked_s", "waits_s"), [(0.0, 100.0), (30.0, 30.0), (5000.0, 100.0)])
def test_bebopd_has_a_longest_time(asked_s, waits_s):
    partition = Switched(limits=Limits(silent_s=1e6, switches_wait_s=100.0))
    partition.fill(1, 3)
    job_id = partition.job(4, HOUR_S, terms=Terms(switches=1, switches_s=asked_s))
    partition.wait(waits_s - 0.1)
    assert partition.has_slots(job_id) == [False]
    partition.wait(0.2)
    assert partition.has_slots(job_id) == [True]


def test_others_pass_one_that_waits_for_few_if_they_do_not_delay_it():
    partition = Switched()
    partition.fill(1, 3)
    job_id = partition.job(4, HOUR_S, terms=Terms(switches=1, switches_s=200.0))
    short, long = partition.job(3, 150.0), partition.job(3, 250.0)
    assert partition.has_slots(short, long) == [True, False]
    assert partition.begins_in(job_id) == 200
    partition.end(short)
    partition.wait(201.0)
    assert partition.has_slots(job_id, long) == [True, False]


def test_a_job_without_an_expected_start_takes_more_switches_at_its_time():
    limits = Limits(silent_s=1e6, backfill_count=0)
    partition = Switched(limits=limits)
    partition.fill(1, 3)
    jobs = [partition.job(3, HOUR_S, terms=Terms(switches=1, switches_s=60.0)) for _ in range(2)]
    assert partition.has_slots(*jobs) == [True, True]
    partition = Switched(limits=limits)
    partition.fill(1, 3)
    job_id = partition.job(4, HOUR_S, terms=Terms(switches=1, switches_s=60.0))
    partition.wait(61.0)
    assert partition.has_slots(job_id) == [True]


def test_new_rules_do_not_let_it_wait_again():
    partition = Switched()
    partition.fill(0, 1, 3)
    job_id = partition.job(4, HOUR_S, terms=Terms(switches=1, switches_s=60.0))
    partition.machine._requests.hold("for now")
    partition.wait(100.0)
    partition.machine._requests.hold("")
    partition.handle(DeadlineReached())
    assert partition.has_slots(job_id) == [True]
    waits = partition.job(8, HOUR_S, terms=Terms(switches=1))
    (waiting,) = (each for each in partition.machine._requests._line if each.job_id == waits)
    partition.machine._requests.rules_changed()
    assert waiting.where.switches == 1
    waiting.follow(waiting.where.__class__())
    waiting.follow(waiting.where.__class__(switches=1))
    assert not waiting.where.switches


def test_a_launch_that_does_not_wait_is_told_of_the_switches():
    partition = Switched()
    partition.fill(1, 3)
    refused = partition.request(spec(4), terms=ONE)
    assert isinstance(refused, Refused)
    assert refused.code is Refusal.BUSY
    assert "below one leaf switch" in refused.text
    assert isinstance(partition.request(spec(3), terms=ONE), Grant)


def test_what_no_switch_has_is_no_error_as_more_do_in_time():
    partition = Switched()
    job_id = partition.job(8, HOUR_S, terms=Terms(switches=1, switches_s=60.0))
    assert "below one leaf switch" in partition.row(job_id).reason
    partition.wait(61.0)
    assert partition.has_slots(job_id) == [True]


def test_without_switches_all_nodes_are_below_one():
    partition = Switched(leaves=())
    partition.fill(1, 3)
    assert partition.nodes_of(partition.job(4, HOUR_S, terms=ONE)) == [0, 1, 2]


def test_nodes_that_the_topology_does_not_name_are_below_one_switch_more():
    tree = parse(
        "SwitchName=a Nodes=2..3\nSwitchName=top Switches=a,b\nSwitchName=b Nodes=0", "f", {}
    )
    placement = ArrayPlacement(tree.choose, tree.line, tree.leaves())
    for number in range(200):
        placement.set_free(number, 1)
    assert placement.leaf[[0, 1, 2, 3, 199]].tolist() == [1, 2, 0, 0, 2]


@dataclass
class Begins:
    at: float


def test_the_time_from_which_more_do_never_comes_later():
    def earliest(claim, *, since=0.0):
        return Begins(max(since, 500.0 if claim.switches else soonest))

    claim = STRANGER.__class__(switches=1)
    soonest = 10.0
    start, more_s = few_or_more(earliest, claim, 60.0, float("inf"))
    assert (start.at, more_s) == (70.0, 70.0)
    soonest = 20.0  # somebody has passed
    start, more_s = few_or_more(earliest, claim, 60.0, more_s)
    assert (start.at, more_s) == (70.0, 70.0)
    soonest = 5.0
    assert few_or_more(earliest, claim, 60.0, more_s).more_s == 65.0
    assert few_or_more(earliest, claim, 600.0, float("inf")).start.at == 500.0
    assert few_or_more(earliest, claim, 60.0, 30.0, elapsed_s=30.0).start.at == 5.0


@pytest.mark.parametrize(
    ("text", "asked"), [("1", (1, 0.0)), ("2@30", (2, 1800.0)), ("3@1:00:00", (3, 3600.0))]
)
def test_a_count_and_a_time_are_read(text, asked):
    assert switches.parse(text) == asked


@pytest.mark.parametrize(
    "text", ["", "0", "x", "1@", "1@0", "-1", "1.5", "1@x", "²", "9" * 99, "01048575999"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(UsageError, match="--switches"):
        switches.parse(text)
