"""The server's machines with rules at their doors: each is the real one, and looked at.

A whole look at a node or at bebopd costs as much as there are jobs, so it is taken now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allocator.bebopd import Bebopd
from native.machine import Action, Event, JobEvent, Send
from native.wire.alloc import Grant
from native.wire.client import Output
from partition.server.session import ClientSession
from partition.server.streams import ClientOutput
from partition.session import events
from pct.job.machine import Job
from pct.node import Node
from tests.sim.clock import Violation
from yod.launch.lines import Piece

if TYPE_CHECKING:
    from allocator.nodes.node import Node as Row
    from tests.sim.server.world import ServerSim

CHECK_EVERY = 1999  # events, all of it
CHECK_JOB_EVERY = 7  # events, the job that the event is of


class Slots:
    """Who has slots, as bebopd has granted them and as ranks have taken them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._granted: dict[int, int] = {}  # by job, until bebopd takes them back
        self._running: dict[int, int] = {}
        self.granted_count = 0
        self._ever: set[int] = set()

    def grants(self, job_id: int, count: int) -> None:
        """bebopd gives slots to a job."""
        if job_id in self._ever:
            raise Violation(f"rule 7: job id {job_id} is given a second time")
        self._ever.add(job_id)
        self._granted[job_id] = count
        self.granted_count += count
        if self.granted_count > self.count:
            raise Violation(f"rule 1: {self.granted_count} of {self.count} slots are granted")

    def frees(self, job_id: int) -> None:
        """bebopd takes them back."""
        self.granted_count -= self._granted.pop(job_id, 0)

    def takes(self, job_id: int) -> None:
        """A rank starts."""
        running = self._running[job_id] = self._running.get(job_id, 0) + 1
        if running > self._granted.get(job_id, 0):
            held = self._granted.get(job_id, 0)
            raise Violation(f"rule 1: job {job_id} runs {running} ranks, and holds {held} slots")

    def gives_back(self, job_id: int) -> None:
        """A rank has ended."""
        self._running[job_id] -= 1

    def left(self) -> list[int]:
        """Jobs that hold slots."""
        return [*self._granted, *(job_id for job_id, count in self._running.items() if count)]


class Touched(dict[int, Any]):
    """Jobs by their ids; counts how many are looked at without being named."""

    count = 0

    def values(self) -> Any:
        self.count += len(self)
        return super().values()

    def items(self) -> Any:
        self.count += len(self)
        return super().items()


def node(sim: ServerSim) -> type[Node]:
    """The node of the embedded partition."""

    class WatchedNode(Node):
        def __init__(self, **named: Any) -> None:
            super().__init__(**named)
            self.jobs = Touched()
            self.events = 0
            self.told = 0

        def handle(self, event: Event, now: float) -> list[Action]:
            sim.clock.note("node", event)
            self.told = 0
            before = self.jobs.count  # type: ignore[attr-defined]
            actions = super().handle(event, now)
            sim.looks_at(event, self.told + self.jobs.count - before)  # type: ignore[attr-defined]
            self.events += 1
            if not self.events % CHECK_EVERY:
                self.check()
            is_due = not self.events % CHECK_JOB_EVERY
            job = self.jobs.get(event.job_id) if isinstance(event, JobEvent) else None
            if is_due and job is not None:
                job.check()
            return actions

        def _of_job(self, job: Job, event: Event, now: float) -> list[Action]:
            self.told += 1
            return super()._of_job(job, event, now)

    return WatchedNode


def bebopd(sim: ServerSim) -> type[Bebopd]:
    """The embedded partition's bebopd."""

    class WatchedBebopd(Bebopd):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.events = 0
            self.jobs._latest = Touched()
            free = self.nodes.free

            def watched(row: Row, job_id: int) -> None:
                free(row, job_id)
                sim.freed(job_id)

            self.nodes.free = watched  # type: ignore[method-assign]

        def handle(self, event: Event, now: float) -> list[Action]:
            sim.clock.note("bebopd", event)
            before = self.jobs._latest.count  # type: ignore[attr-defined]
            actions = super().handle(event, now)
            sim.looks_at(event, self.jobs._latest.count - before)  # type: ignore[attr-defined]
            for action in actions:
                if isinstance(action, Send) and isinstance(action.message, Grant):
                    grant = action.message
                    sim.slots.grants(grant.job_id, sum(run.count for run in grant.runs))
            self.events += 1
            if not self.events % CHECK_EVERY:
                self.check()
            return actions

    return WatchedBebopd


class WatchedSession(ClientSession):
    """A session in which nothing may raise."""

    def handle(self, event: Event) -> None:
        super().handle(event)
        self._machine.check()

    def _perform(self, action: Action) -> None:
        if isinstance(action, events.Tell) and isinstance(action.message, Output):
            self._channel.record.own += action.message.data  # type: ignore[attr-defined]
        super()._perform(action)

    def _fault(self, error: Exception) -> None:
        raise error


def output(sim: ServerSim) -> type[ClientOutput]:
    """A client's output that keeps what it was given."""

    class WatchedOutput(ClientOutput):
        def write(self, pieces: list[Piece]) -> None:
            record = sim.record_of_channel(self._channel)
            for data, stream, count in pieces:
                record.given[self._number] += data
                record.shown[stream] += count
            super().write(pieces)

    return WatchedOutput
