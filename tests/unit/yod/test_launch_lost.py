"""The end of a launch of which nodes are lost to others."""

from native.wire import alloc
from native.wire.load import FailureKind
from tests.unit.yod.launch_of import (
    JOB_ID,
    LIMITS,
    RELEASE,
    Yod,
    failure,
    pct,
    released,
    resets,
    to_bebopd,
)
from yod.launch.phases import Phase


def test_a_node_that_others_have_lost_has_a_short_time_and_bebopd_waits_for_it_no_longer():
    """A launch that failed because of a node that stood still took a quarter of a minute to end."""
    yod = Yod(3).to(Phase.FORMING)
    yod.receive(failure(FailureKind.NODE_LOST, phase="forming"))
    assert yod.receive(released(0, 2)) == resets(1)
    assert yod.wait(LIMITS.lost_end_s - 0.1) == []
    assert yod.wait(0.1) == [to_bebopd(alloc.Release(JOB_ID, lost=(21,)))]


def test_the_short_time_of_lost_nodes_begins_when_all_others_have_confirmed():
    yod = Yod(3).to(Phase.RUNNING)
    yod.receive(failure(FailureKind.NODE_LOST, phase="running"))
    assert yod.receive(released(0)) == resets(1, 2)
    assert yod.wait(LIMITS.lost_end_s + 0.1) == []
    assert yod.receive(released(2), pct(2)) == []
    assert yod.wait(LIMITS.lost_end_s) == [to_bebopd(alloc.Release(JOB_ID, lost=(21,)))]


def test_a_lost_node_that_is_reset_after_all_is_not_named_to_bebopd():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(failure(FailureKind.NODE_LOST, phase="running"))
    assert yod.receive(released(0)) == resets(1)
    assert yod.receive(released(1), pct(1)) == [RELEASE]
