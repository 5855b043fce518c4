"""Processes of the batch job that neither the batch system nor a keeper ends: rogues.

PBS ends the sessions of the tasks that it has started, and no others: a process of the job that
has made a session of its own survives the job. The batch system's daemon on this host is the
parent of the leader of the session in which this pct is, and of those of all other tasks. So a
process is a rogue if it has the job's id in its environment, is in no session whose living leader
is a child of that daemon, and is below neither this pct nor a keeper.

Slurm ends the control groups of the job, where it has any (``proctrack/cgroup``), and else what is
below the daemons of the job's steps: a process whose parent has ended survives the job. So a
process is a rogue if it has the job's id in its environment, is in no control group of the job,
and below none of these daemons, no command of Slurm that ends with the job, and no keeper.

What is hidden decides nothing: of a process whose environment or ancestors cannot be seen nothing
is said.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from native.text import shown

AT_ONCE_COUNT = 64  # processes, between two turns of the loop
NAMED_MAX = 8
ROUNDS_MAX = 16  # for processes that fork faster than they are found
PBS, SLURM = "pbs", "slurm"
_TITLES = {PBS: "PBS", SLURM: "Slurm"}
_VARIABLES = {PBS: "PBS_JOBID", SLURM: "SLURM_JOB_ID"}  # each process of a job has it
_OF_RANK = b"YOD_RANK="  # each process that a rank has started has it
_KEEPER = "yod-keeper"
_OF_SLURM = ("slurmstepd", "salloc", "srun")  # what is below them ends with the job
_STAT_BYTES = 4096
_FIRST = 1  # the process that adopts orphans


class Job(NamedTuple):
    """A job of a batch system that leaves processes behind.

    Attributes:
        id: as the batch system calls it.
    """

    system: str
    id: str

    @property
    def entry(self) -> bytes:
        """What each of its processes has in its environment."""
        return os.fsencode(f"{_VARIABLES[self.system]}={self.id}")


class Seen(NamedTuple):
    """What the kernel shows of a process."""

    name: str
    parent: int
    session: int


def job_of(environment: Mapping[str, str], *, is_of_pbs: bool, is_of_slurm: bool) -> Job | None:
    """The batch job that has started this pct; None: there is none.

    Args:
        is_of_pbs: a task of PBS is this pct.
        is_of_slurm: a step of Slurm is this pct.
    """
    system = PBS if is_of_pbs else SLURM if is_of_slurm else ""
    found = environment.get(_VARIABLES.get(system, ""), "")
    return Job(system, found) if found else None


def look(job: Job) -> Iterator[str]:
    """Look for rogues of a batch job, in short pieces: empty texts, and last what there is."""
    seen: dict[int, Seen] = {}
    for number, name in enumerate(os.listdir("/proc"), 1):
        if name.isdecimal() and (found := _see(name)) is not None:
            seen[int(name)] = found
        if number % AT_ONCE_COUNT == 0:
            yield ""
    rogues = []
    for number, unix_pid in enumerate(_strays_of(job, seen), 1):
        if job.entry in _environment(unix_pid) and not _is_in_group(job, unix_pid):
            rogues.append(unix_pid)
        if number % AT_ONCE_COUNT == 0:
            yield ""
    yield described(job, [(unix_pid, seen[unix_pid].name) for unix_pid in rogues])


def kill_left(job: Job) -> None:
    """Kill the rogues that ranks have started: their jobs have ended with this pct, at the latest.

    Processes that a user has started without yod are not killed.
    """
    killed: set[int] = set()
    for _ in range(ROUNDS_MAX):
        names = filter(str.isdecimal, os.listdir("/proc"))
        seen = {int(name): found for name in names if (found := _see(name)) is not None}
        left = [pid for pid in _strays_of(job, seen) if _is_left(pid, job)]
        if killed.issuperset(left):
            return
        for unix_pid in left:
            _kill(unix_pid, job)
            killed.add(unix_pid)


def _strays_of(job: Job, seen: Mapping[int, Seen]) -> list[int]:
    return strays(seen, os.getpid()) if job.system == PBS else strays_of_slurm(seen, os.getpid())


def strays(seen: Mapping[int, Seen], me: int) -> list[int]:
    """Processes outside of the batch system's sessions, below neither this process nor a keeper.

    Args:
        seen: by process id.
        me: this process; where the leader of its session has ended nothing is known.
    """
    own = seen.get(me)
    leader = seen.get(own.session) if own is not None else None
    if leader is None:
        return []
    ours = {
        pid for pid, each in seen.items() if (each.session, each.parent) == (pid, leader.parent)
    }
    top = (0, _FIRST, leader.parent)
    return [
        pid
        for pid, each in seen.items()
        if each.session not in ours and pid != _FIRST and _is_astray(pid, seen, me, top, (_KEEPER,))
    ]


def strays_of_slurm(seen: Mapping[int, Seen], me: int) -> list[int]:
    """Processes below nothing that Slurm ends, and neither this process nor a keeper.

    Args:
        seen, me: as for :func:`strays`.
    """
    enders = (_KEEPER, *_OF_SLURM)
    top = (0, _FIRST)
    return [pid for pid in seen if pid != _FIRST and _is_astray(pid, seen, me, top, enders)]


def _is_astray(
    unix_pid: int, seen: Mapping[int, Seen], me: int, top: Sequence[int], enders: Sequence[str]
) -> bool:
    """Nobody above it ends it; not so if somebody above it cannot be seen, who perhaps does."""
    passed: set[int] = set()  # the picture is not of one moment: it may have a circle
    while unix_pid in seen and unix_pid not in passed:
        if unix_pid == me or seen[unix_pid].name in enders:
            return False
        passed.add(unix_pid)
        unix_pid = seen[unix_pid].parent
    return unix_pid in top


def described(job: Job, rogues: Sequence[tuple[int, str]]) -> str:
    """For people; empty: there are none."""
    if not rogues:
        return ""
    named = [f"{unix_pid} ({shown(name)})" for unix_pid, name in sorted(rogues)[:NAMED_MAX]]
    more = f" and {len(rogues) - NAMED_MAX} more" if len(rogues) > NAMED_MAX else ""
    whose = f"of {job.system} job {shown(job.id)}, which {_TITLES[job.system]} does not end"
    return f"{whose}: {', '.join(named)}{more}"


def _see(name: str) -> Seen | None:
    """None: it has ended, or is hidden."""
    try:
        with open(f"/proc/{name}/stat", "rb", buffering=0) as stat:
            head, _, rest = stat.read(_STAT_BYTES).rpartition(b")")
    except OSError:
        return None
    if len(fields := rest.split()) < 4 or fields[0] == b"Z":
        return None
    program = head.partition(b"(")[2].decode(errors="replace")
    return Seen(program, int(fields[1]), int(fields[3]))


def _is_in_group(job: Job, unix_pid: int) -> bool:
    """The batch system ends it with a control group of the job."""
    if job.system != SLURM:
        return False
    try:
        with open(f"/proc/{unix_pid}/cgroup", "rb", buffering=0) as file:
            paths = file.readall().splitlines()
    except OSError:
        return True  # it has ended
    name = os.fsencode(f"job_{job.id}")
    return any(name in path.split(b"/") for path in paths)


def _environment(unix_pid: int) -> list[bytes]:
    """Of a process of this user; empty: it is another's, has ended, or is hidden."""
    try:
        if os.stat(f"/proc/{unix_pid}").st_uid != os.geteuid():
            return []
        with open(f"/proc/{unix_pid}/environ", "rb", buffering=0) as environment:
            return environment.readall().split(b"\0")
    except OSError:
        return []


def _is_left(unix_pid: int, job: Job) -> bool:
    entries = _environment(unix_pid)
    return job.entry in entries and any(entry.startswith(_OF_RANK) for entry in entries)


def _kill(unix_pid: int, job: Job) -> None:
    with suppress(OSError):  # it has ended
        fd = os.pidfd_open(unix_pid)
        try:
            if _is_left(unix_pid, job):  # and not another one by now, with its number
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)
