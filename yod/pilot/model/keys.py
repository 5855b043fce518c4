"""The keys of descriptions: names, types and defaults, as RADICAL-Pilot has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from native.errors import UsageError
from yod.pilot.model.channels import channels_complaint
from yod.pilot.model.chosen import slots_complaint
from yod.pilot.model.modes import TASK_EXECUTABLE

Number = (int, float)
# How programs are told which GPUs are theirs: by which variable.
GPU_TYPES = {"CUDA": "CUDA_VISIBLE_DEVICES", "ROCm": "ROCR_VISIBLE_DEVICES"}


class Key(Struct, frozen=True):
    """One key.

    Attributes:
        kinds: types of its value; None is a value of every key, and means the default.
        default: where it is not given.
        check: complains of a value of the right type, or returns an empty text.
        is_refused: why a value is refused unless it is empty; itself empty: it is not.
    """

    kinds: tuple[type, ...]
    default: object = None
    check: Callable[[Any], str] | None = None
    is_refused: str = ""


def _least(minimum: float) -> Callable[[Any], str]:
    return lambda value: "" if value >= minimum else f"is less than {minimum:g}"


def _texts(value: list[object]) -> str:
    wrong = [each for each in value if not isinstance(each, str | int | float)]
    return f"has {wrong[0]!r}, which is no text" if wrong else ""


def _variables(value: dict[object, object]) -> str:
    for name in value:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            return f"has {name!r}, which is no name of a variable"
    return ""


def _commands(value: object) -> str:
    for each in value if isinstance(value, list) else []:
        lists = list(each.values()) if isinstance(each, dict) else [each]
        if not all(isinstance(one, str | list) for one in lists):
            return f"has {each!r}, which is neither a command nor {{rank: commands}}"
    return ""


def pattern_of(text: str) -> tuple[str, str]:
    """The stream in which a service says that it is ready, and the expression of the line."""
    stream, mark, expression = text.partition(":")
    return (stream, expression) if mark else ("stdout", text)


def _pattern(value: str) -> str:
    stream, expression = pattern_of(value)
    if stream not in ("stdout", "stderr"):
        return "does not begin with stdout: or stderr:"
    try:
        re.compile(expression)
    except re.error as error:
        return f"has a wrong expression: {error}"
    return ""


def _tags(value: dict[object, object]) -> str:
    wrong = [name for name in value if name not in ("colocate", "exclusive")]
    return f"has {wrong[0]!r}; known are colocate and exclusive" if wrong else ""


def _descriptions(value: list[object]) -> str:
    wrong = [each for each in value if not isinstance(each, dict)]
    return f"has {wrong[0]!r}, which is no description" if wrong else ""


def _environments(value: dict[object, object]) -> str:
    wrong = [name for name, each in value.items() if not isinstance(each, dict)]
    return f"has {wrong[0]!r}, which is not described by a dictionary" if wrong else ""


def _place(value: str) -> str:
    if "%(" in value:
        return "has a %(...), which nobody fills in here"
    return "" if value[:1] in ("", "/", "~", "$") else "is no absolute path"


def _gpus_of(value: str) -> str:
    return "" if value in ("", *GPU_TYPES) else f"is none of {', '.join(GPU_TYPES)}"


_TEXT = Key((str,), "")
_FLAG = Key((bool,), False)
_TEXTS = Key((list, tuple), (), _texts)
_COMMANDS = Key((list, tuple, str, dict), (), _commands)
_STAGING = Key((list, tuple, str, dict), ())
_ANY = Key((object,))


def _none(kind: type, why: str) -> Key:
    """A key of the reference that has no meaning here."""
    return Key((kind,), None, None, why)


TASK_KEYS: dict[str, Key] = {
    "uid": _TEXT,
    "name": _TEXT,
    "mode": Key((str,), TASK_EXECUTABLE),
    "executable": _TEXT,
    "arguments": _TEXTS,
    "literal": _FLAG,
    "code": _TEXT,
    "function": _ANY,
    "method": _TEXT,
    "args": Key((list, tuple), ()),
    "kwargs": Key((dict,), {}),
    "command": _TEXT,
    "sandbox": _TEXT,
    "environment": Key((dict,), {}, _variables),
    "named_env": _TEXT,
    "pre_launch": _COMMANDS,
    "pre_exec": _COMMANDS,
    "pre_exec_sync": _FLAG,
    "post_launch": _COMMANDS,
    "post_exec": _COMMANDS,
    "stdout": _TEXT,
    "stderr": _TEXT,
    "input_staging": _STAGING,
    "output_staging": _STAGING,
    "stage_on_error": _FLAG,
    "priority": Key((int,), 0),
    "use_mpi": Key((bool,), None),
    "ranks": Key((int,), 1, _least(1)),
    "ranks_per_node": Key((int,), 0, _least(0)),
    "cores_per_rank": Key((int,), 1, _least(1)),
    "gpus_per_rank": Key(Number, 0.0, _least(0)),
    "gpu_type": Key((str,), "", _gpus_of),
    "threading_type": _TEXT,
    "lfs_per_rank": Key(Number, 0, _least(0)),
    "mem_per_rank": Key(Number, 0, _least(0)),
    "timeout": Key(Number, 0.0, _least(0)),
    "startup_timeout": Key(Number, 0.0, _least(0)),
    "restartable": _FLAG,
    "cleanup": _FLAG,
    "pilot": _TEXT,
    "slots": Key((list, tuple), (), slots_complaint),
    "partition": _none(object, "a pilot is one partition, of the number 0"),
    "tags": Key((dict,), {}, _tags),
    "services": Key((list, tuple), (), _texts),
    "raptor_id": _TEXT,
    "raptor_class": _TEXT,
    "raptor_file": _TEXT,
    "metadata": _ANY,
    "info_pattern": Key((str,), "", _pattern),
}

PILOT_KEYS: dict[str, Key] = {
    "uid": _TEXT,
    "resource": Key((str,), "local.localhost"),
    "access_schema": _TEXT,
    "queue": _TEXT,
    "job_name": _TEXT,
    "project": _TEXT,
    "candidate_hosts": Key((list, tuple), (), _texts),
    "sandbox": Key((str,), "", _place),
    "runtime": Key(Number, 10, _least(0)),
    "nodes": Key((int,), 0, _least(0)),
    "cores": Key((int,), 0, _least(0)),
    "gpus": Key((int,), 0, _least(0)),
    "memory": Key((int,), 0, _least(0)),
    "backup_nodes": Key((int,), 0, _least(0)),
    "app_comm": Key((list, tuple), (), channels_complaint),
    "cleanup": _FLAG,
    "exit_on_error": Key((bool,), True),
    "services": Key((list, tuple), (), _descriptions),
    "input_staging": _STAGING,
    "output_staging": _STAGING,
    "prepare_env": Key((dict,), {}, _environments),
    "reconfig_src": _TEXT,
    "layout": _none(object, "an agent is one process"),
    "enable_ep": _none(bool, "tasks come from who has the key: the client, and masters of raptors"),
}

# One value stands for a list of it.
ONE_OR_MORE = frozenset(("arguments", "services", "candidate_hosts"))

# Names of earlier releases, which are still taken.
TASK_OLD = {
    "cpu_processes": "ranks",
    "cpu_threads": "cores_per_rank",
    "gpu_processes": "gpus_per_rank",
    "cpu_thread_type": "threading_type",
    "mem_per_process": "mem_per_rank",
    "lfs_per_process": "lfs_per_rank",
    "gpu_process_type": "gpu_type",
    "gpu_thread_type": "gpu_type",
    "scheduler": "raptor_id",
}


def nearest(name: str, known: dict[str, Key]) -> str:
    """The known key that a misspelt one may have meant; empty: none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, 1)), "")


def check_key(name: str, value: object, known: dict[str, Key], where: str) -> None:
    """Check one entry of a description.

    Raises:
        UsageError: there is no such key, or the value is wrong.
    """
    key = known.get(name)
    if key is None:
        meant = nearest(name, known)
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise UsageError(f"{where}: there is no key {name!r}{hint}")
    if value is None:
        return
    is_flag = isinstance(value, bool) and bool not in key.kinds
    if not isinstance(value, key.kinds) or is_flag:
        wanted = " or ".join(kind.__name__ for kind in key.kinds)
        raise UsageError(f"{where}: {name!r} is {value!r}; it is to be of type {wanted}")
    complaint = key.check(value) if key.check else ""
    if complaint:
        raise UsageError(f"{where}: {name!r} is {value!r}, which {complaint}")
    if key.is_refused and value:
        raise UsageError(f"{where}: {name!r} is refused: {key.is_refused}")
