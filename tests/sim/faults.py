"""Faults: what may happen to a launch from outside, and when."""

from __future__ import annotations

import signal
from enum import Enum

from msgspec import Struct

from native.ids import ObjectKey, PortalId
from pct.tree import tree
from tests.sim.hosts import PctActor
from tests.sim.launchers import YodActor
from tests.sim.network import Process
from tests.sim.world import Sim
from yod.launch.phases import Phase


class Victim(Enum):
    """Who is hit, or what happens."""

    ROOT = "root"
    INNER = "inner node"
    LEAF = "leaf"
    BEBOPD = "bebopd"
    YOD = "yod"
    KEEPER = "keeper"
    PMIX = "PMIx server"
    LINK = "connection of two neighbours in the tree"
    CUT = "network between two neighbours in the tree"
    CUT_YOD = "network between yod and the root"
    CUT_BEBOPD = "network between bebopd and a node"
    OBJECT = "an object arrives damaged"
    NO_KEEPER = "a keeper cannot be started"
    STOP_YOD = "yod is stopped for a while"
    STOP_PCT = "a PCT is stopped for a while"
    USER = "the user presses"
    USR1 = "the user sends SIGUSR1"
    USER_LEAVES = "the user leaves, and the job goes on"
    TERMINAL = "the terminal is lost, and the job goes on if the user has said so"


CRASHES = (
    Victim.ROOT,
    Victim.INNER,
    Victim.LEAF,
    Victim.BEBOPD,
    Victim.YOD,
    Victim.KEEPER,
)

PHASES = (
    Phase.FORMING,
    Phase.LOADING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.ENDING,
    Phase.RELEASING,
)


class Fault(Struct, frozen=True):
    """One fault.

    Attributes:
        phase: strikes when yod enters it, and ``delay_s`` later.
        back_s: a killed process starts again after this, a network heals; negative:
            at the end of the run.
        is_silent: the whole host is without power; a PCT is stopped for too long.
        place: of the inner node, leaf, keeper or link, drawn from those there are.
        times: presses.
    """

    victim: Victim
    phase: Phase
    delay_s: float = 0.0
    back_s: float = -1.0
    is_silent: bool = False
    place: int = 0
    times: int = 1


class Faults:
    """Strikes yods with faults as they come to their phases."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.struck = 0
        self._of: dict[str, list[Fault]] = {}
        sim.on_phase = self._phase

    def plan(self, yod: YodActor, *faults: Fault) -> None:
        """What shall happen to a yod that has just begun."""
        self._of[yod.name] = list(faults)

    def _phase(self, yod: YodActor, phase: Phase) -> None:
        for fault in self._of.get(yod.name, []):
            if fault.phase is phase:
                self.sim.clock.after(fault.delay_s, lambda fault=fault: self.strike(yod, fault))  # type: ignore[misc]

    def strike(self, yod: YodActor, fault: Fault) -> None:
        """Let it happen now."""
        if self.sim.is_healing:
            return
        self.struck += 1
        self.sim.clock.note("FAULT", fault)
        match fault.victim:
            case Victim.ROOT | Victim.INNER | Victim.LEAF:
                if (pct := self._pct(yod, fault)) is not None:
                    pct.die(fault.is_silent)
                    self._again(fault, lambda: self.sim.start_pct(pct.number))
            case Victim.BEBOPD:
                if self.sim.bebopd is not None:
                    self.sim.bebopd.die(fault.is_silent)
                    self._again(fault, self.sim.start_bebopd)
            case Victim.YOD:
                yod.die(fault.is_silent)
            case Victim.PMIX:
                self._kill_pmix(yod, fault)
            case Victim.KEEPER:
                self._kill_keeper(yod, fault)
            case Victim.LINK | Victim.CUT | Victim.CUT_YOD | Victim.CUT_BEBOPD:
                self._disconnect(yod, fault)
            case Victim.OBJECT if yod.truth is not None:
                yod.truth.trouble.add("an object is damaged")
                number = len(yod.plan.objects) - 1
                self.sim.objects.damaged.add(ObjectKey(yod.truth.job_id, number))
            case Victim.NO_KEEPER if yod.truth is not None:
                yod.truth.trouble.add("no keeper")
                where = self._node(yod, fault), yod.truth.job_id
                self.sim.keeper_fails = lambda number, job_id: (number, job_id) == where
            case Victim.STOP_YOD:
                if fault.place % 2:
                    yod.stop(abs(fault.back_s))
                else:
                    yod.stopped_until = self.sim.clock.now + abs(fault.back_s)
                if yod.truth is not None:
                    yod.truth.trouble.add("yod was stopped")
            case Victim.STOP_PCT:
                if (pct := self._pct(yod, fault)) is not None:
                    pct.stopped_until = self.sim.clock.now + abs(fault.back_s)
                    number = pct.number
                    self.sim.trouble("a node stops", lambda truth: number in truth.nodes)
                    if fault.is_silent:
                        self.sim.network.give_up(pct.process)
            case Victim.USER:
                for number in range(fault.times):
                    self.sim.clock.after(number * 1.1, yod.press)
            case Victim.USR1:
                yod.pass_signal(signal.SIGUSR1)
            case Victim.USER_LEAVES:
                yod.leave()
            case Victim.TERMINAL:
                yod.hang_up()

    def _again(self, fault: Fault, start: object) -> None:
        if fault.back_s >= 0 and callable(start):
            self.sim.clock.after(fault.back_s, start)

    def _node(self, yod: YodActor, fault: Fault) -> int | None:
        """A node of the job at a place of this kind."""
        if yod.truth is None:
            return None
        nodes, arity = yod.truth.nodes, yod.truth.arity
        count = len(nodes)
        inner = [place for place in range(1, count) if tree.children(place, count, arity)]
        leaves = [place for place in range(1, count) if place not in inner]
        match fault.victim:
            case Victim.ROOT | Victim.CUT_YOD:
                places = [0]
            case Victim.INNER:
                places = inner or leaves or [0]
            case Victim.LEAF:
                places = leaves or [0]
            case Victim.LINK | Victim.CUT:
                places = list(range(1, count))
            case _:
                places = list(range(count))
        return nodes[places[fault.place % len(places)]] if places else None

    def _pct(self, yod: YodActor, fault: Fault) -> PctActor | None:
        number = self._node(yod, fault)
        return None if number is None else self.sim.pcts[number]

    def _kill_keeper(self, yod: YodActor, fault: Fault) -> None:
        pct = self._pct(yod, fault)
        if pct is None or yod.truth is None:
            return
        for keeper in list(pct.host.keepers):
            if keeper.job_id == yod.truth.job_id:
                yod.truth.trouble.add(f"keeper of node {pct.number} killed")
                keeper.be_killed()

    def _kill_pmix(self, yod: YodActor, fault: Fault) -> None:
        pct = self._pct(yod, fault)
        if pct is None or yod.truth is None:
            return
        if (server := pct.host.pmix.get(yod.truth.job_id)) is not None:
            yod.truth.trouble.add(f"PMIx server of node {pct.number} killed")
            server.die(int(signal.SIGSEGV))

    def _disconnect(self, yod: YodActor, fault: Fault) -> None:
        pct = self._pct(yod, fault)
        if pct is None or yod.truth is None:
            return
        one, other = pct.process, self._neighbour(yod, fault, pct)
        if other is None:
            return
        if fault.victim is not Victim.CUT_BEBOPD:
            self.sim.trouble("disconnected", lambda truth: pct.number in truth.nodes)
        if fault.victim is Victim.LINK:
            self.sim.network.reset(one, other)
        else:
            self.sim.network.cut(one.host, other.host, abs(fault.back_s))

    def _neighbour(self, yod: YodActor, fault: Fault, pct: PctActor) -> Process | None:
        assert yod.truth is not None
        processes = self.sim.network.processes
        if fault.victim is Victim.CUT_YOD:
            return yod.process
        if fault.victim is Victim.CUT_BEBOPD:
            return processes.get(self.sim.bebopd_id)
        place = yod.truth.nodes.index(pct.number)
        parent = tree.parent(place, yod.truth.arity)
        number = yod.truth.nodes[parent]
        peer: PortalId = self.sim.pcts[number].process.id
        return processes.get(peer)
