"""How one of our commands is started from another."""

from __future__ import annotations

import os
import stat
import sys

_OWN = os.path.realpath(sys.argv[0])  # while the directory is the one we began in
_MODULES = {
    "bebopd": "allocator.cli",
    "pct": "pct.cli",
    "yod-server": "partition.server.cli",
    "yodjob": "partition.yodjob",
}


def command_line(name: str) -> list[str]:
    """The arguments that start one of our commands: the script beside this one, or its module."""
    for beside in (_OWN, sys.executable):
        script = os.path.join(os.path.dirname(beside), name)
        if os.path.isfile(script) and os.access(script, os.X_OK):
            return [script]
    start = f"from {_MODULES[name]} import main; raise SystemExit(main())"
    return [sys.executable, "-P", "-c", start]


def python_line(name: str, uid: int) -> list[str]:
    """The arguments for a process that has children and becomes one of our commands.

    They name this process's interpreter. :func:`command_line` names a script that begins as a
    shell to look for one, and a shell reaps all children of its process: their exit statuses
    are lost. A user who may not execute our interpreter gets that script all the same.

    Args:
        uid: of the process.
    """
    words = command_line(name)
    if len(words) > 1 or not (uid == os.geteuid() or _is_for_all(sys.executable)):
        return words
    return [sys.executable, "-EPS", *words]


def _is_for_all(path: str) -> bool:
    """Whether every user may execute a file, and search the directories on the way to it."""
    try:
        for each in (os.path.abspath(path), os.path.realpath(path)):
            while each != "/":
                if not os.stat(each).st_mode & stat.S_IXOTH:
                    return False
                each = os.path.dirname(each)
    except OSError:  # it has gone
        return False
    return True
