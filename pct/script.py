"""The script of a batch job, as its first node starts it before the broker. Pure.

What the program that starts it is given on its standard input has the layout of
`native/script/task.h`. The program appends to the variables where yods reach the allocation,
as YOD_PARTITION and YOD_KEY_FILE.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from typing import NamedTuple

from msgspec import Struct, msgpack

from native import allocated, pattern
from native.wire.alloc import Grant
from native.wire.batch import SCRIPT_STEP, Start, Task

_HEAD = Layout("<7I")
_BYTES = Layout("<I")


class ScriptTask(Struct, frozen=True):
    """A script that is to be started.

    Attributes:
        directory: that it runs in.
        output: the file for its standard output and error.
        host: IPv4 address at which yods reach the broker.
        key: content of the owner's key file.
        key_name: name of that file, without the process id of the broker at its end.
        directories: of the key file, each below the one before; the first one exists, the
            others are made.
        is_held: the script begins on the broker's word, and not at once.
        container: yod-init and criu, for a script that may be written down; empty: for another.
    """

    umask: int
    directory: bytes
    output: bytes
    host: bytes
    key: bytes
    key_name: bytes
    arguments: tuple[bytes, ...]
    variables: tuple[bytes, ...]
    directories: tuple[bytes, ...]
    script: bytes
    is_held: bool = False
    container: tuple[bytes, ...] = ()


class Here(NamedTuple):
    """What the node adds.

    Attributes:
        host: IPv4 address at which yods reach the broker.
        key, key_name: content and name of the owner's key file, see :class:`ScriptTask`.
        now: unix time.
        is_held: the script waits until the job's nodes are ready.
        container: as of :class:`ScriptTask`.
    """

    host: str
    key: str
    key_name: str
    now: float
    is_held: bool = False
    container: tuple[bytes, ...] = ()


def environment_of(task: Task) -> dict[str, str]:
    """The environment of the job's user."""
    return {_text(name): _text(value) for name, value in task.environment.items()}


def task_of(start: Start) -> Task:
    """What the job runs.

    Raises:
        native.wire.codec.NONSENSE: it is no task.
    """
    return msgpack.decode(start.task, type=Task)


def script_task(
    start: Start, task: Task, grant: Grant, directories: Sequence[str], here: Here
) -> ScriptTask:
    """What is needed to start the script.

    Args:
        directories: for the key file.
    """
    environment = environment_of(task)
    directory = _text(task.directory)
    job_id, names = str(start.job_id), [node.name for node in grant.nodes]
    slots = [node.slots for node in grant.nodes]
    added = allocated.variables(job_id, names, slots, environment) | {
        "YOD_JOB_ID": f"{job_id}.{SCRIPT_STEP}",
        "YOD_JOB_NAME": start.name,
        "YOD_SUBMIT_DIR": directory,
    }
    if start.attempt:
        added["YOD_RESTART_COUNT"] = str(start.attempt)
    array, index = job_id, "0"
    if start.element is not None:
        array, index = str(start.element.array), str(start.element.index)
        added |= {"YOD_ARRAY_JOB_ID": array, "YOD_ARRAY_INDEX": index}
    if start.time_s:
        added["YOD_END_TIME"] = str(int(here.now + start.time_s))
    if environment.get(allocated.SYSTEMS_VARIABLE):
        from pct.batch_dialects import Begun, variables  # few jobs have any

        end = int(added.get("YOD_END_TIME", "0"))
        added |= variables(Begun(start, names, slots, end, environment))
    every = {
        name: value
        for name, value in {**environment, **added}.items()
        if name not in allocated.REPLACED
    }
    if here.container:
        step_id = f"{job_id}.{SCRIPT_STEP}"
        where = allocated.saved_directory(_text(task.checkpoints), step_id)
        every |= allocated.saved_variables(where)
    codes = {
        "%": "%",
        **dict.fromkeys("jJ", job_id),
        "A": array,
        "a": index,
        "x": start.name.replace("/", "_"),
        "u": environment.get("USER", str(start.uid)),
        "N": names[0],
    }
    return ScriptTask(
        umask=task.umask,
        directory=task.directory,
        output=_data(pattern.expand(_text(task.output), codes)),
        host=here.host.encode(),
        key=here.key.encode(),
        key_name=here.key_name.encode(),
        arguments=task.words,
        variables=tuple(_data(f"{name}={value}") for name, value in every.items()),
        directories=tuple(map(_data, directories)),
        script=task.script,
        is_held=here.is_held,
        container=here.container,
    )


def encode(task: ScriptTask) -> bytes:
    """The task with its length before it.

    Raises:
        ValueError: a string has a NUL in it.
    """
    strings = (
        task.directory,
        task.output,
        task.host,
        task.key,
        task.key_name,
        *task.arguments,
        *task.variables,
        *task.directories,
        *task.container,
    )
    if any(b"\0" in string for string in strings):
        raise ValueError("a NUL")
    head = _HEAD.pack(
        task.umask,
        task.is_held,
        len(task.arguments),
        len(task.variables),
        len(task.directories),
        len(task.container),
        len(task.script),
    )
    body = b"".join([head, *(string + b"\0" for string in strings), task.script])
    return _BYTES.pack(len(body)) + body


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _data(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
