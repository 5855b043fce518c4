"""What yod takes of the times that nodes tell, for a trace."""

from __future__ import annotations

import pytest

from native.errors import PeerProtocolError
from native.wire import group, load
from native.wire.group import NodeTimes
from tests.unit.yod.launch_of import JOB_ID, Yod, grant, pct, slowest
from yod.launch.phases import Phase


def told(*nodes: NodeTimes, voted_us: int = -1) -> group.Times:
    return group.Times(JOB_ID, voted_us, nodes)


def test_nodes_are_asked_for_their_times_by_a_launch_that_is_traced_only():
    for is_traced in (False, True):
        yod = Yod(2, tells_times=is_traced)
        actions = yod.from_bebopd(grant(2))
        (message,) = [each.message for each in actions if hasattr(each, "message")]
        assert isinstance(message, load.Load)
        assert message.tells_times is is_traced
    plain = Yod(2).to(Phase.ENDING)
    with pytest.raises(PeerProtocolError, match="times, which nobody has asked for"):
        plain.receive(told(NodeTimes(20, 0)))
    assert plain.machine.node_times == {}


def test_the_load_message_was_half_as_long_on_its_way_to_the_root_as_its_vote_took_more():
    yod = Yod(2, tells_times=True)
    yod.from_bebopd(grant(2))
    yod.now += 0.5
    yod.receive(load.Vote(JOB_ID, 2, (), (), slowest()))
    yod.receive(told(NodeTimes(20, 0, 100_000), NodeTimes(21, 7, 100_000), voted_us=300_000))
    assert yod.machine.node_times == {
        20: NodeTimes(20, 100_000, 100_000),
        21: NodeTimes(21, 100_007, 100_000),
    }


def test_a_node_whose_vote_went_elsewhere_is_placed_at_the_load_message():
    yod = Yod(2, tells_times=True).to(Phase.RESETTING)
    yod.receive(told(NodeTimes(21, 0, 5)), pct(1))
    assert yod.machine.node_times == {21: NodeTimes(21, 0, 5)}


def test_times_of_more_nodes_than_the_job_has_are_refused():
    yod = Yod(2, tells_times=True).to(Phase.ENDING)
    with pytest.raises(PeerProtocolError, match="times of more than 2 nodes"):
        yod.receive(told(*(NodeTimes(20 + each, 0) for each in range(3))))
    assert yod.machine.node_times == {}
