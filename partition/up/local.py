"""A partition of daemons on this host: one bebopd and N PCTs.

All daemons are started at once; called again, those that have died are, in their place. bebopd
writes a line to its ready pipe when it listens, and another one when N nodes are up; a node that
comes back to a bebopd writes one itself. A daemon that dies is seen as a child that ended.
When anything fails, everything that this call has started is ended and removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from native.errors import PartitionError
from native.host import programs, sitedirs, userdirs
from native.host.keyfile import read_partition_key
from native.loop.reactor import Reactor
from native.nodelist import format_cpus
from native.waitstatus import how_it_ended
from partition.find import state
from partition.find.state import Daemon, State
from partition.up import directory, processes
from pct.host import capacity

END_S = 10.0  # a daemon has this long between SIGTERM and SIGKILL
START_S = 30.0  # all daemons must be up within this
START_NODE_S = 0.5  # more time for each node


class AlreadyUpError(PartitionError):
    """A partition of this user is up already."""


class Came(Struct, frozen=True):
    """What has come of :func:`up`.

    Attributes:
        again: what was started in the place of daemons that had died; empty: the partition is new.
    """

    state: State
    again: tuple[Daemon, ...] = ()


def up(
    count: int,
    *,
    slots: int = 1,
    base_port: int = 0,
    debug: bool = False,
    environment: Mapping[str, str],
) -> Came:
    """Start a partition of ``count`` nodes, or what has died of the one that is up.

    Args:
        slots: of each node that is started.
        base_port: TCP port of a new bebopd, those of the PCTs follow; 0: any.
        environment: of the daemons.

    Raises:
        AlreadyUpError: there is one, and it is whole or has not as many nodes.
        PartitionError: it does not come up; the text contains the end of the log.
    """
    where = state.directory(environment)
    directory.make(where, environment)
    with directory.locked(where):
        found = state.load_any(environment)
        lost = dead(found) if found is not None and count_of(found) == count else ()
        if not lost:
            refuse_second(environment)
            directory.clean(where, removes_itself=False)
            (where / directory.LOGS).mkdir(mode=0o700)
        starter = _Starter(where, count, slots, base_port, debug, environment)
        try:
            if found is not None and lost:
                return starter.mend(found, lost)
            return Came(starter.start())
        except BaseException:
            starter.abandon(removes_all=not lost)
            raise
        finally:
            starter.close()


def down(
    environment: Mapping[str, str], end_hosts: Callable[[State], State]
) -> tuple[State, int, int] | None:
    """Take the partition down, and remove its files.

    Where some host's PCT could not be ended the files stay, and say which one it is.

    Args:
        end_hosts: ends the PCTs on other hosts, and gives the partition without those.

    Returns:
        Its state, how many daemons were ended, and how many of them by SIGKILL;
        None: there was no partition.
    """
    where = state.directory(environment)
    if not where.is_dir():
        return None
    with directory.locked(where):
        found = state.load_any(environment)
        ended = killed = 0
        is_all = True
        if found is not None:
            if found.started:
                rest = end_hosts(found)
                if not (is_all := not rest.started):
                    state.save(replace(rest, is_up=False), where)
            # PCTs first: they end the jobs that they host, and tell bebopd and yod.
            for group in (found.daemons[1:], found.daemons[:1]):
                there, late = processes.end(group, END_S)
                ended, killed = ended + there, killed + late
        if is_all:
            directory.clean(where)
            if found is not None:
                directory.remove_socket(found.unix_address)
        if found is not None and found.is_of_job:
            shutil.rmtree(where, ignore_errors=True)  # nothing of it outlives the job
    return None if found is None else (found, ended, killed)


def is_stale(found: State) -> bool:
    """Whether none of a partition's daemons is left."""
    return not found.started and not any(map(processes.is_alive, found.daemons))


def count_of(found: State) -> int:
    """How many nodes a partition of this host has; 0: it is another kind of one, or not up yet."""
    is_of_host = found.is_up and not (found.tag or found.hosts or found.is_of_job)
    return len(found.daemons) - 1 if is_of_host else 0


def dead(found: State) -> tuple[Daemon, ...]:
    """The daemons of a partition that have died, where others are left."""
    lost = tuple(each for each in found.daemons if not processes.is_alive(each))
    return lost if len(lost) < len(found.daemons) else ()


class _Starter:
    """Starts the daemons, and waits until every node is up."""

    def __init__(
        self,
        where: Path,
        count: int,
        slots: int,
        base_port: int,
        debug: bool,
        environment: Mapping[str, str],
    ) -> None:
        self._where = where
        self._count = count
        self._slots = slots
        self._base_port = base_port
        self._debug = ["-D"] if debug else []
        # The daemons import their own modules, not the user's. Jobs get yod's environment.
        self._environment = {k: v for k, v in environment.items() if k != "PYTHONPATH"}
        self._reactor = Reactor()
        self._daemons: list[Daemon] = []
        self._starters: list[int] = []  # their other ends are nodes', until these are ready
        self._lines: list[str] = []
        self._partial = b""
        self._failure = ""
        self._key_file = str(where / directory.KEY)
        self._records = state.records_directory(environment)
        self._unix_path = directory.socket_path(where, environment, is_for_all=True)

    def start(self) -> State:
        """Start everything; see :func:`up`."""
        with self._told() as ready_fd:
            self._spawn_bebopd(self._base_port, ready_fd)
            self._wait(lines=1)
            found = self._state()
            state.save(found, self._where)
            for node in range(self._count):
                self._spawn_pct(node, found.address)
            found = replace(found, daemons=tuple(self._daemons))
            state.save(found, self._where)
            self._wait(lines=2)
        found = replace(found, is_up=True)
        state.save(found, self._where)
        return found

    def mend(self, found: State, lost: Sequence[Daemon]) -> Came:
        """Start what has died; see :func:`up`. A new bebopd listens where the old one did."""
        with self._told() as ready_fd:
            is_new = any(each.node < 0 for each in lost)
            if is_new:
                self._spawn_bebopd(int(found.address.rpartition(":")[2]), ready_fd)
                self._wait(lines=1)
            for daemon in lost:
                if daemon.node >= 0:
                    # A bebopd that was there does not tell of them: each tells of itself.
                    self._spawn_pct(daemon.node, found.address, -1 if is_new else ready_fd)
            there = {each.node: each for each in (*found.daemons, *self._daemons)}
            found = replace(found, daemons=tuple(there[each.node] for each in found.daemons))
            state.save(found, self._where)
            self._wait(lines=2 if is_new else len(lost))
        return Came(found, tuple(self._daemons))

    @contextmanager
    def _told(self) -> Iterator[int]:
        """A descriptor for daemons, which write a line to it when they are ready."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._reactor.on_signal(number, lambda: self._fail("interrupted"))
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_fd, False)
        watch = self._reactor.watch(read_fd, lambda: self._read(read_fd))
        timer = self._reactor.timer(lambda: self._fail("not up in time"))
        timer.set(self._reactor.monotonic() + START_S + START_NODE_S * self._count)
        try:
            yield write_fd
        finally:
            timer.close()
            watch.close()
            os.close(read_fd)
            os.close(write_fd)

    def abandon(self, *, removes_all: bool) -> None:
        """End whatever was started, and remove the partition's files if it is all of it."""
        processes.end(self._daemons, END_S)
        if removes_all:
            directory.clean(self._where)

    def close(self) -> None:
        """Release the children; those that run go on without this process."""
        self._reactor.close()
        for fd in self._starters:
            os.close(fd)

    def _spawn_bebopd(self, port: int, ready_fd: int) -> None:
        unix = ["--unix", self._unix_path or sitedirs.NONE]
        self._spawn(
            [
                *programs.command_line("bebopd"),
                *("--listen", f"127.0.0.1:{port}", *unix),
                *("--key-file", self._key_file, "--state-dir", str(self._records)),
                *("--ready-fd", str(processes.READY_FD), "--expect", str(self._count)),
                *self._debug,
            ],
            "bebopd",
            ready_fd=ready_fd,
        )

    def _spawn_pct(self, node: int, bebopd: str, ready_fd: int = -1) -> None:
        """Start a node.

        Args:
            ready_fd: it writes a line there when bebopd has taken it; -1: it tells nobody.
        """
        port = self._base_port + 1 + node if self._base_port else 0
        words = [
            *programs.command_line("pct"),
            *("--bebopd", bebopd, "--key-file", self._key_file),
            *("--listen", f"127.0.0.1:{port}", "--slots", str(self._slots)),
            *("--node", str(node), "--name", f"node{node}", *self._debug),
            *self._share(node),
        ]
        if ready_fd < 0:
            self._spawn(words, f"pct-{node}", node=node)
            return
        words += ["--starter-fd", "0", "--ready-fd", str(processes.READY_FD)]
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            os.write(writing, f"{read_partition_key(self._key_file).hex()}\n".encode())
            self._spawn(words, f"pct-{node}", node, ready_fd, reading)
        finally:
            os.close(reading)
        self._starters.append(writing)

    def _share(self, node: int) -> list[str]:
        """What a node has of the host's memory, GPUs and cores, where the user does not say it."""
        words: list[str] = []
        if self._count > 1 and capacity.MEMORY_VARIABLE not in self._environment:
            part = (capacity.memory(None) >> 20) // self._count
            words += ["--memory", f"{part}M" if part else "0"]
        if node and capacity.GPUS_VARIABLE not in self._environment:
            words += ["--gpus", "0"]  # the first node has them
        if self._count > 1 and capacity.CPUS_VARIABLE not in self._environment:
            where = self._environment.get(capacity.ROOT_VARIABLE) or "/"
            cores = capacity.cores(None, where)
            first, end = (len(cores) * nth // self._count for nth in (node, node + 1))
            own = cores[first:end]
            cpus = format_cpus(cpu for core in own for cpu in core.cpus)
            words += ["--cpus", cpus or capacity.NO_CPUS]
        return words

    def _spawn(
        self, argv: list[str], name: str, node: int = -1, ready_fd: int = -1, stdin_fd: int = -1
    ) -> None:
        log = self._where / directory.LOGS / f"{name}.log"
        unix_pid = processes.spawn(argv, self._environment, log, ready_fd, stdin_fd)
        daemon = Daemon(unix_pid, processes.start_ticks(unix_pid), str(log), node)
        self._daemons.append(daemon)
        self._reactor.on_child(unix_pid, lambda status: self._died(daemon, status))

    def _state(self) -> State:
        return State(
            is_up=False,
            name="local",
            address=self._lines[0],
            unix_address=f"unix:{self._unix_path}" if self._unix_path else "",
            key_file=self._key_file,
            boot_id=userdirs.boot_id(),
            began=time.time(),
            daemons=tuple(self._daemons),
        )

    def _wait(self, lines: int) -> None:
        while len(self._lines) < lines and not self._failure:
            self._reactor.run()
        if self._failure:
            raise PartitionError(self._failure)

    def _read(self, fd: int) -> None:
        data = os.read(fd, 4096)
        *whole, self._partial = (self._partial + data).split(b"\n")
        self._lines += [line.decode() for line in whole]
        if data:
            self._reactor.stop()

    def _died(self, daemon: Daemon, status: int) -> None:
        self._fail(f"{daemon}: {how_it_ended(status)}", daemon.log)

    def _fail(self, text: str, log: str = "") -> None:
        if not self._failure:
            self._failure = f"the partition did not come up: {text}{directory.tail(log)}"
        self._reactor.stop()


def refuse_second(environment: Mapping[str, str]) -> None:
    found = state.load_any(environment)
    if found is not None and not is_stale(found):
        if found.tag:
            raise AlreadyUpError(
                f"a partition of {len(found.hosts)} other hosts is up already;"
                " `yodctl down` takes it down"
            )
        nodes = len(found.daemons) - 1
        if not processes.is_alive(found.daemons[0]):
            left = sum(map(processes.is_alive, found.daemons[1:]))
            raise AlreadyUpError(
                f"{found.daemons[0]} of the partition that was up is gone, {left} of its"
                f" {nodes} nodes are left; {way_back(found, ', ')}`yodctl down` ends them"
            )
        raise AlreadyUpError(
            f"a partition of {nodes} nodes is up already, at"
            f" {found.unix_address or found.address};"
            f" {way_back(found, ', ')}`yodctl down` takes it down"
        )


def way_back(found: State, behind: str = "") -> str:
    """The command that starts what has died of a partition of this host, and what it does.

    Args:
        behind: follows it in the line. Where there is no such command all is empty.
    """
    if not (count := count_of(found)) or not dead(found):
        return ""
    return f"`yodctl up --local {count}` starts again what is gone{behind}"
