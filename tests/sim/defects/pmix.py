"""Defects of PMIx: its server, fences of some, other ranks' data."""

from __future__ import annotations

from typing import Any

from native.wire import pmi
from pct.job.wiring import Wiring
from pct.wireup import kvs
from pct.wireup.kvs import Fences
from pct.wireup.machine import Wireup
from pct.wireup.questions import Questions, Step
from tests.sim.defects.registry import Patch, defect_of, wrap
from tests.sim.pmix import PmixServer
from tests.sim.scenario import worlds
from yod.launch.spawn import Spawner


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
