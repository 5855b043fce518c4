"""A PCT in the simulation: the real machine, a fake driver after ``pct/driver.py``."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from native.ids import ObjectKey, PortalId, Principal, PrincipalKind
from native.machine import Event, Log, PeerGone, Send
from native.port.port import ObjectArrived, ObjectFailed, ObjectSent
from native.wire import keeper as wire
from native.wire import pmix
from native.wire.load import ShippedObject
from pct import events, pmi_events, rare_events
from pct.node import Node
from tests.sim import rules
from tests.sim.actor import Actor
from tests.sim.clients import Socket
from tests.sim.clock import Violation
from tests.sim.keeper import FakeKeeper
from tests.sim.network import Process
from tests.sim.pmix import Health, PmixServer
from tests.sim.ranks import RankProcess
from tests.sim.remotes import Mounts, give_line
from tests.sim.savers import Savers
from tests.sim.system import Host

if TYPE_CHECKING:
    from native.machine import Action
    from tests.sim.world import Sim

PATH = b"/run/yod/object-%d"


class JobParts:
    """What one job holds at a PCT."""

    def __init__(self) -> None:
        self.keepers: dict[int, FakeKeeper] = {}  # by world
        self.pmix: PmixServer | None = None
        self.sockets: dict[int, Socket] = {}
        self.last_socket = 0
        self.ranks: dict[int, RankProcess] = {}
        self.objects: tuple[ShippedObject, ...] = ()
        self.lacking: set[int] = set()
        self.receiving: set[int] = set()  # objects whose file is open for writing
        self.arrived: dict[int, bytes] = {}  # their digests
        self.paused: set[int] = set()
        self.input: list[bytes] = []  # not yet in the pipe


class PctActor(Actor):
    """One PCT on a host."""

    def __init__(self, sim: Sim, number: int, host: Host, incarnation: int) -> None:
        self.number = number
        self.host = host
        self.parts: dict[int, JobParts] = {}
        self.savers = Savers(self)
        self.mounts = Mounts(self)
        process = Process(f"pct{number}", host.name, pct_id(number))
        process.slowness = host.slowness
        process.principal_to = lambda other: Principal(PrincipalKind.PARTITION, 0)
        process.on_object = self._object
        self.machine: Node = sim.machines.node(
            name=host.name,
            slots=sim.slots[number],
            address=process.id,
            bebopd=sim.bebopd_id,
            wanted=number,
            incarnation=incarnation,
            limits=sim.limits,
            is_signed=lambda data, mac: sim.sign(data) == mac,
            unix_time=sim.unix_time,
        )
        super().__init__(sim, process, self.machine)

    def begin(self) -> None:
        """Announce the node."""
        self.act(self.machine.begin(self.sim.clock.now))

    def gone(self) -> None:
        """The process has died: its keepers see that."""
        for job_id in self.parts:
            self._close_clients(job_id)
        self.parts.clear()
        self.mounts.gone()
        self.sim.objects.forget(self.process)

    # -- events in ----------------------------------------------------------

    def handle(self, event: Event) -> None:
        before = len(self.machine.jobs)
        super().handle(event)
        if len(self.machine.jobs) > before:
            rules.check_started(self.sim, self.number, next(reversed(self.machine.jobs)))

    def lost(self, peer: PortalId, text: str) -> None:
        self.handle(PeerGone(peer, text))

    def _object(self, event: ObjectArrived | ObjectSent | ObjectFailed) -> None:
        if not self.process.is_alive:
            return
        job_id, number = event.key
        parts = self.parts.get(job_id)
        match event:
            case ObjectFailed(_, text, is_consequence):
                self.handle(events.ObjectLost(job_id, number, text, is_consequence))
            case ObjectArrived(_, digest) if parts:
                parts.arrived[number] = digest
                self.handle(events.ObjectArrived(job_id, number, digest))
            case ObjectSent() if parts:
                parts.receiving.discard(number)
                self.handle(events.ObjectPassedOn(job_id, number))

    def _publish(self, job_id: int, number: int) -> None:
        """Give a file its name; a machine that asks for it too early has lost the job's image."""
        parts = self.parts[job_id]
        wanted = parts.objects[number].digest
        if parts.arrived.get(number) != wanted:
            raise Violation(f"{self.name}: object {number} is published damaged or unfinished")
        if number in parts.receiving:
            raise Violation(f"{self.name}: object {number} is published while it is written")
        parts.lacking.discard(number)
        if self.host.publish_error:
            self.handle(events.ObjectLost(job_id, number, self.host.publish_error))
            return
        content = self.sim.content_of(job_id, number)
        path = b"" if content else PATH % number
        self.handle(events.ObjectStored(job_id, number, path, content))

    def _checked(self, action: events.CheckObjects) -> None:
        """The store's answer."""
        job_id = action.job_id
        parts = self.parts.get(job_id)
        if parts is None or not self.process.is_alive:
            return
        present, lacking, no_place = [], [], []
        for number, shipped in enumerate(action.objects):
            if number in action.unused:
                continue
            if not shipped.digest or shipped.digest in self.host.objects:
                present.append((number, shipped.path))
            elif number == 0 and action.arguments_first:
                if self.host.has_memory:
                    lacking.append(number)
                else:
                    no_place.append(events.NoPlace(number, "cannot allocate memory"))
            elif self.host.has_room:
                lacking.append(number)
            else:
                no_place.append(events.NoPlace(number, "the RAM disk is full"))
        parts.objects = action.objects
        parts.lacking |= set(lacking)
        event = events.ObjectsChecked(job_id, tuple(present), tuple(lacking), tuple(no_place))
        self.handle(event)

    # -- actions out ----------------------------------------------------------

    def perform(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        sim, rng = self.sim, self.sim.clock.rng
        match action:
            case Send(target, message):
                sim.network.send(self.process, target, message)
            case events.CheckObjects(job_id, _, _):
                self.parts.setdefault(job_id, JobParts())
                delay = rng.uniform(1e-5, 2e-3) if rng.random() < 0.95 else rng.uniform(0.01, 1)
                sim.clock.after(delay * self.host.slowness, lambda: self._checked(action))
            case events.ReceiveObject(job_id, number, shipped, chunk, children):
                parts = self.parts[job_id]
                assert number in parts.lacking
                if children:
                    parts.receiving.add(number)
                key = ObjectKey(job_id, number)
                sim.objects.receive(self.process, key, shipped.size, chunk, children)
            case events.SendObject(job_id, number, shipped, _, chunk, children):
                key = ObjectKey(job_id, number)
                digest = shipped.digest
                sim.objects.send(self.process, key, shipped.size, chunk, children, digest)
            case events.PublishObject(job_id, number) | events.ReadObject(job_id, number):
                self._publish(job_id, number)
            case events.DropObject(job_id, number):
                sim.objects.cancel(self.process, ObjectKey(job_id, number))
                parts = self.parts[job_id]
                parts.lacking.discard(number)
                parts.receiving.discard(number)
            case events.StartKeeper(job_id, spec, world):
                self._start_keeper(job_id, spec, world)
                if spec.remote:
                    self.mounts.begin(job_id)
            case events.GiveMap(job_id, _, ids):
                sim.truths[job_id].gives_map(self.number, ids)
            case events.KeeperGo(job_id, world):
                for keeper in self._keepers(job_id, world):
                    keeper.go()
            case events.KeeperSignal(job_id, number):
                for keeper in self._keepers(job_id):
                    keeper.signal(number)
            case events.KeeperEnd(job_id, ended):
                self.mounts.abort(job_id)
                for keeper in self._keepers(job_id, ended):
                    keeper.end()
                if ended is None and (server := self._pmix(job_id)):
                    server.end()
            case events.KillKeepers(job_id):
                for keeper in self._keepers(job_id):
                    keeper.be_killed()
            case events.NameProcesses(job_id):
                self.handle(events.ProcessesNamed(job_id, "processes of the job"))
            case events.KillOrphans(job_id, world):
                self._kill_orphans(job_id, world)
            case events.RemoveLeftovers(job_id, world):
                delay = rng.uniform(1e-5, 1e-2) * self.host.slowness
                sim.clock.after(delay, lambda: self._remove_leftovers(job_id, world))
            case events.PauseOutput(job_id, stream):
                self._pause(job_id, stream, True)
            case events.ResumeOutput(job_id, stream):
                self._pause(job_id, stream, False)
            case events.FinishOutput(job_id):
                for rank in self.parts[job_id].ranks.values():
                    for pipe in rank.out.values():
                        pipe.finish()
            case events.WriteInput(job_id, data):
                parts = self.parts[job_id]
                parts.input.append(data)
                self._feed(job_id, parts)
            case rare_events.GiveLine():
                give_line(self, action)
            case pmi_events.StartPmixServer(job_id):
                self._start_pmix(action)
            case pmi_events.PmixSend(job_id, told):
                if server := self._pmix(job_id):
                    server.send(told)
            case pmi_events.OpenPmi():
                self._open_pmi(action)
            case pmi_events.PmiReply(job_id, connection, data):
                if socket := self._socket(job_id, connection):
                    socket.reply(data)
            case pmi_events.PmiHangUp(job_id, connection):
                if socket := self._socket(job_id, connection):
                    del self.parts[job_id].sockets[connection]
                    socket.hang_up()
            case rare_events.AnswerRemote() | rare_events.PauseRemote():
                self.mounts.perform(action)
            case events.HelperAction() | rare_events.HoldOutput():
                self.savers.perform(action)
            case events.DropJob(job_id):
                self._drop(job_id)
            case events.Restart():
                self._restart()
            case Log() | events.Leave() | rare_events.LetSpread():
                pass
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _restart(self) -> None:
        """End in order, and begin again as another PCT."""
        rules.check_restart(self)
        if self.machine.jobs:
            hosted = set(self.machine.jobs)
            self.sim.trouble("a node restarts", lambda truth: truth.job_id in hosted)
        self.sim.network.close(self.process)
        self.gone()
        self.host.pct_died()
        self.sim.clock.after(0.1, lambda: self.sim.start_pct(self.number))

    def _keepers(self, job_id: int, world: int | None = None) -> list[FakeKeeper]:
        """The keeper of a world, or of each."""
        parts = self.parts.get(job_id)
        keepers = parts.keepers if parts else {}
        return [keeper for number, keeper in keepers.items() if world in (None, number)]

    def _start_keeper(self, job_id: int, spec: wire.KeeperSpec, world: int) -> None:
        parts = self.parts[job_id]
        assert world not in parts.keepers, "one keeper a world"

        def on_report(report: wire.Report) -> None:
            if self.process.is_alive:
                self.handle(events.KeeperReported(job_id, report, world))

        def on_streams(number: int, rank: RankProcess) -> None:
            parts.ranks[number] = rank
            for stream, pipe in rank.out.items():
                pipe.connect(
                    lambda data, stream=stream: self._read(job_id, number, stream, data),  # type: ignore[misc]
                    stream in parts.paused,
                )
            if rank.has_pmi_fd:
                self._accept(job_id, rank.socket, number)

        if self.sim.keeper_fails(self.number, job_id):
            text = "the keeper could not be started: out of memory"
            self.handle(events.KeeperNotStarted(job_id, world, text))
            return
        rules.check_started(self.sim, self.number, job_id)
        truth = self.sim.truths[job_id]
        keeper = FakeKeeper(self.host, spec, truth, on_report, on_streams)
        parts.keepers[world] = keeper
        if not world:
            keeper.on_input_room = lambda: self._feed(job_id, parts)

    def _kill_orphans(self, job_id: int, world: int) -> None:
        """Kill what has come to this process, and say when nothing of it is left."""
        orphans = self.host.orphans()
        for orphan in orphans:
            orphan.die(int(signal.SIGKILL))

        def look() -> None:
            if not self.process.is_alive:
                return
            if self.host.orphans():
                self.sim.clock.after(1e-3, look)
            else:
                self.handle(events.OrphansKilled(job_id, world))

        look()

    def _remove_leftovers(self, job_id: int, world: int) -> None:
        """Shared memory that no living process of the job has open."""
        if not self.process.is_alive or job_id not in self.parts:
            return
        names = ()
        living = {each.job_id for each in self.host.processes.values() if each.rank >= 0}
        if job_id in self.host.leftovers - living:
            self.host.leftovers.discard(job_id)
            names = (f"mpich_shm_{job_id}",)
        self.handle(events.LeftoversRemoved(job_id, world, names))

    # -- clients of PMI ---------------------------------------------------------

    def _open_pmi(self, action: pmi_events.OpenPmi) -> None:
        job_id = action.job_id
        address = b""
        if self.host.has_listeners:
            self.host.listeners[job_id] = lambda socket: self._accept(job_id, socket, None)
            address = b"127.0.0.1:1"
        files = action.host_files and (b"/run/yod/openmpi", b"/run/yod/hydra")
        devices = self.host.devices if action.home is not None else None
        self.handle(pmi_events.PmiOpened(job_id, address, b"/usr/bin/yod-agent", files, devices))

    def _pmix(self, job_id: int) -> PmixServer | None:
        parts = self.parts.get(job_id)
        return parts.pmix if parts else None

    def _start_pmix(self, action: pmi_events.StartPmixServer) -> None:
        job_id = action.job_id

        def on_message(message: pmix.FromServer) -> None:
            if self.process.is_alive:
                self.handle(pmi_events.PmixReceived(job_id, message))

        def on_end(text: str, has_orphans: bool = False) -> None:
            if self.process.is_alive:
                self.handle(pmi_events.PmixServerEnded(job_id, text, has_orphans))

        truth = self.sim.truths[job_id]
        if self.host.pmix_health is not Health.SOUND:
            truth.no_pmix.add(self.number)
            is_certain = self.sim.yod_of(job_id).plan.mpi.is_certain
            truth.has_no_wireup |= is_certain or self.host.pmix_health is Health.REFUSES
        if self.host.pmix_health is Health.NO_KEEPER:
            on_end("its keeper could not be started: out of memory")
            return
        self.parts[job_id].pmix = PmixServer(
            self.host, job_id, truth, action.begin, on_message, on_end
        )

    def _accept(self, job_id: int, socket: Socket, rank: int | None) -> None:
        parts = self.parts.get(job_id)
        if parts is None or not self.process.is_alive:
            socket.hang_up()
            return
        parts.last_socket = number = parts.last_socket + 1
        parts.sockets[number] = socket

        def received(data: bytes) -> None:
            if not self.process.is_alive or self._socket(job_id, number) is not socket:
                return
            if data:
                self.handle(pmi_events.PmiReceived(job_id, number, data))
            else:
                del parts.sockets[number]
                self.handle(pmi_events.PmiClosed(job_id, number))

        self.handle(pmi_events.PmiConnected(job_id, number, rank))
        socket.accept(received)

    def _socket(self, job_id: int, connection: int) -> Socket | None:
        parts = self.parts.get(job_id)
        return parts.sockets.get(connection) if parts else None

    def _close_clients(self, job_id: int) -> None:
        self.host.listeners.pop(job_id, None)
        sockets, self.parts[job_id].sockets = self.parts[job_id].sockets, {}
        for socket in sockets.values():
            socket.hang_up()

    def _read(self, job_id: int, rank: int, stream: int, data: bytes) -> None:
        if self.process.is_alive and job_id in self.parts:
            self.handle(events.OutputRead(job_id, rank, stream, data))

    def _pause(self, job_id: int, stream: int, is_paused: bool) -> None:
        parts = self.parts[job_id]
        parts.paused = parts.paused | {stream} if is_paused else parts.paused - {stream}
        for rank in parts.ranks.values():
            rank.out[stream].pause(is_paused)

    def _feed(self, job_id: int, parts: JobParts) -> None:
        """Pass input on as far as rank 0's pipe takes it."""
        keeper = parts.keepers.get(0)
        if keeper is None or job_id not in self.parts or not self.process.is_alive:
            return
        taken = 0
        while parts.input:
            data = parts.input[0]
            if not data:
                parts.input.clear()
                keeper.give_input(0, True)
                break
            count = min(len(data), keeper.input_room() - taken)
            if not count:
                break
            taken += count
            parts.input[0] = data[count:]
            if not parts.input[0]:
                del parts.input[0]
        if taken:
            keeper.give_input(taken, False)
            self.handle(events.InputTaken(job_id, taken))

    def _drop(self, job_id: int) -> None:
        parts = self.parts.get(job_id)
        if parts is None:
            return
        self._close_clients(job_id)
        self.savers.drop(job_id)
        self.mounts.abort(job_id)
        del self.parts[job_id]
        for keeper in parts.keepers.values():
            keeper.hang_up()
        if parts.pmix:
            parts.pmix.hang_up()
        for number in range(len(parts.objects)):
            self.sim.objects.cancel(self.process, ObjectKey(job_id, number))


def pct_id(number: int) -> PortalId:
    """Where the PCT of a node listens."""
    return PortalId(0x0A000000 + number, 7000)
