"""Requests of all kinds against every state that a node can be in.

The partition has one node with two slots, so that each answer is about it. A table says the answer
to each request and the node's state after it; then whoever brought the node into its state takes
that back, and the node is given to a job again.
"""

from __future__ import annotations

import pytest

from allocator.nodes.orders import OrdersRecorded, RecordOrders
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Send
from native.wire import nodes as wire
from native.wire.alloc import (
    Grant,
    Hosting,
    NodeRequest,
    Refused,
    Release,
    Revoked,
)
from native.wire.base import Message
from native.wire.status import Announce, NodeState, Portion, Query, Watch
from partition.status.why import reason, stale_s
from tests.unit.allocator.partition_of import ALICE, BOB, Partition, pct, spec

ROOT = Principal(PrincipalKind.USER, 0)
ASKER, BOBS_YOD, YODCTL = PortalId(1, 71000), PortalId(1, 72000), PortalId(1, 80000)
LIMITS = Limits(silent_s=100.0, heartbeat_s=10.0, pass_s=0.0, end_s=10.0)
SLOTS = 2
BOBS = 1  # the id of the job that is there in some states


class World(Partition):
    """The partition, and what its PCT and its disk answer at once."""

    def __init__(self):
        super().__init__(1, SLOTS, limits=LIMITS)

    def say(self, *, trouble="", jobs=(), incarnation=1):
        """The PCT announces itself."""
        at = pct(0)
        said = Announce(0, "node0", SLOTS, at.nid, at.pid, incarnation, jobs, trouble=trouble)
        self.receive(at, said)

    def ask(self, source, message, principal) -> Message | None:
        """The answer; None: there is none yet."""
        answers = self.messages(self.receive(source, message, principal))
        mine = [message for target, message in answers if target == source]
        return mine[0] if mine else None

    def messages(self, actions):
        """Everything that is sent, with what follows once orders are on the disk."""
        found = []
        for action in actions:
            if isinstance(action, RecordOrders):
                recorded = OrdersRecorded(action.changes, action.asker, "", action.by)
                found += self.messages(self.handle(recorded))
            elif isinstance(action, Send):
                found.append((action.target, action.message))
        return found

    def mend(self):
        """The orders are taken back, nobody waits, and another PCT is there, without jobs."""
        self.lose(ASKER)
        for order in (wire.Resume((0,)), wire.Unreserve((0,)), wire.Dedicate((0,), Portion.ANY)):
            self.order(order)
        self.lose(pct(0))
        self.say(incarnation=2)
        for job in self.row.jobs:  # granted, and no PCT has heard of it
            self.wait(LIMITS.pending_s)
            self.receive(pct(0), Revoked(job.job_id, 0, False))

    def order(self, order):
        answer = self.ask(YODCTL, order, ROOT)
        assert isinstance(answer, wire.Changed), answer

    @property
    def unix_time(self):
        return self.now + 5000.5  # as the machine's

    @property
    def row(self):
        (row,) = self.ask(YODCTL, Query(), ALICE).rows
        return row


def pending(world):
    grant = world.grant(spec(SLOTS), source=BOBS_YOD, principal=BOB)
    assert grant.job_id == BOBS


def busy(world):
    pending(world)
    world.receive(pct(0), Hosting(BOBS))


def stale(world):
    world.now += 2.5 * LIMITS.heartbeat_s


def silent(world):
    world.wait(LIMITS.silent_s + 1.0)


def trouble(world):
    world.say(trouble="no memory")


def drained(world):
    world.order(wire.Drain((0,), "fan"))


def draining(world):
    busy(world)
    drained(world)


def reserved(world):
    world.order(wire.Reserve((0,), BOB.uid))


def for_batch(world):
    world.order(wire.Dedicate((0,), Portion.BATCH))


def restarting(world):
    busy(world)
    world.order(wire.Restart((0,)))


def lost(world):
    world.lose(pct(0))


def lost_with_a_job(world):
    busy(world)
    lost(world)


def lost_and_drained(world):
    lost(world)
    drained(world)


def free(world):
    pass


STATES = [free, pending, busy, stale, trouble, drained, draining, reserved, for_batch, restarting]
STATES += [silent, lost, lost_with_a_job, lost_and_drained]

REQUESTS: dict[str, tuple[PortalId, Message, Principal]] = {
    "launch": (ASKER, NodeRequest((spec(1),), "a"), ALICE),
    "launch there": (ASKER, NodeRequest((spec(1, 0),), "a"), ALICE),
    "launch and wait": (ASKER, NodeRequest((spec(1),), "a", waits=True), ALICE),
    "launch of its owner": (ASKER, NodeRequest((spec(1),), "a"), BOB),
    "release": (BOBS_YOD, Release(BOBS), BOB),
    "release of another": (ASKER, Release(BOBS), ALICE),
    "drain": (YODCTL, wire.Drain((0,), "belt"), ROOT),
    "drain by a user": (ASKER, wire.Drain((0,), "belt"), ALICE),
    "resume": (YODCTL, wire.Resume((0,)), ROOT),
    "restart": (YODCTL, wire.Restart((0,)), ROOT),
    "restart now": (YODCTL, wire.Restart((0,), True), ROOT),
    "reserve": (YODCTL, wire.Reserve((0,), ALICE.uid), ROOT),
    "unreserve": (YODCTL, wire.Unreserve((0,)), ROOT),
    "dedicate": (YODCTL, wire.Dedicate((0,), Portion.INTERACTIVE), ROOT),
    "interrupt": (YODCTL, wire.EndJobs(wire.Ending.INTERRUPT, (0,)), ROOT),
    "nicekill": (YODCTL, wire.EndJobs(wire.Ending.NICEKILL), ROOT),
    "reset": (YODCTL, wire.EndJobs(wire.Ending.RESET, (0,)), ROOT),
    "reset of another's": (ASKER, wire.EndJobs(wire.Ending.RESET, (0,)), ALICE),
    "query": (ASKER, Query(), ALICE),
    "watch": (ASKER, Watch(0), ALICE),
}


def word(answer):
    """What the table says of an answer."""
    match answer:
        case None:
            return "-"
        case Refused(code):
            return code.name
        case wire.JobsEnding(_, jobs, _, others):
            return f"ends {jobs}" + (f" of {jobs + others}" if others else "")
        case _:
            return type(answer).__name__


# What is answered in which states, and the node's state after it where that is another one.
REST = ""  # in all others
ANSWERS = {
    "launch": {
        "Grant > pending": "free stale",
        "NOT_ENOUGH_NODES": "reserved for_batch",
        "BUSY": REST,
    },
    "launch there": {
        "Grant > pending": "free stale",
        "NOT_ENOUGH_NODES": "reserved for_batch",
        "BUSY": REST,
    },
    "launch and wait": {
        "Grant > pending": "free stale",
        "NOT_ENOUGH_NODES": "reserved for_batch",
        "Queued": REST,
    },
    "launch of its owner": {
        "Grant > pending": "free stale reserved",
        "NOT_ENOUGH_NODES": "for_batch",
        "BUSY": REST,
    },
    "release": {
        "- > busy": "pending",
        "-": "busy draining restarting",
        "Released": REST,
    },
    "release of another": {
        "NOT_PERMITTED": "pending busy draining restarting lost_with_a_job",
        "Released": REST,
    },
    "drain": {
        "Changed > drained": "free stale trouble reserved for_batch",
        "Changed > draining": "pending busy",
        "Changed": REST,
    },
    "drain by a user": {"NOT_PERMITTED": REST},
    "resume": {
        "Changed > free": "drained",
        "Changed > busy": "draining restarting",
        "Changed": REST,
    },
    "restart": {
        "Changed > drained": "free stale trouble reserved for_batch",
        "Changed > draining": "pending busy",
        "Changed": REST,
    },
    "restart now": {
        "Changed > drained": "free stale trouble reserved for_batch",
        "Changed > draining": "pending busy",
        "Changed": REST,
    },
    "reserve": {
        "BAD_REQUEST": "reserved",
        "Changed": REST,
    },
    "unreserve": {"Changed": REST},
    "dedicate": {"Changed": REST},
    "interrupt": {
        "ends 1 > busy": "pending",
        "ends 1": "busy draining restarting lost_with_a_job",
        "ends 0": REST,
    },
    "nicekill": {
        "ends 1 > busy": "pending",
        "ends 1": "busy draining restarting lost_with_a_job",
        "ends 0": REST,
    },
    "reset": {
        "ends 1 > busy": "pending",
        "ends 1": "busy draining restarting lost_with_a_job",
        "ends 0": REST,
    },
    "reset of another's": {
        "ends 0 of 1": "pending busy draining restarting lost_with_a_job",
        "ends 0": REST,
    },
    "query": {"Table": REST},
    "watch": {"Changes": REST},
}

SHOWN = {  # in each state, the word that pingd has for it and the begin of its line of why
    free: ("free", ""),
    pending: ("pending", "pending for job 1 of bob since"),
    busy: ("busy", "busy with job 1 of bob"),
    stale: ("free", "stale: no word since"),
    trouble: ("trouble", "in trouble: no memory"),
    drained: ("drained", "drained by root since"),
    draining: ("draining", "drained by root since"),
    reserved: ("free", "reserved for bob by root since"),
    for_batch: ("free", "for batch jobs only"),
    restarting: ("draining", "drained by root since"),
    silent: ("down", "down, last heard of"),
    lost: ("down", "down, last heard of"),
    lost_with_a_job: ("down", "down, last heard of"),
    lost_and_drained: ("down", "down, last heard of"),
}


def expected(request, state):
    """What the table says: an answer, and the state after it."""
    answers = ANSWERS[request]
    (rest,) = [answer for answer, states in answers.items() if states == REST]
    said = [answer for answer, states in answers.items() if state.__name__ in states.split()]
    answer, _, after = (said or [rest])[0].partition(" > ")
    return answer, after or SHOWN[state][0]


def test_the_table_is_about_each_state_and_each_request_once():
    names = {state.__name__ for state in STATES}
    assert SHOWN.keys() == set(STATES)
    assert ANSWERS.keys() == REQUESTS.keys()
    for answers in ANSWERS.values():
        said = [name for states in answers.values() for name in states.split()]
        assert len(said) == len(set(said)) and set(said) <= names
    assert {word for word, _ in SHOWN.values()} == {state.value for state in NodeState}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_state_has_a_word_and_a_line_that_says_why(state):
    world = World()
    state(world)
    word, why = SHOWN[state]
    row = world.row
    found = reason(row, world.unix_time, stale_s(LIMITS, 1))
    assert row.state.value == word
    assert found.startswith(why) and bool(found) == bool(why)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_request_has_its_answer_in_each_state_and_the_node_comes_back(request_name, state):
    source, message, principal = REQUESTS[request_name]
    world = World()
    state(world)
    answer = world.ask(source, message, principal)
    assert (word(answer), world.row.state.value) == expected(request_name, state)
    if isinstance(answer, Refused):
        assert answer.text
    world.mend()
    assert world.free() == {0: SLOTS}
    assert isinstance(world.ask(BOBS_YOD, REQUESTS["launch"][1], BOB), Grant)
