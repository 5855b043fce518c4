"""Defects of the launch server, in each of the rules of tests/sim/server/rules.py."""

from __future__ import annotations

from typing import Any

import partition.server.front
import partition.server.streams
from allocator.jobs.table import JobTable
from native.wire import client
from partition.server.session import ClientSession
from partition.server.streams import ClientOutput, Writer
from partition.session.events import Abandon, Begin, Tell
from partition.session.machine import Session
from partition.up.embedded import EmbeddedLaunch, EmbeddedPartition
from pct.host.spawn.client import ClientSpawner
from pct.host.spawn.spawner import Departed
from pct.peers import Peers
from tests.sim.defects.registry import Patch, defect_of, wrap
from tests.sim.server.scenario import small
from yod.driver import Driver
from yod.launch.lines import Lines

defect = defect_of(small)


# -- 11: one end ----------------------------------------------------------------


@defect
def a_client_is_told_its_end_twice(patch: Patch) -> None:
    def ended(original: Any, self: Session, event: Any, now: float) -> Any:
        actions = original(self, event, now)
        return [actions[0], *actions]

    wrap(patch, Session, "_ended", ended)


@defect
def a_client_is_not_told_its_end(patch: Patch) -> None:
    wrap(patch, Session, "_ended", lambda original, self, event, now: [])


@defect
def a_client_is_told_another_end_than_its_launch_has(patch: Patch) -> None:
    def ended(original: Any, self: Session, event: Any, now: float) -> Any:
        original(self, event, now)
        return [Tell(client.Exit(0)), Abandon(is_soon=True)]

    wrap(patch, Session, "_ended", ended)


@defect
def a_client_is_hung_up_on_when_its_launch_has_ended(patch: Patch) -> None:
    def ended(original: Any, self: Session, event: Any, now: float) -> Any:
        return self._gone(event, now)

    wrap(patch, Session, "_ended", ended)


# -- 12: at most one launch -----------------------------------------------------


@defect
def a_launch_that_has_begun_is_told_to_run_cold(patch: Patch) -> None:
    def ended(original: Any, self: Session, event: Any, now: float) -> Any:
        original(self, event, now)
        return [Abandon(), Tell(client.Cold("it has failed"))]

    wrap(patch, Session, "_ended", ended)


@defect
def a_launch_begins_twice(patch: Patch) -> None:
    def ready(original: Any, self: Session, event: Any, now: float) -> Any:
        return [*original(self, event, now), Begin(event.prepared)]

    wrap(patch, Session, "_ready", ready)


# -- 13: output -----------------------------------------------------------------


@defect
def output_beyond_the_window_is_dropped(patch: Patch) -> None:
    def written(original: Any, self: ClientOutput, count_bytes: int) -> None:
        self._queue.clear()
        original(self, count_bytes)

    wrap(patch, ClientOutput, "written", written)


@defect
def output_beyond_the_window_comes_twice(patch: Patch) -> None:
    def written(original: Any, self: ClientOutput, count_bytes: int) -> None:
        if self._queue:
            self._queue.appendleft((self._queue[0][0], 0, 0))
        original(self, count_bytes)

    wrap(patch, ClientOutput, "written", written)


@defect
def more_is_sent_than_the_window_has(patch: Patch) -> None:
    patch.setattr(partition.server.streams, "OUTPUT_WINDOW_BYTES", 1 << 30)


@defect
def output_is_sent_while_the_client_is_asked_for_the_stream(patch: Patch) -> None:
    def ask(original: Any, self: ClientOutput) -> None:
        original(self)
        self._writer = Writer.SERVER

    wrap(patch, ClientOutput, "_ask", ask)


@defect
def what_waits_for_a_stream_that_is_given_is_dropped(patch: Patch) -> None:
    def given(original: Any, self: ClientOutput, fd: int) -> None:
        self._queue.clear()
        original(self, fd)

    wrap(patch, ClientOutput, "given", given)


@defect
def what_a_client_has_given_stays_open(patch: Patch) -> None:
    def close(original: Any, self: ClientOutput) -> None:
        self._direct = None
        original(self)

    wrap(patch, ClientOutput, "close", close)


@defect
def a_line_without_an_end_is_not_shown(patch: Patch) -> None:
    patch.setattr(Lines, "finish", lambda self, now: [])


# -- 1, 14: nothing is left, and nothing is given back too early ------------------


@defect
def slots_are_free_when_they_are_released(patch: Patch) -> None:
    def hosting(original: Any, self: JobTable, node: Any, job: Any, now: float) -> Any:
        actions = original(self, node, job, now)
        return [*actions, *self._take_back(job, (node.number,), "too early", now)]

    wrap(patch, JobTable, "hosting", hosting)


@defect
def a_launch_keeps_its_port(patch: Patch) -> None:
    patch.setattr(EmbeddedLaunch, "close", lambda self: None)


@defect
def a_job_that_is_over_keeps_its_parent_of_keepers(patch: Patch) -> None:
    def spawner_of(original: Any, self: EmbeddedPartition, job_id: int) -> Any:
        return self._spawners.get(job_id) or Departed()

    def close(original: Any, self: EmbeddedLaunch) -> None:
        self._job_ids.clear()
        original(self)

    wrap(patch, EmbeddedPartition, "_spawner_of", spawner_of)
    wrap(patch, EmbeddedLaunch, "close", close)


@defect
def a_launch_that_is_given_up_keeps_its_deadline(patch: Patch) -> None:
    def close(original: Any, self: Driver) -> None:
        at = self._timer.at
        original(self)
        self._reactor.timer(lambda: None).set(None if at is None else at + 1e6)

    wrap(patch, Driver, "close", close)


@defect
def an_errand_that_nobody_waits_for_is_not_cancelled(patch: Patch) -> None:
    patch.setattr(Session, "_cancel_preparing", lambda self: [])


@defect
def the_descriptors_of_a_request_stay_open(patch: Patch) -> None:
    def close(original: Any, self: ClientSession) -> None:
        self._fds = ()
        original(self)

    wrap(patch, ClientSession, "_close", close)


@defect
def a_session_stays_when_its_client_has_gone(patch: Patch) -> None:
    wrap(patch, Session, "_gone", lambda original, self, event, now: [])


@defect
def nobody_hears_that_the_parent_of_keepers_has_gone(patch: Patch) -> None:
    patch.setattr(ClientSpawner, "gone", lambda self: None)


@defect
def keepers_of_a_client_that_was_hung_up_on_are_waited_for(patch: Patch) -> None:
    def close(original: Any, self: ClientSession) -> None:
        spawner, self._spawner = self._spawner, ClientSpawner(0, self._reactor, self)
        original(self)
        self._spawner = spawner

    wrap(patch, ClientSession, "_close", close)


# -- 15: work -------------------------------------------------------------------


@defect
def all_jobs_are_told_of_a_lost_peer(patch: Patch) -> None:
    def concerned(original: Any, self: Peers, peer: Any) -> Any:
        return sorted(self._shared | self._parents.keys())

    wrap(patch, Peers, "concerned", concerned)


@defect
def all_jobs_are_searched_for_a_lost_requester(patch: Patch) -> None:
    def gone(original: Any, self: JobTable, peer: Any, text: str, now: float) -> Any:
        assert all(job.job_id for job in self)
        return original(self, peer, text, now)

    wrap(patch, JobTable, "requester_gone", gone)
