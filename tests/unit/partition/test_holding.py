"""An allocation that a command holds, from the request to the end."""

from __future__ import annotations

from math import inf
from signal import SIGINT, SIGTERM

import pytest
from msgspec.structs import replace

from native.errors import IllegalTransition, Refusal
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import DeadlineReached, MessageReceived, PeerGone, Send
from native.wire import codec
from native.wire.alloc import (
    Credential,
    Grant,
    GrantedNode,
    NodeRequest,
    NodeSpec,
    Queued,
    Refused,
    Run,
)
from partition.broker.machine import (
    LOST,
    START_S,
    TIMED_OUT,
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
    Signalled,
    StartCommand,
    Tell,
    Wanted,
)
from partition.broker.nodes import members, one_rank_each, slots_of

BEBOPD = PortalId(1, 1)
DAEMON = Principal(PrincipalKind.PARTITION, 0)
LIMITS = Limits()
GRANT = Grant(
    job_id=17,
    uid=1000,
    nodes=tuple(GrantedNode(place, f"n{place}", 2 << 24, 1000 + place) for place in range(3)),
    runs=(Run(0, 2), Run(1, 2), Run(2, 1), Run(0, 1)),
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
    assert life.due() == [Tell("2 of 3 nodes came up in time"), EndNodes()]
    assert life.now == pytest.approx(100.0 + START_S + 0.3)
    assert life.do(NodesEnded("")) == [Finish(LOST)]


def test_the_end_of_the_command_ends_the_nodes_and_then_all(held):
    assert held.do(CommandEnded(3)) == [EndNodes()]
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
    assert held.do(CommandEnded(137)) == [Finish(LOST)]


def test_the_time_limit_ends_both(held):
    said = Tell("the time limit of 60 s is over")
    assert held.due() == [said, HangUp(), EndNodes()]
    assert held.do(NodesEnded("")) == []
    assert held.do(CommandEnded(0)) == [Finish(TIMED_OUT)]


def test_keys_of_the_terminal_are_the_commands(held):
    assert held.do(Signalled(SIGINT)) == []


def test_another_signal_ends_both_and_a_second_one_does_not_wait(held):
    assert held.do(Signalled(SIGTERM)) == [HangUp(), EndNodes()]
    assert held.do(Signalled(SIGTERM)) == [KillCommand(), EndNodes()]
    held.do(CommandEnded(143))
    assert held.do(NodesEnded("")) == [Finish(-SIGTERM)]


def test_no_other_event_is_taken():
    with pytest.raises(IllegalTransition):
        Life().do(CommandEnded(0))


def test_each_node_gets_one_pct_with_all_of_its_slots():
    paper = Credential(
        *(17, 1000, 1000, (), 1, 5060), nodes=(2, 0, 1), slots=(1, 6, 4), nodes_digest=b""
    )
    grant = replace(GRANT, credential=codec.encode_part(paper))
    assert slots_of(grant) == [6, 4, 1]  # ranks may have several
    assert one_rank_each(GRANT).runs == (Run(0, 1), Run(1, 1), Run(2, 1))
    rows = members([2, 2, 3, 2], "here:2")
    assert [(row.spec.size, row.words[-2:]) for row in rows] == [
        (2, ("--slots", "2")),
        (1, ("--slots", "3")),
        (1, ("--slots", "2")),
    ]
