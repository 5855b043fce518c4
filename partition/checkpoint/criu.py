"""The program `criu`: whether it works here, and what it says."""

from __future__ import annotations

import os
import re
import subprocess

from native.host import programs
from native.host.backends.criu import VARIABLE

DUMP_LOG = "dump.log"
_CHECK_S = 30.0
_GHOST_BYTES = 256 << 20  # files that are open and have no name, up to this size each
_PLACE = re.compile(r"^(\([\d.]+\) )?\s*(\d+: )?Error \([^)]*\): ")
_NOT_WHY = ("Can't setup RLIMIT_NOFILE", "Dumping FAILED", "Restoring FAILED")
INIT = os.path.join(programs.NATIVE, "init", "yod-init")
UNPRIVILEGED = "--unprivileged"  # of criu: what root alone can do may be left out
_OF_INIT = "yod-init: "
GET_IT = f"install CRIU 4.1 or later, or name it in {VARIABLE}"


def why_not(program: str, *, for_users: bool | None = None) -> str:
    """Why processes of a user cannot be written down on this host; empty: it can be done.

    Args:
        for_users: of one other than root; None: of this one.
    """
    if not program:
        return f"there is no criu here: {GET_IT}"
    if os.readlink("/proc/self") != str(os.getpid()):
        return ""  # below a script that is written down itself: its broker has tried, on this host
    if for_users is None:
        for_users = os.geteuid() != 0
    if for_users and _has_capabilities(program):
        return f"{program} has file capabilities, which take those of user namespaces from it"
    command = (INIT, "try", program, "check", UNPRIVILEGED) if for_users else (program, "check")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_CHECK_S, check=False
        )
    except OSError as error:
        return f"{program}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{program} check: no answer in {_CHECK_S:.0f} s"
    if not done.returncode:
        return ""
    lines = done.stderr.splitlines()
    if lines and lines[-1].startswith(_OF_INIT):
        return lines[-1].removeprefix(_OF_INIT)
    return f"{program} check: {_reason(lines)}"


def remedy(why: str) -> str:
    """What to do about a reason; empty: it is not this program's."""
    program, found, _ = why.partition(" has file capabilities")
    return f"setcap -r {program}" if found else ""


def _has_capabilities(program: str) -> bool:
    """They would be all that it has, as the kernel takes those of its caller away."""
    try:
        return bool(os.getxattr(program, "security.capability"))
    except OSError:
        return False


def version(program: str) -> str:
    """What it says of itself: 4.1.1; empty: nothing."""
    try:
        done = subprocess.run(
            (program, "--version"), capture_output=True, text=True, timeout=_CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"^Version: (\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def dump_command(
    program: str,
    unix_pid: int,
    directory: str,
    *,
    script: str = "",
    has_connections: bool = False,
    is_left_stopped: bool = False,
) -> list[str]:
    """Writes a process and all below it to a directory; they go on.

    Args:
        is_left_stopped: they do not, until they get SIGCONT.
        has_connections: over TCP, with one another.
        script: a program that is run before they do; empty: none.
    """
    is_root = os.geteuid() == 0
    return [
        *(() if is_root else (INIT, "enter", str(unix_pid))),
        program,
        "dump",
        *(() if is_root else (UNPRIVILEGED,)),
        f"--tree={unix_pid}",
        f"--images-dir={directory}",
        f"--log-file={DUMP_LOG}",
        "-v1",
        "--leave-stopped" if is_left_stopped else "--leave-running",
        "--file-locks",
        "--link-remap",
        f"--ghost-limit={_GHOST_BYTES}",
        "--manage-cgroups=ignore",
        *(("--action-script", script) if script else ()),
        *(("--tcp-established", "--network-lock", "skip") if has_connections else ()),
    ]


def why(log: str) -> str:
    """The reason in a log of criu's."""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            return _reason(file.readlines())
    except OSError:
        return "it has left no log"


def _reason(lines: list[str]) -> str:
    """The first error that is one: what follows it, follows from it."""
    for line in lines:
        found = _PLACE.match(line)
        if found and not any(words in line for words in _NOT_WHY):
            return line[found.end() :].strip()
    return "no reason is in its log"
