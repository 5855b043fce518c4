"""Hands a batch job in: what it runs, and the conversation with bebopd."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from msgspec import Struct

from native.errors import PartitionError, Refusal, UsageError
from native.host import userdirs
from native.limits import Limits
from native.loop.reactor import Reactor
from native.text import shown
from native.wire import codec
from native.wire.alloc import NodeSpec, Refused
from native.wire.base import NAME_MAX, NO_DEPENDENCY, NO_TERMS, Dependency, Message, Terms
from native.wire.batch import (
    TASK_MAX_BYTES,
    TOKEN_BYTES,
    EarlySignal,
    Forecast,
    Submit,
    Submitted,
    Task,
)
from partition.find.discover import Where, outside
from partition.find.talking import LostError, reached, talk

AGAIN_S = 0.25  # bebopd is asked again after this
_OURS = ("YOD_JOB_ID", "YOD_SLOTS", "YOD_NODE_COUNT", "YOD_NODE_NAMES", "YOD_NODE_SLOTS")


class NotTakenError(PartitionError):
    """bebopd refuses a job; the text says why.

    Attributes:
        code: the kind of reason.
    """

    def __init__(self, refused: Refused) -> None:
        self.code: Refusal = refused.code
        super().__init__(refused.text)


class Script(Struct, frozen=True):
    """What is to run.

    Attributes:
        name: of the job.
        content: of the script; empty: the words are a command.
        words: the script's name, or the command, with arguments.
    """

    name: str
    content: bytes
    words: tuple[str, ...]


def read_script(words: Sequence[str]) -> Script:
    """A script and its arguments; ``-`` is standard input.

    Raises:
        UsageError: it cannot be read, or is no script.
    """
    path = words[0]
    name = "stdin" if path == "-" else os.path.basename(path)
    try:
        fd = os.dup(0) if path == "-" else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise UsageError(f"{shown(path)}: is a directory")
            content = file.read(TASK_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{shown(path)}: {error.strerror}") from None
    if content.startswith(b"\x7fELF"):
        raise UsageError(f"{shown(path)}: a program, not a script; use --wrap {shown(path)}")
    if not content.startswith(b"#!"):
        raise UsageError(f"{shown(path)}: a script begins with #! and its interpreter")
    return Script(name, content, (name, *words[1:]))


def detached(words: Sequence[str], program: str) -> Script:
    """A command line of yod, for a job to which terminals attach."""
    return Script(os.path.basename(program), b"", tuple(words))


def wrapped(command: str) -> Script:
    """A script that runs a command of the shell."""
    return Script("wrap", f"#!/bin/sh\n{command}\n".encode(errors="surrogateescape"), ("wrap",))


def submission(
    script: Script,
    spec: NodeSpec,
    name: str,
    time_s: float,
    directory: str,
    output: str,
    warning: EarlySignal | None = None,
    partition: str = "",
    after: Dependency | None = None,
    is_exclusive: bool = False,
    is_held: bool = False,
    terms: Terms = NO_TERMS,
    systems: str = "",
    checkpoints: str = "",
) -> Submit:
    """The message that hands a job in, with what this process has of its user.

    Args:
        name: of the job; empty: the script's.
        partition: that the user has named, and steps and jobs of the script are to find.
        systems: whose variables the script is to find, beside ours; see
            :mod:`partition.submit.dialects`.
        checkpoints: directory in which CRIU writes the script down; empty: it does not.

    Raises:
        UsageError: it is too large, or the directory is none.
    """
    where = os.path.abspath(directory) if directory else os.getcwd()
    if directory and not os.path.isdir(where):
        raise UsageError(f"-directory {shown(directory)}: no such directory")
    variables = {
        name: value for name, value in outside(os.environ).items() if name not in _OURS
    } | ({"YOD_PARTITION": partition} if partition else {})
    variables.setdefault("HOME", userdirs.home(variables))  # where its keys lie
    if systems:
        from partition.submit import dialects  # few jobs have any

        host = os.uname().nodename
        variables |= dialects.variables(systems, spec, terms, where, host, variables)
    os.umask(umask := os.umask(0o077))
    task = codec.encode_part(
        Task(
            script=script.content,
            words=tuple(map(os.fsencode, script.words)),
            environment={os.fsencode(name): os.fsencode(text) for name, text in variables.items()},
            directory=os.fsencode(where),
            umask=umask & 0o777,
            output=os.fsencode(output),
            warning=warning,
            checkpoints=os.fsencode(os.path.join(where, checkpoints) if checkpoints else ""),
        )
    )
    if len(task) > TASK_MAX_BYTES:
        raise UsageError(
            f"script and environment have {len(task)} bytes, at most {TASK_MAX_BYTES}:"
            " keep large data in a file"
        )
    title = (name or script.name)[:NAME_MAX].encode(errors="replace").decode()
    waits_for = after or NO_DEPENDENCY
    said = (spec, title, time_s, task, waits_for, is_exclusive, is_held)
    return Submit(os.urandom(TOKEN_BYTES), *said, terms=terms)


def hand_in(where: Where, limits: Limits, message: Submit) -> Submitted | Forecast:
    """Hand a job in; it is on bebopd's disk when this returns, or is none: the message says so.

    A bebopd that is lost before it has answered is asked again for ``allocate_s``; it knows
    by the token what it has taken already.

    Raises:
        PartitionError: it is refused, or bebopd does not answer.
    """
    clock = Reactor()
    until = clock.monotonic() + limits.allocate_s
    was_reached = False
    try:
        while True:
            try:
                return _once(where, limits, message)
            except LostError as error:
                was_reached |= not error.is_unreachable
                if not was_reached or clock.monotonic() >= until:
                    raise
            timer = clock.timer(clock.stop)
            timer.set(clock.monotonic() + AGAIN_S)
            clock.run()
            timer.close()
    finally:
        clock.close()


def _once(where: Where, limits: Limits, message: Submit) -> Submitted | Forecast:
    answers: list[Submitted | Forecast | Refused] = []

    def take(answer: Message) -> bool:
        if isinstance(answer, Submitted | Forecast | Refused):
            answers.append(answer)
        return bool(answers)

    with reached(where, limits) as (port, bebopd, reactor):
        talk(port, bebopd, reactor, where.name, limits.allocate_s, message, take)
    answer = answers[0]
    if isinstance(answer, Refused):
        raise NotTakenError(answer)
    return answer
