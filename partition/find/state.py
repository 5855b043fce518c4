"""The partition that ``yodctl up`` has started: its address and its daemons.

They are recorded in one JSON file in a directory of the user, beside the daemons' socket,
key and logs: ``$XDG_RUNTIME_DIR/yod``, or ``~/.local/state/yod`` where there is no such
directory. bebopd's records outlive the partition, so that job ids are not reused; they
are in ``~/.local/state/yod/records``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct

from native.errors import PartitionError
from native.host import userdirs
from native.text import shown

if TYPE_CHECKING:  # takes 3 ms to import, and every launch looks for this file
    from pathlib import Path

FILE_NAME = "partition.json"
# A batch job's partition has a directory of its own: SYSTEM-ID@HOST, as `batch.BatchJob.place`.
OF_JOBS = "*-*@"
# Where one of these is set there may be a batch job; they are those of `batch.SYSTEMS`.
BATCH_MARKS = (
    *("FLUX_URI", "SLURM_JOB_ID", "PBS_JOBID", "OAR_JOB_ID", "OAR_JOBID", "LSB_JOBID"),
    "YOD_HOST_FILE",
)
STARTER = -2  # in the place of a node's number: the process that has started the PCTs
TEMPORARY = f".{FILE_NAME}."  # how the name of one that is being written starts


class Daemon(Struct, frozen=True):
    """One process of the partition.

    Attributes:
        start_ticks: when it started, in clock ticks since boot as in /proc; together
            with the Unix process id it identifies the process until the host reboots.
        node: its number; -1: the bebopd; STARTER.
    """

    unix_pid: int
    start_ticks: int
    log: str
    node: int = -1

    def __str__(self) -> str:
        what = "bebopd" if self.node < 0 else f"pct of node {self.node}"
        if self.node == STARTER:
            what = "starter of the pcts"
        return f"{what} (process {self.unix_pid})"


class Host(Struct, frozen=True):
    """A host that is, or is to be, a node of the partition.

    Attributes:
        name: as the user has named it, and as ssh knows it.
        is_started: a PCT was started there, and has not been ended.
    """

    name: str
    node: int
    is_started: bool


class State(Struct, frozen=True):
    """What ``yodctl up`` has started.

    Attributes:
        is_up: every daemon runs; False while they are being started.
        address: host:port of the bebopd.
        unix_address: ``unix:PATH`` of the bebopd; empty: it has none.
        key_file: path of the partition's key.
        boot_id: the kernel's id of this boot; after a reboot no daemon is left.
        began: unix time.
        daemons: those on this host; the first is the bebopd.
        hosts: others, with a PCT each.
        ssh: the command that reaches them.
        tag: the PCTs there have it as an argument.
    """

    is_up: bool
    name: str
    address: str
    unix_address: str
    key_file: str
    boot_id: str
    began: float
    daemons: tuple[Daemon, ...] = ()
    hosts: tuple[Host, ...] = ()
    ssh: str = ""
    tag: str = ""

    @property
    def is_of_job(self) -> bool:
        """It is of a batch job's nodes, and ends with the job."""
        return any(daemon.node == STARTER for daemon in self.daemons)

    @property
    def started(self) -> tuple[str, ...]:
        """The hosts on which a PCT was started."""
        return tuple(host.name for host in self.hosts if host.is_started)


def directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory for the state of this user's partition.

    In a batch job it is one of that job, whose nodes are its partition; on another host another
    one, because hosts may share a home.
    """
    from pathlib import Path

    return Path(_place(environment))


def may_be_in_job(environment: Mapping[str, str]) -> bool:
    """A batch system has set one of its variables."""
    return any(mark in environment for mark in BATCH_MARKS)


def records_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory for bebopd's records, which outlive the partition."""
    from pathlib import Path

    return Path(userdirs.state(environment), userdirs.RECORDS)


def load(environment: Mapping[str, str] = os.environ) -> State | None:
    """The partition that is up; None: there is none.

    Raises:
        PartitionError: the file exists and cannot be read.
    """
    state = load_any(environment)
    return state if state is not None and state.is_up else None


def load_any(environment: Mapping[str, str] = os.environ) -> State | None:
    """The same, or one whose start is under way or was interrupted."""
    return load_from(_place(environment))


def load_from(place: str) -> State | None:
    """The same, of a directory."""
    path = os.path.join(place, FILE_NAME)
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
    return state if state.boot_id == userdirs.boot_id() else None


def _place(environment: Mapping[str, str]) -> str:
    runtime = userdirs.runtime(environment)
    if not may_be_in_job(environment):
        return runtime
    from partition.find import batch

    if (job := batch.job(environment)) is None or not job.needs_pcts:
        return runtime
    return os.path.join(runtime, f"{job.place}@{os.uname().nodename}")


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
