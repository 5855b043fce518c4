"""How one of our commands is started from another."""

from __future__ import annotations

import os
import sys

NATIVE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # with our C programs
_OWN = os.path.realpath(sys.argv[0])  # while the directory is the one we began in
_MODULES = {
    "bebopd": "allocator.cli",
    "pct": "pct.cli",
    "yod": "yod.command",
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
