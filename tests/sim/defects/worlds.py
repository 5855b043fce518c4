"""Defects of spawned worlds and of the tools that ranks start."""

from __future__ import annotations

from typing import Any

import msgspec

from native.wire import load, pmi
from pct.events import KeeperEnd
from pct.job.release import Release
from pct.job.rules.outcomes import Outcomes
from pct.job.spawned import SpawnedWorlds
from pct.wireup.agent import AgentConversation
from pct.wireup.kvs import KeyValueSpace
from pct.wireup.questions import Questions
from pct.wireup.world import World
from tests.sim.defects.registry import Patch, defect_of, wrap
from tests.sim.scenario import worlds
from yod.launch.report import Report


@defect_of(worlds)
def spawned_ranks_live_on_at_the_end(patch: Patch) -> None:
    def end(original: Any, self: Release, now: float) -> Any:
        return [
            KeeperEnd(self._job_id, 0) if isinstance(action, KeeperEnd) else action
            for action in original(self, now)
        ]

    wrap(patch, Release, "end", end)


@defect_of(worlds)
def replies_end_at_the_root(patch: Patch) -> None:
    def replied(original: Any, self: Questions, reply: Any, step: Any) -> None:
        original(self, msgspec.structs.replace(reply, target=0), step)

    wrap(patch, Questions, "replied", replied)


@defect_of(worlds)
def replies_go_to_the_neighbour(patch: Patch) -> None:
    def reply(
        original: Any, self: Questions, ask: Any, status: Any, pairs: Any, step: Any, text: str = ""
    ) -> None:
        other = ask.source + 1 if ask.source + 1 in self._child_of else ask.source
        original(self, msgspec.structs.replace(ask, source=other), status, pairs, step, text)

    wrap(patch, Questions, "reply", reply)


@defect_of(worlds)
def names_are_looked_up_on_the_own_node(patch: Patch) -> None:
    def ask(
        original: Any, self: Questions, target: int, question: Any, then: Any, step: Any
    ) -> None:
        here = self._place if isinstance(question, pmi.Lookup) else target
        original(self, here, question, then, step)

    wrap(patch, Questions, "ask", ask)


@defect_of(worlds)
def a_tool_outlives_its_agent(patch: Patch) -> None:
    patch.setattr(Questions, "tell", lambda self, target, question, step: None)


@defect_of(worlds)
def a_tool_ends_with_another_status(patch: Patch) -> None:
    def ended(original: Any, self: AgentConversation, wait_status: int) -> None:
        original(self, 0)

    wrap(patch, AgentConversation, "ended", ended)


@defect_of(worlds)
def completions_of_spawned_ranks_count_twice(patch: Patch) -> None:
    def expect(original: Any, self: Outcomes, count: int) -> None:
        original(self, count)
        self.__dict__["first_spawned"] = True

    def add(original: Any, self: Outcomes, tally: Any, due: float) -> None:
        original(self, tally, due)
        if self.__dict__.get("first_spawned"):
            original(self, tally, due)

    wrap(patch, Outcomes, "expect", expect)
    wrap(patch, Outcomes, "add", add)


@defect_of(worlds)
def spawned_ranks_are_not_waited_for(patch: Patch) -> None:
    def is_complete(self: Report) -> bool:
        return self.completions.keys() >= set(range(self._loaded_size))

    patch.setattr(Report, "is_complete", property(is_complete))


@defect_of(worlds)
def a_spawn_is_answered_by_its_first_node(patch: Patch) -> None:
    def gather(original: Any, self: SpawnedWorlds, told: load.Spawned) -> Any:
        return original(self, msgspec.structs.replace(told, count=1000))

    wrap(patch, SpawnedWorlds, "gather", gather)


@defect_of(worlds)
def a_failed_spawn_is_said_to_run(patch: Patch) -> None:
    def gather(original: Any, self: SpawnedWorlds, told: load.Spawned) -> Any:
        count = 1000 if told.text else told.count
        return original(self, msgspec.structs.replace(told, count=count, text=""))

    wrap(patch, SpawnedWorlds, "gather", gather)


@defect_of(worlds)
def worlds_share_a_key_space(patch: Patch) -> None:
    def init(original: Any, self: World, number: int, name: str, *arguments: Any) -> None:
        original(self, number, name.removesuffix(f"_{number}"), *arguments)

    wrap(patch, World, "__init__", init)


@defect_of(worlds)
def what_a_parent_puts_before_is_lost(patch: Patch) -> None:
    def spread(original: Any, self: KeyValueSpace, pairs: Any) -> None:
        original(self, tuple(pair for pair in pairs if pair.key != b"parent"))

    wrap(patch, KeyValueSpace, "spread", spread)
