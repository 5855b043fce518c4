"""A whole partition of the real machines on a virtual clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from allocator.bebopd import Bebopd
from native.ids import PortalId
from native.limits import Limits
from native.wire.alloc import Grant
from pct.node import Node
from tests.sim import rules
from tests.sim.actor import Actor
from tests.sim.allocators import BebopdActor, Disk
from tests.sim.clock import TRACE_SHOWN, Clock, Violation
from tests.sim.hosts import PctActor
from tests.sim.launchers import Job, YodActor
from tests.sim.network import LIVENESS_S, Network
from tests.sim.objects import Objects
from tests.sim.operators import Orders
from tests.sim.system import Host
from tests.sim.truth import JobTruth
from yod.launch.machine import Launch
from yod.launch.phases import Phase

SETTLE_S = 150.0  # after the last yod: every deadline of bebopd and of the PCTs
YOD_ENDS_S = 900.0  # the longest that a yod may take, whatever happens


class Machines(Struct, frozen=True):
    """What a partition is made of; tests of the checker put broken ones here."""

    bebopd: Callable[..., Bebopd] = Bebopd
    node: Callable[..., Node] = Node
    launch: Callable[..., Launch] = Launch


class Sim:
    """One partition.

    Attributes:
        granted: job id -> epoch of the bebopd that granted it.
        orders: what an operator relies on.
        truths: what really happened to each job whose yod has heard of it.
    """

    def __init__(
        self,
        seed: int,
        nodes: int,
        slots: Callable[[int], int] = lambda number: 1,
        limits: Limits | None = None,
        machines: Machines | None = None,
    ) -> None:
        self.clock = Clock(seed)
        self.network = Network(self.clock)
        self.objects = Objects(self.clock, self.network)
        self.limits = limits or Limits()
        self.machines = machines or Machines()
        self.bebopd_id = PortalId(0x0A020001, 6000)
        self.disk = Disk()
        self.granted: dict[int, int] = {}
        self.accounted: set[tuple[int, int]] = set()  # epoch and job id of final rows
        self.orders = Orders()
        self.truths: dict[int, JobTruth] = {}
        self.died_at: dict[int, float] = {}  # node -> when its PCT last died
        self.has_shared_room = True
        self.keeper_fails: Callable[[int, int], bool] = lambda number, job_id: False
        self.on_phase: Callable[[YodActor, Phase], None] = lambda yod, phase: None
        self.yods: list[YodActor] = []
        self.slots = {number: slots(number) for number in range(nodes)}
        self.hosts = {number: Host(self.clock, f"n{number}") for number in range(nodes)}
        self.bebopd: BebopdActor | None = BebopdActor(self)
        self.pcts: dict[int, PctActor] = {}
        self.liars: set[PortalId] = set()  # whose messages may be refused
        self.is_healing = False  # no more faults
        self._incarnations = 0
        self._yod_numbers = itertools.count()
        for number in range(nodes):
            self.start_pct(number)

    # -- what the machines are given ------------------------------------------

    def sign(self, data: bytes) -> bytes:
        """The partition key's MAC."""
        return blake2b(data, key=b"partition", digest_size=32).digest()

    def unix_time(self) -> float:
        """Wall-clock time."""
        return 1_700_000_000.25 + self.clock.now

    # -- processes come and go ------------------------------------------------

    def start_pct(self, number: int) -> None:
        """Start a node's PCT, where none is running and nothing of an earlier one is left."""
        pct = self.pcts.get(number)
        if pct is not None and pct.process.is_alive:
            return
        host = self.hosts[number]
        if host.processes or host.keepers:
            self.clock.after(0.05, lambda: self.start_pct(number))
            return
        host.leftovers.clear()  # of a PCT that was killed: its successor removes them
        self._incarnations += 1
        self.pcts[number] = PctActor(self, number, host, self._incarnations)
        self.pcts[number].begin()

    def start_bebopd(self) -> None:
        """Start bebopd where none is running."""
        if self.bebopd is None:
            self.bebopd = BebopdActor(self)

    def has_died(self, actor: Actor, is_silent: bool) -> None:
        """A process was killed: what that touches."""
        match actor:
            case PctActor(number=number):
                self.died_at[number] = self.clock.now
                self.trouble(f"node {number} lost", lambda truth: number in truth.nodes)
                if is_silent:
                    self.hosts[number].power_off()
                else:
                    self.hosts[number].pct_died()
            case BebopdActor():
                self.bebopd = None
                self.trouble("bebopd lost", self._needs_bebopd)
            case YodActor(truth=truth) if truth is not None:
                truth.trouble.add("yod killed")

    def _needs_bebopd(self, truth: JobTruth) -> bool:
        """Its PCTs may refuse it now, as a grant of another bebopd."""
        yod = self.yod_of(truth.job_id)
        return yod.machine.phase is Phase.FORMING

    def trouble(self, what: str, touches: Callable[[JobTruth], bool]) -> None:
        """Note a fault with the jobs that it can touch."""
        for truth in self.truths.values():
            if touches(truth):
                truth.trouble.add(what)

    def launch(self, job: Job) -> YodActor:
        """A user starts a yod."""
        yod = YodActor(self, next(self._yod_numbers), job)
        self.yods.append(yod)
        yod.begin()
        return yod

    def yod_of(self, job_id: int) -> YodActor:
        """The yod of a job."""
        return next(yod for yod in self.yods if yod.truth and yod.truth.job_id == job_id)

    def use_grant(self, yod: YodActor, grant: Grant) -> JobTruth:
        """A yod has its nodes."""
        truth = JobTruth(grant, yod.job.programs, yod.name)
        self.truths[grant.job_id] = truth
        if yod.stopped_until:
            truth.trouble.add("yod was stopped")
        for number in truth.nodes:
            if self.clock.now - self.died_at.get(number, -1e9) < LIVENESS_S[1] + 5:
                truth.trouble.add(f"node {number} was lost lately, and not all may know")
            if not self.pcts[number].process.is_alive:
                truth.trouble.add(f"node {number} was lost already")
            if self.pcts[number].stopped_until > self.clock.now:
                truth.trouble.add(f"node {number} is stopped")
            if self.pcts[number].machine.reservation.epoch != self.disk.epoch:
                truth.trouble.add(f"node {number} does not know its bebopd yet")
            if not self.hosts[number].has_room:
                truth.trouble.add(f"node {number} has no room")
        names = {self.hosts[number].name for number in truth.nodes} | {"front"}
        if any(
            pair & names and heals > self.clock.now for pair, heals in self.network.cuts.items()
        ):
            truth.trouble.add("disconnected already")
        if self.granted.get(grant.job_id) != self.disk.epoch or self.bebopd is None:
            truth.trouble.add("bebopd lost")
        return truth

    def content_of(self, job_id: int, number: int) -> bytes:
        """The bytes of an arguments object."""
        return self.yod_of(job_id).content if number == 0 else b""

    def processes_of(self, job_id: int) -> list[str]:
        """What is alive of a job, anywhere."""
        return [
            f"{process.unix_pid} on {host.name}"
            for host in self.hosts.values()
            for process in host.processes.values()
            if process.job_id == job_id
        ]

    # -- the run --------------------------------------------------------------

    def check(self, actor: Actor) -> None:
        """After every event."""
        if isinstance(actor, PctActor):
            rules.check_pct(actor)
        elif isinstance(actor, BebopdActor):
            rules.check_limits(actor)

    def phase_entered(self, yod: YodActor, phase: Phase) -> None:
        """A yod's phase has changed: faults wait for that."""
        self.on_phase(yod, phase)

    def boot(self) -> None:
        """Until every node is known."""
        everybody = len(self.hosts)

        def is_up() -> bool:
            bebopd = self.bebopd
            if bebopd is None or bebopd.machine.nodes.up_count() < everybody:
                return False
            return all(pct.machine.reservation.epoch == bebopd.epoch for pct in self.pcts.values())

        if not self.clock.run(self.clock.now + 60.0, is_up):
            raise Violation("the nodes never became known")

    def finish(self) -> None:
        """Run until every yod has ended, repair everything, and look at what is left."""
        end = self.clock.now + YOD_ENDS_S

        def are_over() -> bool:
            return all(yod.is_over for yod in self.yods)

        self.clock.run(end, are_over)
        self.is_healing = True
        self.network.cuts.clear()
        self.start_bebopd()
        for number in self.hosts:
            self.start_pct(number)
        until = self.clock.now + SETTLE_S
        while True:
            self.clock.run(self.clock.now + 10.0)
            try:
                rules.check_at_rest(self)
                return
            except Violation:
                if self.clock.now >= until:
                    raise

    def guarded(self, call: Callable[[], Any]) -> None:
        """Run something; a failure shows the trace."""
        try:
            call()
        except Violation as error:
            raise Violation(f"{error}\n\n{self._trace()}") from error
        except Exception as error:
            raise AssertionError(f"{error!r}\n\n{self._trace()}") from error

    def _trace(self) -> str:
        return f"last events (SIM_TRACE=5000 shows more):\n{self.clock.last(TRACE_SHOWN)}"
