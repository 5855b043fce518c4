"""A PCT's own control group, where the PCT is allowed to make one (cgroup v2).

Every process that a PCT starts is created in its group, or in one below it. When the PCT and a
job's keeper are killed at the same moment, no process of ours knows the job's processes any more,
but the group still holds them. The next PCT that starts on this host, or ``yodctl down``, kills all
processes in a group whose PCT is gone. A living PCT holds a lock on its group's directory.

Where jobs are to have groups of their own, the PCT itself goes to one below its own: a group whose
children have controllers has no process of its own.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import os
from contextlib import suppress
from enum import Enum
from fcntl import LOCK_EX, LOCK_NB, flock

from native.errors import UsageError
from native.host.files import Owner
from native.loop.slices import run
from pct.host.cgroups.files import disable, enable, own_path, read, remove, write
from pct.host.cgroups.job import Bounds, JobGroup

PREFIX = "yod-pct-"
ENTER_TRIES = 3
OF_PCT = "pct"  # the group of the PCT's process
OF_BROKER = "broker"  # in the group of a batch job
SOCKET_KIND = _socket.SOCK_SEQPACKET | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
WANTED = ("cpu", "cpuset", "memory")


class ForJobs(Enum):
    """Whether jobs have control groups of their own."""

    AUTO = "auto"  # where a group can limit something
    YES = "yes"
    NO = "no"


class Cgroup:
    """The group this process has moved into; :meth:`leave` moves back.

    Attributes:
        path: its directory.
        for_jobs: jobs have groups of their own.
        controllers: that those have.
        fences: root's socket under the name of the group, for its fences; None: there is none.
    """

    def __init__(
        self, path: str, parent: str, lock: int, fences: _socket.socket | None = None
    ) -> None:
        self.path = path
        self.fences = fences
        self._parent = parent
        self._lock = lock
        self._enabled: frozenset[str] = frozenset()  # controllers, in the group we came from
        self.for_jobs = False
        self.controllers: frozenset[str] = frozenset()

    @classmethod
    def enter(cls, for_jobs: ForJobs = ForJobs.NO) -> Cgroup | None:
        """Make a group below our own and move into it; None: that is not allowed here.

        Raises:
            UsageError: jobs are to have groups, and cannot.
        """
        own = cls._entered()
        if for_jobs is not ForJobs.NO and own is not None:
            own._make_room(for_jobs)
        if for_jobs is ForJobs.YES and (own is None or not own.for_jobs):
            raise UsageError("--cgroups yes: no control group (cgroup v2) can be made here")
        return own

    @classmethod
    def _entered(cls) -> Cgroup | None:
        parent = own_path()
        if parent is None:
            return None
        sweep(parent)
        for _ in range(ENTER_TRIES):
            if (own := cls._try(parent)) is not None:
                return own
        return None

    @classmethod
    def _try(cls, parent: str) -> Cgroup | None:
        # The name is random: containers that share a kernel may have the same process ids.
        path = os.path.join(parent, PREFIX + os.urandom(6).hex())
        lock = -1
        fences = _socket.socket(_socket.AF_UNIX, SOCKET_KIND) if os.geteuid() == 0 else None
        try:
            if fences is not None:  # taken before anybody can see the name in the group's
                fences.bind(b"\0" + os.fsencode(os.path.basename(path)))
            os.mkdir(path)
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            flock(lock, LOCK_EX | LOCK_NB)  # another PCT may be sweeping
            write(os.path.join(path, "cgroup.procs"), "0")
        except OSError:
            if lock >= 0:
                os.close(lock)
            if fences is not None:
                fences.close()
            with suppress(OSError):
                os.rmdir(path)
            return None
        return cls(path, parent, lock, fences)

    def _make_room(self, for_jobs: ForJobs) -> None:
        """Go to a group of this process's own, so that others beside it can have controllers."""
        before = frozenset(read(f"{self._parent}/cgroup.subtree_control").split())
        self._enabled = enable(self._parent, WANTED) - before  # where we were alone in it
        has_any = bool(set(WANTED) & set(read(f"{self.path}/cgroup.controllers").split()))
        if for_jobs is ForJobs.AUTO and not has_any:
            return
        try:
            os.mkdir(f"{self.path}/{OF_PCT}")
            write(f"{self.path}/{OF_PCT}/cgroup.procs", "0")
        except OSError:
            return
        self.controllers = enable(self.path, WANTED)
        self.for_jobs = True

    def begin_job(
        self, job_id: int, world: int, owner: Owner, bounds: Bounds, denied: bytes = b""
    ) -> JobGroup:
        """Make a group of a job.

        Args:
            world: the first one that has processes in it.
            denied: devices that it may not open.

        Raises:
            OSError: it cannot be made.
        """
        within = f"{self.path}/job-{job_id}"
        is_within = os.path.isdir(f"{within}/{OF_BROKER}")
        path = f"{within}/slots" if is_within else within
        path += f".{world}" if world else ""
        own = within if is_within else ""
        return JobGroup(path, owner, bounds, self.controllers, own, denied)

    def begin_broker(self, job_id: int, owner: Owner, denied: bytes = b"") -> JobGroup:
        """Make a group of a batch job's broker, which begins before the job has its slots.

        Raises:
            OSError: it cannot be made.
        """
        within = f"{self.path}/job-{job_id}"
        os.makedirs(within, exist_ok=True)
        enable(within, self.controllers)
        path, bounds = f"{within}/{OF_BROKER}", Bounds(1)
        return JobGroup(path, owner, bounds, self.controllers, within, denied)

    def leave(self) -> None:
        """Move back and remove the group. It stays if a process is left in it."""
        with suppress(OSError):
            self._move_back()
            run(remove(self.path))
        os.close(self._lock)
        if self.fences is not None:
            self.fences.close()

    def _move_back(self) -> None:
        try:
            write(f"{self._parent}/cgroup.procs", "0")
        except OSError:  # it has no process of its own while groups below it have controllers
            disable(self.path, self.controllers)
            disable(self._parent, self._enabled)
            write(f"{self._parent}/cgroup.procs", "0")


def sweep(parent: str) -> int:
    """Kill the processes that PCTs have left in their groups when they ended.

    Args:
        parent: the directory that holds those.

    Returns:
        How many groups of such PCTs there were.
    """
    found = 0
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return 0
    for name in names:
        path = os.path.join(parent, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            flock(fd, LOCK_EX | LOCK_NB)
            found += 1
            write(os.path.join(path, "cgroup.kill"), "1")
            run(remove(path))
        except OSError:  # in use; or not empty yet: the next one removes it
            pass
        finally:
            os.close(fd)
    return found
