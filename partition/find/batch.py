"""The batch job that this process runs in, by the variables that its batch system sets.

==========  ===========================================================================
Flux        FLUX_URI; FLUX_ENCLOSING_ID or FLUX_JOB_ID; hosts: `flux resource R`.
            Of a task: FLUX_TASK_RANK; of a connection from elsewhere: FLUX_PROXY_REMOTE
Slurm       SLURM_JOB_ID, SLURM_JOB_NUM_NODES, SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE;
            of a step: SLURM_STEP_ID, SLURM_STEP_NUM_TASKS, SLURM_JOB_CPUS_PER_NODE
PBS         PBS_JOBID; hosts: the lines of PBS_NODEFILE. Of a task: PBS_TASKNUM above 1
OAR         OAR_JOB_ID; hosts: the lines of OAR_NODEFILE or OAR_NODE_FILE
LSF         LSB_JOBID, LSB_JOBINDEX; hosts: the lines of LSB_DJOB_HOSTFILE, or
            LSB_MCPU_HOSTS, or LSB_HOSTS (a name for each slot). Of a task: LSF_PM_TASKID
host file   YOD_HOST_FILE: what a job of any other system has; hosts: its lines
==========  ===========================================================================

The first that fits is the innermost: Flux runs in jobs of others, and where Slurm has PBS's
commands its own variables say more.
"""

from __future__ import annotations

import os
import re
from _blake2 import blake2b
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from native.errors import PartitionError
from native.text import shown

SLURM, PBS, OAR, FLUX, LSF, HOST_FILE = "slurm", "pbs", "oar", "flux", "lsf", "hosts"
HOST_FILE_VARIABLE = "YOD_HOST_FILE"
OPEN_VARIABLE = "YOD_OPEN_TO"  # a host outside of the job that is to reach its partition
NODES_MAX = 100_000
FILE_MAX_BYTES = 1 << 26
_ENTRY = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")
# Part of the name of a directory, and of a command line.
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._\[\]-]{0,127}")
# A host's name as an argument, also of a shell; none that an option could be.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}")


class BatchJob(Struct, frozen=True):
    """A job of a batch system, with nodes.

    Attributes:
        system: its batch system.
        id: as that calls it.
        node_list: the names of its nodes, folded; empty: `hosts` has them.
        slots: of each node; empty: the batch system has to be asked.
        is_here: this process runs on one of its nodes.
        hosts: the names of its nodes; empty: `node_list` has them.
        firsts: the place of each node's first line in the batch system's file.
        open_to: a host outside of the job that is to reach its partition; empty: none.
    """

    system: str
    id: str
    node_list: str
    slots: tuple[int, ...]
    is_here: bool
    hosts: tuple[str, ...] = ()
    firsts: tuple[int, ...] = ()
    open_to: str = ""

    @property
    def needs_pcts(self) -> bool:
        """It has nodes besides this host, or may have some, or others are to reach it."""
        return len(self.slots) != 1 or not self.is_here or bool(self.open_to)

    @property
    def place(self) -> str:
        """The first part of the name of the directory of its partition."""
        return f"{self.system}-{self.id}"

    def __str__(self) -> str:
        if self.system == HOST_FILE:
            return f"{HOST_FILE_VARIABLE} {self.id}"
        return f"{self.system} job {self.id}"


def job(environment: Mapping[str, str]) -> BatchJob | None:
    """The batch job; None: there is none, or this is one of many processes in it that are alike.

    Raises:
        PartitionError: a file that the batch system names cannot be read, or names no hosts.
    """
    if "YOD_RANK" in environment:  # the job's nodes are a partition already, which runs this
        return None
    for mark, read in SYSTEMS.items():
        if mark in environment:
            found, open_to = read(environment), environment.get(OPEN_VARIABLE, "")
            return replace(found, open_to=open_to) if found and open_to else found
    return None


def id_of(environment: Mapping[str, str]) -> str:
    """What the batch system calls the job that this process belongs to; empty: to none."""
    for mark in (SLURM_ID, PBS_ID, _LSF_ID, *_OAR_IDS):
        if mark in environment:
            return environment[mark] if _ID.fullmatch(environment[mark]) else ""
    return ""


def of_hosts(
    system: str, job_id: str, names: Iterable[str], source: str, counts: Iterable[int] = ()
) -> BatchJob:
    """A job with these hosts, each with as many slots as it is named.

    Args:
        source: what names them, for the error.
        counts: slots of each name; none: one.

    Raises:
        PartitionError: there are none, or one is no name of a host.
    """
    slots: dict[str, int] = {}
    firsts: dict[str, int] = {}
    numbers = iter(counts)
    for place, name in enumerate(names):
        if not _NAME.fullmatch(name):
            raise PartitionError(f"{source}: {shown(name)} is no name of a host")
        firsts.setdefault(name, place)
        slots[name] = slots.get(name, 0) + next(numbers, 1)
    if not 1 <= len(slots) <= NODES_MAX:
        raise PartitionError(f"{source}: {len(slots)} hosts, must be 1 to {NODES_MAX}")
    is_here = any(map(is_this_host, slots))
    hosts = tuple(slots)
    return BatchJob(
        system, job_id, "", tuple(slots.values()), is_here, hosts, tuple(firsts.values())
    )


def counts(text: str) -> tuple[int, ...]:
    """``3,1(x2)`` is 3, 1, 1; empty: it is no such list."""
    found: list[int] = []
    for entry in text.split(","):
        read = _ENTRY.fullmatch(entry)
        if read is None or len(found) + int(read[2] or 1) > NODES_MAX:
            return ()
        found += [int(read[1])] * int(read[2] or 1)
    return tuple(found) if all(found) else ()


def _slurm(environment: Mapping[str, str]) -> BatchJob | None:
    job_id = environment[SLURM_ID]
    if not (job_id.isascii() and job_id.isdecimal()):
        return None
    in_step = "SLURM_STEP_ID" in environment
    if in_step and environment.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        return None
    # A step has its own tasks there, and not those that the job was given room for.
    source = "SLURM_JOB_CPUS_PER_NODE" if in_step else "SLURM_TASKS_PER_NODE"
    slots = counts(environment.get(source, ""))
    if not slots or str(len(slots)) != environment.get("SLURM_JOB_NUM_NODES", ""):
        return None
    node_list = environment.get("SLURM_JOB_NODELIST", "")
    return BatchJob(SLURM, job_id, node_list, slots, "SLURMD_NODENAME" in environment)


def _pbs(environment: Mapping[str, str]) -> BatchJob | None:
    # Each task that pbsdsh starts has a number of its own; that of the job's script is 1.
    if environment.get("PBS_TASKNUM", "1") != "1":
        return None
    return _of_file(PBS, environment[PBS_ID], environment, "PBS_NODEFILE")


def _oar(environment: Mapping[str, str]) -> BatchJob | None:
    job_id = next(environment[name] for name in _OAR_IDS if name in environment)
    return _of_file(OAR, job_id, environment, "OAR_NODEFILE", "OAR_NODE_FILE", "OAR_FILE_NODES")


def _lsf(environment: Mapping[str, str]) -> BatchJob | None:
    if "LSF_PM_TASKID" in environment:
        return None
    index = environment.get("LSB_JOBINDEX", "0")
    job_id = environment[_LSF_ID] + (f"[{index}]" if index != "0" else "")
    if "LSB_DJOB_HOSTFILE" in environment or not _ID.fullmatch(job_id):
        return _of_file(LSF, job_id, environment, "LSB_DJOB_HOSTFILE")
    if "LSB_MCPU_HOSTS" not in environment and (each := environment.get("LSB_HOSTS", "").split()):
        return of_hosts(LSF, job_id, each, "LSB_HOSTS")
    words = environment.get("LSB_MCPU_HOSTS", "").split()
    names, numbers = words[::2], words[1::2]
    if not words or len(names) != len(numbers) or not all(map(_is_count, numbers)):
        return None
    return of_hosts(LSF, job_id, names, "LSB_MCPU_HOSTS", map(int, numbers))


def _flux(environment: Mapping[str, str]) -> BatchJob | None:
    if "FLUX_TASK_RANK" in environment or "FLUX_PROXY_REMOTE" in environment:
        return None
    told = environment.get("FLUX_ENCLOSING_ID") or environment.get("FLUX_JOB_ID", "")
    job_id = told.replace("\u0192", "f")  # as in F58, which has an ASCII form
    if not _ID.fullmatch(job_id):
        job_id = blake2b(os.fsencode(environment[_FLUX_URI]), digest_size=6).hexdigest()
    return BatchJob(FLUX, job_id, "", (), True)


def _host_file(environment: Mapping[str, str]) -> BatchJob | None:
    path = environment[HOST_FILE_VARIABLE]
    job_id = blake2b(os.fsencode(os.path.realpath(path)), digest_size=6).hexdigest()
    return _of_file(HOST_FILE, job_id, environment, HOST_FILE_VARIABLE)


def _of_file(
    system: str, job_id: str, environment: Mapping[str, str], *variables: str
) -> BatchJob | None:
    """The job whose hosts are the lines of a file, which one of the variables names."""
    variable = next((name for name in variables if name in environment), "")
    if not variable or not _ID.fullmatch(job_id):
        return None
    path = environment[variable]
    source = f"{variable} {shown(path)}"
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(FILE_MAX_BYTES).splitlines()
    except OSError as error:
        why = f"{source}: {error.strerror}; --partition embedded is this host alone"
        raise PartitionError(why) from None
    words = (line.partition("#")[0].split() for line in lines)
    return of_hosts(system, job_id, (found[0] for found in words if found), source)


def is_this_host(name: str) -> bool:
    """It is this host, with or without its domain."""
    here = os.uname().nodename
    return name == here or name.partition(".")[0] == here.partition(".")[0]


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:7]) <= NODES_MAX


_FLUX_URI, SLURM_ID, PBS_ID, _LSF_ID = "FLUX_URI", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"
_OAR_IDS = ("OAR_JOB_ID", "OAR_JOBID")
SYSTEMS: Mapping[str, Callable[[Mapping[str, str]], BatchJob | None]] = {
    _FLUX_URI: _flux,
    SLURM_ID: _slurm,
    PBS_ID: _pbs,
    **dict.fromkeys(_OAR_IDS, _oar),
    _LSF_ID: _lsf,
    HOST_FILE_VARIABLE: _host_file,
}
