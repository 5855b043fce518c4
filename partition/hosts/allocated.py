"""A partition of the nodes of a batch job, for the time of that job.

A bebopd on this host, and a PCT on each node, which the batch system starts and ends. bebopd
ends with the process that starts them: it has a descriptor whose other end only that one has.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

from msgspec.structs import replace

from native.errors import PartitionError, UsageError
from native.host import starting
from native.limits import Limits
from partition.find import batch, discover, state
from partition.find.batch import BatchJob
from partition.find.discover import Where
from partition.find.state import Daemon, State
from partition.hosts import address, allocator, flux, launchers, names, starters
from partition.hosts.starters import Starter
from partition.up import directory, local, processes

RECORDS = "records"  # in the directory of the job, which they end with


def found(environment: Mapping[str, str], limits: Limits) -> tuple[Where, list[str]]:
    """The partition of the batch job that this is, and what the user is told of its start.

    Raises:
        PartitionError: it does not come up.
    """
    job = batch.job(environment)
    assert job is not None  # as discover.find has seen
    job = with_hosts(job, environment)
    if not job.needs_pcts:
        return discover.of_one_host(str(job), job.slots[0]), []
    began = time.monotonic()
    up, is_new = bring_up(job, limits, environment)
    line = (
        f"{len(job.slots)} nodes of {job} are up, until it ends ({time.monotonic() - began:.1f} s)"
    )
    return discover.of_state(up), [line] if is_new else []


def with_hosts(job: BatchJob, environment: Mapping[str, str]) -> BatchJob:
    """The job with its hosts, where its variables do not name them.

    Raises:
        PartitionError: the batch system does not name them either.
    """
    if job.slots:
        return job
    return replace(flux.with_hosts(job, environment), open_to=job.open_to)


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
    tag = token_hex(8)
    plan = starters.plan(job, tag, environment)
    with ExitStack() as undo, ExitStack() as descriptors:
        undo.callback(_remove, where)
        if job.system == batch.PBS:
            _write_key(where, job, tag, environment)
        starter = Starter(descriptors)
        with starter.lifetime() as inherited:
            choice = allocator.Choice(
                str(job),
                _own_address(job),
                records=str(where / RECORDS),
                until_fd=inherited,
                tag=tag,
            )
            # It ends with that descriptor, and is nothing that the job leaves behind.
            marks = (batch.PBS_ID, batch.SLURM_ID)
            own = {name: value for name, value in environment.items() if name not in marks}
            bebopd = allocator.Starting(where, choice, own, len(job.slots))
        descriptors.callback(bebopd.close)
        undo.callback(bebopd.abandon)
        # The PCTs start while bebopd does. Until it has taken them they end with this pipe.
        daemon = starter.start(where, plan)
        undo.callback(processes.end, [daemon], local.END_S)
        found = bebopd.listening()
        found = replace(found, daemons=(*found.daemons, daemon))
        state.save(found, where)
        key = Path(found.key_file).read_bytes()
        starter.tell(starters.told(job, found, key, environment))
        if (pidfd := processes.open_pidfd(daemon)) >= 0:
            descriptors.callback(os.close, pidfd)
        if pidfd < 0 or not bebopd.has_nodes(limits.host_up_s, pidfd):
            raise PartitionError(_failure(job, plan.name, daemon, limits))
        starter.tell(plan.told_up)
        found = replace(found, is_up=True)
        state.save(found, where)
        undo.pop_all()
        return found


def _write_key(where: Path, job: BatchJob, tag: str, environment: Mapping[str, str]) -> None:
    """Write the key that the PCTs make of the job's secret, before bebopd makes one."""
    variable = launchers.COOKIE
    if variable not in environment:
        raise PartitionError(f"{job}: no {variable} is set, by which its hosts know one another")
    fd = os.open(where / directory.KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as file:
        file.write(starting.key_of_secret(environment, variable, tag))


def _failure(job: BatchJob, name: str, daemon: Daemon, limits: Limits) -> str:
    if processes.is_alive(daemon):
        what = f"its {len(job.slots)} nodes are not up in {limits.host_up_s:g} s"
    else:
        what = f"{name} has ended"
    return f"{job}: {what}{directory.tail(daemon.log)}"


def _own_address(job: BatchJob) -> str:
    """The address of this host that the job's nodes can reach, or who is to from elsewhere."""
    if job.open_to:
        return address.towards([job.open_to])
    others = [name for name in job.hosts if not batch.is_this_host(name)]
    try:
        return address.towards(others or names.parse(job.node_list))
    except (PartitionError, UsageError):  # the batch system may know its nodes by other names
        return address.check(os.uname().nodename)


def _remove_earlier(where: Path) -> None:
    """Remove the directories of batch jobs of this host that have ended."""
    for path in where.parent.glob(f"{state.OF_JOBS}{os.uname().nodename}"):
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
