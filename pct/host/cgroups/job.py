"""The control group of one job on this node (cgroup v2).

::

    job-17/            limits; the owner may move processes below it
        keeper/        the keepers
        ranks/         the ranks and what they start; the owner may make groups below it

The owner has what the kernel calls delegation: the files that move processes and enable
controllers for groups further down. Limits and the freezer stay the PCT's. So the PCT of an
allocation, which is a rank, makes its own group below `ranks`, and in that the groups of steps.

On the first node of a batch job the group has two such in it::

    job-17/
        broker/        the broker and the script: no limits, for they hold no slot
        slots/         what holds the job's slots
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import suppress

from msgspec import Struct

from native.host.files import Owner
from native.loop.reactor import Reactor, Watch
from native.loop.slices import Slices, run
from pct.host.cgroups.files import enable, read, remove, write

DESCENDANTS_MAX = 1024  # groups that an owner may have below a job's
DEPTH_MAX = 16
WEIGHT_EACH = 100  # of a slot, among all of the node: the kernel's weight of a group
WEIGHT_MAX = 10_000

_DELEGATED = ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control")


class Bounds(Struct, frozen=True):
    """What a job has of the node.

    Attributes:
        memory: bytes; 0: it asked for none, and has no limit.
        cpus: the processors to which all of its ranks are bound; empty: it may use all.
    """

    slots: int
    memory: int = 0
    cpus: tuple[int, ...] = ()

    def files(self, controllers: frozenset[str]) -> dict[str, str]:
        """What is written into which file."""
        found = {}
        if "cpu" in controllers:
            found["cpu.weight"] = str(min(self.slots * WEIGHT_EACH, WEIGHT_MAX))
        if "memory" in controllers and self.memory:
            found["memory.max"] = str(self.memory)
        if "cpuset" in controllers and self.cpus:
            found["cpuset.cpus"] = ",".join(map(str, self.cpus))
        return found


class JobGroup:
    """The group of a job, made by the constructor.

    Attributes:
        path: its directory.

    Args:
        within: a group that has it and others, and goes with the last of them; empty: none.

    Raises:
        OSError: it cannot be made. Nothing is left of it.
    """

    def __init__(
        self,
        path: str,
        owner: Owner,
        bounds: Bounds,
        controllers: frozenset[str],
        within: str = "",
    ) -> None:
        self.path = path
        self._within = within
        self._watch: Watch | None = None
        self._events_fd = -1
        try:
            self._make(owner, bounds, controllers)
        except OSError:
            run(self._remove())
            raise

    def _make(self, owner: Owner, bounds: Bounds, controllers: frozenset[str]) -> None:
        os.mkdir(self.path)
        limits = bounds.files(controllers)
        limits["cgroup.max.descendants"] = str(DESCENDANTS_MAX)
        limits["cgroup.max.depth"] = str(DEPTH_MAX)
        for name, text in limits.items():
            write(f"{self.path}/{name}", text)
        enable(self.path, controllers)
        for name in ("keeper", "ranks"):
            os.mkdir(f"{self.path}/{name}")
        if owner.uid != os.geteuid():
            for directory in (self.path, f"{self.path}/ranks"):
                for name in _DELEGATED:
                    os.chown(os.path.join(directory, name), owner.uid, owner.gid)

    def freeze(self, is_on: bool) -> None:
        """Stop all processes of the ranks where they are, or let them go on."""
        with suppress(OSError):  # Linux before 5.2
            write(f"{self.path}/ranks/cgroup.freeze", str(int(is_on)))

    @property
    def out_of_memory_count(self) -> int:
        """How many processes the kernel has killed because the limit was reached."""
        lines = read(f"{self.path}/memory.events").splitlines()
        counts = (line.split()[-1] for line in lines if line.startswith("oom_kill "))
        return int(next(counts, "0"))

    def end(self, reactor: Reactor, slices: Slices, job_id: int, done: Callable[[], None]) -> None:
        """Kill what is left, and call ``done`` when the group is empty and has been removed."""
        with suppress(OSError):  # Linux before 5.14
            write(f"{self.path}/cgroup.kill", "1")

        def look() -> None:
            if not _is_populated(os.pread(self._events_fd, 4096, 0)):
                self._unwatch()
                slices.start(job_id, self._remove(), lambda _: done())

        try:
            self._events_fd = os.open(f"{self.path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it is gone
            done()
            return
        self._watch = reactor.watch_changes(self._events_fd, look)
        look()

    def close(self) -> None:
        """Remove it, if it is empty. What is left is removed with the PCT's own group."""
        self._unwatch()
        run(self._remove())

    def processes(self) -> set[int]:
        """Those that are in it, or in a group below it."""
        files = (f"{directory}/cgroup.procs" for directory, _, _ in os.walk(self.path))
        return {int(word) for file in files for word in read(file).split()}

    def _remove(self) -> Generator[None, None, None]:
        yield from remove(self.path)
        if self._within:
            with suppress(OSError):  # another group is in it
                os.rmdir(self._within)

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            os.close(self._events_fd)
            self._watch = None


def _is_populated(events: bytes) -> bool:
    return b"populated 1" in events
