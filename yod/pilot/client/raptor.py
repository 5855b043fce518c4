"""Raptors as the application has them, and what their descriptions mean.

A raptor is a queue of calls at its pilot's agent, and takes no slots, unless its master is a
program. Its workers are tasks with slots, each rank of which takes one call after another.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping
from typing import Any

from native.errors import UsageError
from yod.pilot.client.task import Task
from yod.pilot.function.rank import MODULE
from yod.pilot.model import modes
from yod.pilot.model.description import TaskDescription

_STOP = "stop"
_MPI = "MPIWorker"
_PROGRAM = "yod.pilot.raptor.program"


class Raptor(Task):
    """A raptor: a task that other tasks are given to."""

    __slots__ = ()

    def submit_workers(self, descriptions: Any) -> list[Task]:
        """Begin workers. They take slots."""
        each = list(descriptions) if isinstance(descriptions, list | tuple) else [descriptions]
        own = [_with(one, raptor_id=self.uid, mode=modes.RAPTOR_WORKER) for one in each]
        for one in own:
            one["uid"] = one.get("uid") or self.tmgr.session.next_uid(self.uid, 4)
        tasks: list[Task] = self.tmgr.submit_tasks(own)
        return tasks

    def submit_tasks(self, descriptions: Any) -> list[Task]:
        """Have tasks run by the workers."""
        each = list(descriptions) if isinstance(descriptions, list | tuple) else [descriptions]
        tasks: list[Task] = self.tmgr.submit_tasks([_with(one, raptor_id=self.uid) for one in each])
        return tasks

    def rpc(self, cmd: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Tell the raptor something: ``stop`` ends it and its workers.

        Raises:
            UsageError: it is another word.
        """
        if cmd != _STOP or args or kwargs:
            raise UsageError(f"rpc: {cmd!r} is not known; known is {_STOP!r}")
        self.tmgr.stop_raptor(self)
        return {"out": "", "err": "", "ret": None, "exc": None}


def _with(description: Any, **entries: str) -> TaskDescription:
    made = TaskDescription(dict(description))
    made.update(entries)
    return made


def prepare(
    description: TaskDescription, where: str, known: Mapping[str, Task], pilots: list[str]
) -> None:
    """Complete the description of a raptor, of its worker, or of a task for one.

    Args:
        known: the tasks of the manager; pilots: those of the manager.

    Raises:
        UsageError: it cannot be run; the text has the key.
    """
    kind = description.kind
    if kind == modes.RAPTOR_MASTER:
        _make_master(description)
        return
    uid = description.get("raptor_id")
    if not uid:
        if kind in (modes.RAPTOR_WORKER, modes.TASK_METHOD):
            raise UsageError(f"{where}: 'raptor_id' is missing, which the mode {kind} needs")
        return
    if not modes.is_of_raptor(kind) and kind != modes.RAPTOR_WORKER:
        description.pop("raptor_id")  # programs with slots of their own
        return
    raptor = known.get(uid)
    if not isinstance(raptor, Raptor):
        raise UsageError(f"{where}: 'raptor_id' is {uid!r}, and its manager has no such raptor")
    pilot = raptor.pilot or (pilots[0] if len(pilots) == 1 else "")
    if not pilot:
        raise UsageError(f"{where}: the raptor {uid} has no pilot yet; name it by its 'pilot'")
    description["pilot"] = pilot
    if kind == modes.RAPTOR_WORKER:
        make_worker(description, uid)


def _make_master(description: TaskDescription) -> None:
    """A master's class in a file is run by a program of ours; without one it is a queue."""
    if description.get("raptor_file") and not description.get("executable"):
        path, name = _path_of(description), description.get("raptor_class") or "Master"
        description["raptor_file"] = path
        description["executable"] = sys.executable
        description["arguments"] = ["-P", "-m", _PROGRAM, path, name]


def _path_of(description: TaskDescription) -> str:
    """The file of a class, which is there, or is staged to the task."""
    path = description.get("raptor_file") or ""
    return os.path.abspath(path) if path and os.path.exists(path) else path


def make_worker(description: TaskDescription, raptor: str) -> None:
    """Complete the description of a worker with its program."""
    path = _path_of(description)
    name = description.get("raptor_class") or "DefaultWorker"
    if path:
        description["raptor_file"] = path
    description["executable"] = sys.executable
    description["arguments"] = ["-P", "-m", MODULE, raptor, path, name]
    if description.get("use_mpi") is None:
        description["use_mpi"] = is_mpi_class(path, name)


def is_mpi_class(path: str, name: str) -> bool:
    """Whether a class is an ``MPIWorker``; the text of its file tells, and nothing of it runs."""
    if name == _MPI:
        return True
    try:
        with open(path, "rb") as file:
            parsed = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):  # the worker will say so
        return False
    classes = [each for each in parsed.body if isinstance(each, ast.ClassDef)]
    bases = {
        one.name: [ast.unparse(base).rpartition(".")[2] for base in one.bases] for one in classes
    }
    seen: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one == _MPI:
            return True
        if one not in seen:
            seen.add(one)
            left += bases.get(one, [])
    return False
