"""Starts the process that holds the slots of a detached job where no partition is up."""

from __future__ import annotations

import os

from msgspec import Struct, msgpack

from native.errors import PartitionError
from native.host import programs
from native.wire.alloc import NodeSpec
from native.wire.batch import Task


class Alone(Struct, frozen=True):
    """What the process is given on its standard input."""

    spec: NodeSpec
    name: str
    task: Task


class Told(Struct, frozen=True):
    """What it says on its standard output, once.

    Attributes:
        job_id: of the job that runs; empty: there is none.
        error: why there is none.
    """

    job_id: str = ""
    error: str = ""


def begin(spec: NodeSpec, name: str, task: Task) -> str:
    """Start the process; gives the job's id.

    Raises:
        PartitionError: there is no job; the text says why.
    """
    words = [*programs.command_line("yodjob-cold"), "alone"]
    reading, theirs = os.pipe2(os.O_CLOEXEC)
    their_input, writing = os.pipe2(os.O_CLOEXEC)
    actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_DUP2, their_input, 0),
        (os.POSIX_SPAWN_DUP2, theirs, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        os.posix_spawn(
            words[0], words, os.environ, file_actions=actions, setsid=True, setsigmask=()
        )
    finally:
        os.close(theirs)
        os.close(their_input)
    with open(writing, "wb") as given:
        given.write(msgpack.encode(Alone(spec, name, task)))
    with open(reading, "rb") as told:
        data = told.read()
    said = msgpack.decode(data, type=Told) if data else Told(error="its process has died")
    if said.error:
        raise PartitionError(said.error)
    return said.job_id
