"""Broken machines, to see that the checker finds what it is there for.

Each defect changes one rule of one machine, as a wrong edit might; ``apply`` gets
pytest's monkeypatch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from allocator.bebopd import Bebopd
from allocator.jobs.ids import JobIds
from allocator.jobs.job import Evidence
from allocator.jobs.job import JobState as AllocatorState
from allocator.jobs.table import JobTable
from allocator.nodes.table import Node as AllocatorNode
from native.machine import Send
from native.wire import alloc, load, pmi
from pct.events import (
    GiveMap,
    KeeperEnd,
    KillOrphans,
    LeftoversRemoved,
    OrphansKilled,
    RemoveLeftovers,
)
from pct.job.keepers import Keepers
from pct.job.listeners import Listeners
from pct.job.loading import Loading
from pct.job.losses import Losses
from pct.job.objects import ObjectTable
from pct.job.outcomes import Outcomes
from pct.job.progress import Progress
from pct.job.relay import OutputRelay, cost
from pct.job.release import Release
from pct.job.spawned import SpawnedWorlds
from pct.job.wiring import Wiring
from pct.reservation import Reservation
from pct.tree.collective import Gather
from pct.tree.group import Group
from pct.wireup import kvs
from pct.wireup.agent import AgentConversation
from pct.wireup.kvs import Fences, KeyValueSpace
from pct.wireup.machine import Wireup
from pct.wireup.questions import Questions, Step
from pct.wireup.world import World
from tests.sim.hosts import PctActor
from tests.sim.pmix import PmixServer
from tests.sim.scenario import SCENARIOS, keepers, mixed, shipped, worlds
from yod.launch.ending import Ending
from yod.launch.failures import Failures
from yod.launch.output import Outputs
from yod.launch.report import Report
from yod.launch.spawn import Spawner

Patch = pytest.MonkeyPatch
Play = Callable[[int], Any]
DEFECTS: dict[str, Callable[[Patch], None]] = {}
PLAYS: dict[str, tuple[Play, ...]] = {}  # where each is looked for


def defect_of(*plays: Play) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register one that only these can find."""

    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        DEFECTS[apply.__name__] = apply
        PLAYS[apply.__name__] = plays
        return apply

    return register


defect = defect_of(*SCENARIOS)


def wrap(patch: Patch, owner: type, name: str, change: Callable[..., Any]) -> None:
    """Replace a method by ``change(original, self, ...)``."""
    original = getattr(owner, name)

    def changed(self: Any, *arguments: Any, **named: Any) -> Any:
        return change(original, self, *arguments, **named)

    patch.setattr(owner, name, changed)


# -- bebopd ------------------------------------------------------------------------


@defect
def grants_never_lapse(patch: Patch) -> None:
    patch.setattr(JobTable, "deadline", lambda self: None)
    patch.setattr(JobTable, "due", lambda self, now: [])


@defect
def slots_are_granted_twice(patch: Patch) -> None:
    patch.setattr(AllocatorNode, "free", lambda self: self.slots if self.is_up else 0)


@defect
def job_ids_are_used_again_after_a_restart(patch: Patch) -> None:
    def begin(original: Any, self: JobIds, first: int) -> None:
        original(self, 1)
        self.reserved = 10_000

    wrap(patch, JobIds, "__init__", begin)


@defect
def slots_are_freed_when_yod_is_lost(patch: Patch) -> None:
    def gone(original: Any, self: JobTable, peer: Any, text: str, now: float) -> Any:
        actions = original(self, peer, text, now)
        for job in self:
            if job.requester is None and job.state is AllocatorState.RUNNING:
                actions += self._take_back(job, list(job.holdings), "its yod is gone")
        return actions

    def runs(original: Any, self: JobTable, job: Any, now: float) -> Any:
        return original(self, job, now)

    wrap(patch, JobTable, "_runs", runs)
    wrap(patch, JobTable, "requester_gone", gone)


@defect
def slots_of_a_silent_node_are_freed(patch: Patch) -> None:
    def down(original: Any, self: JobTable, node: AllocatorNode, now: float) -> Any:
        actions = original(self, node, now)
        for job_id in list(node.held):
            actions += self._take_back(self._jobs[job_id], (node.number,), "it is down")
        return actions

    wrap(patch, JobTable, "node_down", down)


@defect_of(mixed)
def a_new_bebopd_ignores_running_jobs(patch: Patch) -> None:
    patch.setattr(Bebopd, "_hosts_unknown", lambda self, node, hosted, now: [])


@defect
def a_release_is_confirmed_at_once(patch: Patch) -> None:
    def release(original: Any, self: JobTable, job: Any, requester: Any, now: float) -> Any:
        actions = original(self, job, requester, now)
        if job.requester is not None:
            job.requester = None
            actions.append(Send(requester, alloc.Released(job.job_id)))
        return actions

    wrap(patch, JobTable, "release", release)


@defect
def a_restarted_node_keeps_its_holdings(patch: Patch) -> None:
    def compare(
        original: Any, self: JobTable, node: Any, arrival: Any, hosted: Any, now: float
    ) -> Any:
        for job_id in node.held:
            self._jobs[job_id].holdings[node.number].evidence = Evidence.GRANTED
            self._jobs[job_id].state = AllocatorState.PENDING
            self._due.setdefault(job_id, now + 1e9)
        return original(self, node, arrival, hosted, now)

    wrap(patch, JobTable, "compare", compare)


# -- a PCT --------------------------------------------------------------------------


@defect
def go_comes_before_all_are_held(patch: Patch) -> None:
    def init(original: Any, self: Progress, *arguments: Any) -> None:
        original(self, *arguments)
        self.held = Gather(range(0))  # children are not waited for

    wrap(patch, Progress, "__init__", init)


@defect_of(mixed, worlds)
def go_comes_before_the_map(patch: Patch) -> None:
    def perform(original: Any, self: PctActor, action: Any) -> None:
        if not isinstance(action, GiveMap):
            original(self, action)

    wrap(patch, PctActor, "perform", perform)


@defect_of(mixed, worlds)
def a_childs_listeners_are_taken_for_its_neighbours(patch: Patch) -> None:
    def come_up(original: Any, self: Listeners, child: int, held: load.Held) -> None:
        original(self, child, held)
        for rank in held.ranks:
            self.own(rank, held.ports[0])

    wrap(patch, Listeners, "come_up", come_up)


@defect_of(shipped)
def a_damaged_object_is_published(patch: Patch) -> None:
    patch.setattr(Loading, "_is_undamaged", lambda self, number, digest: True)


@defect_of(shipped)
def an_object_is_published_while_it_is_passed_on(patch: Patch) -> None:
    def expect(original: Any, self: ObjectTable, number: int, has_children: bool) -> None:
        original(self, number, False)

    wrap(patch, ObjectTable, "expect", expect)


@defect
def a_completion_is_lost(patch: Patch) -> None:
    def add(original: Any, self: Outcomes, tally: Any, due: float) -> None:
        if tally.rank != 3:
            original(self, tally, due)

    wrap(patch, Outcomes, "add", add)


@defect
def completions_are_sent_again(patch: Patch) -> None:
    def take_all(original: Any, self: Outcomes) -> Any:
        before = list(self._sent)
        return before + original(self)

    wrap(patch, Outcomes, "take_all", take_all)


@defect
def a_rank_is_reported_with_another_ones_end(patch: Patch) -> None:
    def add(original: Any, self: Outcomes, tally: Any, due: float) -> None:
        original(self, msgspec.structs.replace(tally, wait_status=0), due)

    wrap(patch, Outcomes, "add", add)


@defect
def ranks_of_a_lost_parent_live_on(patch: Patch) -> None:
    patch.setattr(Losses, "_parent_lost", lambda self, now: [])


@defect
def released_is_said_before_the_keeper_is_empty(patch: Patch) -> None:
    def end(original: Any, self: Release, now: float) -> Any:
        actions = original(self, now)
        self._output.open.clear()
        self._keepers.gone(0)
        return actions

    wrap(patch, Release, "end", end)


@defect_of(keepers)
def orphans_of_a_lost_keeper_are_forgotten(patch: Patch) -> None:
    def perform(original: Any, self: PctActor, action: Any) -> None:
        if isinstance(action, KillOrphans):
            self.handle(OrphansKilled(action.job_id, action.world))
        else:
            original(self, action)

    wrap(patch, PctActor, "perform", perform)


@defect_of(keepers)
def a_node_is_free_while_orphans_are_being_killed(patch: Patch) -> None:
    def lost(original: Any, self: Keepers, world: int) -> Any:
        actions = original(self, world)
        self.gone(world)
        return actions

    wrap(patch, Keepers, "lost", lost)


@defect_of(keepers)
def shared_memory_of_killed_ranks_stays(patch: Patch) -> None:
    def perform(original: Any, self: PctActor, action: Any) -> None:
        if isinstance(action, RemoveLeftovers):
            self.handle(LeftoversRemoved(action.job_id, action.world))
        else:
            original(self, action)

    wrap(patch, PctActor, "perform", perform)


@defect
def lost_nodes_are_said_to_be_free(patch: Patch) -> None:
    def lost(original: Any, self: Losses, place: int, text: str, now: float) -> Any:
        actions = original(self, place, text, now)
        self._progress.released.given[place] = (self._group._nodes[place].node,)
        return actions

    wrap(patch, Losses, "_child_lost", lost)


@defect
def credentials_do_not_expire(patch: Patch) -> None:
    def take(original: Any, self: Reservation, credential: Any, node: int, unix_s: float) -> Any:
        return original(self, credential, node, 0.0)

    wrap(patch, Reservation, "take", take)


@defect
def a_refused_job_is_taken(patch: Patch) -> None:
    def refuse(original: Any, self: Reservation, job_id: int) -> bool:
        return job_id in self._used

    wrap(patch, Reservation, "refuse", refuse)


@defect
def a_job_is_not_ended_below(patch: Patch) -> None:
    def down(original: Any, self: Group, message: Any) -> Any:
        actions = original(self, message)
        return actions[:-1] if isinstance(message, load.AllDone) else actions

    wrap(patch, Group, "down", down)


@defect
def output_beyond_the_window_is_dropped(patch: Patch) -> None:
    def take(original: Any, self: OutputRelay) -> Any:
        taken = original(self)
        self._queue.clear()
        self.is_paused = False
        return taken

    wrap(patch, OutputRelay, "take", take)


@defect
def the_output_window_is_ignored(patch: Patch) -> None:
    def take(original: Any, self: OutputRelay) -> Any:
        self._credit += sum(cost(message) for _, message in self._queue) + 1
        return original(self)

    wrap(patch, OutputRelay, "take", take)


@defect
def output_changes_its_order(patch: Patch) -> None:
    def take(original: Any, self: OutputRelay) -> Any:
        if len(self._queue) > 1:
            self._queue.rotate(1)
        return original(self)

    wrap(patch, OutputRelay, "take", take)


@defect
def the_last_output_is_not_waited_for(patch: Patch) -> None:
    def end(original: Any, self: Release, now: float) -> Any:
        self._output.open.clear()
        return original(self, now)

    wrap(patch, Release, "end", end)


@defect
def a_barrier_does_not_wait_for_children(patch: Patch) -> None:
    def init(original: Any, self: Fences, awaited: Any, account: Any) -> None:
        original(self, lambda meeting: (awaited(meeting)[0], set()), account)

    wrap(patch, Fences, "__init__", init)


@defect
def pairs_do_not_go_up(patch: Patch) -> None:
    def take_fresh(original: Any, self: KeyValueSpace) -> Any:
        original(self)
        return ()

    wrap(patch, KeyValueSpace, "take_fresh", take_fresh)


@defect
def a_fence_does_not_wait_for_the_own_ranks(patch: Patch) -> None:
    def init(original: Any, self: Fences, awaited: Any, account: Any) -> None:
        original(self, lambda meeting: (False, awaited(meeting)[1]), account)

    wrap(patch, Fences, "__init__", init)


# -- spawned worlds -------------------------------------------------------------------


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


# -- PMIx -----------------------------------------------------------------------------


@defect_of(worlds)
def the_data_of_a_fence_is_in_the_order_of_arrival(patch: Patch) -> None:
    patch.setattr(kvs, "joined", lambda pairs: b"".join(pair.value for pair in pairs))


@defect_of(worlds)
def the_data_of_a_fence_is_cut_off(patch: Patch) -> None:
    def share(place: int, data: bytes) -> Any:
        return tuple(original(place, data)[:1])

    original = kvs.share
    patch.setattr(kvs, "share", share)
    patch.setattr(kvs, "SHARE_BYTES", 512)


@defect_of(worlds)
def fences_of_some_wait_for_nobody_else(patch: Patch) -> None:
    def init(original: Any, self: Fences, awaited: Any, account: Any) -> None:
        def changed(meeting: Any) -> Any:
            is_of_some = any(each.ranks for each in meeting[1])
            return (False, set()) if is_of_some else awaited(meeting)

        original(self, changed, account)

    wrap(patch, Fences, "__init__", init)


@defect_of(worlds)
def a_rank_that_ended_is_waited_for(patch: Patch) -> None:
    def look(original: Any, self: Wiring, *arguments: Any) -> Any:
        return []

    wrap(patch, Wiring, "ranks_left_below", look)


@defect_of(worlds)
def another_ranks_data_is_given(patch: Patch) -> None:
    def ask(
        original: Any, self: Questions, target: int, question: Any, then: Any, step: Any
    ) -> None:
        if isinstance(question, pmi.Modex):
            process = pmi.Process(question.process.world, question.process.rank ^ 1)
            question = pmi.Modex(process)
        original(self, target, question, then, step)

    wrap(patch, Questions, "ask", ask)


@defect_of(worlds)
def a_job_goes_on_without_its_pmix_server(patch: Patch) -> None:
    patch.setattr(Wireup, "server_ended", lambda self, text: Step())


@defect_of(worlds)
def the_pmix_server_outlives_its_job(patch: Patch) -> None:
    patch.setattr(PmixServer, "hang_up", lambda self: None)
    patch.setattr(PmixServer, "end", lambda self: None)


@defect_of(worlds)
def a_healthy_end_is_told_to_pmix_as_a_failure(patch: Patch) -> None:
    def left(original: Any, self: Wireup, job_rank: int, wait_status: int, *rest: Any) -> Any:
        return original(self, job_rank, wait_status or 9, *rest)

    wrap(patch, Wireup, "left", left)


@defect_of(worlds)
def a_spawn_is_carried_out_twice(patch: Patch) -> None:
    def found(original: Any, self: Spawner, *arguments: Any) -> Any:
        return original(self, *arguments) + original(self, *arguments)

    wrap(patch, Spawner, "found", found)


# -- yod ------------------------------------------------------------------------------


@defect
def the_exit_status_is_0_after_a_failure(patch: Patch) -> None:
    def close(original: Any, self: Report) -> None:
        original(self)
        if self.exit_status and self._failed_with is None:
            self.exit_status = 0

    wrap(patch, Report, "close", close)


@defect
def the_exit_status_is_not_0_after_success(patch: Patch) -> None:
    def close(original: Any, self: Report) -> None:
        original(self)
        self.exit_status = self.exit_status or 1

    wrap(patch, Report, "close", close)


@defect
def ranks_are_counted_by_reports(patch: Patch) -> None:
    def complete(original: Any, self: Report, outcome: Any, signals: Any) -> Any:
        self.__dict__["counted"] = self.__dict__.get("counted", 0) + len(outcome.ranks) + 1
        return original(self, outcome, signals)

    wrap(patch, Report, "complete", complete)
    is_complete = property(lambda self: self.__dict__.get("counted", 0) >= self.size)
    patch.setattr(Report, "is_complete", is_complete)


@defect
def a_lost_root_is_not_reset(patch: Patch) -> None:
    def gone(original: Any, self: Failures, event: Any, now: float) -> Any:
        if event.peer == self._tree.root:
            return []
        return original(self, event, now)

    wrap(patch, Failures, "peer_gone", gone)
    wrap(patch, Failures, "peer_gone_at_the_end", gone)


@defect
def yod_leaves_without_a_release(patch: Patch) -> None:
    patch.setattr(Ending, "release", lambda self, now: self.done())


@defect
def a_gap_in_the_output_is_not_told(patch: Patch) -> None:
    def arrived(original: Any, self: Outputs, output: Any, now: float) -> Any:
        return original(self, output, now)[-1:]

    wrap(patch, Outputs, "arrived", arrived)
