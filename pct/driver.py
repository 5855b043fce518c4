"""Carries out what a node's machine decides: processes, pipes, files, messages.

One object for the node, one :class:`JobParts` for what a job holds here. Nothing
is decided in this module, and nothing in it waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVarTuple

from native.errors import PeerProtocolError
from native.host.files import Owner
from native.host.heap import keep_freed_memory
from native.ids import PortalId
from native.loop.reactor import Reactor
from native.machine import (
    Action,
    Contain,
    DeadlineReached,
    Event,
    Log,
    MessageReceived,
    PeerGone,
    Send,
    job_of,
    propagate,
)
from native.port.port import (
    ObjectArrived,
    ObjectFailed,
    ObjectSent,
    PeerLost,
    Port,
    PortEvent,
    Received,
    Refused,
)
from native.wire import keeper as wire
from native.wire.base import JobMessage, Message
from pct import events
from pct.host import fabrics, hostfiles
from pct.host.connections import Clients
from pct.host.keeper import Keeper, kill_descendants
from pct.host.objects import JobObjects
from pct.host.parts import JobParts
from pct.host.store import Store
from pct.host.streams import InputPipe, OutputPipe
from pct.node import Node
from pct.wireup import foreign

if TYPE_CHECKING:
    from pct.host.pmix_process import PmixServer

_T = TypeVarTuple("_T")


class Driver:
    """Runs one :class:`pct.node.Node` on a port and a reactor.

    Args:
        strangers: children of this process that are none of a job's.
        say: takes a line for the log.
        trace: takes a line about a single job, for a log that says more.
        on_rejected: called when bebopd does not take this node.
        contain: takes what was raised on behalf of a job or a peer; that one ends.
        early_server: a PMIx server that has been started for a job to come.
        ranks_key: the key of a job's ranks, from its id and its owner's; None: one that
            no other node knows.
        on_keeper: called when a keeper has been spawned, which takes a millisecond to
            do anything.
    """

    def __init__(
        self,
        node: Node,
        port: Port,
        reactor: Reactor,
        store: Store,
        strangers: Collection[int] = (),
        say: Callable[[str], None] = lambda line: None,
        trace: Callable[[str], None] = lambda line: None,
        on_rejected: Callable[[str], None] = lambda text: None,
        contain: Contain = propagate,
        early_server: PmixServer | None = None,
        ranks_key: Callable[[int, int], bytes] | None = None,
        on_keeper: Callable[[], None] = lambda: None,
    ) -> None:
        keep_freed_memory()
        self._node = node
        self._port = port
        self._reactor = reactor
        self._store = store
        self._strangers = strangers
        self._say = say
        self._trace = trace
        self._on_rejected = on_rejected
        self._contain = contain
        self._performing: list[set[int]] = []  # for each list of actions: jobs to pass over
        self._early_server = early_server
        self._ranks_key = ranks_key or (lambda job_id, uid: os.urandom(32))
        self._on_keeper = on_keeper
        self._jobs: dict[int, JobParts] = {}
        self._watch = reactor.watch(port.fileno(), self._port_ready)
        self._stop_timer = reactor.add_timer(node.deadline, self._due)

    def start(self) -> None:
        """Announce the node."""
        self._perform(self._node.begin(self._reactor.monotonic()))

    def close(self) -> None:
        """Hang up on every keeper, which then ends its ranks; give everything back."""
        self._watch.close()
        self._stop_timer()
        for job_id in list(self._jobs):
            self._drop(job_id)
        if self._early_server is not None:
            self._early_server.close()
        self._store.close()

    def handle(self, event: Event) -> None:
        """Give the machine an event and do what it says.

        A peer's nonsense is refused and logged; it never stops the daemon. What handling
        it for a job raises, the node has seen to; else it ends the connection.
        """
        try:
            actions = self._node.handle(event, self._reactor.monotonic())
        except PeerProtocolError as error:
            self._trace(f"refused: {error}")
            return
        except Exception as error:
            if not isinstance(event, MessageReceived):
                raise
            self._contain(f"{type(event.message).__name__} from {event.source}", error)
            self._port.disconnect(event.source)
            return
        self._perform(actions)

    # -- events in --------------------------------------------------------

    def _port_ready(self) -> None:
        for event in self._port.events():
            self._port_event(event)

    def _port_event(self, event: PortEvent) -> None:
        match event:
            case Received(source, principal, message):
                self.handle(MessageReceived(source, principal, message))
                if self._node.is_rejected:
                    self._on_rejected(self._node.is_rejected)
            case PeerLost(peer, _, text):
                self.handle(PeerGone(peer, text))
            case Refused(source, _, reason):
                self._trace(f"from {source}: {reason}")
            case ObjectArrived(key, digest, first_at, last_at):
                self._trace(
                    f"job {key.job_id}: object {key.number}: "
                    f"first chunk at {first_at:.6f}, last at {last_at:.6f}"
                )
                self.handle(events.ObjectArrived(key.job_id, key.number, digest))
            case ObjectSent(key):
                self.handle(events.ObjectPassedOn(key.job_id, key.number))
            case ObjectFailed(key, text, is_consequence):
                self.handle(events.ObjectLost(key.job_id, key.number, text, is_consequence))

    def _due(self) -> None:
        self.handle(DeadlineReached())

    # -- actions out ------------------------------------------------------

    def _perform(self, actions: list[Action]) -> None:
        """Carry out actions, each on behalf of its job.

        Those that a job still had to come when it raised are not for what it is now.
        """
        passed_over: set[int] = set()
        self._performing.append(passed_over)
        try:
            for action in actions:
                job_id = job_of(action)
                if job_id not in passed_over:
                    self._run_for(job_id, self._perform_one, action)
        finally:
            self._performing.pop()

    def _run_for(self, job_id: int, call: Callable[[*_T], None], *arguments: *_T) -> None:
        """Do something for a job (0: for the node); what it asks of the loop is the job's."""
        owner = partial(self._fault, job_id) if job_id else None
        self._reactor.run_for(owner, call, *arguments)

    def _fault(self, job_id: int, error: Exception) -> None:
        """Something that was done for a job has raised: the job ends, and nothing else."""
        self._contain(f"job {job_id}", error)
        for passed_over in self._performing:
            passed_over.add(job_id)
        self._perform(self._node.fault(job_id, error, self._reactor.monotonic()))
        if job_id not in self._node.jobs:  # it raised after the machine had let go of it
            self._drop(job_id)

    def _perform_one(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        match action:
            case Send(target, message):
                self._send(target, message)
            case events.PmiReply(job_id, connection, data):
                parts = self._jobs.get(job_id)
                if parts and parts.clients:
                    parts.clients.reply(connection, data)
            case events.CheckObjects(job_id, uid=uid, gid=gid, groups=groups):
                owner = Owner(uid, gid, groups)
                objects = JobObjects(job_id, owner, self._store, self._port, self.handle)
                self._jobs[job_id] = JobParts(owner, objects)
                objects.check(action)
            case events.ReceiveObject(job_id):
                self._jobs[job_id].objects.receive(action)
            case events.SendObject(job_id):
                self._jobs[job_id].objects.send(action)
            case events.PublishObject(job_id, number, mode):
                self._jobs[job_id].objects.publish(number, mode)
            case events.ReadObject(job_id, number):
                self._jobs[job_id].objects.read(number)
            case events.DropObject(job_id, number):
                self._jobs[job_id].objects.drop(number)
            case events.StartKeeper(job_id, spec, world):
                self._start_keeper(job_id, spec, world)
            case events.GiveMap():
                self._give_map(action)
            case events.KeeperGo(job_id, world):
                self._with_keepers(job_id, world, Keeper.go)
            case events.KeeperSignal(job_id, number):
                self._with_keepers(job_id, None, lambda keeper: keeper.signal(number))
            case events.KeeperEnd(job_id, world):
                self._with_keepers(job_id, world, Keeper.end)
                parts = self._jobs.get(job_id)
                if world is None and parts and parts.pmix:
                    parts.pmix.end()
            case events.PauseOutput(job_id, stream):
                self._pause(job_id, stream, True)
            case events.ResumeOutput(job_id, stream):
                self._pause(job_id, stream, False)
            case events.WriteInput(job_id, data):
                self._write_input(job_id, data)
            case events.OpenPmi():
                self._open_pmi(action)
            case events.PmiHangUp(job_id, connection):
                parts = self._jobs.get(job_id)
                if parts and parts.clients:
                    parts.clients.hang_up(connection)
            case events.StartPmixServer():
                self._start_pmix_server(action)
            case events.PmixSend(job_id, message):
                parts = self._jobs.get(job_id)
                if parts and parts.pmix:
                    parts.pmix.send(message)
            case events.DropJob(job_id):
                self._drop(job_id)
            case Log(text, job_id):
                if job_id:
                    self._trace(f"job {job_id}: {text}")
                else:
                    self._say(text)
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _send(self, target: PortalId, message: Message) -> None:
        """What cannot be sent ends the job that it is about; if there is none, nothing."""
        try:
            self._port.send(target, message)
        except Exception as error:
            if isinstance(message, JobMessage):
                raise
            self._contain(f"{type(message).__name__} to {target}", error)

    def _start_keeper(self, job_id: int, spec: wire.KeeperSpec, world: int) -> None:
        parts = self._jobs[job_id]

        def on_event(report: wire.Report) -> None:
            self._keeper_says(job_id, world, report)

        def on_streams(
            rank: int, stdin: int | None, stdout: int, stderr: int, pmi: int | None
        ) -> None:
            self._take_streams(job_id, parts, rank, (stdin, stdout, stderr, pmi))

        try:
            if spec.wants_portals:
                flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
                parts.portals_fd = os.memfd_create("yod-portals", flags)
            fd = parts.portals_fd
            keeper = Keeper.start(spec, self._reactor, on_event, on_streams, fd)
        except (OSError, ValueError) as error:
            lost = wire.KeeperLost(f"the keeper could not be started: {error}")
            self.handle(events.KeeperReported(job_id, lost, world))
            return
        parts.keepers[world] = keeper
        self._on_keeper()

    def _give_map(self, action: events.GiveMap) -> None:
        """Fill the ranks' file and let nobody change it."""
        import fcntl

        from native.wire import rank

        parts = self._jobs[action.job_id]
        fd, parts.portals_fd = parts.portals_fd, -1
        secret = self._ranks_key(action.job_id, action.uid)
        data = rank.encode(action.job_id, action.uid, secret, action.ids)
        try:
            while data:
                data = data[os.write(fd, data) :]
            seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        except OSError as error:  # libportals refuses a file that is not whole
            self._say(f"job {action.job_id}: no map for its ranks: {error}")
        finally:
            os.close(fd)

    def _keeper_says(self, job_id: int, world: int, report: wire.Report) -> None:
        event = events.KeeperReported(job_id, report, world)
        if isinstance(report, wire.KeeperLost):
            self._keeper_lost(job_id, world, event)
            return
        if isinstance(report, wire.KeeperEmpty):
            self._remove_leftovers(job_id, event)
        else:
            self.handle(event)

    def _keeper_lost(self, job_id: int, world: int, event: Event) -> None:
        """Orphans of a killed keeper are ours; its end is reported when none is left."""
        others = [
            keeper.unix_pid
            for other_id, parts in self._jobs.items()
            for other_world, keeper in parts.all_keepers().items()
            if (other_id, other_world) != (job_id, world)
        ]

        def done() -> None:
            self._remove_leftovers(job_id, event)

        kill_descendants(self._reactor, done, [*others, *self._strangers])

    def _remove_leftovers(self, job_id: int, event: Event) -> None:
        """Shared memory that its killed ranks could not remove; then the event is handled."""
        from pct.host import leftovers

        def done(names: list[str]) -> None:
            for name in names:
                self._trace(f"job {job_id}: removed {name}, which nobody has mapped")
            self.handle(event)

        parts = self._jobs.get(job_id)
        if parts is None:  # it has been dropped
            return
        self._store.slices.start(job_id, leftovers.remove(parts.owner.uid, parts.began), done)

    def _open_pmi(self, action: events.OpenPmi) -> None:
        job_id = action.job_id
        parts = self._jobs[job_id]
        account, most = self._node.jobs[job_id].account, self._node.limits.pmi_connections_count
        tracer = self._tracer(job_id)
        parts.clients = Clients(job_id, self._reactor, self.handle, tracer, account)
        address = parts.clients.listen(action.uid, action.ranks, most)
        variables = self._launcher_variables(parts, action) if address else ()
        lacks_fabric = lacks_devices = False
        if action.home is not None:
            lacks_devices = not fabrics.devices_may_be_here()
            has_no_fabric = lacks_devices or not fabrics.may_be_here()
            lacks_fabric = has_no_fabric and not fabrics.may_be_chosen(action.home, parts.owner)
        self.handle(events.PmiOpened(job_id, address, variables, lacks_fabric, lacks_devices))

    def _launcher_variables(self, parts: JobParts, action: events.OpenPmi) -> tuple[bytes, ...]:
        """For a launcher that a rank starts: our agent, and the job's nodes."""
        agent = hostfiles.find_agent()
        if not agent:
            return ()
        if len(action.nodes) == 1:  # it starts what is for its own host by itself
            return foreign.variables(agent)
        owner = (action.uid, action.gid)
        try:
            parent = self._store.directory()
            parts.host_files, files = hostfiles.write(parent, *owner, action.nodes)
        except OSError as error:
            self._trace(f"job {action.job_id}: no host files for a launcher inside: {error}")
            return ()
        return foreign.variables(agent, *files)

    def _start_pmix_server(self, action: events.StartPmixServer) -> None:
        job_id = action.job_id

        def on_end(report: wire.Report, text: str) -> None:
            if isinstance(report, wire.KeeperLost):
                lost = events.PmixServerEnded(job_id, report.reason)
                self._keeper_lost(job_id, events.PMIX_SERVER, lost)
            else:
                self.handle(events.PmixServerEnded(job_id, text))

        server = None
        try:
            server = self._pmix_server_of(action)
            server.begin(
                action.begin,
                self._store.directory(),
                lambda message: self.handle(events.PmixReceived(job_id, message)),
                on_end,
                self._tracer(job_id),
                self._store.slices,
                self._node.jobs[job_id].account,
            )
        except (OSError, ValueError) as error:
            if server is not None:
                server.close()
            self.handle(events.PmixServerEnded(job_id, f"its keeper could not be started: {error}"))
        else:
            self._jobs[job_id].pmix = server

    def _pmix_server_of(self, action: events.StartPmixServer) -> PmixServer:
        from pct.host.pmix_process import Owner, PmixServer  # many jobs need none

        owner = Owner(action.job_id, action.uid, action.gid, action.groups)
        if self._early_server is not None and self._early_server.owner == owner:
            server, self._early_server = self._early_server, None
            return server
        return PmixServer(owner, self._reactor, self._node.limits.pmix_server_bytes)

    def _tracer(self, job_id: int) -> Callable[[str], None]:
        return lambda text: self._trace(f"job {job_id}: {text}")

    def _take_streams(
        self,
        job_id: int,
        parts: JobParts,
        rank: int,
        fds: tuple[int | None, int, int, int | None],
    ) -> None:
        stdin, stdout, stderr, pmi = fds

        def output(stream: int) -> Callable[[bytes], None]:
            return lambda data: self.handle(events.OutputRead(job_id, rank, stream, data))

        for stream, fd in ((1, stdout), (2, stderr)):
            pipe = OutputPipe(self._reactor, fd, output(stream))
            pipe.pause(stream in parts.paused)
            parts.outputs[rank, stream] = pipe
        if stdin is not None:
            parts.input = InputPipe(
                self._reactor, stdin, lambda n: self.handle(events.InputTaken(job_id, n))
            )
        if pmi is not None and parts.clients is not None:
            parts.clients.add(pmi, rank)

    def _with_keepers(self, job_id: int, world: int | None, call: Callable[[Keeper], None]) -> None:
        """Do something with the keeper of a world, or of each."""
        parts = self._jobs.get(job_id)
        for number, keeper in parts.keepers.items() if parts else ():
            if world is None or number == world:
                call(keeper)

    def _pause(self, job_id: int, stream: int, is_paused: bool) -> None:
        parts = self._jobs[job_id]
        parts.paused = parts.paused | {stream} if is_paused else parts.paused - {stream}
        for (_, number), pipe in parts.outputs.items():
            if number == stream:
                pipe.pause(is_paused)

    def _write_input(self, job_id: int, data: bytes) -> None:
        parts = self._jobs.get(job_id)
        if parts and parts.input:
            parts.input.write(data)

    def _drop(self, job_id: int) -> None:
        parts = self._jobs.pop(job_id, None)
        if parts is None:
            return
        with ExitStack() as whatever_raises:
            whatever_raises.callback(self._store.drop_job, job_id)
            whatever_raises.callback(parts.close)
