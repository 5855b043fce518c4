"""What is so on this host."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Iterator, Mapping

from native import limits
from native.errors import UsageError
from native.host.backends.criu import find as find_criu
from native.text import shown
from partition.checkpoint import criu
from partition.doctor import namespaces
from partition.doctor.finding import Finding, ok, problem, warning
from partition.find import warm
from pct.host.cgroups.files import own_path, read
from pct.host.store import default_directories

MEBIBYTE = 1 << 20
DESCRIPTORS_OF_RANK = 4  # of yod or a PCT: standard streams, PMI
RANKS_WANTED = 1024
STORE_BYTES = 256 * MEBIBYTE
LOCKED_BYTES = 64 * MEBIBYTE
LAUNCHERS = ("mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpirun.openmpi", "srun")


def findings(environment: Mapping[str, str], root: str = "/") -> Iterator[Finding]:
    """All of them.

    Args:
        root: where proc and sys are.
    """
    yield ok("versions", f"Python {platform.python_version()}, Linux {platform.release()}")
    yield _limits(environment)
    yield _warmth(environment)
    yield _descriptors()
    yield _locked()
    yield from _store()
    yield _groups()
    yield _debuggers(root)
    yield from namespaces.findings(root)
    yield from _checkpoints(environment, root)
    yield _others(environment)


def _limits(environment: Mapping[str, str]) -> Finding:
    try:
        limits.load(environment)
    except UsageError as error:
        return problem("limits", str(error), "unset the variable; `yodctl limits` shows all")
    names = {limits.variable(name) for name in limits.MEANINGS}
    given = sorted(names & environment.keys())
    return ok("limits", f"set by {', '.join(given)}" if given else "as built in")


def _warmth(environment: Mapping[str, str]) -> Finding:
    found = warm.look(environment)
    if not found.reason:
        return ok("launches", f"warm: process {found.unix_pid} runs them")
    return ok("launches", f"cold: {found.reason}")


def _descriptors() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ranks = hard // DESCRIPTORS_OF_RANK
    text = f"{hard} for a process, enough for {ranks} ranks of a node"
    if hard == resource.RLIM_INFINITY or ranks >= RANKS_WANTED:
        return ok("open files", text)
    return warning("open files", text, "raise `ulimit -Hn`, or LimitNOFILE= of the unit")


def _locked() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard == resource.RLIM_INFINITY or hard >= LOCKED_BYTES:
        return ok("locked memory", "as much as networks need")
    text = f"{hard // 1024} KiB for a process; MPI over InfiniBand needs more"
    return warning("locked memory", text, "raise `ulimit -Hl`, or LimitMEMLOCK= of the unit")


def _store() -> Iterator[Finding]:
    places = default_directories()
    if not places:
        yield problem("store", "no directory for images", "mount a tmpfs at /dev/shm")
    for place in places[:1]:
        found = os.statvfs(place)
        free = found.f_bavail * found.f_frsize
        text = f"{place}: {free // MEBIBYTE} MiB free for programs that are brought to the node"
        if free < STORE_BYTES:
            yield warning("store", text, "remove what fills it, or name another one: pct --store")
        else:
            yield ok("store", text)


def _groups() -> Finding:
    own = own_path()
    remedy = "run the pct by its unit (`yodctl unit pct`), which has Delegate=yes"
    if own is None:
        return warning("control groups", "none: memory that jobs ask for is no limit", remedy)
    there = set(read(f"{own}/cgroup.controllers").split()) & {"cpu", "cpuset", "memory"}
    if not os.access(own, os.W_OK):
        text = "none can be made: memory that jobs ask for is no limit"
        return warning("control groups", text, remedy)
    if "memory" not in there:
        text = "without the memory controller: memory that jobs ask for is no limit"
        return warning("control groups", text, "enable it in the groups above this one")
    return ok("control groups", f"can be made, with {', '.join(sorted(there))}")


def _debuggers(root: str) -> Finding:
    scope = read(f"{root}proc/sys/kernel/yama/ptrace_scope").strip()
    if scope in ("", "0") or os.geteuid() == 0:
        return ok("debuggers", "can attach to ranks")
    text = f"cannot attach to a rank that they have not started (ptrace_scope is {scope})"
    return warning("debuggers", text, "sysctl kernel.yama.ptrace_scope=0")


def _checkpoints(environment: Mapping[str, str], root: str) -> Iterator[Finding]:
    program = find_criu(environment)
    if why := criu.why_not(program):
        yield ok("checkpoints", f"by signal; not by criu: {why}")
        return
    yield ok("checkpoints", f"by signal, and by criu {criu.version(program)} ({shown(program)})")
    if os.geteuid() == 0 and (why := criu.why_not(program, for_users=True)):
        text = f"not by criu for users other than root: {why}"
        yield warning("checkpoints", text, criu.remedy(why) or namespaces.remedy_of_users(root))


def launchers(environment: Mapping[str, str]) -> list[str]:
    """Launchers of MPI in PATH."""
    path = environment.get("PATH", os.defpath)
    return [place for name in LAUNCHERS if (place := shutil.which(name, path=path))]


def _others(environment: Mapping[str, str]) -> Finding:
    found = launchers(environment)
    return ok("MPI", f"in PATH: {', '.join(map(shown, found))}" if found else "no mpiexec in PATH")
