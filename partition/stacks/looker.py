"""Looks at the ranks of one node: the command that a pct starts as their owner.

A Python process is looked at by py-spy, any other by eu-stack or gdb, what none of them can tell
by the kernel: the system call in which it waits. The processes of a rank are those of its
session; the tree has them under their names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from native import nodelist
from partition.stacks.tree import Tree

AT_ONCE = 4
EACH_S = 6.0  # for one process
PROCESSES_MAX = 8  # of one rank
_PYTHON = re.compile(rb"(^|/)(lib)?python3?[.0-9]*[^/]*$")
_GDB_FRAME = re.compile(
    r"^#\d+\s+(?:0x[0-9a-f]+ in )?(?P<name>\S+) ?\(.*?\)(?: (?:at|from) (?P<at>\S+))?"
)
_EU_FRAME = re.compile(r"^#\d+\s+0x[0-9a-f]+ (?P<name>[^ ]+)(?:.* - (?P<at>\S+))?")


class Missing:
    """What could not be used, and why; said once."""

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}

    def say(self, text: str) -> None:
        """Note it."""
        self.texts[text] = None


def run(words: Sequence[str]) -> int:
    """Look at the ranks, and write their tree.

    Args:
        words: the ranks, as in ``0..3``, and their processes, with commas.
    """
    ranks = nodelist.parse(words[0])
    unix_pids = [int(word) for word in words[1].split(",")]
    missing = Missing()
    sessions = _sessions(set(unix_pids))
    wanted = [
        (rank, unix_pid)
        for rank, leader in zip(ranks, unix_pids, strict=True)
        for unix_pid in sessions.get(leader, [])[:PROCESSES_MAX]
    ]
    tree = Tree()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        looks = pool.map(lambda each: _frames(each[1], missing), wanted)
        for (rank, _), frames in zip(wanted, looks, strict=True):
            if frames:
                tree.add((rank,), frames)
    sys.stdout.write(tree.text())
    sys.stdout.flush()
    if missing.texts:
        sys.stderr.write("; ".join(missing.texts) + "\n")
    return 0


def _sessions(leaders: set[int]) -> dict[int, list[int]]:
    """The processes of each session, their leader first."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2]
        except OSError:
            continue
        words = fields.split()
        if words[0] != "Z" and int(words[3]) in leaders:
            found.setdefault(int(words[3]), []).append(int(name))
    return {
        leader: sorted(each, key=lambda pid: (pid != leader, pid)) for leader, each in found.items()
    }


def _frames(unix_pid: int, missing: Missing) -> list[str]:
    """The stack of one process under its name, the outermost frame first; empty: it has ended."""
    try:
        name = Path(f"/proc/{unix_pid}/comm").read_text(errors="replace").strip()
        state = (
            Path(f"/proc/{unix_pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        )
    except OSError:
        return []
    head = f"{name} (stopped)" if state in "Tt" else name
    ways = (_by_py_spy,) if _is_python(unix_pid) else ()
    for way in (*ways, _by_eu_stack, _by_gdb):
        if frames := way(unix_pid, missing):
            return [head, *frames]
    return [head, _by_kernel(unix_pid)]


def _is_python(unix_pid: int) -> bool:
    try:
        if _PYTHON.search(os.fsencode(os.readlink(f"/proc/{unix_pid}/exe"))):
            return True
        with open(f"/proc/{unix_pid}/maps", "rb") as maps:
            return any(b"/libpython3" in line for line in maps)
    except OSError:
        return False


def _said(words: Sequence[str], missing: Missing) -> str:
    """What a program writes; empty: it fails, or takes too long."""
    try:
        done = subprocess.run(words, capture_output=True, timeout=EACH_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        missing.say(f"{os.path.basename(words[0])} took more than {EACH_S:g} s")
        return ""
    except OSError as error:
        missing.say(f"{words[0]}: {error.strerror}")
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def _by_py_spy(unix_pid: int, missing: Missing) -> list[str]:
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    program = beside if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if program is None:
        missing.say("for the frames of Python install py-spy (pip install 'yod[stack]')")
        return []
    said = _said([program, "dump", "--json", "--pid", str(unix_pid)], missing)
    try:
        threads = json.loads(said) if said else []
        main = next(thread for thread in threads if thread["os_thread_id"] in (None, unix_pid))
        frames = [
            f"{each['name']} ({each['short_filename'] or each['filename']}:{each['line']})"
            for each in reversed(main["frames"])
        ]
    except (ValueError, LookupError, TypeError, StopIteration):
        return []
    return frames


def _by_eu_stack(unix_pid: int, missing: Missing) -> list[str]:
    program = shutil.which("eu-stack")
    if program is None:
        return []
    return _matched(_EU_FRAME, _said([program, "-1", "-p", str(unix_pid)], missing))


def _by_gdb(unix_pid: int, missing: Missing) -> list[str]:
    program = shutil.which("gdb")
    if program is None:
        missing.say("for the frames of C install gdb or elfutils")
        return []
    words = [program, "-nx", "-batch", "-p", str(unix_pid), "-ex", "bt -frame-arguments none"]
    return _matched(_GDB_FRAME, _said(words, missing))


def _matched(pattern: re.Pattern[str], text: str) -> list[str]:
    """Frames of a back trace, the outermost first."""
    frames = []
    for line in text.splitlines():
        if (found := pattern.match(line)) and found["name"] != "??":
            at = found["at"]
            frames.append(f"{found['name']} ({os.path.basename(at)})" if at else found["name"])
    return frames[::-1]


def _by_kernel(unix_pid: int) -> str:
    """Where the kernel has it."""
    for name in ("wchan", "stat"):
        try:
            text = Path(f"/proc/{unix_pid}/{name}").read_text(errors="replace")
        except OSError:
            return "(not to be seen)"
        if name == "wchan" and text.strip("0\n"):
            return f"(in the kernel: {text.strip()})"
        if name == "stat":
            state = text.rpartition(")")[2].split()[0]
            return {"R": "(runs)", "D": "(waits for a device)"}.get(state, "(waits)")
    return ""
