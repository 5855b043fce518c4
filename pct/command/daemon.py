"""The daemon of one node, from its options to its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from native.errors import PartitionError, UsageError
from native.host import hookfile, keyfile, starting, systemd
from native.host.backends.criu import find as find_criu
from native.host.keyfile import VARIABLE as KEY_VARIABLE
from native.host.keyfile import read_partition_keys, take_key
from native.host.log import DaemonLog
from native.host.process import become_subreaper
from native.host.rlimits import connections_each, raise_soft, restore
from native.ids import PortalId, Principal, PrincipalKind
from native.loop.daemon import settle, take_signals
from native.loop.reactor import Reactor
from native.machine import MessageReceived
from native.port.address import advertised, facing, numeric
from native.text import shown
from native.waitstatus import FAILED
from native.wire.base import NODE_MAX, SLOTS_MAX, Message
from native.wire.nodes import RestartNow, SignalRanks
from native.wire.status import Feature
from pct.driver import Driver
from pct.host import capacity
from pct.host.cgroups.own import Cgroup, ForJobs
from pct.host.spawn.orphans import Orphans
from pct.host.spawn.spawner import OwnSpawner
from pct.host.store import Store, default_directories
from pct.node import Node
from pct.wireup import clients  # noqa: F401  # the first rank that speaks PMI would wait for it

if TYPE_CHECKING:
    from native.limits import Limits
    from pct.job.hooks import Site

RESTART = -1  # not an exit status: execute this program anew


def run(
    limits: Limits,
    *,
    bebopd: str | None = None,
    key_file: str | None = None,
    listen: str = "0.0.0.0:0",
    advertise: str | None = None,
    node: int = -1,
    name: str | None = None,
    slots: int | None = None,
    memory: str | None = None,
    gpus: str | None = None,
    cpus: str | None = None,
    store: tuple[str, ...] = (),
    ready_fd: int | None = None,
    is_in_job: bool = False,
    starter_fd: int | None = None,
    until_fd: int | None = None,
    job_secret: str | None = None,
    grace: int = 0,
    tag: str | None = None,
    cgroups: str = ForJobs.AUTO.value,
    log_file: str | None = None,
    debug: bool = False,
) -> int:
    """Be a node: host jobs that bebopd grants, until told to end (SIGTERM).

    Args: as the help of the command says.

    Returns:
        The exit status; RESTART: the program is to be executed anew.

    Raises:
        UsageError: an option is wrong, or lacks.
        PartitionError: it cannot be a node.
    """
    has_key = is_in_job or bool(job_secret) or starter_fd is not None or KEY_VARIABLE in os.environ
    if key_file is None and not has_key:
        key_file = keyfile.default(os.environ) or None
    if (bebopd is None and starter_fd is None) or not (has_key or key_file):
        place = shown(keyfile.place(os.environ))
        raise UsageError(f"--bebopd and --key-file, or {place}, are needed (pct -help)")
    root = os.environ.get(capacity.ROOT_VARIABLE) or "/"
    if job_secret is not None and starter_fd is None:
        found = starting.key_of_secret(os.environ, job_secret, tag or "")
        os.environ[KEY_VARIABLE] = found.hex()
    if is_in_job:  # a job's rank, which is one node of an allocation
        node = int(os.environ.get("YOD_NODE", node))
        name = os.environ.get("YOD_NODE_NAME", name)
        # What the allocation has been given, and nothing of what else there is on the host.
        of_rank = capacity.of_rank(os.environ.get(capacity.RANK_VARIABLE, ""))
        own = capacity.cores(os.environ.get(capacity.RANK_CPUS_VARIABLE, ""), root)
        here = capacity.Capacity(capacity.memory(memory or "0"), of_rank, own)
    else:
        said = os.environ.get
        here = capacity.Capacity(
            capacity.memory(memory or said(capacity.MEMORY_VARIABLE)),
            capacity.gpus(gpus if gpus is not None else said(capacity.GPUS_VARIABLE)),
            capacity.cores(cpus if cpus is not None else said(capacity.CPUS_VARIABLE), root),
        )
    if not -1 <= node <= NODE_MAX:
        raise UsageError(f"--node {node}: must be from 0 to {NODE_MAX}")
    if slots is not None and not 1 <= slots <= SLOTS_MAX:
        raise UsageError(f"--slots {slots}: must be from 1 to {SLOTS_MAX}")
    for directory in store:
        if not (os.path.isdir(directory) and os.access(directory, os.W_OK)):
            raise UsageError(f"--store {shown(directory)}: no directory that can be written")
    from native.identity.keyring import Keyring
    from native.port.portals import PortalsPort
    from native.transport.raw import PtlError

    name = name or os.uname().nodename.partition(".")[0]
    log = DaemonLog("pct", name, log_file or "", os.environ)
    raise_soft()  # a daemon holds many connections
    if starter_fd is not None:  # the starter may begin before bebopd listens: we wait here, ready
        os.environ[KEY_VARIABLE], told = starting.read_told(starter_fd)
        if told:
            bebopd = os.environ[starting.BEBOPD_VARIABLE] = told
    ring = Keyring((take_key(os.environ),) if key_file is None else _keys(key_file))
    reactor = Reactor(takes_sigchld=False)  # which comes for each child, also for one that may wait
    address = numeric(bebopd or "", "--bebopd")
    if advertise is not None:
        advertise = advertised(advertise)
    elif listen.startswith("0.0.0.0:"):
        advertise = facing(address)
    try:
        port = PortalsPort(
            listen=numeric(listen, "--listen"),
            advertise=advertise,
            partition_key=ring.keys[0],
            connect_timeout_s=limits.connect_s,
            liveness_s=limits.liveness_s,
            idle_s=limits.peer_idle_s,
            max_unproven=limits.unproven_count,
            max_unproven_each=limits.unproven_each_count,
            max_connections_each=connections_each(limits.connections_each_count),
            max_unread_each=limits.unread_each_bytes,
            sending_bytes=limits.sending_bytes,
        )
    except PtlError as error:
        raise PartitionError(f"cannot listen at {listen}: {error.reason}") from None
    port.hold_keys(ring.keys)
    become_subreaper()
    hooks = _hooks(is_in_job, limits)
    own_cgroup = Cgroup.enter(ForJobs(cgroups))
    criu = find_criu(os.environ)
    features = _features(criu)
    machine = Node(
        name=name,
        slots=slots or len(os.sched_getaffinity(0)),
        address=port.id,
        bebopd=port.resolve(address),
        wanted=node,
        incarnation=int.from_bytes(os.urandom(8), "little") >> 1,
        limits=limits,
        is_signed=ring.is_signed,
        unix_time=time.time,
        contain=log.contain,
        memory=here.memory,
        gpus=here.gpus,
        cores=here.cores,
        site=hooks,
        features=features,
    )
    # A PCT that is not root's serves one user, who may have all that is free.
    share = limits.store_user_percent if os.geteuid() == 0 else 100
    status = 0

    def end(with_status: int) -> None:
        nonlocal status
        status = with_status
        reactor.stop()

    stores = list(store) or default_directories()
    # What is for all processes of our session would end a keeper, and its ranks.
    spawner = OwnSpawner(reactor, in_sessions=grace > 0)
    on_disk = Store(stores, reactor, share)
    driver = Driver(
        machine,
        port,
        reactor,
        on_disk,
        spawner,
        say=log.say,
        trace=log.say if debug else lambda line, job_id: None,
        on_leave=lambda text: end(FAILED),
        contain=log.contain,
        ranks_key=ring.ranks_key,
        cgroup=own_cgroup if own_cgroup is not None and own_cgroup.for_jobs else None,
    )

    def read_again() -> None:
        log.open_again()
        if key_file is not None:
            log.say(f"SIGHUP: {ring.read_again(key_file, port.hold_keys)}")

    def leave() -> None:
        end(status if status == FAILED else 0)

    grace_period = _Grace(grace, driver, port.resolve(address), reactor, leave)
    driver.on_restart = lambda: leave() if grace_period.has_begun else end(RESTART)
    reactor.on_signal(signal.SIGTERM, grace_period.begin)
    reactor.on_signal(signal.SIGINT, leave)
    take_signals(reactor, log.say, lambda: machine.state(reactor.monotonic()), read_again)
    starter = starting.Starter(
        reactor,
        starter_fd,
        ready_fd,
        str(port.id),
        lambda: end(FAILED),
        is_kept=until_fd is not None and until_fd == starter_fd,
    )
    if until_fd is not None and until_fd != starter_fd:  # nothing is ever written there
        reactor.watch(until_fd, leave)
    if starter.waits_for_bebopd:
        driver.when_taken(starter.ready)
    else:
        starter.ready()
    systemd.notify(os.environ, "READY=1")
    driver.start()
    # Its announcement has not waited for these modules.
    from native.hooks import Point
    from pct.host.health import rogues
    from pct.host.health.after import look_after

    is_step = starting.BEBOPD_VARIABLE in os.environ  # Slurm's: others are told by their words
    batch_job = rogues.job_of(os.environ, is_of_pbs=job_secret is not None, is_of_slurm=is_step)
    watchers = look_after(
        reactor,
        spawner,
        on_disk,
        stores,
        limits,
        driver.handle,
        checks=() if hooks is None else hooks.hooks.at(Point.HEALTH),
        is_idle=None if is_in_job else lambda: not machine.jobs and not machine.brokers,
        name=name,
        batch_job=batch_job,
    )
    probe = None
    if criu:
        from pct.host.kept.probe import Probe  # few hosts have it

        probe = Probe(criu, features, reactor, spawner, driver.handle)
    settle()
    reactor.run()
    for watcher in watchers:
        watcher.close()
    if probe is not None:
        probe.close()
    driver.close()
    # In the loop: with nothing left to kill it says so at once, and `run` would not hear it.
    reactor.call_soon(lambda: Orphans(reactor).kill(reactor.stop))
    reactor.run()
    if batch_job is not None:
        rogues.kill_left(batch_job)
    port.close()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    reactor.run_once(0.0)  # one that came before ends a process that was to restart
    reactor.close()
    if own_cgroup is not None:
        own_cgroup.leave()
    restore()
    if status == RESTART:
        log.say("begins again")
    return status


def _features(criu: str) -> tuple[Feature, ...]:
    """What is announced before it has been tried."""
    if not criu:
        return ()
    return (Feature.CRIU, Feature.CRIU_USERS) if os.geteuid() == 0 else (Feature.CRIU_USERS,)


class _Grace:
    """The time between SIGTERM and the end of a PCT.

    A batch system sends SIGTERM to all processes of a job, and kills what is left some time
    later. Ranks hear of it through their PCT, also where the batch system does not know them.

    Args:
        seconds: how long; 0: it ends at once.
        bebopd: for which the ranks are signalled, as when an allocation ends.
        leave: ends the PCT, and all jobs on it.
    """

    def __init__(
        self,
        seconds: int,
        driver: Driver,
        bebopd: PortalId,
        reactor: Reactor,
        leave: Callable[[], None],
    ) -> None:
        self._seconds = seconds
        self._driver = driver
        self._bebopd = bebopd
        self._reactor = reactor
        self._leave = leave
        self._timer = reactor.timer(leave)
        self.has_begun = False

    def begin(self) -> None:
        """Pass SIGTERM on, and leave when no job is left.

        A second call changes nothing: PBS and `pbsdsh` both send the job's SIGTERM.
        """
        if not self._seconds:
            self._leave()
        if self.has_begun or not self._seconds:
            return
        self.has_begun = True
        self._timer.set(self._reactor.monotonic() + self._seconds)
        for message in (SignalRanks(signal.SIGTERM), RestartNow(is_forced=False)):
            self._handle(message)

    def _handle(self, message: Message) -> None:
        principal = Principal(PrincipalKind.PARTITION, os.getuid())
        self._driver.handle(MessageReceived(self._bebopd, principal, message))


def _hooks(is_in_job: bool, limits: Limits) -> Site | None:
    """The hooks of this host; None: there are none.

    Raises:
        UsageError: says what is wrong with them.
    """
    found = hookfile.read(os.environ)
    if found is None or not found.hooks:
        return None
    from native.hooks import demand_in_time  # few sites have any
    from pct.job.hooks import Site
    from pct.job.rules.hooklines import inherited

    if is_in_job:
        return Site(found, is_in_job, inherited(os.environb))
    hookfile.demand_programs(found, is_for_root=os.geteuid() == 0)
    demand_in_time(found, limits.phase_s, limits.end_s)
    return Site(found)


def _keys(path: str) -> tuple[bytes, ...]:
    try:
        return read_partition_keys(path)
    except FileNotFoundError as error:
        raise PartitionError(f"key file {shown(path)}: {error.strerror}") from None
