"""The bebopd of a partition of other hosts: starts it on this host, as a process of its own."""

from __future__ import annotations

import os
import secrets
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from native.errors import PartitionError
from native.host import programs, sitedirs, userdirs
from partition.find import state
from partition.find.state import Daemon, State
from partition.up import directory, processes

START_S = 30.0  # bebopd listens within this
REJOIN_S = 10.0  # nodes that were up come to a new bebopd within this


class Choice(Struct, frozen=True):
    """What may be said of a bebopd.

    Attributes:
        name: of the partition.
        address: at which others reach this host.
        port: 0: any.
        debug: it writes more to its log.
        records: directory of its records; empty: the user's.
        until_fd: a descriptor that it inherits, and whose end is its own; -1: it has none.
        tag: of the partition's PCTs; empty: a new one.
    """

    name: str
    address: str
    port: int = 0
    debug: bool = False
    records: str = ""
    until_fd: int = -1
    tag: str = ""


def start(
    where: Path,
    choice: Choice,
    environment: Mapping[str, str],
    expected: int = 0,
    meanwhile: Callable[[], None] = lambda: None,
) -> State:
    """Start it, and wait until it listens.

    Args:
        where: the partition's directory, locked.
        expected: so many nodes are on their way to it; they have a while to come.
        meanwhile: what takes time too, and does not need it.

    Returns:
        A partition without nodes, that is not up.

    Raises:
        PartitionError: it does not come up; the text contains the end of its log.
    """
    starting = Starting(where, choice, environment, expected)
    try:
        meanwhile()
        found = starting.listening()
        if expected:
            starting.has_nodes(REJOIN_S)
    except BaseException:
        starting.abandon()
        raise
    finally:
        starting.close()
    return found


class Starting:
    """A bebopd that has been started, and tells how far it is.

    Args:
        expected: the number of nodes that it tells of.

    All others are those of :func:`start`.
    """

    def __init__(
        self, where: Path, choice: Choice, environment: Mapping[str, str], expected: int
    ) -> None:
        (where / directory.LOGS).mkdir(mode=0o700, exist_ok=True)
        self._log = where / directory.LOGS / "bebopd.log"
        self._name = choice.name
        self._tag = choice.tag or secrets.token_hex(8)
        self._key_file = str(where / directory.KEY)
        is_for_all = choice.until_fd < 0  # a batch job's is for nobody else
        self._unix_path = directory.socket_path(where, environment, is_for_all=is_for_all)
        self._data = b""
        self._reader, writer = os.pipe2(os.O_CLOEXEC)
        records = choice.records or str(state.records_directory(environment))
        argv = [
            *programs.command_line("bebopd"),
            *("--listen", f"0.0.0.0:{choice.port}", "--advertise", choice.address),
            *("--unix", self._unix_path or sitedirs.NONE),
            *("--name", choice.name, "--key-file", self._key_file, "--state-dir", records),
            *("--ready-fd", str(processes.READY_FD), "--expect", str(expected)),
            *(["--until-fd", str(choice.until_fd)] if choice.until_fd >= 0 else []),
            *(["-D"] if choice.debug else []),
        ]
        # It imports its own modules, not the user's.
        own = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
        try:
            self._unix_pid = processes.spawn(argv, own, self._log, writer)
        finally:
            os.close(writer)

    def listening(self) -> State:
        """Wait until it listens.

        Returns:
            A partition without nodes, that is not up.

        Raises:
            PartitionError: it ends, or is too slow.
        """
        if not self._has_lines(1, START_S, -1):
            raise PartitionError(f"bebopd did not come up{directory.tail(str(self._log))}")
        ticks = processes.start_ticks(self._unix_pid)
        return State(
            is_up=False,
            name=self._name,
            address=self._data.partition(b"\n")[0].decode(),
            unix_address=f"unix:{self._unix_path}" if self._unix_path else "",
            key_file=self._key_file,
            boot_id=userdirs.boot_id(),
            began=time.time(),
            daemons=(Daemon(self._unix_pid, ticks, str(self._log)),),
            tag=self._tag,
        )

    def has_nodes(self, wait_s: float, unless_fd: int = -1) -> bool:
        """Wait until the nodes are there.

        Args:
            unless_fd: when it can be read, they will not come.
        """
        return self._has_lines(2, wait_s, unless_fd)

    def abandon(self) -> None:
        """Kill it: it is a child that nobody has reaped."""
        os.kill(self._unix_pid, signal.SIGKILL)
        os.waitpid(self._unix_pid, 0)

    def close(self) -> None:
        """Listen to it no more."""
        os.close(self._reader)

    def _has_lines(self, count: int, wait_s: float, unless_fd: int) -> bool:
        until = time.monotonic() + wait_s
        fds = [self._reader] + ([unless_fd] if unless_fd >= 0 else [])
        while self._data.count(b"\n") < count:
            ready, _, _ = select.select(fds, [], [], max(0.0, until - time.monotonic()))
            if self._reader not in ready or not (data := os.read(self._reader, 4096)):
                return False
            self._data += data
        return True
