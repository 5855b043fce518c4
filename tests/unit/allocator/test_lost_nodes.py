"""Nodes that a yod has lost, and that the answer to its release does not wait for."""

from unittest.mock import ANY

from allocator.jobs.table import RecordEnd
from native.wire.alloc import Freed, Release
from tests.unit.allocator.partition_of import ALICE, YOD, Partition, pct, spec
from tests.unit.allocator.test_jobs import released, running


def test_a_release_waits_for_no_node_that_its_yod_has_lost_and_that_node_stays_held():
    partition = Partition(3)
    running(partition, spec(3))
    partition.receive(pct(0), Freed.of(1, (0, 2)))
    answer = partition.receive(YOD, Release(1, lost=(1,)), ALICE)
    assert answer == [released(unreachable=(1,))]
    assert partition.free() == {0: 1, 1: 0, 2: 1}
    assert partition.receive(pct(0), Freed.of(1, (1,))) == [RecordEnd(1, "ended", ANY)]
    assert partition.free() == {0: 1, 1: 1, 2: 1}


def test_a_release_waits_for_nodes_besides_the_lost_ones():
    partition = Partition(3)
    running(partition, spec(3))
    assert partition.receive(YOD, Release(1, lost=(1,)), ALICE) == []
    assert partition.receive(pct(0), Freed.of(1, (0, 2))) == [released(unreachable=(1,))]
