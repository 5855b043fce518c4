"""Pilots: hold slots once, and run many tasks in them.

The names are RADICAL-Pilot's, so that a script runs with its import changed:
``import yod.pilot as rp``. Each is imported when it is used.

I/O. Imports native, yod.pilot.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where each name is. A tuple: it has another name there.
_MODELS = "yod.pilot.model."
_CLIENT = "yod.pilot.client."
NAMES: dict[str, str] = {
    "Session": _CLIENT + "session",
    "PilotManager": _CLIENT + "pmgr",
    "TaskManager": _CLIENT + "tmgr",
    "Pilot": _CLIENT + "pilot",
    "Task": _CLIENT + "task",
    "OpenPilot": _CLIENT + "aio",
    "PilotDescription": _MODELS + "description",
    "TaskDescription": _MODELS + "description",
    "Slot": _MODELS + "slot",
    "ResourceOccupation": _MODELS + "slot",
    "RO": _MODELS + "slot",
    "prof": "yod.pilot.profile.own",
    "Executor": "yod.pilot.executor.executor",
    "WorkerLost": "yod.pilot.executor.calling",
    "PythonTask": "yod.pilot.function.pythontask",
    "pythontask": "yod.pilot.function.pythontask",
}
_STATES = (
    *("NEW", "DONE", "FAILED", "CANCELED"),
    *("PMGR_LAUNCHING_PENDING", "PMGR_LAUNCHING", "PMGR_ACTIVE_PENDING", "PMGR_ACTIVE"),
    *("TMGR_SCHEDULING_PENDING", "TMGR_SCHEDULING"),
    *("TMGR_STAGING_INPUT_PENDING", "TMGR_STAGING_INPUT"),
    *("AGENT_STAGING_INPUT_PENDING", "AGENT_STAGING_INPUT"),
    *("AGENT_SCHEDULING_PENDING", "AGENT_SCHEDULING"),
    *("AGENT_EXECUTING_PENDING", "AGENT_EXECUTING"),
    *("AGENT_STAGING_OUTPUT_PENDING", "AGENT_STAGING_OUTPUT"),
    *("TMGR_STAGING_OUTPUT_PENDING", "TMGR_STAGING_OUTPUT"),
)
_MODES = (
    *("TASK_EXECUTABLE", "TASK_SERVICE", "TASK_FUNCTION", "TASK_METHOD", "TASK_EVAL"),
    *("TASK_EXEC", "TASK_PROC", "TASK_SHELL", "RAPTOR_MASTER", "RAPTOR_WORKER"),
    *("TASK_FUNC", "TASK_METH"),
)
_STAGING = (
    *("TRANSFER", "COPY", "LINK", "MOVE", "DOWNLOAD", "TARBALL"),
    *("RECURSIVE", "CREATE_PARENTS", "NON_FATAL", "DEFAULT_FLAGS"),
)
_WORDS = (
    *("FINAL", "SERIAL", "POSIX", "OpenMP", "MPI", "FUNC", "GPU", "GPU_MPI", "GPU_OpenMP", "CUDA"),
    *("FREE", "BUSY", "DOWN", "DEFAULT_ACTION", "DEFAULT_PRIORITY"),
    *("TASK_STATE", "WAIT_QUEUE_SIZE", "TMGR_METRICS", "PILOT_STATE", "PMGR_METRICS"),
    *("SCHEDULER_ROUND_ROBIN", "SCHEDULER_BACKFILLING", "SCHEDULER_DEFAULT"),
)
NAMES |= dict.fromkeys(_STATES, _MODELS + "states")
NAMES |= dict.fromkeys(_MODES, _MODELS + "modes")
NAMES |= dict.fromkeys(_STAGING, _MODELS + "staging")
NAMES |= dict.fromkeys(_WORDS, _MODELS + "words")

__all__ = list(NAMES)


def __getattr__(name: str) -> Any:
    """What is asked for, imported now."""
    if name == "open":
        return import_module(_CLIENT + "aio").open_pilot
    if name == "raptor":
        return import_module("yod.pilot.raptor")
    if name in ("version", "__version__"):
        return import_module("importlib.metadata").version("yod")
    where = NAMES.get(name)
    if where is None:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(where), name)
    return found
