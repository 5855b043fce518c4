"""Jobs before submit hooks that end in any order, fail, refuse and are replaced meanwhile."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from allocator.batch.hooked import Hooked
from allocator.batch.hooks import RunHook, TakeJob
from allocator.jobs.grants import Owner
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Send
from native.wire.alloc import NodeSpec
from native.wire.batch import Submit
from tests.unit.allocator.partition_of import ALICE, BOB, NAMES

RUNNING_COUNT, WAITING_COUNT, WAITING_EACH_COUNT = 3, 8, 5
HOOKS = ("accounts", "limits", "names")
JOB = Submit(bytes(16), NodeSpec(1), "", 60.0, b"task")


class World:
    """Jobs are named by the numbers of those who hand them in.

    Attributes:
        wanted: the hooks of each job that is on its way, in their order.
        passed: those that have let it pass.
        running: hooks, by their numbers: the job, and which.
        ends: of jobs, so many of each kind.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.hooks: tuple[str, ...] = HOOKS
        limits = Limits(
            submit_hooks_count=RUNNING_COUNT,
            waiting_count=WAITING_COUNT,
            waiting_each_count=WAITING_EACH_COUNT,
        )
        self.machine = Hooked(limits, lambda uid: Owner(uid, NAMES[uid], uid), self.hooks)
        self.wanted: dict[int, tuple[str, ...]] = {}
        self.passed: dict[int, list[str]] = {}
        self.running: dict[int, tuple[int, str]] = {}
        self.refused: dict[int, str] = {}  # why each is to be
        self.ends: Counter[str] = Counter()
        self.count = 0

    def step(self) -> None:
        match self.rng.choice(("submit", "submit", "end", "end", "end", "replace")):
            case "submit":
                self.submit()
            case "end" if self.running:
                self.end(self.rng.choice(list(self.running)))
            case "replace":
                self.hooks = tuple(self.rng.sample(HOOKS, self.rng.randint(0, len(HOOKS))))
                self.machine.become(self.hooks)

    def submit(self) -> None:
        self.count += 1
        job = self.count
        self.wanted[job], self.passed[job] = self.hooks, []
        message = replace(JOB, name=str(job))
        source, user = PortalId(job, 1), self.rng.choice((ALICE, BOB))
        self.take(self.machine.submitted(source, user, message))

    def end(self, number: int) -> None:
        job, hook = self.running.pop(number)
        how = self.rng.choice(("pass", "change", "refuse", "fail", "nonsense"))
        error, output = "", b""
        if how == "change":
            output = json.dumps({"change": {"time_s": 60.0 + job}}).encode()
        elif how == "refuse":
            output, self.refused[job] = json.dumps({"refuse": "no"}).encode(), hook
        elif how == "fail":
            error, self.refused[job] = "exit code 1", hook
        elif how == "nonsense":
            output, self.refused[job] = b"{", hook
        else:
            assert how == "pass"
        if job not in self.refused:
            self.passed[job].append(hook)
        self.take(self.machine.ended(number, hook, error, output))

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case RunHook(number, hook, request):
                    assert number not in self.running
                    self.running[number] = int(json.loads(request)["name"]), hook
                case TakeJob(source, _, message):
                    self.ended(source.nid, "taken", message)
                case Send(source, message):
                    self.ended(source.nid, "refused", message)
        self.check()

    def ended(self, job: int, how: str, message: object) -> None:
        """A job has its one end: what lets it pass has, and what has not is named."""
        wanted = self.wanted.pop(job)  # a second end would find none
        if how == "taken":
            assert tuple(self.passed[job]) == wanted and job not in self.refused
        elif job in self.refused:
            assert self.refused[job] in message.text  # type: ignore[attr-defined]
        else:
            assert message.code is Refusal.BUSY  # type: ignore[attr-defined]
            assert not self.passed[job] and len(self.running) == RUNNING_COUNT
        self.ends[how] += 1

    def check(self) -> None:
        """What is always true."""
        assert len(self.running) <= RUNNING_COUNT
        jobs = [job for job, _ in self.running.values()]
        assert len(set(jobs)) == len(jobs)
        for job, hook in self.running.values():
            assert hook == self.wanted[job][len(self.passed[job])]
        waiting = len(self.wanted) - len(jobs)
        assert 0 <= waiting <= WAITING_COUNT
        assert waiting == 0 or len(jobs) == RUNNING_COUNT


@pytest.mark.parametrize("seed", range(50))
def test_each_job_has_one_end_and_none_is_taken_that_a_hook_has_not_let_pass(seed: int):
    world = World(random.Random(seed))
    for _ in range(400):
        world.step()
    while world.running:
        world.end(next(iter(world.running)))
    assert not world.wanted
    assert world.ends["taken"] and world.ends["refused"]
    assert world.ends.total() == world.count
