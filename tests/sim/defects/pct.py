"""Defects of a PCT: jobs, objects, ranks, output and fences on a node and in the tree."""

from __future__ import annotations

from typing import Any

import msgspec

from native.wire import load
from native.wire.io import cost
from pct.events import GiveMap, KillOrphans, LeftoversRemoved, OrphansKilled, RemoveLeftovers
from pct.job.keepers import Keepers
from pct.job.loading import Loading
from pct.job.losses import Losses
from pct.job.output import Output
from pct.job.progress import Progress
from pct.job.release import Release
from pct.job.rules.listeners import Listeners
from pct.job.rules.objects import ObjectTable
from pct.job.rules.outcomes import Outcomes
from pct.job.rules.relay import OutputRelay
from pct.reservation import Reservation
from pct.tree.collective import Gather
from pct.tree.group import Group
from pct.wireup.kvs import Fences, KeyValueSpace
from tests.sim.defects.registry import Patch, defect, defect_of, wrap
from tests.sim.hosts import PctActor
from tests.sim.scenario import keepers, mixed, shipped, worlds


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
    def take(original: Any, self: Reservation, *granted: Any) -> Any:
        credential, node, _, *rest = granted
        return original(self, credential, node, 0.0, *rest)

    wrap(patch, Reservation, "take", take)


@defect
def a_refused_job_is_taken(patch: Patch) -> None:
    def refuse(original: Any, self: Reservation, job_id: int, attempt: int = 0) -> bool:
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
def outsiders_with_a_pipe_of_a_rank_are_waited_for(patch: Patch) -> None:
    patch.setattr(Output, "finish", lambda self: [])


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
