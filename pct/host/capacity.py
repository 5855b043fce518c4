"""Does this node have descriptors and processes for many ranks? Asked before any is started."""

from __future__ import annotations

import os
import resource

SPARE_COUNT = 64  # descriptors and processes that are kept free for other uses
CGROUPS = "/sys/fs/cgroup"


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


def own_cgroup(root: str = "/") -> str:
    """The path of our control group (cgroup v2); empty: it is the root group, or there is none."""
    try:
        with open(f"{root}proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            paths = [line.rstrip("\n")[3:] for line in file if line.startswith("0::")]
    except OSError:
        return ""
    return paths[0].rstrip("/") if paths else ""


def _number(path: str, word: int = 0, behind: str = "") -> int:
    """The number in a file of the kernel; 0: the file has none (`max`), or cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().split()[word].rpartition(behind)[2] if behind else file.read()
        return int(text)
    except (OSError, ValueError, IndexError):
        return 0
