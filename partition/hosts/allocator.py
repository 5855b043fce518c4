"""The bebopd of a partition of other hosts: starts it on this host, as a process of its own."""

from __future__ import annotations

import os
import secrets
import select
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from native.errors import PartitionError
from native.host import programs, userdirs
from partition.find import state
from partition.find.state import Daemon, State
from partition.up import directory, processes

START_S = 30.0  # bebopd listens within this
REJOIN_S = 10.0  # nodes that were up come to a new bebopd within this


class Choice(Struct, frozen=True):
    """What the user may say of a bebopd.

    Attributes:
        name: of the partition.
        address: at which others reach this host.
        port: 0: any.
        debug: it writes more to its log.
        until_fd: its end is bebopd's; -1: it has none.
    """

    name: str
    address: str
    port: int = 0
    debug: bool = False
    until_fd: int = -1


def start(where: Path, choice: Choice, environment: Mapping[str, str], expected: int = 0) -> State:
    """Start it, and wait until it listens.

    Args:
        where: the partition's directory, locked.
        expected: so many nodes are on their way to it; they have a while to come.

    Returns:
        A partition without nodes, that is not up.

    Raises:
        PartitionError: it does not come up; the text contains the end of its log.
    """
    (where / directory.LOGS).mkdir(mode=0o700, exist_ok=True)
    log = where / directory.LOGS / "bebopd.log"
    unix_path = directory.socket_path(where)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    argv = [
        *programs.command_line("bebopd"),
        *("--listen", f"0.0.0.0:{choice.port}", "--advertise", choice.address),
        *(["--unix", unix_path] if unix_path else []),
        *("--name", choice.name, "--key-file", str(where / directory.KEY)),
        *("--state-dir", str(state.records_directory(environment))),
        *("--ready-fd", str(processes.READY_FD), "--expect", str(expected)),
        *(["-D"] if choice.debug else []),
    ]
    # It imports its own modules, not the user's.
    own = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    try:
        try:
            unix_pid = processes.spawn(argv, own, log, writer)
        finally:
            os.close(writer)
        try:
            address = _lines(reader, expected > 0, str(log))
        except BaseException:
            os.kill(unix_pid, signal.SIGKILL)  # our child, which nobody has reaped
            os.waitpid(unix_pid, 0)
            raise
    finally:
        os.close(reader)
    return State(
        is_up=False,
        name=choice.name,
        address=address,
        unix_address=f"unix:{unix_path}" if unix_path else "",
        key_file=str(where / directory.KEY),
        boot_id=userdirs.boot_id(),
        began=time.time(),
        daemons=(Daemon(unix_pid, processes.start_ticks(unix_pid), str(log)),),
        tag=secrets.token_hex(8),
    )


def _lines(reader: int, has_nodes: bool, log: str) -> str:
    """The address that bebopd tells; returns when its nodes are there, or have had their time."""
    data = b""
    until = time.monotonic() + START_S
    while data.count(b"\n") < 1 + has_nodes:
        left_s = max(0.0, until - time.monotonic())
        if not select.select([reader], [], [], left_s)[0]:
            break
        more = os.read(reader, 4096)
        if not more:
            break
        if not data:
            until = time.monotonic() + REJOIN_S
        data += more
    if b"\n" not in data:
        raise PartitionError(f"bebopd did not come up{directory.tail(log)}")
    return data.partition(b"\n")[0].decode()
