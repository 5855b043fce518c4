"""Looks at the ranks of one node: the command that a pct starts as their owner.

A Python process is looked at by py-spy, any other by eu-stack or gdb, what none of them can tell
by the kernel: the system call in which it waits. The processes of a rank are those of its
session; the tree has them under their names. Of a rank that CRIU can write down they are those of
the program behind ``yod-init``.

Each node of a job starts one, often all on one host at once, and most have few ranks: what is not
needed for every look is imported when it is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from native import nodelist
from native.host.process import program_behind, stat_of
from yod.launch.stacks.tree import Tree

AT_ONCE = 4
EACH = 0.3  # of the time for a look at the node: a tool has as long for one process
TOOLS = 0.8  # of that time: who was not looked at then is told by the kernel alone
PROCESSES_MAX = 8  # of one rank
_PYTHON = re.compile(rb"(^|/)(lib)?python3?[.0-9]*[^/]*$")
_GDB_FRAME = re.compile(
    r"^#\d+\s+(?:0x[0-9a-f]+ in )?(?P<name>\S+) ?\(.*?\)(?: (?:at|from) (?P<at>\S+))?"
)
_RUNS_PYTHON = "_PyEval_EvalFrameDefault"
_PYTHONS = ("_Py", "Py", "cfunction_", "method_", "slot_", "object_", "type_call")  # its own
_EU_FRAME = re.compile(r"^#\d+\s+0x[0-9a-f]+ (?P<name>[^ ]+)(?:.* - (?P<at>\S+))?")


class Missing:
    """What could not be used, and why; said once.

    Args:
        look_s: in which all ends.

    Attributes:
        each_s: a tool that takes longer for one process could not be used.
    """

    def __init__(self, look_s: float) -> None:
        self.each_s = EACH * look_s
        self.texts: dict[str, None] = {}
        self._until = time.monotonic() + TOOLS * look_s

    def left_s(self) -> float:
        """How long a tool may take for the next process; 0: no time is left for tools."""
        return max(0.0, min(self.each_s, self._until - time.monotonic()))

    def say(self, text: str) -> None:
        """Note it."""
        self.texts[text] = None


def main() -> None:
    """The command; its arguments are those of :func:`run`."""
    sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Look at the ranks, and write their tree.

    Args:
        words: seconds in which all ends; the ranks, as in ``0..3``; and their processes, with
            commas. If they are dying, the threads that do; only these are looked at then.
    """
    missing = Missing(float(words[0]))
    ranks = nodelist.parse(words[1])
    unix_pids = [int(word) for word in words[2].split(",")]
    if len(words) > 3:
        threads = [int(word) for word in words[3].split(",")]
        wanted = list(zip(ranks, unix_pids, threads, strict=True))
    else:
        wanted = [
            (rank, unix_pid, unix_pid)
            for rank, own in zip(ranks, _processes(unix_pids), strict=True)
            for unix_pid in own[:PROCESSES_MAX]
        ]
    tree = Tree()
    looks = _in_order(lambda each: _frames(each[1], each[2], missing), wanted)
    for (rank, _, _), frames in zip(wanted, looks, strict=True):
        if frames:
            tree.add((rank,), frames)
    sys.stdout.write(tree.text())
    sys.stdout.flush()
    if missing.texts:
        sys.stderr.write("; ".join(missing.texts) + "\n")
    return 0


def _in_order(
    look: Callable[[tuple[int, int, int]], list[str]], wanted: Sequence[tuple[int, int, int]]
) -> Iterable[list[str]]:
    """What each look finds; some are made at once."""
    if len(wanted) == 1:
        return map(look, wanted)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return pool.map(look, wanted)


def _processes(unix_pids: Sequence[int]) -> list[list[int]]:
    """The processes of each rank's program, its own first."""
    programs = [program_behind(unix_pid) for unix_pid in unix_pids]
    found: dict[int, list[int]] = {}
    sessions: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat_of(name)) and fields[0] != b"Z":
            sessions[int(name)] = session = int(fields[3])
            found.setdefault(session, []).append(int(name))
    processes = []
    for unix_pid, program in zip(unix_pids, programs, strict=True):
        session = sessions.get(program, -1)
        not_its = session if program != unix_pid else -1  # below yod-init another one leads it
        own = [each for each in found.get(session, []) if each != not_its]
        processes.append(sorted(own, key=lambda each: (each != program, each)))
    return processes


def _frames(unix_pid: int, thread: int, missing: Missing) -> list[str]:
    """The stack of a thread of a process, the outermost frame first; empty: it has ended."""
    try:
        name = _text_of(f"/proc/{unix_pid}/comm").strip()
    except OSError:
        return []
    if not (fields := stat_of(unix_pid)):
        return []
    state = fields[0].decode()
    head = f"{name} (stopped)" if state in "Tt" else name
    if state in "Tt" and _is_python(unix_pid):
        python = _python_frames(unix_pid, thread, missing, "--nonblocking")  # it fails to stop it
        native = _by_eu_stack(unix_pid, thread, missing) or _by_gdb(unix_pid, thread, missing)
        if frames := together(python, native):
            return [head, *frames]
        return [head, _by_kernel(unix_pid)]
    ways = (_by_py_spy,) if _is_python(unix_pid) else ()
    for way in (*ways, _by_eu_stack, _by_gdb):
        if frames := way(unix_pid, thread, missing):
            return [head, *frames]
    return [head, _by_kernel(unix_pid)]


def _text_of(path: str) -> str:
    """What is in a file.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, errors="replace") as file:
        return file.read()


def _program(name: str) -> str | None:
    """Where a tool is; None: nowhere in the path."""
    import shutil  # none but py-spy is looked for, mostly, and that is beside this Python

    return shutil.which(name)


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
    left_s = missing.left_s()
    if not left_s:
        missing.say("there was no time to look at all of them (YOD_LOOK_S)")
        return ""
    try:
        done = subprocess.run(words, capture_output=True, timeout=left_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        if left_s == missing.each_s:
            missing.say(f"{os.path.basename(words[0])} took more than {left_s:g} s")
        return ""
    except OSError as error:
        missing.say(f"{words[0]}: {error.strerror}")
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def together(python: Sequence[tuple[str, bool]], native: Sequence[str]) -> list[str]:
    """The frames of Python in the places of those of C that run them, the outermost first.

    Args:
        python: with each frame whether a frame of C begins with it: one runs several.
    """
    runs = [number for number, frame in enumerate(native) if frame.startswith(_RUNS_PYTHON)]
    if not python or not runs:
        return [frame for frame, _ in python] or list(native)
    groups: list[list[str]] = []
    for frame, is_first in python:
        if is_first or not groups:
            groups.append([])
        groups[-1].append(frame)
    if len(groups) != len(runs):  # this Python does not tell: all of it, and what it has called
        groups, runs = [[frame for frame, _ in python]], runs[-1:]
    frames: list[str] = []
    for group, first, after in zip(groups, runs, [*runs[1:], len(native)], strict=True):
        called = [frame for frame in native[first + 1 : after] if not frame.startswith(_PYTHONS)]
        frames += [*group, *called]
    return frames


def _by_py_spy(unix_pid: int, thread: int, missing: Missing) -> list[str]:
    return [frame for frame, _ in _python_frames(unix_pid, thread, missing)]


def _python_frames(
    unix_pid: int, thread: int, missing: Missing, *options: str
) -> list[tuple[str, bool]]:
    """The frames of Python, and whether a frame of C begins with each."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    program = beside if os.access(beside, os.X_OK) else _program("py-spy")
    if program is None:
        missing.say("for the frames of Python install py-spy (pip install 'yod[stack]')")
        return []
    import json  # few ranks of other programs need it

    said = _said([program, "dump", "--json", *options, "--pid", str(unix_pid)], missing)
    try:
        threads = json.loads(said) if said else []
        ids = (None, *_ids(thread))
        main = next(each for each in threads if each["os_thread_id"] in ids)
        frames = [
            (
                f"{each['name']} ({each['short_filename'] or each['filename']}:{each['line']})",
                bool(each.get("is_shim_entry", each.get("is_entry", True))),
            )
            for each in reversed(main["frames"])
        ]
    except (ValueError, LookupError, TypeError, StopIteration):
        return []
    return frames


def _ids(thread: int) -> list[int]:
    """The numbers of a thread, here first: what it has noted itself is that of its namespace."""
    try:
        with open(f"/proc/{thread}/status", encoding="ascii", errors="replace") as file:
            found = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
    except OSError:
        found = []
    return [thread, *map(int, found)]


def _by_eu_stack(unix_pid: int, thread: int, missing: Missing) -> list[str]:
    program = _program("eu-stack")
    if program is None:
        return []
    return _matched(_EU_FRAME, _said([program, "-1", "-p", str(thread)], missing))


def _by_gdb(unix_pid: int, thread: int, missing: Missing) -> list[str]:
    program = _program("gdb")
    if program is None:
        missing.say("for the frames of C install gdb or elfutils")
        return []
    words = [program, "-nx", "-batch", "-p", str(thread), "-ex", "bt -frame-arguments none"]
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
            text = _text_of(f"/proc/{unix_pid}/{name}")
        except OSError:
            return "(not to be seen)"
        if name == "wchan" and text.strip("0\n"):
            return f"(in the kernel: {text.strip()})"
        if name == "stat":
            state = text.rpartition(")")[2].split()[0]
            return {"R": "(runs)", "D": "(waits for a device)"}.get(state, "(waits)")
    return ""
