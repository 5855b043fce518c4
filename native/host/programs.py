"""How our commands, and other code of ours, are started as processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

ATTACHED_FD = 3  # where a program of :func:`spawn_attached` finds its descriptor
NATIVE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # with our C programs
_OWN = os.path.realpath(sys.argv[0])  # while the directory is the one we began in
_MODULES = {
    "bebopd": "allocator.command.main",
    "pct": "pct.command.main",
    "yod": "yod.command",
    "yod-server": "partition.server.cli",
    "yodjob-cold": "partition.yodjob",
}
_TAKE_PATH = """\
import sys
words = sys.argv[1:]
end = words.index("--") if "--" in words else len(words)
sys.path[:], sys.argv[1:] = words[:end], words[end + 1 :]
"""


def command_line(name: str) -> list[str]:
    """The arguments that start one of our commands: the script beside this one, or its module."""
    for beside in (_OWN, sys.executable):
        script = os.path.join(os.path.dirname(beside), name)
        if os.path.isfile(script) and os.access(script, os.X_OK):
            return [script]
    start = f"from {_MODULES[name]} import main; raise SystemExit(main())"
    return [sys.executable, "-P", "-c", start]


def own_python(code: str, *words: str) -> list[str]:
    """The arguments that start code of ours by this interpreter; it finds the words in sys.argv.

    It is given our module path, so `site` need not run again: that would take half as long as
    the imports of a small program.
    """
    path = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    return [
        sys.executable,
        "-EPS",
        "-c",
        _TAKE_PATH + code,
        *path,
        *(("--", *words) if words else ()),
    ]


def spawn_attached(argv: list[str], environment: Mapping[str, str], fd: int) -> int:
    """Start a process that has our standard error, and a descriptor as its ATTACHED_FD.

    It is in a process group of its own: Ctrl-C on a terminal is not for it.

    Returns:
        Its Unix process id.

    Raises:
        OSError: it cannot be started.
    """
    held = os.dup(fd) if fd == ATTACHED_FD else fd  # a copy onto itself would be closed
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, held, ATTACHED_FD),
    ]
    try:
        return os.posix_spawn(
            argv[0], argv, environment, file_actions=actions, setpgroup=0, setsigmask=()
        )
    finally:
        if held != fd:
            os.close(held)
