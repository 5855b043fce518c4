"""Finds and ends the pcts of this user on this host that ``yodctl up`` on another one started."""

from __future__ import annotations

import os
from itertools import pairwise

from partition.find.state import Daemon
from partition.up import processes


def end(tag: str, wait_s: float) -> tuple[int, int]:
    """End them.

    Returns:
        How many there were, and how many of them got SIGKILL.
    """
    return processes.end(find(tag), wait_s, resumes=True)


def find(tag: str) -> list[Daemon]:
    """The processes of this user that have ``--tag TAG`` among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        # The start time first: if the process is another one later, it has another start time.
        ticks = processes.start_ticks(int(name))
        if ticks and _has_tag(name, tag):
            found.append(Daemon(int(name), ticks, ""))
    return found


def _has_tag(name: str, tag: str) -> bool:
    try:
        if os.stat(f"/proc/{name}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{name}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:  # it has ended
        return False
    # A shell that is about to start one has the same arguments.
    return words[1:2] != [b"-c"] and (b"--tag", os.fsencode(tag)) in pairwise(words)
