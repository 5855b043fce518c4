"""The daemon of a partition, from its options to its end."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from allocator.driver import Driver
from allocator.host import files, keys
from allocator.host.aside import Aside
from allocator.host.ledger import Ledger
from allocator.jobs.batch import NO_BATCH, BatchLimits, Word, Words
from allocator.nodes.nodesfile import NodesFile
from allocator.nodes.table import NodeTable
from native.errors import UsageError, YodError
from native.host import keyfile, sitedirs, systemd, userdirs
from native.host.config import Config
from native.host.log import DaemonLog
from native.host.logshares import LogShares
from native.host.rlimits import connections_each, raise_soft
from native.loop.daemon import settle, take_signals
from native.loop.reactor import Reactor
from native.port.address import advertised, numeric
from native.text import shown

if TYPE_CHECKING:
    from allocator.nodes.placement import ArrayPlacement

OPERATORS = "bebop"  # as in Cplant


def run(
    site: Config,
    *,
    listen: str = "127.0.0.1:0",
    advertise: str | None = None,
    unix_path: str | None = None,
    key_file: str | None = None,
    state_dir: str | None = None,
    operators: str = OPERATORS,
    user_log: str | None = None,
    nodes_file: str | None = None,
    order_file: str | None = None,
    topology_file: str | None = None,
    torus_sizes: str | None = None,
    queues_file: str | None = None,
    hook_names: str | None = None,
    submit_user: str | None = None,
    placement: str | None = None,
    name: str = "local",
    batch_system: str | None = None,
    interactive: int = 0,
    log_file: str | None = None,
    debug: bool = False,
    ready_fd: int | None = None,
    expect: int = 0,
    until_fd: int | None = None,
) -> None:
    """Give the nodes of a partition to jobs, until told to end (SIGTERM).

    Args:
        site: its configuration file. The others are as the help of the command says.

    Raises:
        UsageError: an option is wrong, or a file that one names.
        YodError: it cannot serve.
    """
    from native.identity.keyring import Keyring
    from native.port.portals import PortalsPort
    from native.transport.raw import PtlError

    log = DaemonLog("bebopd", "bebopd", log_file or "", os.environ, has_milliseconds=debug)
    say, contain = log.say, log.contain
    in_force = site.in_force(os.environ)
    directory = Path(state_dir) if state_dir else _default_state_directory()
    there = files.read_nodes(nodes_file) if nodes_file else NodesFile()
    if order_file and topology_file:
        raise UsageError("-remap and --topology both say the order of the nodes: give one of them")
    if placement == files.TREE and not topology_file:
        raise UsageError(f"--placement {files.TREE} goes by the switches: say --topology FILE")
    if topology_file and torus_sizes:
        raise UsageError("--topology and --torus both say what is near: give one of them")
    if placement == files.TORUS and not torus_sizes:
        raise UsageError(f"--placement {files.TORUS} goes by a torus: say --torus SIZES")
    line = files.read_order(order_file) if order_file else []
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy would start a thread for each processor

    def place() -> ArrayPlacement:
        return files.placement(placement or "", line, topology_file, there, say, torus_sizes)

    # Wrong use is told before others are told that bebopd listens. Else numpy, which is slow to
    # import, comes after that: PCTs can connect meanwhile.
    is_told = topology_file or torus_sizes or placement not in (None, *files.POLICIES)
    placed = place() if is_told else None
    rules = files.read_queues(queues_file) if queues_file else None
    raise_soft()  # every PCT and yod is a connection
    reactor = Reactor()
    hooks = None
    if hook_names or submit_user:
        from allocator.host.submit_hooks import SubmitHooks

        hooks = SubmitHooks(hook_names or "", submit_user or "", reactor, in_force.submit_hook_s)
        hooks.find()
    limits_of: BatchLimits = NO_BATCH
    ask = _no_batch
    if batch_system is not None:
        from allocator.host.batch_system import BatchSystem

        ask = BatchSystem(batch_system, reactor, in_force.batch_answer_s, os.environ).ask
        limits_of = Words(batch_system, interactive, in_force.batch_word_s)
    log_of_users = Path(os.path.abspath(user_log)) if user_log else None
    ledger = Ledger(directory, in_force, Aside(reactor), log_of_users)
    key_file = key_file or _default_key() or str(directory / "key")
    ring = Keyring(keys.read_or_make(key_file))
    unix_path = _unix_path(unix_path, say)
    try:
        port = PortalsPort(
            listen=numeric(listen, "--listen"),
            advertise=advertised(advertise) if advertise else None,
            unix_path=unix_path or None,
            partition_key=ring.keys[0],
            connect_timeout_s=in_force.connect_s,
            liveness_s=in_force.liveness_s,
            max_unproven=in_force.unproven_count,
            max_unproven_each=in_force.unproven_each_count,
            max_connections_each=connections_each(in_force.connections_each_count),
            max_unread_each=in_force.unread_each_bytes,
        )
    except PtlError as error:
        where = shown(f"{listen} and {unix_path}" if unix_path else listen)
        raise YodError(f"cannot listen at {where}: {error.reason}") from None
    port.hold_keys(ring.keys)
    for number in (signal.SIGTERM, signal.SIGINT):
        reactor.on_signal(number, reactor.stop)
    if until_fd is not None:  # nothing is ever written there
        os.set_inheritable(until_fd, False)
        reactor.watch(until_fd, reactor.stop)
    take_signals(reactor, say, lambda: ["bebopd begins"], log.open_again)
    ready = _Ready(ready_fd, expect)
    ready.listening(str(port.id))
    systemd.notify(os.environ, "READY=1")

    # Slow to import, as above.
    from allocator.bebopd import Bebopd
    from allocator.host.credentials import Credentials
    from allocator.host.owners import Owners
    from allocator.jobs.grants import Operators
    from allocator.queue.admission import NO_QUEUES
    from allocator.queue.backfill import Backfill
    from allocator.queue.ranking import Ranking
    from allocator.queue.rules import NO_RULES
    from allocator.queue.table import QueueTable

    owners = Owners()
    queues = QueueTable(rules or NO_RULES, owners.is_in, ledger.batch.charges(), owners.find)
    is_roots = os.geteuid() == 0  # another's is operated by nobody but them and root
    machine = Bebopd(
        placed or place(),
        policy=Backfill,
        admission=queues if rules is not None else NO_QUEUES,
        ranking=lambda slots: Ranking(queues, slots),
        epoch=time.time_ns() // 1000,  # a later bebopd has a larger one
        next_job_id=ledger.first_job_id(),
        sign=ring.sign,
        job_key=ring.job_key,
        owner_of=owners.find,
        wall_clock=time.time,
        limits=in_force,
        name=name,
        only_uid=os.geteuid() or None,  # only root's PCTs can become another user
        operators=Operators(operators, lambda uid: owners.is_in(uid, operators))
        if operators and is_roots
        else None,
        fixed_names=there.numbers,
        portions=there.portions,
        exclusive=there.exclusive,
        remembered_names=ledger.names(),
        orders=ledger.orders(),
        batch_limits=limits_of,
        earlier=ledger.batch.earlier(),
        earlier_rows=ledger.open_jobs(),
        # With --expect the starter waits until all nodes are up: no more will come.
        began=-math.inf if expect else reactor.monotonic(),
        contain=contain,
    )

    machine.nodes.features = there.features

    hooked = None
    if hooks is not None:
        from allocator.batch.hooked import Hooked

        hooked = Hooked(in_force, owners.find, hooks.find())

    def read_again() -> None:
        log.open_again()
        say(f"SIGHUP: {ring.read_again(key_file, port.hold_keys)}")
        files.read_again(machine.nodes, nodes_file, site, say)
        if queues_file:
            files.read_queues_again(queues_file, queues.follow, say)
        if hooks is not None and hooked is not None:
            say(f"SIGHUP: {hooks.find_again(hooked)}")
        driver.rules_changed()

    take_signals(reactor, say, lambda: machine.state(reactor.monotonic()), read_again)
    shares = LogShares(say, in_force.log_lines_each_count, reactor.monotonic)
    if is_roots:  # another's bebopd has one user, and a credential for it could not be opened
        port.take_credentials(Credentials(port, reactor, say).take)
    driver = Driver(
        machine,
        port,
        reactor,
        ledger,
        say=shares.say,
        warn=lambda text: shares.say(f"warning: {text}"),
        on_event=lambda: ready.nodes(machine.nodes),
        contain=contain,
        whose=shares.whose,
        questions_each_count=in_force.questions_each_count,
        ask=ask,
        hooked=hooked,
        run_hook=None if hooks is None else hooks.run,
    )
    say(f"partition {name} at {port.id}")
    settle()
    reactor.run()
    say("ends; its jobs go on")
    driver.close()
    if hooks is not None:
        hooks.close()
    port.close()
    ledger.reserve(machine.next_job_id)  # the rest of the block is not used
    ledger.close()
    reactor.close()


def _no_batch(batch_job: str, then: Callable[[Word | None, str], None]) -> None:
    raise AssertionError(f"nobody asks about {batch_job}")


class _Ready:
    """Tells the process that started bebopd how far it is. Each line is written once."""

    def __init__(self, fd: int | None, expect: int) -> None:
        self._fd = fd
        self._expect = expect

    def listening(self, address: str) -> None:
        self._write(f"{address}\n", is_last=not self._expect)

    def nodes(self, nodes: NodeTable) -> None:
        if self._fd is not None and (count := nodes.up_count()) >= self._expect:
            self._write(f"nodes {count}\n", is_last=True)

    def _write(self, line: str, is_last: bool) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, line.encode())
        except BrokenPipeError:
            is_last = True  # the reader has gone
        except OSError as error:
            raise UsageError(f"--ready-fd {self._fd}: {error.strerror}") from None
        if is_last:
            os.close(self._fd)
            self._fd = None


def _default_state_directory() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/yod")
    try:
        return Path(userdirs.make_state(os.environ), userdirs.BEBOPD)
    except OSError as error:
        raise YodError(
            f"no place for records: {shown(error.filename)}: {error.strerror}; say --state-dir DIR"
        ) from None


def _default_key() -> str:
    """The key file of a site's daemons; empty: there is none, or this is none of them."""
    return keyfile.default(os.environ) if os.geteuid() == 0 else ""


def _unix_path(said: str | None, say: Callable[[str], None]) -> str:
    """Where to listen for users of this host; empty: nowhere."""
    if said == sitedirs.NONE:
        return ""
    if said or os.geteuid() != 0:
        return os.path.abspath(said) if said else ""
    path, why = sitedirs.for_root(os.environ)
    if why:
        say(f"no Unix socket for all users: {why}; --unix PATH names another place")
    return path
