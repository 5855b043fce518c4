"""A partition of the nodes of a batch job, for the time of that job.

A bebopd on this host, and a PCT on each node, which the batch system starts and ends. bebopd
ends with the process that starts them: it has a descriptor whose other end only that one has.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from native.errors import PartitionError, UsageError
from native.limits import Limits
from partition.find import batch, discover, state
from partition.find.batch import BatchJob
from partition.find.discover import Where
from partition.find.state import STARTER, Daemon, State
from partition.hosts import address, allocator, names, slurm
from partition.up import directory, local, processes
from partition.up.own import own_directory

RECORDS = "records"  # in the directory of the job, which they end with
FIRST_FD = 10  # below are the descriptors that a started process is given


def found(environment: Mapping[str, str], limits: Limits) -> tuple[Where, list[str]]:
    """The partition of the batch job that this is, and what the user is told of its start.

    Raises:
        PartitionError: it does not come up.
    """
    job = batch.job(environment)
    assert job is not None  # as discover.find has seen
    began = time.monotonic()
    up, is_new = bring_up(job, limits, environment)
    line = (
        f"{len(job.slots)} nodes of {job} are up, until it ends ({time.monotonic() - began:.1f} s)"
    )
    return discover.of_state(up), [line] if is_new else []


def bring_up(job: BatchJob, limits: Limits, environment: Mapping[str, str]) -> tuple[State, bool]:
    """The partition of a batch job, which is started if it is not there.

    Returns:
        The partition, and whether it was started.

    Raises:
        PartitionError: it does not come up.
    """
    where = state.directory(environment)
    directory.make(where, environment)
    with directory.locked(where):
        earlier = state.load_any(environment)
        if earlier is not None and earlier.is_up and _lives(earlier):
            return earlier, False
        if earlier is not None:
            processes.end(earlier.daemons, local.END_S)
        _remove_earlier(where)
        directory.clean(where, removes_itself=False)
        return _begin(where, job, limits, environment), True


def _lives(found: State) -> bool:
    return all(map(processes.is_alive, found.daemons))


def _begin(where: Path, job: BatchJob, limits: Limits, environment: Mapping[str, str]) -> State:
    with ExitStack() as undo, ExitStack() as descriptors:
        reader, writer = _pipe(descriptors)
        inherited = _for_child(reader)
        try:
            choice = allocator.Choice(
                str(job), _own_address(job), records=str(where / RECORDS), until_fd=inherited
            )
            undo.callback(_remove, where)
            bebopd = allocator.Starting(where, choice, environment, len(job.slots))
        finally:
            os.close(inherited)
        descriptors.callback(bebopd.close)
        undo.callback(bebopd.abandon)
        found = bebopd.listening()
        key_reader, key_writer = _pipe(descriptors)
        srun = _spawn(where, job, found, environment, key_reader, writer)
        undo.callback(processes.end, [srun], local.END_S)
        found = replace(found, daemons=(*found.daemons, srun))
        state.save(found, where)
        # Until the PCTs are taken by bebopd they end with this pipe.
        os.write(key_writer, Path(found.key_file).read_bytes().hex().encode() + b"\n")
        if (pidfd := processes.open_pidfd(srun)) >= 0:
            descriptors.callback(os.close, pidfd)
        if pidfd < 0 or not bebopd.has_nodes(limits.host_up_s, pidfd):
            raise PartitionError(_failure(job, srun, limits))
        found = replace(found, is_up=True)
        state.save(found, where)
        undo.pop_all()
        return found


def _spawn(
    where: Path,
    job: BatchJob,
    found: State,
    environment: Mapping[str, str],
    key_fd: int,
    life_fd: int,
) -> Daemon:
    """Start the PCTs, by a process that has the one end of bebopd's life."""
    command = slurm.command(job, own_directory(), found.address, found.tag)
    if (program := shutil.which(command[0], path=environment.get("PATH"))) is None:
        raise PartitionError(f"{job}: no {command[0]} in PATH")
    log = where / directory.LOGS / f"{command[0]}.log"
    inherited = _for_child(life_fd)
    try:
        given = slurm.environment(environment)
        unix_pid = processes.spawn([program, *command[1:]], given, log, stdin_fd=key_fd)
    finally:
        os.close(inherited)
    return Daemon(unix_pid, processes.start_ticks(unix_pid), str(log), STARTER)


def _failure(job: BatchJob, srun: Daemon, limits: Limits) -> str:
    if processes.is_alive(srun):
        what = f"its {len(job.slots)} nodes are not up in {limits.host_up_s:g} s"
    else:
        what = "srun has ended"
    return f"{job}: {what}{directory.tail(srun.log)}"


def _own_address(job: BatchJob) -> str:
    """The address of this host that the job's nodes can reach."""
    try:
        return address.towards(names.parse(job.node_list), "false")
    except (PartitionError, UsageError):  # Slurm may know its nodes by other names
        return address.check(os.uname().nodename)


def _remove_earlier(where: Path) -> None:
    """Remove the directories of batch jobs of this host that have ended."""
    for path in where.parent.glob(f"{state.BATCH}*@{os.uname().nodename}"):
        if path == where:
            continue
        try:
            found = state.load_from(str(path))
        except PartitionError:
            found = None
        if found is None or not any(map(processes.is_alive, found.daemons)):
            shutil.rmtree(path, ignore_errors=True)


def _remove(where: Path) -> None:
    directory.clean(where, removes_itself=False)
    shutil.rmtree(where / RECORDS, ignore_errors=True)


def _pipe(descriptors: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    descriptors.callback(os.close, reader)
    descriptors.callback(os.close, writer)
    return reader, writer


def _for_child(fd: int) -> int:
    """The same descriptor, for a process that is started now, by another number."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD, FIRST_FD)
