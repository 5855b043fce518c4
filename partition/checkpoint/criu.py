"""The program `criu`: whether it works here, and what it says."""

from __future__ import annotations

import os
import re
import subprocess

from native.host.backends.criu import VARIABLE

DUMP_LOG = "dump.log"
_CHECK_S = 30.0
_GHOST_BYTES = 256 << 20  # files that are open and have no name, up to this size each
_PLACE = re.compile(r"^(\([\d.]+\) )?\s*(\d+: )?Error \([^)]*\): ")
_NOT_WHY = ("Can't setup RLIMIT_NOFILE", "Dumping FAILED", "Restoring FAILED")
GET_IT = f"install CRIU 4.1 or later, or name it in {VARIABLE}"


def why_not(program: str) -> str:
    """Why this user cannot have processes written down on this host; empty: it can be done."""
    if not program:
        return f"there is no criu here: {GET_IT}"
    if os.geteuid() != 0:
        return "criu needs root"
    if os.readlink("/proc/self") != str(os.getpid()):
        return ""  # below a script that is written down itself: its broker has tried, on this host
    try:
        done = subprocess.run(
            (program, "check"), capture_output=True, text=True, timeout=_CHECK_S, check=False
        )
    except OSError as error:
        return f"{program}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{program} check: no answer in {_CHECK_S:.0f} s"
    if done.returncode:
        return f"{program} check: {_reason(done.stderr.splitlines())}"
    return ""


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
    return [
        program,
        "dump",
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
