"""Writes the script of a batch job down, with all that it runs.

The broker of the job starts this, and gives it the recipe. Connections cannot be written down, so
a step may only run below a yod-cr, which has the lock of the script open: the step is written down
first and ends, its yod-cr waits for that lock, and starts the step again when it gets it. By then
the script is written down and goes on, or was brought back.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import stat
import struct
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress

from native.allocated import LOCK
from native.host.files import sync
from native.host.marks import outputs
from native.host.process import stat_of
from native.wire import job
from partition.checkpoint import criu, dumping, files, obstacles
from partition.checkpoint.collecting import NotSavedError, record
from partition.checkpoint.committing import commit
from partition.checkpoint.files import Recipe
from partition.checkpoint.inotify import Inotify
from partition.jobs.ask import Silent, ask, open_directory
from partition.jobs.steps import with_steps

KEPT_COUNT = 2  # checkpoints of a script
_COUNT = struct.Struct("<Q")  # in the lock: how often the script was to be written down
_ANSWER_S = 10.0  # a yod that says nothing for so long is stopped
_END_S = 60.0  # a yod whose step has ended is gone by then
_ENDING_S = 2.0  # one that ends by itself, too
_MS = 1000
_COLLECTING = f"{files.COLLECTING}script"  # one at a time: the lock is held


def look(unix_pid: int, job_id: str, directory: str) -> None:
    """Do nothing if the script could be written down now, as far as it can be seen.

    Args:
        unix_pid: of the `yod-init` that runs it.
        directory: of its checkpoints.

    Raises:
        NotSavedError: it could not; the text names what stands in the way.
    """
    first = _first_of(unix_pid)
    with open(os.path.join(directory, LOCK), "rb") as lock:
        steps = _steps(job_id, first, lock.fileno())
    _demand_possible(first, steps)


def save(unix_pid: int, job_id: str, directory: str, recipe: Recipe) -> tuple[int, str]:
    """Write the script down; its processes are stopped when this returns.

    The arguments are as for :func:`look`.

    Returns:
        The bytes of the checkpoint, and its path.

    Raises:
        NotSavedError: it cannot be; the text says why.
        OSError: a file cannot be written or read.
    """
    with open(os.path.join(directory, LOCK), "r+b", buffering=0) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = _first_of(unix_pid)
        steps = _steps(job_id, first, lock.fileno())
        _demand_possible(first, steps)
        count = _COUNT.unpack(os.pread(lock.fileno(), _COUNT.size, 0).ljust(_COUNT.size, b"\0"))[0]
        os.pwrite(lock.fileno(), _COUNT.pack(count + 1), 0)
        _end(steps)
        here = os.path.join(directory, _COLLECTING)
        shutil.rmtree(here, ignore_errors=True)
        images = os.path.join(here, files.rank_directory(0))
        os.makedirs(images, 0o700)
        _dump(unix_pid, first, images)
        files.write(os.path.join(images, outputs.NAME), outputs.Marks(job_id, _marks(unix_pid)))
        found, _ = record(0, [0], here, 0)
        files.write(os.path.join(here, files.node_file(0)), found)
        sync(here)
        return commit(recipe, 0, KEPT_COUNT, directory, _COLLECTING)


def _first_of(unix_pid: int) -> int:
    """Process 1 of the script's namespace.

    Raises:
        NotSavedError: the script has ended.
    """
    with suppress(OSError, IndexError):
        if (first := dumping.process_shown(unix_pid, dumping.FIRST_FD)) > 0:
            return first
    raise NotSavedError("the script has ended, or has not begun")


def _steps(job_id: str, first: int, lock: int) -> dict[str, int]:
    """The steps of the script, and the processes of their yods.

    Raises:
        NotSavedError: one is not below a yod-cr, does not answer, or has no nodes yet.
    """
    with Inotify() as inotify:
        if (directory := open_directory()) is not None:
            inotify.watch(directory.path)
            directory.close()
        while True:
            yods = {
                child
                for each in (first, *obstacles.below(first))
                if _has_open(each, lock)
                for child in obstacles.children_of(each)
                if stat_of(child)[:1] not in ([], [b"Z"])
            }
            found: dict[str, int] = {}
            ids = [each for each in with_steps([job_id])[job_id] if each != job_id]
            for answer in ask(ids, job.Show(), _ANSWER_S):
                if answer.silent in (Silent.UNKNOWN, Silent.ENDED):
                    continue
                if answer.reply is None:
                    raise NotSavedError(f"{answer.id}: {answer.trouble}")
                if answer.unix_pid not in yods and stat_of(answer.unix_pid):
                    why = "its yod is not below yod-cr, and has connections"
                    raise NotSavedError(f"{answer.id}: {why}")
                found[answer.id] = answer.unix_pid
            if not (nameless := yods - set(found.values())):
                return found
            _await_name(nameless, inotify)


def _await_name(yods: Collection[int], inotify: Inotify) -> None:
    """Wait until a step has a name, or one of these yods has ended.

    Raises:
        NotSavedError: nothing of that happens.
    """
    fds: list[int] = []
    try:
        for each in yods:
            try:
                fds.append(os.pidfd_open(each))
            except ProcessLookupError:  # it has ended: look again
                return
        poll = select.poll()
        for fd in (inotify.fd, *fds):
            poll.register(fd, select.POLLIN)
        if not poll.poll(_ANSWER_S * _MS):
            raise NotSavedError(f"process {min(yods)} (yod) has no nodes yet, and connections")
        list(inotify.read())
    finally:
        for fd in fds:
            os.close(fd)


def _has_open(unix_pid: int, lock: int) -> bool:
    """Whether a process has the file of a descriptor of ours open."""
    ours = os.fstat(lock)
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{unix_pid}/fd"):
            with suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{unix_pid}/fd/{fd}"), ours):
                    return True
    return False


def _demand_possible(first: int, steps: Mapping[str, int]) -> None:
    _demand_all(steps, job.Checkpoint(ends=True, is_trial=True))
    if why := obstacles.of_tree(first, without=steps.values()):
        raise NotSavedError(why)


def _end(steps: Mapping[str, int]) -> None:
    """Have the steps written down and ended; their yods are gone when this returns.

    Raises:
        NotSavedError: one could not be written down, or does not end.
    """
    _demand_all(steps, job.Checkpoint(ends=True))
    for job_id, unix_pid in steps.items():
        if not _ends(unix_pid, _END_S):
            raise NotSavedError(f"{job_id} is written down, and does not end")


def _demand_all(steps: Mapping[str, int], request: job.Checkpoint) -> None:
    """Ask the steps. One that refuses as it comes to its end is none any more.

    Raises:
        NotSavedError: one refuses.
    """
    for answer in ask(steps, request, None):
        if isinstance(answer.reply, job.Accepted | job.Checkpointed):
            continue
        if not _ends(steps[answer.id], _ENDING_S):
            raise NotSavedError(f"{answer.id}: {answer.trouble}")


def _ends(unix_pid: int, within_s: float) -> bool:
    """Whether a process ends within this time, or has ended."""
    try:
        fd = os.pidfd_open(unix_pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], (), (), within_s)[0])
    finally:
        os.close(fd)


def _dump(unix_pid: int, first: int, images: str) -> None:
    """Have CRIU write the processes down; they are stopped then.

    Raises:
        NotSavedError: it cannot.
    """
    program = dumping.process_shown(unix_pid, dumping.PROGRAM_FD)
    where = f"{os.path.basename(images)} 1 {dumping.inner_pid(program)}\n"
    _write(os.path.join(images, dumping.STREAMS), dumping.streams_of(unix_pid))
    _write(os.path.join(images, dumping.TREE), where)
    command = criu.dump_command(
        dumping.words_of(unix_pid)[dumping.CRIU_WORD], first, images, is_left_stopped=True
    )
    place = os.open(f"/proc/{first}/cwd", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)  # as partition.checkpoint.dumping has it
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    finally:
        os.close(place)
    if status := done.returncode:
        why = obstacles.of_tree(first) if status > 0 else ""
        raise NotSavedError(why or f"criu cannot write it down: {dumping.why_of(status, images)}")


def _marks(unix_pid: int) -> tuple[outputs.Mark, ...]:
    """How much of the script's output there is by now."""
    path = f"/proc/{unix_pid}/fd/1"
    if not stat.S_ISREG(os.stat(path).st_mode):
        return ()
    return (outputs.mark(os.readlink(path), is_of_job=True),)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
