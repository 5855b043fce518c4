"""The partition that ``yodctl up`` has started: where it is, and who it is.

One JSON file in a directory of the user's own, which also has the daemons'
socket, key and logs: ``$XDG_RUNTIME_DIR/yod``, or ``~/.local/state/yod`` where
there is no such directory. bebopd's records outlive the partition, so that job
numbers go on; they are in ``~/.local/state/yod/records``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct

from native.errors import PartitionError
from native.host import userdirs
from native.text import shown

if TYPE_CHECKING:  # takes 3 ms to import, and every launch looks for this file
    from pathlib import Path

FILE_NAME = "partition.json"
TEMPORARY = f".{FILE_NAME}."  # how the name of one that is being written starts


class Daemon(Struct, frozen=True):
    """One process of the partition.

    Attributes:
        start_ticks: when it started, as /proc has it; with the Unix process id
            this names a process for as long as the host runs.
        node: its number; -1: the bebopd.
    """

    unix_pid: int
    start_ticks: int
    log: str
    node: int = -1

    def __str__(self) -> str:
        what = "bebopd" if self.node < 0 else f"pct of node {self.node}"
        return f"{what} (process {self.unix_pid})"


class State(Struct, frozen=True):
    """What ``yodctl up`` has started.

    Attributes:
        is_up: all of it runs; False while it is being started.
        address: host:port of the bebopd.
        unix_address: ``unix:PATH`` of the same; empty: it has none.
        key_file: the partition's key.
        boot_id: of the host's present life; after a reboot nothing of it is left.
        began: unix time.
    """

    is_up: bool
    name: str
    address: str
    unix_address: str
    key_file: str
    boot_id: str
    began: float
    daemons: tuple[Daemon, ...] = ()


def directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the state of this user's partition belongs."""
    from pathlib import Path

    return Path(_directory(environment))


def records_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where bebopd keeps what outlives the partition."""
    from pathlib import Path

    return Path(userdirs.state(environment), "records")


def load(environment: Mapping[str, str] = os.environ) -> State | None:
    """The partition that is up; None: there is none.

    Raises:
        PartitionError: the file is there and cannot be read.
    """
    state = load_any(environment)
    return state if state is not None and state.is_up else None


def load_any(environment: Mapping[str, str] = os.environ) -> State | None:
    """The same, or one that is being started, or was when that was cut off."""
    path = os.path.join(_directory(environment), FILE_NAME)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PartitionError(f"{shown(path)}: {error.strerror}") from None
    from msgspec import json  # most launches have no partition of their own

    try:
        state = json.decode(data, type=State)
    except MsgspecError as error:
        raise PartitionError(f"{shown(path)}: damaged ({error}); remove it") from None
    return state if state.boot_id == boot_id() else None


def save(state: State, where: Path) -> None:
    """Write the file, whole or not at all.

    Raises:
        PartitionError: it cannot be written.
    """
    from msgspec import json

    temporary = where / f"{TEMPORARY}{os.getpid()}"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "wb") as file:
            file.write(json.format(json.encode(state), indent=1))
        temporary.rename(where / FILE_NAME)
    except OSError as error:
        raise PartitionError(f"{shown(str(where / FILE_NAME))}: {error.strerror}") from None


def boot_id() -> str:
    """Names the present life of this host."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _directory(environment: Mapping[str, str]) -> str:
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime and _is_own(runtime):
        return os.path.join(runtime, "yod")
    return userdirs.state(environment)


def _is_own(path: str) -> bool:
    # A runtime directory of another user survives `su`.
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
