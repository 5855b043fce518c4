"""Carries out what a node's machine decides, and reports to it what has happened.

The driver has the loop, the port and the timer; what a job holds on its host is in
:mod:`pct.host.objects`, :mod:`pct.host.ranks` and :mod:`pct.host.services`. Nothing is decided
here, and nothing waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVarTuple

from native.errors import PeerProtocolError
from native.host.files import Owner
from native.host.heap import keep_freed_memory
from native.ids import PortalId
from native.loop.closing import close_all
from native.loop.reactor import Reactor
from native.machine import (
    Action,
    Contain,
    DeadlineReached,
    Event,
    JobAction,
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
    PeerIdle,
    PeerLost,
    Port,
    PortEvent,
    Received,
    Refused,
)
from native.wire.base import JobMessage, Message
from pct import events, pmi_events, rare_events
from pct.brokers import BrokerAction
from pct.host.objects import JobObjects
from pct.host.ranks import JobRanks
from pct.host.services import JobServices
from pct.host.spawn.orphans import described
from pct.host.spawn.spawner import OwnSpawner, Spawner
from pct.host.store import Store
from pct.node import Node

if TYPE_CHECKING:
    from pct.host.cgroups.fences import Fences
    from pct.host.cgroups.job import JobGroup
    from pct.host.cgroups.own import Cgroup
    from pct.host.kept.ofjob import JobHelpers
    from pct.host.kept.table import BrokerProcesses
    from pct.host.pmix_process import PmixServer

_T = TypeVarTuple("_T")


class Driver:
    """Runs one :class:`pct.node.Node` on a port and a reactor.

    Args:
        own_spawner: starts the keepers of PMIx servers; None: one that knows of no children of
            this process but its keepers.
        spawner_of: gives the parent of a job's keepers, asked once for each job; None: it is
            ``own_spawner`` for all.
        say: takes a line for the log.
        trace: takes a line for a log that says more, and the job that it is about; 0: none.
        on_leave: called when bebopd does not take this node, with the reason.
        on_restart: called when the process is to begin again.
        contain: takes an exception that was raised on behalf of a job or a peer; that one
            ends, and the node goes on.
        early_server: a PMIx server that has been started for a job to come.
        ranks_key: gives the key of a job's ranks, from the ids of the job and its owner; None:
            a random key, which no other node knows.
        cgroup: in which each job has a control group of its own; None: none has.
    """

    def __init__(
        self,
        node: Node,
        port: Port,
        reactor: Reactor,
        store: Store,
        own_spawner: OwnSpawner | None = None,
        spawner_of: Callable[[int], Spawner] | None = None,
        say: Callable[[str], None] = lambda line: None,
        trace: Callable[[str, int], None] = lambda line, job_id: None,
        on_leave: Callable[[str], None] = lambda text: None,
        on_restart: Callable[[], None] = lambda: None,
        contain: Contain = propagate,
        early_server: PmixServer | None = None,
        ranks_key: Callable[[int, int], bytes] | None = None,
        cgroup: Cgroup | None = None,
    ) -> None:
        keep_freed_memory()
        self._node = node
        self._port = port
        self._reactor = reactor
        self._store = store
        self._say = say
        self._trace = trace
        self._on_leave = on_leave
        self.on_restart = on_restart
        self._contain = contain
        self._performing: list[set[int]] = []  # for each list of actions: jobs to pass over
        self._early_servers = {early_server.job_id: early_server} if early_server else {}
        self._ranks_key = ranks_key or (lambda job_id, uid: os.urandom(32))
        self._cgroup = cgroup
        self._jobs: dict[int, _JobParts] = {}
        self._brokers: BrokerProcesses | None = None  # there has been none
        self._own_spawner = own = own_spawner or OwnSpawner(reactor)
        self._helpers: JobHelpers | None = None  # no job has had any
        self._spawner_of = spawner_of or (lambda job_id: own)
        self._watch = port.listen(reactor, self._port_ready)
        self._timer = reactor.timer(self._due)
        self._on_taken: Callable[[], None] | None = None
        self._fences = self._open_fences()

    def when_taken(self, call: Callable[[], None]) -> None:
        """Call once, when bebopd has taken this node."""
        self._on_taken = call

    def start(self) -> None:
        """Announce the node."""
        self._perform(self._node.begin(self._reactor.monotonic()))

    def close(self) -> None:
        """Hang up on every keeper, which then kills its ranks; give everything back."""
        self._watch.close()
        self._timer.close()
        if self._fences is not None:
            self._fences.close()
        for job_id in list(self._jobs):
            self._drop(job_id)
        if self._brokers is not None:
            self._brokers.close()
        for server in self._early_servers.values():
            server.close()
        self._store.close()

    def handle(self, event: Event) -> None:
        """Give the machine an event, and carry out its actions.

        A message that its sender may not send is refused and logged. An exception on behalf
        of a job has ended that job (:meth:`pct.node.Node.handle`); one on behalf of no job
        ends the connection that the message came by.
        """
        try:
            actions = self._node.handle(event, self._reactor.monotonic())
        except PeerProtocolError as error:
            self._trace(f"refused: {error}", 0)
            actions = []
        except Exception as error:
            if not isinstance(event, MessageReceived):
                raise
            self._contain(f"{type(event.message).__name__} from {event.source}", error)
            self._port.disconnect(event.source)
            actions = []
        self._perform(actions)
        if self._on_taken is not None and self._node.reservation.epoch:
            call, self._on_taken = self._on_taken, None
            call()

    # -- events in --------------------------------------------------------

    def _port_ready(self) -> None:
        for event in self._port.events():
            self._port_event(event)

    def _port_event(self, event: PortEvent) -> None:
        match event:
            case Received(source, principal, message):
                self.handle(MessageReceived(source, principal, message))
            case PeerLost(peer, _, text):
                self.handle(PeerGone(peer, text))
            case PeerIdle(peer):
                if not self._node.peers.is_needed(peer, self._node.jobs):
                    self._port.part(peer)
            case Refused(source, _, reason):
                self._trace(f"from {source}: {reason}", 0)
            case ObjectArrived(key, digest, first_at, last_at):
                self._trace(
                    f"object {key.number}: first chunk at {first_at:.6f}, last at {last_at:.6f}",
                    key.job_id,
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
        """Carry out what the node has decided, each action on behalf of its job.

        Its deadline may have changed as well, also where there is nothing to carry out. What an
        action leads to is carried out within, so the timer is set when the first list is done.

        When an action raises, the job's remaining actions are skipped, here and in the lists
        that led here: its machine has given up the plan that they belong to.
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
            if not self._performing:
                self._timer.set(self._node.deadline())

    def _run_for(self, job_id: int, call: Callable[[*_T], None], *arguments: *_T) -> None:
        """Do something for a job (0: for the node), which also owns what it asks of the loop."""
        owner = partial(self._fault, job_id) if job_id else None
        self._reactor.run_for(owner, call, *arguments)

    def _fault(self, job_id: int, error: Exception) -> None:
        """Something that was done for a job has raised: the job ends, and nothing else does."""
        self._contain(f"job {job_id}", error)
        for passed_over in self._performing:
            passed_over.add(job_id)
        self._perform(self._node.fault(job_id, error, self._reactor.monotonic()))

    def _perform_one(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        match action:
            case Send(target, message):
                self._send(target, message)
            case Log(text, job_id):
                if job_id:
                    self._trace(text, job_id)
                else:
                    self._say(text)
            case events.Leave(text):
                self._on_leave(text)
            case events.Restart():
                self.on_restart()
            case BrokerAction():
                self._broker_processes().perform(action)
            case events.CheckObjects(job_id, uid=uid, gid=gid, groups=groups):
                self._jobs[job_id] = self._parts(job_id, Owner(uid, gid, groups))
                self._jobs[job_id].objects.check(action)
            case events.DropJob(job_id):
                self._drop(job_id)
            case JobAction(job_id):
                # What an earlier action has led to may have dropped the job.
                if (parts := self._jobs.get(job_id)) is not None:
                    self._perform_of_job(parts, action)
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _broker_processes(self) -> BrokerProcesses:
        if self._brokers is None:
            from pct.host.kept.table import BrokerProcesses  # few nodes have any

            around = self._reactor, self._own_spawner, self._store.slices
            rest = self._cgroup, self._node.reservation.gpus
            self._brokers = BrokerProcesses(*around, self.handle, self._contain, *rest)
        return self._brokers

    def _job_helpers(self) -> JobHelpers:
        if self._helpers is None:
            from pct.host.kept.ofjob import JobHelpers  # few jobs have any

            self._helpers = JobHelpers(self._reactor, self._own_spawner, self.handle)
        return self._helpers

    def _perform_of_job(self, parts: _JobParts, action: JobAction) -> None:
        owner, objects, ranks, services = parts
        match action:
            case events.ReceiveObject():
                objects.receive(action)
            case events.SendObject():
                objects.send(action)
            case events.PublishObject(_, number, mode):
                objects.publish(number, mode)
            case events.ReadObject(_, number):
                objects.read(number)
            case events.DropObject(_, number):
                objects.drop(number)
            case events.StartKeeper(_, spec, world):
                ranks.start_keeper(spec, world)
            case events.GiveMap(job_id, uid, ids):
                ranks.give_map(self._ranks_key(job_id, uid), uid, ids)
            case events.KeeperGo(_, world):
                ranks.go(world)
            case events.KeeperSignal(_, number):
                ranks.signal(number)
            case events.KeeperEnd(_, ended):
                ranks.end(ended)
                if ended is None:
                    services.end_pmix()
            case events.HelperAction():
                self._job_helpers().perform(action)
            case rare_events.LetSpread(_, spread_s):
                ranks.let_spread(spread_s)
            case rare_events.LetDie(_, dying):
                ranks.let_die(dying)
            case events.KillKeepers():
                ranks.kill_keepers()
                services.kill_pmix()
            case events.NameProcesses(job_id):
                self.handle(events.ProcessesNamed(job_id, described(ranks.left())))
            case events.KillOrphans(job_id, events.PMIX_SERVER as world):
                killed = events.OrphansKilled(job_id, world)
                self._own_spawner.kill_orphans(partial(self.handle, killed))
            case events.KillOrphans(_, world):
                ranks.kill_orphans(world)
            case events.RemoveLeftovers(_, world):
                ranks.remove_leftovers(world)
            case events.PauseOutput(_, stream):
                ranks.pause(stream, True)
            case events.ResumeOutput(_, stream):
                ranks.pause(stream, False)
            case rare_events.HoldOutput(_, rank, is_on):
                ranks.hold_output(rank, is_on)
            case events.FinishOutput():
                ranks.finish_output()
            case events.WriteInput(_, data):
                ranks.write_input(data)
            case events.ResizeTerminal(_, window):
                ranks.resize(window.rows, window.columns)
            case rare_events.GiveLine(_, rank, data):
                ranks.give_line(rank, data)
            case rare_events.AnswerRemote(_, mount, frame):
                ranks.answer_remote(mount, frame)
            case rare_events.PauseRemote(_, is_on):
                ranks.pause_remote(is_on)
            case pmi_events.OpenPmi():
                services.open_pmi(action, self._node.limits.pmi_connections_count)
            case pmi_events.PmiReply(_, connection, data):
                services.reply(connection, data)
            case pmi_events.PmiHangUp(_, connection):
                services.hang_up(connection)
            case pmi_events.StartPmixServer(job_id, begin):
                services.start_pmix(begin, partial(self._pmix_server, job_id, owner))
            case pmi_events.PmixSend(_, message):
                services.send_pmix(message)
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _send(self, target: PortalId, message: Message) -> None:
        """Send a message. If that raises, the job that it belongs to ends, if there is one."""
        try:
            self._port.send(target, message)
        except Exception as error:
            if isinstance(message, JobMessage):
                raise
            self._contain(f"{type(message).__name__} to {target}", error)

    # -- what a job holds -------------------------------------------------

    def _parts(self, job_id: int, owner: Owner) -> _JobParts:
        def say(text: str) -> None:
            self._trace(text, job_id)

        account = self._node.jobs[job_id].account
        store, reactor, handle = self._store, self._reactor, self.handle
        objects = JobObjects(job_id, owner, store, self._port, handle)
        services = JobServices(job_id, owner, reactor, store, account, handle, say)
        ranks = JobRanks(
            job_id,
            owner,
            reactor,
            store.slices,
            handle,
            services.add_client,
            self._spawner_of(job_id),
            self._group_maker(job_id, owner),
            say,
        )
        return _JobParts(owner, objects, ranks, services)

    def _group_maker(
        self, job_id: int, owner: Owner
    ) -> Callable[[int, tuple[int, ...]], JobGroup] | None:
        cgroup = self._cgroup
        if cgroup is None:
            return None
        from pct.host.cgroups.job import Bounds  # many PCTs make no groups

        memory, given = self._node.reservation.share(job_id)
        denied = b""
        if gpus := self._node.reservation.gpus:
            from pct.host.cgroups.gpus import denied as denied_but  # many nodes have none

            denied = denied_but(gpus, given)
        slots = self._node.jobs[job_id].slots

        def make(world: int, cpus: tuple[int, ...]) -> JobGroup:
            return cgroup.begin_job(job_id, world, owner, Bounds(slots, memory, cpus), denied)

        return make

    def _open_fences(self) -> Fences | None:
        cgroup, gpus = self._cgroup, self._node.reservation.gpus
        if cgroup is None or not gpus:
            return None
        from pct.host.cgroups import fences  # many nodes have none

        return fences.opened(self._reactor, cgroup, gpus, self._uid_of, self._say)

    def _uid_of(self, job_id: int) -> int | None:
        return parts.owner.uid if (parts := self._jobs.get(job_id)) is not None else None

    def _pmix_server(self, job_id: int, owner: Owner) -> PmixServer:
        early = self._early_servers.pop(job_id, None)
        if early is not None:
            return early
        from pct.host.pmix_process import PmixServer  # many jobs need none

        memory_bytes = self._node.limits.pmix_server_bytes
        return PmixServer(job_id, owner, self._reactor, self._own_spawner, memory_bytes)

    def _drop(self, job_id: int) -> None:
        parts = self._jobs.pop(job_id, None)
        if parts is None:
            return
        calls: list[Callable[[], None]] = [partial(self._store.drop_job, job_id)]
        if self._helpers is not None:
            calls.append(partial(self._helpers.drop, job_id))
        close_all([*calls, parts.objects.close, parts.services.close, parts.ranks.close])


class _JobParts(NamedTuple):
    """What the host holds for one job."""

    owner: Owner
    objects: JobObjects
    ranks: JobRanks
    services: JobServices
