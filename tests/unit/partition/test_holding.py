"""An allocation that a command holds, from the request to the end."""

from __future__ import annotations

from math import inf
from signal import SIGINT, SIGTERM, SIGUSR1

import pytest

from native.errors import IllegalTransition, Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import DeadlineReached, MessageReceived, PeerGone, Send
from native.wire.alloc import Grant, NodeRequest, NodeSpec, Queued, Refused
from native.wire.batch import EarlySignal
from native.wire.placed import GrantedNode, JobNodes
from native.wire.runs import JobRuns, Run
from partition.broker.machine import (
    LOST,
    START_S,
    TIMED_OUT,
    Cancelled,
    CommandEnded,
    EndNodes,
    Finish,
    HangUp,
    Holding,
    KillCommand,
    NodesEnded,
    NodesUp,
    OpenNodes,
    Phase,
    SignalCommand,
    Signalled,
    SignalSteps,
    StartCommand,
    Tell,
    TimeLimited,
    Wanted,
)
from partition.broker.nodes import members, one_rank_each, slots_of

BEBOPD = PortalId(1, 1)
DAEMON = Principal(PrincipalKind.PARTITION, 0)
LIMITS = Limits()
GRANT = Grant(
    job_id=17,
    uid=1000,
    nodes=JobNodes.of(
        GrantedNode(place, f"n{place}", 2 << 24, 1000 + place, slots)
        for place, slots in enumerate((6, 4, 1))
    ),
    runs=JobRuns.of((Run(0, 2), Run(1, 2), Run(2, 1), Run(0, 1))),
    job_key=b"key",
    expires=5060,
    credential=b"credential",
    credential_mac=b"mac",
    pending_s=60.0,
)
FULL = "5 ranks requested, 0 of 5 slots free now"


class Life:
    """A machine at a time of its own."""

    def __init__(self, **wanted) -> None:
        self.now = 100.0
        wanted = {"spec": NodeSpec(5), "words": ("sh", "-c", "x"), **wanted}
        self.machine = Holding(Wanted(**wanted), BEBOPD, "here:1", LIMITS)
        self.asked = self.machine.begin(self.now)

    def do(self, event):
        return self.machine.handle(event, self.now)

    def hear(self, message):
        return self.do(MessageReceived(BEBOPD, DAEMON, message))

    def due(self):
        """Go to the next deadline."""
        self.now = self.machine.deadline()
        return self.do(DeadlineReached())


@pytest.fixture
def held() -> Life:
    life = Life(time_s=60.0)
    life.hear(GRANT)
    assert life.do(NodesUp(3)) == [StartCommand()]
    return life


def test_it_asks_once_and_opens_what_is_granted():
    life = Life()
    request = NodeRequest((NodeSpec(5),), "sh -c x", waits=True)
    assert life.asked == [Send(BEBOPD, request)]
    assert life.hear(GRANT) == [OpenNodes(GRANT)]
    assert life.machine.phase is Phase.OPENING


def test_one_that_does_not_wait_says_so_to_bebopd():
    (sent,) = Life(wait_s=0.0).asked
    assert not sent.message.waits


def test_a_place_in_the_line_is_shown_and_the_wait_has_its_own_limit():
    life = Life(wait_s=5.0)
    line = f"waits for nodes, place 2 in the line: {FULL}; Ctrl-C leaves"
    assert life.hear(Queued(2, FULL)) == [Tell(line, is_error=False)]
    assert life.due() == [Tell(f"no nodes in 5 s: {FULL}"), Finish(LOST)]
    assert life.now == 105.0


def test_who_waits_for_any_time_has_no_deadline():
    life = Life(wait_s=inf)
    life.hear(Queued(1, FULL))
    assert life.machine.deadline() is None


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (MessageReceived(BEBOPD, DAEMON, Refused(Refusal.BUSY, FULL)), FULL),
        (PeerGone(BEBOPD, "cannot be reached"), "bebopd at here:1 cannot be reached"),
    ],
)
def test_without_nodes_it_is_over(event, text):
    life = Life()
    assert life.do(event) == [Tell(text), Finish(LOST)]
    assert life.machine.phase is Phase.OVER


def test_a_bebopd_that_says_nothing_is_named():
    text = f"bebopd at here:1 did not answer in {LIMITS.allocate_s:g} s"
    assert Life().due() == [Tell(text), Finish(LOST)]


def test_the_loss_of_another_peer_means_nothing():
    assert Life().do(PeerGone(PortalId(2, 2), "has died")) == []


def test_an_interrupt_leaves_the_line():
    assert Life().do(Signalled(SIGINT)) == [Finish(-SIGINT)]


def test_the_command_starts_when_the_last_node_is_up():
    life = Life()
    life.hear(GRANT)
    assert [life.do(NodesUp(count)) for count in (0, 2, 3)] == [[], [], [StartCommand()]]
    assert life.machine.deadline() is None


def test_nodes_that_come_up_too_slowly_are_given_back():
    life = Life()
    life.hear(GRANT)
    life.do(NodesUp(2))
    late = Tell("2 of 3 nodes came up in time")
    assert life.due() == [late, SignalSteps(SIGTERM), EndNodes()]
    assert life.now == pytest.approx(100.0 + START_S + Limits().phase_s + 0.3)
    assert life.do(NodesEnded("")) == [Finish(LOST)]


def test_the_end_of_the_command_ends_the_nodes_and_then_all(held):
    assert held.do(CommandEnded(3)) == [SignalSteps(SIGTERM), EndNodes()]
    assert held.do(NodesUp(1)) == []
    assert held.do(NodesEnded("its PCTs have ended")) == [Finish(3)]
    assert held.do(Signalled(SIGTERM)) == []


def test_the_loss_of_a_node_is_told_and_ends_nothing(held):
    assert held.do(NodesUp(3)) == []
    assert held.do(NodesUp(2)) == [Tell("a node was lost; 2 of 3 are left")]
    assert held.do(NodesUp(0)) == []
    assert held.machine.phase is Phase.HELD


def test_the_end_of_the_nodes_ends_the_command(held):
    assert held.do(NodesEnded("node 1 was lost")) == [Tell("node 1 was lost"), HangUp()]
    assert held.due() == [KillCommand()]
    assert held.machine.phase is Phase.ENDING
    assert held.do(CommandEnded(137)) == [Finish(LOST)]


def test_the_time_limit_ends_both(held):
    said = Tell("the time limit of 60 s is over")
    assert held.due() == [said, HangUp(), SignalSteps(SIGTERM)]
    assert held.do(CommandEnded(0)) == [EndNodes()]
    assert held.do(NodesEnded("")) == [Finish(TIMED_OUT)]


def test_steps_have_time_to_end_before_their_nodes_do(held):
    held.do(NodesUp(3, steps=2))
    told = Tell("SIGTERM sent to 2 steps, SIGKILL in 30 s", is_error=False)
    assert held.do(CommandEnded(0)) == [SignalSteps(SIGTERM), told]
    assert held.do(NodesUp(3, steps=1)) == []
    assert held.do(NodesUp(3, steps=0)) == [EndNodes()]
    assert held.do(NodesEnded("")) == [Finish(0)]


def test_what_obeys_no_signal_is_killed_when_its_time_is_over(held):
    held.do(NodesUp(3, steps=1))
    held.do(Signalled(SIGTERM))
    began = held.now
    assert held.due() == [KillCommand(), EndNodes()]
    assert held.now == began + LIMITS.kill_wait_s
    assert held.do(CommandEnded(137)) == []
    assert held.do(NodesEnded("")) == [Finish(-SIGTERM)]


@pytest.mark.parametrize(
    ("is_for_command", "action"), [(False, SignalSteps(SIGUSR1)), (True, SignalCommand(SIGUSR1))]
)
def test_a_warning_comes_before_the_time_is_over(is_for_command, action):
    life = Life(time_s=60.0, warning=EarlySignal(SIGUSR1, 10.0, is_for_command))
    life.hear(GRANT)
    life.do(NodesUp(3))
    assert life.due() == [action]
    assert life.now == 150.0
    assert life.due()[0] == Tell("the time limit of 60 s is over")
    assert life.now == 160.0


def test_a_changed_time_limit_counts_from_the_beginning_and_moves_the_warning():
    life = Life(time_s=60.0, warning=EarlySignal(SIGUSR1, 10.0, False))
    life.hear(GRANT)
    assert life.do(TimeLimited(300.0)) == [Tell("the time limit is 0:05:00 now", False)]
    life.do(NodesUp(3))
    began = life.now
    assert life.due() == [SignalSteps(SIGUSR1)]
    assert life.now == began + 290.0
    assert life.do(TimeLimited(600.0)) == [Tell("the time limit is 0:10:00 now", False)]
    assert life.machine.limit_s == 600.0
    assert life.due() == [SignalSteps(SIGUSR1)]
    assert life.now == began + 590.0
    assert life.do(TimeLimited(inf)) == [Tell("the time limit is unlimited now", False)]
    assert life.machine.deadline() is None
    life.do(TimeLimited(1.0))
    assert life.due()[0] == Tell("the time limit of 1 s is over")
    assert life.machine.limit_s is None


def test_the_command_of_a_given_grant_starts_before_the_nodes_are_up():
    life = Life(time_s=60.0)
    machine = life.machine = Holding(
        Wanted(NodeSpec(5), ("job.sh",), time_s=60.0), BEBOPD, "here:1", LIMITS
    )
    assert machine.begin_with(GRANT, life.now) == [OpenNodes(GRANT), StartCommand()]
    assert life.do(NodesUp(3)) == []
    assert machine.phase is Phase.HELD
    assert machine.limit_s is None  # who has given it limits its time
    assert life.do(TimeLimited(90.0)) == []
    assert life.do(CommandEnded(0)) == [SignalSteps(SIGTERM), EndNodes()]
    assert machine.is_by_command


def test_a_command_that_is_held_starts_when_all_nodes_are_up_and_its_time_begins_then():
    life = Life(time_s=60.0)
    wanted = Wanted(NodeSpec(5), ("job.sh",), time_s=60.0)
    machine = life.machine = Holding(wanted, BEBOPD, "here:1", LIMITS)
    assert machine.begin_with(GRANT, life.now, starts_command=False) == [OpenNodes(GRANT)]
    assert life.do(NodesUp(2)) == []
    assert life.do(NodesUp(3)) == [StartCommand()]
    assert machine.deadline() == life.now + 60.0


def test_a_command_that_is_held_never_starts_where_the_nodes_do_not_come_up():
    life = Life()
    life.machine.begin_with(GRANT, life.now, starts_command=False)
    lost = life.do(NodesEnded("a prolog failed"))
    assert lost == [Tell("a prolog failed"), Finish(LOST)]


def test_a_command_that_cancels_it_ends_all(held):
    assert held.do(Cancelled()) == [Tell("cancelled"), HangUp(), SignalSteps(SIGTERM)]
    assert held.do(CommandEnded(143)) == [EndNodes()]
    assert held.do(NodesEnded("cancelled")) == [Finish(LOST)]


def test_keys_of_the_terminal_are_the_commands(held):
    assert held.do(Signalled(SIGINT)) == []


def test_another_signal_ends_both_and_a_second_one_does_not_wait(held):
    assert held.do(Signalled(SIGTERM)) == [HangUp(), SignalSteps(SIGTERM)]
    assert held.do(Signalled(SIGTERM)) == [KillCommand(), EndNodes()]
    assert held.do(Signalled(SIGTERM)) == [KillCommand(), EndNodes()]
    held.do(CommandEnded(143))
    assert held.do(NodesEnded("")) == [Finish(-SIGTERM)]


def test_no_other_event_is_taken():
    with pytest.raises(IllegalTransition):
        Life().do(CommandEnded(0))


def test_each_node_gets_one_pct_with_all_of_its_slots():
    assert slots_of(GRANT) == [6, 4, 1]  # ranks may have several
    assert list(one_rank_each(GRANT).runs) == [Run(0, 1), Run(1, 1), Run(2, 1)]
    rows = members([2, 2, 3, 2], "here:2")
    assert [(row.spec.size, row.words[-2:]) for row in rows] == [
        (2, ("--slots", "2")),
        (1, ("--slots", "3")),
        (1, ("--slots", "2")),
    ]
