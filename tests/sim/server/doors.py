"""Where the launch server reaches the kernel, and what stands there in the simulation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import partition.server.front
import partition.server.session
import partition.server.streams
import partition.up.embedded
import pct.driver
import pct.host.ranks
import yod.driver
import yod.launching
from native.machine import Event
from partition.server import errands
from pct import events, pmi_events
from tests.sim.clock import Violation
from tests.sim.server import given, keepers, watchers
from tests.sim.server.client import Answer
from tests.sim.server.link import Channel
from tests.sim.server.record import watched
from yod.plan.prepared import Prepared, Records

if TYPE_CHECKING:
    from tests.sim.server.world import ServerSim


GIVE_AFTER_BYTES = 1000  # few write a megabyte


class Descriptors:
    """Those that come with requests and gifts. Each is closed once."""

    def __init__(self) -> None:
        self.living: set[int] = set()
        self._last = 1_000_000

    def open(self, count: int) -> tuple[int, ...]:
        """So many new ones."""
        self._last += count
        fds = tuple(range(self._last - count, self._last))
        self.living.update(fds)
        return fds

    def close(self, fd: int) -> None:
        """What os.close does."""
        if fd not in self.living:
            raise Violation(f"descriptor {fd} is closed, and was not open")
        self.living.discard(fd)


class Ticket:
    """An errand that has not been answered."""

    is_cancelled = False


class Helpers:
    """In place of :class:`partition.server.helpers.Helpers`."""

    def __init__(self, sim: ServerSim) -> None:
        self._sim = sim
        self.tickets: set[Ticket] = set()

    def ask(self, errand: errands.Errand, fds: tuple[int, ...], on_answer: Any) -> Ticket:
        """An errand of a client's session: the one that owns the descriptors."""
        assert isinstance(errand, errands.Prepare), errand
        sim, ticket, owner = self._sim, Ticket(), self._sim.loop.reactor.owner
        asker = sim.client_of(on_answer.__self__)
        self.tickets.add(ticket)

        def answer() -> None:
            if ticket in self.tickets:
                self.tickets.discard(ticket)
                sim.loop.enter(owner, on_answer, self._answer_to(asker.wish, asker.record), ())

        if asker.wish.answer is not Answer.NEVER:
            sim.clock.after(asker.wish.answer_s, answer)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Nobody waits for it any more."""
        if ticket not in self.tickets:
            raise Violation("an errand is cancelled that nobody waits for")
        self.tickets.discard(ticket)

    def _answer_to(self, wish: Any, record: Any) -> errands.Answer:
        match wish.answer:
            case Answer.READY:
                records = Records(log_file=wish.log_file)
                plan, limits = self._sim.plan_of(record), self._sim.limits
                prepared = Prepared(plan, b"", limits, "embedded", None, "/enfs/tmp", records)
                return errands.Launch(prepared)
            case Answer.REFUSED:
                return errands.NoLaunch(wish.refusal, 127)
            case Answer.NOTHING:
                return errands.Nothing()
        return errands.Failed("a helper has ended")


class Objects:
    """In place of :class:`pct.host.objects.JobObjects`: all is on a shared file system."""

    def __init__(self, sim: ServerSim, job_id: int, handle: Callable[[Event], None]) -> None:
        self._sim = sim
        self._job_id = job_id
        self._handle = handle
        self._is_closed = False

    def check(self, action: events.CheckObjects) -> None:
        """Say that they are here, in a while."""
        present = tuple((number, each.path) for number, each in enumerate(action.objects))
        event = events.ObjectsChecked(self._job_id, present, (), ())
        owner = self._sim.loop.reactor.owner

        def done() -> None:
            if not self._is_closed:
                self._sim.loop.enter(owner, self._handle, event)

        self._sim.clock.after(self._sim.clock.rng.uniform(1e-5, 1e-3), done)

    def close(self) -> None:
        """Nothing is held."""
        self._is_closed = True


class Services:
    """In place of :class:`pct.host.services.JobServices`: there are none."""

    def __init__(self, job_id: int, handle: Callable[[Event], None]) -> None:
        self._job_id = job_id
        self._handle = handle

    def open_pmi(self, action: pmi_events.OpenPmi, connections: int) -> None:
        """No socket for clients."""
        self._handle(pmi_events.PmiOpened(self._job_id, b"", b"/usr/bin/yod-agent", (), None))

    def add_client(self, fd: int, rank: int) -> None:
        """No rank has one."""
        raise AssertionError(rank)

    def kill_pmix(self) -> None:
        """Nothing: there is no server."""

    def end_pmix(self) -> None:
        """There is no server."""

    def close(self) -> None:
        """Nothing is held."""


class Store:
    """In place of :class:`pct.host.store.Store`, and its slices."""

    def __init__(self, sim: ServerSim) -> None:
        self._sim = sim
        self.slices = self

    def start(self, job_id: int, work: object, done: Callable[[Any], None]) -> None:
        """Remove shared memory of a job's ranks."""
        sim, owner = self._sim, self._sim.loop.reactor.owner

        def look() -> None:
            found = job_id in sim.host.leftovers and not sim.truths[job_id].living()
            sim.host.leftovers -= {job_id} if found else set()
            sim.loop.enter(owner, done, [f"mpich_shm_{job_id}"] if found else [])

        sim.clock.after(sim.clock.rng.uniform(1e-5, 1e-3), look)

    def drop_job(self, job_id: int) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""


class Registration:
    """In place of :class:`yod.host.register.Registration`: a launch has no id."""

    id = ""

    def __init__(self, *arguments: object) -> None:
        pass

    def open_soon(self, job_id: int, allocation: str = "") -> None:
        """There is no directory."""

    open = open_late = open_soon

    def told(self, told: object) -> None:
        """Nobody has asked."""

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def closed(sim: ServerSim) -> Iterator[None]:
    """While this lasts, no module of the server reaches the kernel."""
    system = SimpleNamespace(
        close=sim.fds.close,
        strerror=os.strerror,
        sched_getaffinity=lambda unix_pid: {0, 1},
    )

    def objects(job_id: int, owner: object, store: object, port: object, handle: Any) -> Objects:
        return Objects(sim, job_id, handle)

    def services(job_id: int, owner: object, *arguments: Any) -> Services:
        return Services(job_id, arguments[3])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition.server.session, "Channel", Channel)
        patch.setattr(partition.server.session, "os", system)
        patch.setattr(partition.server.session, "unixsockets", sim.gifts)
        patch.setattr(partition.server.front, "unixsockets", sim.gifts)
        patch.setattr(partition.server.front, "gifts", sim.gifts)
        patch.setattr(partition.server.front, "ClientOutput", watchers.output(sim))
        patch.setattr(partition.server.streams, "OutputStream", given.stream_of(sim))
        patch.setattr(partition.server.streams, "GIVE_AFTER_BYTES", GIVE_AFTER_BYTES)
        patch.setattr(yod.launching, "Registration", Registration)
        patch.setattr(yod.driver, "Launch", watched(sim))
        patch.setattr(partition.up.embedded, "Node", watchers.node(sim))
        patch.setattr(partition.up.embedded, "Bebopd", watchers.bebopd(sim))
        patch.setattr(partition.up.embedded, "Store", lambda *arguments: Store(sim))
        patch.setattr(partition.up.embedded, "time", SimpleNamespace(time=sim.unix_time))
        patch.setattr(partition.up.embedded, "host_name", lambda: sim.host.name)
        for name in ("raise_soft", "restore"):  # a killed server would leave our limits raised
            patch.setattr(partition.up.embedded, name, lambda: None)
        patch.setattr(pct.driver, "JobObjects", objects)
        patch.setattr(pct.driver, "JobServices", services)
        patch.setattr(pct.host.ranks, "leftovers", SimpleNamespace(remove=lambda *names: None))
        for name, stand_in in keepers.stand_ins(sim):
            patch.setattr(pct.host.ranks, name, stand_in)
        yield
