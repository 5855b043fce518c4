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
from allocator.jobids import JobIds
from allocator.jobs import Evidence
from allocator.jobs import JobState as AllocatorState
from allocator.jobtable import JobTable
from allocator.nodes import Node as AllocatorNode
from native.machine import Send
from native.wire import alloc, load
from pct.collective import Gather
from pct.job import Job
from pct.kvs import Fences, KeyValueSpace
from pct.outcomes import Outcomes
from pct.relay import OutputRelay, cost
from pct.reservation import Reservation
from yod.launch import Launch
from yod.report import Report

Patch = pytest.MonkeyPatch
DEFECTS: dict[str, Callable[[Patch], None]] = {}


def defect(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
    """Register one."""
    DEFECTS[apply.__name__] = apply
    return apply


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
    def down(original: Any, self: JobTable, node: AllocatorNode) -> Any:
        actions = original(self, node)
        for job_id in list(node.held):
            actions += self._take_back(self._jobs[job_id], (node.number,), "it is down")
        return actions

    wrap(patch, JobTable, "node_down", down)


@defect
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
    def init(original: Any, self: Job, *arguments: Any) -> None:
        original(self, *arguments)
        self._held = Gather(range(0))  # children are not waited for

    wrap(patch, Job, "__init__", init)


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
    patch.setattr(Job, "_parent_lost", lambda self, now: [])


@defect
def released_is_said_before_the_keeper_is_empty(patch: Patch) -> None:
    def end(original: Any, self: Job, now: float) -> Any:
        actions = original(self, now)
        self._open_outputs.clear()
        return [*actions, *self._keeper_is_gone(0, "it left", now)]

    wrap(patch, Job, "_end", end)


@defect
def lost_nodes_are_said_to_be_free(patch: Patch) -> None:
    def lost(original: Any, self: Job, place: int, text: str, now: float) -> Any:
        actions = original(self, place, text, now)
        self._released.given[place] = (self._load.nodes[place].node,)
        return actions

    wrap(patch, Job, "_child_lost", lost)


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
    def down(original: Any, self: Job, message: Any) -> Any:
        actions = original(self, message)
        return actions[:-1] if isinstance(message, load.AllDone) else actions

    wrap(patch, Job, "_down", down)


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
    def end(original: Any, self: Job, now: float) -> Any:
        self._open_outputs.clear()
        return original(self, now)

    wrap(patch, Job, "_end", end)


@defect
def a_barrier_does_not_wait_for_children(patch: Patch) -> None:
    def init(original: Any, self: Fences, awaited: Any) -> None:
        original(self, lambda meeting: (awaited(meeting)[0], set()))

    wrap(patch, Fences, "__init__", init)


@defect
def pairs_do_not_go_up(patch: Patch) -> None:
    def take_fresh(original: Any, self: KeyValueSpace) -> Any:
        original(self)
        return ()

    wrap(patch, KeyValueSpace, "take_fresh", take_fresh)


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
    def gone(original: Any, self: Launch, peer: Any, text: str, now: float) -> Any:
        if self.grant is not None and peer == self._root:
            return []
        return original(self, peer, text, now)

    wrap(patch, Launch, "_peer_gone", gone)


@defect
def yod_leaves_without_a_release(patch: Patch) -> None:
    patch.setattr(Launch, "_release", lambda self, now: self._done())


@defect
def a_gap_in_the_output_is_not_told(patch: Patch) -> None:
    def arrived(original: Any, self: Launch, message: Any) -> Any:
        return original(self, message)[-1:]

    wrap(patch, Launch, "_output_arrived", arrived)
