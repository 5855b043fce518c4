"""What this node has: descriptors and processes for many ranks, asked for before any is started;
memory, GPUs and cores that jobs may be given.

The site's word comes first; else the kernel is asked, for memory also the control groups that this
process is in. Cores are those of the processors that this process may use.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from native.errors import UsageError
from native.memory import parse_memory
from native.text import shown
from native.wire.base import GPUS_MAX, KIND_MAX
from native.wire.runs import GROUPS_MAX, SOCKETS_MAX, THREADS_MAX
from pct.account import Gpu
from pct.host.cgroups.files import listed, own_cgroup, text_of

if TYPE_CHECKING:
    from pct.cores import Core

SPARE_COUNT = 64  # descriptors and processes that are kept free for other uses
CGROUPS = "/sys/fs/cgroup"
GPUS_VARIABLE = "YOD_GPUS"
MEMORY_VARIABLE = "YOD_MEMORY"
CPUS_VARIABLE = "YOD_CPUS"
NO_CPUS = "none"
ROOT_VARIABLE = "YOD_FSROOT"  # of the files that describe processors; default: /
RANK_VARIABLE = "YOD_RANK_GPUS"  # what a rank has, for a PCT that is one
RANK_CPUS_VARIABLE = "YOD_RANK_CPUS"  # likewise

_KIND = re.compile(rf"[A-Za-z0-9_.-]{{0,{KIND_MAX}}}")
_INTEL = "0x8086"


class Capacity(NamedTuple):
    """What jobs may be given beside slots."""

    memory: int = 0
    gpus: tuple[Gpu, ...] = ()
    cores: tuple[Core, ...] = ()


def refusal(ranks: int, descriptors: int) -> str:
    """Why so many ranks cannot be started here; empty: nothing is known that prevents it.

    Args:
        ranks: one process each.
        descriptors: how many this process will hold for the ranks' streams.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = limit - len(os.listdir("/proc/self/fd")) - SPARE_COUNT
    if descriptors > free:
        return (
            f"{ranks} ranks need {descriptors} descriptors for their streams, "
            f"{max(free, 0)} are free: the limit of open files is {limit} (ulimit -Hn)"
        )
    for what, limit, used in _process_limits():
        if ranks > (free := limit - used - SPARE_COUNT):
            return (
                f"{ranks} ranks need as many processes, {max(free, 0)} are free: {what} is {limit}"
            )
    return ""


def _process_limits() -> list[tuple[str, int, int]]:
    """The limits on processes here: name, limit and number in use of each."""
    found = []
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if limit != resource.RLIM_INFINITY and os.geteuid() != 0:  # root is exempt from it
        found.append(("the user's limit of processes (ulimit -u)", limit, 0))
    running = _number("/proc/loadavg", 3, "/")
    for name in ("threads-max", "pid_max"):
        found.append((f"kernel.{name}", _number(f"/proc/sys/kernel/{name}"), running))
    path = own_cgroup()
    while path:
        if limit := _number(f"{CGROUPS}{path}/pids.max"):
            used = _number(f"{CGROUPS}{path}/pids.current")
            found.append((f"pids.max of the control group {path}", limit, used))
        path = path.rpartition("/")[0]
    return [(name, limit, used) for name, limit, used in found if limit]


def _number(path: str, word: int = 0, behind: str = "") -> int:
    """The number in a file of the kernel; 0: the file has none (`max`), or cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().split()[word].rpartition(behind)[2] if behind else file.read()
        return int(text)
    except (OSError, ValueError, IndexError):
        return 0


def here(environment: Mapping[str, str]) -> Capacity:
    """Memory, GPUs and cores of this host, as the site's variables or the kernel say.

    Raises:
        UsageError: a variable cannot be read.
    """
    said = environment.get
    where = said(ROOT_VARIABLE) or "/"
    own = cores(said(CPUS_VARIABLE), where)
    return Capacity(memory(said(MEMORY_VARIABLE)), gpus(said(GPUS_VARIABLE)), own)


def memory(said: str | None, root: str = "/") -> int:
    """Bytes that jobs may have.

    Args:
        said: what the site says; None: nothing.
        root: of the kernel's files.

    Raises:
        UsageError: it says no size.
    """
    if said is not None:
        size = 0 if said == "0" else parse_memory(said)
        if size is None:
            raise UsageError(f"--memory {shown(said)}: a size such as 512M or 64G, or 0")
        return size
    limits = [_total(root)]
    path = own_cgroup(os.path.join(root, ""))
    while path:
        limits.append(_limit_bytes(os.path.join(root, f"sys/fs/cgroup{path}/memory.max")))
        path = path.rpartition("/")[0]
    return min((limit for limit in limits if limit), default=0)


def gpus(said: str | None, root: str = "/") -> tuple[Gpu, ...]:
    """GPUs that jobs may have: of ``4``, ``a100:4``, ``a100:2,h100:2``, or those that are there.

    Raises:
        UsageError: the site's text says no count.
    """
    if said is None:
        return _found(root)
    found: list[Gpu] = []
    for part in said.split(",") if said else ():
        kind, _, count = part.rpartition(":")
        if not (count.isascii() and count.isdigit() and len(count) < 3 and _KIND.fullmatch(kind)):
            raise UsageError(f"--gpus {shown(said)}: a count, or KIND:COUNT[,KIND:COUNT]...")
        found += [Gpu(str(len(found) + nth), kind) for nth in range(int(count))]
    if len(found) > GPUS_MAX:
        raise UsageError(f"--gpus {shown(said)}: at most {GPUS_MAX} GPUs")
    return tuple(found)


def of_rank(text: str) -> tuple[Gpu, ...]:
    """Those that a rank has been given, as its PCT has named them."""
    pairs = [part.partition(":") for part in text.split(",")] if text else []
    return tuple([Gpu(name, kind) for name, _, kind in pairs])


def _found(root: str) -> tuple[Gpu, ...]:
    """Those of the maker whose driver is there."""
    names = sorted(
        int(name.removeprefix("nvidia"))
        for name in listed(os.path.join(root, "dev"))
        if name.removeprefix("nvidia").isdigit() and name.startswith("nvidia")
    )
    if names:
        return tuple([Gpu(str(name), "nvidia") for name in names[:GPUS_MAX]])
    nodes = os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    count = sum(_has_simds(os.path.join(nodes, name, "properties")) for name in listed(nodes))
    kind = "amd"
    if not count:
        drm, kind = os.path.join(root, "sys/class/drm"), "intel"
        cards = [name for name in listed(drm) if name.startswith("renderD")]
        count = sum(text_of(os.path.join(drm, card, "device/vendor")) == _INTEL for card in cards)
    return tuple([Gpu(str(nth), kind) for nth in range(min(count, GPUS_MAX))])


def cores(
    said: str | None, root: str = "/", allowed: Iterable[int] | None = None
) -> tuple[Core, ...]:
    """Cores of which ranks can have their own.

    Args:
        said: processors, as the site says; empty or ``none``: none; None: all that are allowed.
        root: of the kernel's files. Where these tell nothing of a processor, it is a core.
        allowed: processors; None: those that this process may use.

    Raises:
        UsageError: it says no list of processors.
    """
    from pct.cores import Core

    cpus = set(os.sched_getaffinity(0) if allowed is None else allowed)
    if said is not None:
        if (chosen := _cpus("" if said == NO_CPUS else said)) is None:
            raise UsageError(f"--cpus {shown(said)}: processors as 0-3,8, or none")
        cpus &= chosen
    system = os.path.join(root, "sys/devices/system")
    if online := _cpus(text_of(f"{system}/cpu/online")):
        cpus &= online
    numa_of = _numa_nodes(f"{system}/node")
    found: dict[int, list[tuple[int, ...]]] = {}  # by package
    while cpus:
        cpu = min(cpus)
        topology = f"{system}/cpu/cpu{cpu}/topology"
        package = text_of(f"{topology}/physical_package_id")  # -1: not known
        siblings = _cpus(text_of(f"{topology}/thread_siblings_list")) or set()
        threads = sorted(cpus & (siblings | {cpu}))
        socket = int(package) if package.isdecimal() else -1
        found.setdefault(socket, []).append(tuple(threads[:THREADS_MAX]))
        cpus.difference_update(threads)
    every = [
        Core(socket, numa_of.get(threads[0], 0), threads)
        for socket, (_, rows) in enumerate(sorted(found.items()))
        for threads in rows
    ]
    groups = {(core.socket, core.numa, len(core.cpus)) for core in every}
    # A host that no message could describe binds nobody.
    return tuple(sorted(every)) if len(found) <= SOCKETS_MAX and len(groups) <= GROUPS_MAX else ()


def _numa_nodes(directory: str) -> dict[int, int]:
    """The NUMA node of each processor."""
    found = {}
    for name in listed(directory):
        number = name.removeprefix("node")
        if name != number and number.isdigit():
            for cpu in _cpus(text_of(f"{directory}/{name}/cpulist")) or ():
                found[cpu] = int(number)
    return found


def _cpus(text: str) -> set[int] | None:
    """The processors of a list as the kernel writes it, ``0-3,8``; None: it is no list."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 6 for end in ends):
            return None
        found.update(range(int(ends[0]), int(ends[1]) + 1))
    return found


def _has_simds(path: str) -> bool:
    """Whether a node of AMD's topology is a GPU; its processors are nodes, too."""
    words = text_of(path).split()
    return any(
        name == "simd_count" and count != "0"
        for name, count in zip(words[::2], words[1::2], strict=False)
    )


def _total(root: str) -> int:
    for line in text_of(os.path.join(root, "proc/meminfo")).splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _limit_bytes(path: str) -> int:
    text = text_of(path)
    return int(text) if text.isdigit() else 0  # it says `max`
