"""Kinds of tasks: the values of ``mode`` in a description."""

from __future__ import annotations

TASK_EXECUTABLE = "task.executable"
TASK_SERVICE = "task.service"
TASK_FUNCTION = "task.function"
TASK_METHOD = "task.method"
TASK_EVAL = "task.eval"
TASK_EXEC = "task.exec"
TASK_PROC = "task.proc"
TASK_SHELL = "task.shell"
TASK_FUNC, TASK_METH = TASK_FUNCTION, TASK_METHOD
RAPTOR_MASTER = "raptor.master"
RAPTOR_WORKER = "raptor.worker"

# The values in RADICAL-Pilot's descriptions, and the short words for them.
_LONG = (
    *(TASK_EXECUTABLE, TASK_SERVICE, TASK_FUNCTION, TASK_METHOD, TASK_EVAL, TASK_EXEC),
    *(TASK_PROC, TASK_SHELL, RAPTOR_MASTER, RAPTOR_WORKER),
)
SHORT = {name.removeprefix("task."): name for name in _LONG}
MODES = {**dict.fromkeys(_LONG), **dict.fromkeys(SHORT)}

# Run by workers that are there already, and not as a program of their own.
CALLS = frozenset((TASK_FUNCTION, TASK_EVAL, TASK_EXEC))
# Run by the workers of a raptor, where one is named.
OF_RAPTOR = CALLS | {TASK_METHOD, TASK_PROC, TASK_SHELL}
NEED_RAPTOR = frozenset((TASK_METHOD, RAPTOR_MASTER, RAPTOR_WORKER))
# A service of the same kind as a task, but that others may wait for.
PROGRAMS = frozenset((TASK_EXECUTABLE, TASK_SERVICE, TASK_PROC, RAPTOR_MASTER, RAPTOR_WORKER))


def is_registered(kind: str) -> bool:
    """Not one of ours: a worker of a raptor may have registered it."""
    return kind not in MODES


def is_of_raptor(kind: str) -> bool:
    """The workers of a raptor run it, where one is named."""
    return kind in OF_RAPTOR or is_registered(kind)
