"""What this node has: descriptors and processes for many ranks, asked for before any is started;
memory and GPUs that jobs may be given.

Of memory and GPUs the site's word comes first; else the kernel is asked, for memory also the
control groups that this process is in.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Mapping

from native.errors import UsageError
from native.memory import parse_memory
from native.text import shown
from native.wire.base import GPUS_MAX, KIND_MAX
from pct.account import Gpu
from pct.host.cgroups.files import own_cgroup

SPARE_COUNT = 64  # descriptors and processes that are kept free for other uses
CGROUPS = "/sys/fs/cgroup"
GPUS_VARIABLE = "YOD_GPUS"
MEMORY_VARIABLE = "YOD_MEMORY"
RANK_VARIABLE = "YOD_RANK_GPUS"  # what a rank has, for a PCT that is one

_KIND = re.compile(rf"[A-Za-z0-9_.-]{{0,{KIND_MAX}}}")
_INTEL = "0x8086"


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


def here(environment: Mapping[str, str]) -> tuple[int, tuple[Gpu, ...]]:
    """Memory and GPUs of this host, as the site's variables or the kernel say.

    Raises:
        UsageError: a variable cannot be read.
    """
    said = environment.get
    return memory(said(MEMORY_VARIABLE)), gpus(said(GPUS_VARIABLE))


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
        for name in _listed(os.path.join(root, "dev"))
        if name.removeprefix("nvidia").isdigit() and name.startswith("nvidia")
    )
    if names:
        return tuple([Gpu(str(name), "nvidia") for name in names[:GPUS_MAX]])
    nodes = os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    count = sum(_has_simds(os.path.join(nodes, name, "properties")) for name in _listed(nodes))
    kind = "amd"
    if not count:
        drm, kind = os.path.join(root, "sys/class/drm"), "intel"
        cards = [name for name in _listed(drm) if name.startswith("renderD")]
        count = sum(_text_of(os.path.join(drm, card, "device/vendor")) == _INTEL for card in cards)
    return tuple([Gpu(str(nth), kind) for nth in range(min(count, GPUS_MAX))])


def _has_simds(path: str) -> bool:
    """Whether a node of AMD's topology is a GPU; its processors are nodes, too."""
    words = _text_of(path).split()
    return any(
        name == "simd_count" and count != "0"
        for name, count in zip(words[::2], words[1::2], strict=False)
    )


def _total(root: str) -> int:
    for line in _text_of(os.path.join(root, "proc/meminfo")).splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _limit_bytes(path: str) -> int:
    text = _text_of(path)
    return int(text) if text.isdigit() else 0  # it says `max`


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
