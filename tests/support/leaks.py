"""The leak watch: compares before and after a test what a launch may leave behind.

Five things are compared: processes, the files of stores and run-time directories,
``/dev/shm``, the open descriptors of daemons that were there before, and what
``pingd -parse`` says about the partition.

A process belongs to a test if it carries the test's mark in its environment, as
orphans and those that called setsid do, or descends from the test process.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterable
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Protocol

from tests.support.place import MARK, Place
from tests.support.wait import LIMIT_S, wait_until

SETTLE_S = LIMIT_S  # a kill takes a moment to be done
_ENDED = ([], ["Z"], ["X"])
_KTHREADD = 2  # the parent of the kernel's threads
_STORE = re.compile(r"/yod-store-[^/]*$")
_IN_STORE = re.compile(r"(.*/yod-store-[^/]*)(/.*)?$")


def processes() -> list[int]:
    """Every process that is seen from here."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(unix_pid: int) -> set[int]:
    """Processes below this one that have not ended."""
    return _below(unix_pid, _parents())


def marked(*marks: str) -> set[int]:
    """Processes with one of these marks in their environment."""
    return _marked(_parents(), marks)


def _parents() -> dict[int, int]:
    """The processes that have not ended, and the parent of each; but for the kernel's threads."""
    stats = {pid: _stat_fields(pid) for pid in processes()}
    parents = {pid: int(fields[1]) for pid, fields in stats.items() if fields[:1] not in _ENDED}
    if _read(_KTHREADD, "stat").startswith(b"2 (kthreadd)"):  # in a container it may be anybody
        return {pid: parent for pid, parent in parents.items() if parent != _KTHREADD}
    return parents


def _below(unix_pid: int, parents: dict[int, int]) -> set[int]:
    found = {unix_pid}
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {unix_pid}


def _below_neighbours(parents: dict[int, int]) -> set[int]:
    """The other workers of this run of tests, and what is below them: of no test of ours."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return set()
    neighbours = {pid for pid, parent in parents.items() if parent == os.getppid()}
    neighbours.discard(os.getpid())
    return neighbours.union(*(_below(pid, parents) for pid in neighbours))


def _has_ended(unix_pid: int) -> bool:
    return _stat_fields(unix_pid)[:1] in _ENDED


def _marked(unix_pids: Iterable[int], marks: Iterable[str]) -> set[int]:
    wanted = {f"{MARK}={mark}".encode() for mark in marks}
    return {pid for pid in unix_pids if not wanted.isdisjoint(_read(pid, "environ").split(b"\0"))}


def command_line(unix_pid: int) -> str:
    """How a process was started, for messages."""
    words = _read(unix_pid, "cmdline").split(b"\0")
    return b" ".join(words).decode(errors="replace").strip() or "(no command line)"


def open_descriptors(unix_pid: int) -> dict[int, str]:
    """Open descriptors of a process and what each is; empty when it has ended."""
    found = {}
    directory = f"/proc/{unix_pid}/fd"
    try:
        for name in os.listdir(directory):
            try:
                found[int(name)] = os.readlink(f"{directory}/{name}")
            except OSError:  # closed meanwhile
                continue
    except OSError:
        return {}
    return found


class Marked(Protocol):
    """What has a mark that its processes carry, and files that a launch may leave."""

    mark: str

    def files(self) -> set[str]:
        """Everything that is there now."""


class Watch:
    """What was there before a test, and the check that nothing has been added.

    Args:
        place: the test's own place.
    """

    def __init__(self, place: Place) -> None:
        self._places: list[Marked] = [place]
        self._late: set[int] = set()  # processes that were still there
        self._processes = self._own_processes()
        self._files = place.files()
        self._shared = _shared_files()
        self._descriptors = _counts(self._processes)
        self._partitions: list[tuple[Callable[[], str], str]] = []
        self._varying: list[tuple[Callable[[], set[int]], int, set[int]]] = []

    def partition(
        self,
        place: Marked,
        daemons: list[int],
        pingd: Callable[[], str],
        varying: Callable[[], set[int]] = set,
    ) -> None:
        """Also compare a partition: at the end it must be as it is now.

        Args:
            place: where it runs: the test's own place, or that of a wider fixture.
            daemons: process ids of bebopd and the PCTs.
            pingd: gives the output of ``pingd -parse`` for it.
            varying: gives processes that may be others than they were, and more; the
                partition has a descriptor for each.
        """
        if place not in self._places:
            self._places.append(place)
        self._processes |= set(daemons)
        self._descriptors |= _counts(daemons)
        self._files |= place.files()
        self._partitions.append((pingd, pingd()))
        self._varying.append((varying, len(varying()), set(daemons)))

    def leave_out(self, processes: Callable[[], set[int]]) -> None:
        """Do not compare processes that come and go by themselves, nor what they have open."""
        self._varying.append((processes, 0, set()))
        for unix_pid in processes():
            self._descriptors.pop(unix_pid, None)

    def check(self) -> None:
        """Raise AssertionError that lists what is left, once it had time to go."""
        try:
            wait_until(self._is_clean, SETTLE_S)
        except AssertionError:
            if left := self._left():
                raise AssertionError("left behind: " + "; ".join(left)) from None

    def _is_clean(self) -> bool:
        """Nothing is left. All is looked at again when the processes that were there have gone."""
        self._late = self._constant({pid for pid in self._late if not _has_ended(pid)})
        return not self._late and not self._left()

    def _constant(self, unix_pids: set[int]) -> set[int]:
        """Those of the processes that do not come and go by themselves."""
        if not unix_pids:
            return unix_pids
        return unix_pids - set().union(*(varying() for varying, _, _ in self._varying))

    def _left(self) -> list[str]:
        more_processes = self._constant(self._own_processes() - self._processes)
        self._late = more_processes
        left = [f"process {pid} ({command_line(pid)})" for pid in sorted(more_processes)]
        for place in self._places:
            left += [
                f"file {path}"
                for path in sorted(place.files() - self._files)
                if not is_a_stores(path)
            ]
        left += [
            f"file {path}"
            for path in sorted(_shared_files() - self._shared)
            if not is_a_stores(path) and not _in_use_elsewhere(path)
        ]
        for pid, now in _counts(self._descriptors).items():
            if (more := now - self._descriptors[pid]) > 0 and more > self._allowed(pid):
                names = ", ".join(sorted(open_descriptors(pid).values()))
                left.append(f"{more} descriptors more in {pid} ({names})")
        for pingd, before_text in self._partitions:
            if (now_text := pingd()) != before_text:
                left.append(f"pingd -parse says {now_text!r}, was {before_text!r}")
        return left

    def _allowed(self, unix_pid: int) -> int:
        """Descriptors that a process may have in addition."""
        return sum(
            len(varying()) - before_count
            for varying, before_count, daemons in self._varying
            if unix_pid in daemons
        )

    def _own_processes(self) -> set[int]:
        parents = _parents()
        below = _below(os.getpid(), parents)
        elsewhere = parents.keys() - below - _below_neighbours(parents)
        return below | _marked(elsewhere, [place.mark for place in self._places])


def _counts(unix_pids: Iterable[int]) -> dict[int, int]:
    """How many descriptors each process has open.

    The transport's connections among these processes are not counted, nor a PCT's lock on
    its directory in a store: daemons of a partition keep them from the first use on.
    """
    held = ((pid, frozenset(open_descriptors(pid).items())) for pid in unix_pids)
    return dict(_counted(frozenset(held)))


@functools.lru_cache(maxsize=8)
def _counted(held: frozenset[tuple[int, frozenset[tuple[int, str]]]]) -> dict[int, int]:
    """The same for what each process has open.

    The kernel takes milliseconds for a table of connections. Most tests leave the daemons'
    descriptors as they were, and then the count is known.
    """
    names = {pid: [name for _, name in descriptors] for pid, descriptors in held}
    inodes = {
        name[len("socket:[") : -1]
        for held_names in names.values()
        for name in held_names
        if name.startswith("socket:[")
    }
    ends: dict[tuple[str, str], str] = {}
    for pid in _one_per_network(names):
        for fields in map(str.split, _read(pid, "net/tcp").decode().splitlines()[1:]):
            if fields[9] in inodes:
                ends[fields[1], fields[2]] = f"socket:[{fields[9]}]"
    kept = {name for (own, peer), name in ends.items() if (peer, own) in ends}
    for pair in _near_pairs(names):
        if pair <= inodes:
            kept |= {f"socket:[{inode}]" for inode in pair}
    return {
        pid: sum(name not in kept and not _STORE.search(name) for name in held_names)
        for pid, held_names in names.items()
    }


def _near_pairs(unix_pids: Iterable[int]) -> list[set[str]]:
    """Inodes of both ends of each connection at an abstract address of the transport."""
    found = []
    for pid in _one_per_network(unix_pids):
        words = ["nsenter", f"--net=/proc/{pid}/ns/net", "ss", "-xnH", "state", "established"]
        listed = subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout
        for fields in map(str.split, listed.splitlines()):
            if fields[-4].startswith("@portals-"):
                found.append({fields[-3], fields[-1]})
    return found


def _one_per_network(unix_pids: Iterable[int]) -> list[int]:
    """A process in each of their network namespaces, whose table of connections is long to read."""
    found: dict[str, int] = {}
    for pid in unix_pids:
        try:
            found.setdefault(os.readlink(f"/proc/{pid}/ns/net"), pid)
        except OSError:  # it has ended
            continue
    return list(found.values())


def is_a_stores(path: str) -> bool:
    """Whether a path is a PCT's directory in a store, or in that of one that was killed.

    A PCT keeps it from the first job to its end, locked; what is in it is a job's. The
    next PCT removes what a killed one has left.
    """
    found = _IN_STORE.match(path)
    if found is None:
        return False
    try:
        directory = os.open(found[1], os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return True  # gone
    try:
        flock(directory, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return path == found[1]
    finally:
        os.close(directory)
    return True


def _stat_fields(unix_pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty when it has ended."""
    return _read(unix_pid, "stat").rpartition(b")")[2].decode().split()


def _read(unix_pid: int, name: str) -> bytes:
    """A file of /proc/PID; empty when the process has ended, or is another user's.

    Each test reads hundreds of them; a file object for each would take twice as long.
    """
    pieces = []
    try:
        descriptor = os.open(f"/proc/{unix_pid}/{name}", os.O_RDONLY)
        try:
            while piece := os.read(descriptor, 1 << 16):
                pieces.append(piece)
        finally:
            os.close(descriptor)
    except OSError:
        return b""
    return b"".join(pieces)


def _shared_files() -> set[str]:
    """What lies in the places that all tests of the machine share."""
    found = {str(path) for path in Path("/tmp").glob("yod-*")}
    for directory, names, files in os.walk("/dev/shm"):
        if directory == "/dev/shm":
            # Every test's own run-time directory, see Place.files, and those of measurements.
            own = ("test-of-yod-", "bench-of-yod-")
            names[:] = [name for name in names if not name.startswith(own)]
        found |= {os.path.join(directory, name) for name in (*names, *files)}
    return found


def _in_use_elsewhere(path: str) -> bool:
    """Whether a living process has a file open or mapped, or may own a directory.

    Other tests run at the same time, and their files come and go. Which PMIx server owns a
    directory cannot be seen.
    """
    try:
        status = os.stat(path)
    except OSError:
        return True  # gone
    name = path.encode()
    if stat.S_ISDIR(status.st_mode):
        return _is_server_elsewhere()
    if not stat.S_ISREG(status.st_mode):
        return False
    return any(
        name in _read(pid, "maps") or path in open_descriptors(pid).values() for pid in processes()
    )


def _is_server_elsewhere() -> bool:
    """Whether a PMIx server runs that is none of this test process's."""
    own = descendants(os.getpid())
    return any(
        "pct.pmix_server.server" in command_line(pid) for pid in processes() if pid not in own
    )
