"""The process that starts the PCTs of a batch job and lives as long as they do."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct, json

from native.errors import PartitionError
from partition.find.batch import OAR, SLURM, BatchJob
from partition.find.state import STARTER, Daemon, State
from partition.hosts import launchers, slurm
from partition.hosts.holding import Plan as Held
from partition.up import directory, processes
from partition.up.own import own_directory

FIRST_FD = 10  # below are the descriptors that a started process is given
_HOLDER = "from partition.hosts.holder import main; main()"


class Plan(Struct, frozen=True):
    """The process that starts the PCTs of a job.

    Attributes:
        name: of the program that the batch system has for it.
        words: of the process that is started.
        told_up: what it is told when all PCTs are up.
        stays_in_session: the batch system signals and ends it with the job's session.
    """

    name: str
    words: tuple[str, ...]
    environment: dict[str, str]
    told_up: bytes = b""
    stays_in_session: bool = False


def plan(job: BatchJob, tag: str, environment: Mapping[str, str]) -> Plan:
    """What is started for this job. It begins while bebopd does, and waits for a line.

    Args:
        tag: of the PCTs.

    Raises:
        PartitionError: it cannot be done here.
    """
    if job.system == SLURM:
        words = slurm.command(job, own_directory(), tag)
        given = slurm.environment(environment)
        return Plan(words[0], (_program(job, words[0], environment), *words[1:]), given)
    name = launchers.program(job, environment)
    _program(job, name, environment)
    # Theirs are of this host.
    dropped = ("XDG_RUNTIME_DIR", "PYTHONPATH")
    given = {name: value for name, value in environment.items() if name not in dropped}
    words = [sys.executable, "-P", "-c", _HOLDER]
    return Plan(name, tuple(words), given, b"up\n", stays_in_session=True)


def told(job: BatchJob, found: State, key: bytes, environment: Mapping[str, str]) -> bytes:
    """The line that it is told when bebopd listens.

    Args:
        found: the partition, with its address.

    Raises:
        PartitionError: the job's environment lacks something.
    """
    if job.system == SLURM:  # the PCTs read it
        return f"{key.hex()} {found.address}\n".encode()
    pct = launchers.Pct(own_directory(), found.address, found.tag, launchers.settings(environment))
    held = tuple(launchers.commands(job, pct, environment))
    ends_with = script_of(job) if job.system == OAR else 0
    return json.encode(Held(key.hex(), held, ends_with)) + b"\n"


def script_of(job: BatchJob) -> int:
    """The process of the job's user that all others of the job on this host come from.

    OAR ends what is left of a job by its cpuset, and where it has none not at all.

    Returns:
        Its Unix process id; 0: the job's script runs on another host.
    """
    if job.hosts[0].partition(".")[0] != socket.gethostname().partition(".")[0]:
        return 0
    unix_pid, above = os.getpid(), os.getppid()
    uid, session = os.geteuid(), os.getsid(0)
    while above > 1 and processes.owner_of(above) == uid and processes.session_of(above) == session:
        unix_pid, above = above, processes.parent_of(above)
    return unix_pid


class Starter:
    """Starts that process.

    Args:
        descriptors: closes the pipes of it that are ours.
    """

    def __init__(self, descriptors: ExitStack) -> None:
        self._life_reader, self._life_writer = _pipe(descriptors)
        self._told_reader, self._told_writer = _pipe(descriptors)

    @contextmanager
    def lifetime(self) -> Iterator[int]:
        """A descriptor for bebopd, whose other end only that process will have."""
        inherited = _for_child(self._life_reader)
        try:
            yield inherited
        finally:
            os.close(inherited)

    def start(self, where: Path, plan: Plan) -> Daemon:
        """Start it."""
        log = where / directory.LOGS / f"{os.path.basename(plan.name)}.log"
        inherited = _for_child(self._life_writer)
        try:
            unix_pid = processes.spawn(
                list(plan.words),
                plan.environment,
                log,
                stdin_fd=self._told_reader,
                stays_in_session=plan.stays_in_session,
            )
        finally:
            os.close(inherited)
        return Daemon(unix_pid, processes.start_ticks(unix_pid), str(log), STARTER)

    def tell(self, data: bytes) -> None:
        """Write to its standard input."""
        try:
            with open(self._told_writer, "wb", closefd=False) as file:
                file.write(data)
        except BrokenPipeError:
            pass  # its end is seen, and its log says why


def _program(job: BatchJob, name: str, environment: Mapping[str, str]) -> str:
    if (program := shutil.which(name, path=environment.get("PATH"))) is None:
        raise PartitionError(f"{job}: no {name} in PATH")
    return program


def _pipe(descriptors: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    descriptors.callback(os.close, reader)
    descriptors.callback(os.close, writer)
    return reader, writer


def _for_child(fd: int) -> int:
    """The same descriptor, for a process that is started now, by another number."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD, FIRST_FD)
