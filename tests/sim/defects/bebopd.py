"""Defects of bebopd."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from allocator.bebopd import Bebopd
from allocator.jobs import accounting
from allocator.jobs.ids import JobIds
from allocator.jobs.job import Evidence
from allocator.jobs.job import JobState as AllocatorState
from allocator.jobs.table import JobTable
from allocator.nodes.node import Node as AllocatorNode
from native.machine import Send
from native.wire import alloc
from native.wire.base import JobEnd, State
from tests.sim.defects.registry import Patch, defect, defect_of, wrap
from tests.sim.scenario import mixed


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
                actions += self._take_back(job, list(job.holdings), "its yod is gone", now)
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
            job = self.on(node.number, job_id)
            actions += self._take_back(job, (node.number,), "it is down", now)
        return actions

    wrap(patch, JobTable, "node_down", down)


@defect_of(mixed)
def a_new_bebopd_ignores_running_jobs(patch: Patch) -> None:
    patch.setattr(Bebopd, "_hosts_unknown", lambda self, node, hosted, now: [])


@defect
def a_release_is_confirmed_at_once(patch: Patch) -> None:
    def release(
        original: Any, self: JobTable, job: Any, requester: Any, now: float, lost: Any = ()
    ) -> Any:
        actions = original(self, job, requester, now, lost)
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
            job = self.on(node.number, job_id)
            changed = replace(job.holdings[node.number], evidence=Evidence.GRANTED)
            job.holdings[node.number] = changed
            job.state = AllocatorState.PENDING
            if job.key not in self._due:
                self._due.set(job.key, now + 1e9)
        return original(self, node, arrival, hosted, now)

    wrap(patch, JobTable, "compare", compare)


@defect
def a_front_end_that_was_lost_has_ended_well(patch: Patch) -> None:
    def end_of(account: accounting.Account) -> JobEnd:
        return account.end or JobEnd(State.COMPLETED, 0, 0, "")

    patch.setattr(accounting, "_end_of", end_of)


@defect
def a_job_gets_a_final_row_for_each_word_about_its_end(patch: Patch) -> None:
    def gone(original: Any, self: accounting.Accounting, job_id: int, *rest: Any) -> Any:
        account = self._jobs.get(job_id)
        actions = original(self, job_id, *rest)
        return actions * 2 if account is not None else actions

    wrap(patch, accounting.Accounting, "slots_gone", gone)


@defect
def a_job_that_is_over_gets_no_row(patch: Patch) -> None:
    def over(original: Any, self: accounting.Accounting, account: accounting.Account) -> Any:
        original(self, account)
        return []

    wrap(patch, accounting.Accounting, "_over", over)
