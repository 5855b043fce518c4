"""In any order of events, no step begins before its turn, and none waits for what has happened.

A broker with steps that come, begin, end and are lost, and yods that wait for them. What should
be so is told by a record of what has happened, kept here in plain words. Hypothesis chooses the
order.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Send
from native.wire.alloc import (
    Freed,
    Grant,
    Hosting,
    NodeRequest,
    Queued,
    Refused,
    Release,
    Released,
    Revoke,
    Revoked,
)
from native.wire.base import NO_DEPENDENCY, After, AfterKind, Dependency, JobEnd, State
from tests.unit.allocator.partition_of import ALICE, BOB, Partition, pct, spec

NODES, SLOTS = 2, 2
KINDS = list(AfterKind)
ENDS = (
    JobEnd(State.COMPLETED, 0, 0, ""),
    JobEnd(State.FAILED, 3, 0, ""),
    JobEnd(State.CANCELLED, 143, 15, ""),
    None,
)


class Step:
    """What has happened to one step."""

    def __init__(self, grant: Grant, yod: PortalId) -> None:
        self.yod = yod
        self.nodes = {node.node for node in grant.nodes}  # that have not freed it
        self.root = grant.nodes[0].node
        self.has_begun = False
        self.is_told = self.is_lost = False  # by its yod; its yod
        self.is_well = False

    @property
    def may_begin(self) -> bool:
        return not (self.has_begun or self.is_told) and self.root in self.nodes

    @property
    def has_ended(self) -> bool:
        return not self.nodes and (self.is_told or self.is_lost)

    def meets(self, kind: AfterKind) -> bool:
        match kind:
            case AfterKind.BEGUN:
                return self.has_begun or self.has_ended
            case AfterKind.ENDED:
                return self.has_ended
            case AfterKind.OK | AfterKind.CORRESPONDS:
                return self.has_ended and self.is_well
        return self.has_ended and not self.is_well

    def never_meets(self, kind: AfterKind) -> bool:
        return self.has_ended and not self.meets(kind)


class World:
    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.partition = Partition(
            NODES, SLOTS, allocation="17", limits=Limits(silent_s=1e6, pending_s=1e6, end_s=1e6)
        )
        self.steps: dict[int, Step] = {}
        self.asking: dict[PortalId, NodeRequest] = {}
        self.waiting: set[PortalId] = set()  # those that have been told that they wait for others
        self.yods = 0

    def move(self) -> None:
        """Do one of the things that can happen, each kind as often."""
        steps = self.steps.items()
        says = [job_id for job_id, step in steps if not (step.is_told or step.is_lost)]
        kinds = [
            (self.ask, [()]),
            (self.leave, [(yod,) for yod in self.asking]),
            (self.begin, [(job_id,) for job_id, step in steps if step.may_begin]),
            (self.free, [(job_id, node) for job_id, step in steps for node in step.nodes]),
            (self.tell, [(job_id,) for job_id in says]),
            (self.lose, [(job_id,) for job_id in says]),
            (self.lie, [(job_id,) for job_id in self.steps]),
        ]
        call, those = self.choose.choice([kind for kind in kinds if kind[1]])
        call(*self.choose.choice(those))

    def ask(self) -> None:
        self.yods += 1
        yod = PortalId(9, 70000 + self.yods)
        waits = self.choose.random() < 0.8
        size = self.choose.randint(1, 3)
        request = NodeRequest((spec(size),), waits=waits, after=self.dependency())
        self.asking[yod] = request
        self.perform(self.partition.receive(yod, request, ALICE))
        if request.after.on and not waits:
            assert yod not in self.asking, "one that does not wait has an answer at once"

    def dependency(self) -> Dependency:
        if not self.steps or self.choose.random() < 0.3:
            return NO_DEPENDENCY
        on = [
            After(self.choose.choice(KINDS), self.choose.choice(list(self.steps)))
            for _ in range(self.choose.randint(1, 3))
        ]
        return Dependency(tuple(on), self.choose.random() < 0.4)

    def begin(self, job_id: int) -> None:
        step = self.steps[job_id]
        step.has_begun = True
        self.perform(self.partition.receive(pct(step.root), Hosting(job_id)))

    def free(self, job_id: int, node: int) -> None:
        self.steps[job_id].nodes.discard(node)
        self.perform(self.partition.receive(pct(node), Freed.of(job_id, (node,))))

    def tell(self, job_id: int) -> None:
        step, end = self.steps[job_id], self.choose.choice(ENDS)
        step.is_told = True
        step.is_well = end is not None and end.state is State.COMPLETED
        self.perform(self.partition.receive(step.yod, Release(job_id, end), ALICE))

    def lose(self, job_id: int) -> None:
        step = self.steps[job_id]
        step.is_lost = True
        self.perform(self.partition.lose(step.yod))

    def lie(self, job_id: int) -> None:
        """Somebody else says how a step has ended."""
        liar = PortalId(8, 1)
        self.perform(self.partition.receive(liar, Release(job_id, ENDS[0]), BOB))

    def leave(self, yod: PortalId) -> None:
        del self.asking[yod]
        self.waiting.discard(yod)
        self.perform(self.partition.lose(yod))

    def perform(self, actions) -> None:
        revoked: list[tuple[PortalId, int]] = []
        for action in actions:
            if not isinstance(action, Send):
                continue
            match action.message:
                case Grant() as grant:
                    assert self.is_met(self.asking.pop(action.target).after), "before its turn"
                    self.waiting.discard(action.target)
                    self.steps[grant.job_id] = Step(grant, action.target)
                case Refused(code) if action.target in self.asking:
                    self.refused(self.asking.pop(action.target), code, action.target)
                case Queued(place):
                    self.queued(action.target, place)
                case Revoke(job_id):
                    revoked.append((action.target, job_id))
                case Released() | Refused():
                    pass
                case message:
                    raise AssertionError(message)
        for target, job_id in revoked:
            self.revoke(target, job_id)
        for yod in self.waiting:
            after = self.asking[yod].after
            assert not self.is_met(after), "it waits for what has happened"
            assert not self.is_never_met(after), "it waits for what cannot happen"

    def revoke(self, target: PortalId, job_id: int) -> None:
        """A PCT is asked whether it hosts a step."""
        (node,) = (number for number in range(NODES) if pct(number) == target)
        step = self.steps[job_id]
        hosts = node in step.nodes and step.has_begun
        if not hosts:
            step.nodes.discard(node)
        self.perform(self.partition.receive(target, Revoked(job_id, node, hosts)))

    def queued(self, yod: PortalId, place: int) -> None:
        after = self.asking[yod].after
        if place:
            assert self.is_met(after), "in the line before its turn"
            self.waiting.discard(yod)
        else:
            self.waiting.add(yod)

    def refused(self, request: NodeRequest, code: Refusal, yod: PortalId) -> None:
        self.waiting.discard(yod)
        if code is Refusal.BAD_REQUEST:
            assert self.is_never_met(request.after)
        else:
            assert code is Refusal.BUSY and not request.waits

    def is_met(self, after: Dependency) -> bool:
        met = [self.steps[each.job_id].meets(each.kind) for each in after.on]
        return any(met) if after.is_any and met else all(met)

    def is_never_met(self, after: Dependency) -> bool:
        never = [self.steps[each.job_id].never_meets(each.kind) for each in after.on]
        return all(never) if after.is_any else any(never)

    def settle(self) -> None:
        """All that runs ends, until nothing is left."""
        while any(not step.has_ended for step in self.steps.values()):
            for job_id, step in list(self.steps.items()):
                for node in list(step.nodes):
                    self.free(job_id, node)
                if not step.has_ended:
                    self.tell(job_id)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 150))
def test_a_step_begins_when_its_turn_has_come_and_never_before(seed, count):
    world = World(random.Random(seed))
    for _ in range(count):
        world.move()
    world.settle()
    assert not world.asking, "a yod waits for ever"
    assert world.partition.free() == dict.fromkeys(range(NODES), SLOTS)
