"""What a batch system is asked, whichever it is."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from yod.pilot.batch.ends import End


class Ask(Struct, frozen=True):
    """One batch job.

    Attributes:
        log: the path of its output.
        cores: at least so many; nodes: on so many nodes, 0: on any number.
        cores_per_node: 0: not known.
        gpus_per_node, mem_per_node_mb: 0: none, any.
        minutes: its time.
        options: words for the batch system, as the resource's file has them.
        is_exclusive: nobody else is on its nodes.
        hosts: of which its nodes are; none: any.
    """

    name: str
    log: str
    cores: int
    nodes: int
    cores_per_node: int
    gpus_per_node: int
    mem_per_node_mb: int
    minutes: float
    queue: str = ""
    project: str = ""
    options: tuple[str, ...] = ()
    is_exclusive: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def clock(self) -> str:
        """Its time as hours, minutes and seconds."""
        seconds = math.ceil(self.minutes * 60)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class JobStage(Enum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"


class Stand(Struct, frozen=True):
    """How a job stands, and the batch system's words for it.

    Attributes:
        status: of its script, where that has ended and the batch system says it.
    """

    stage: JobStage
    words: str
    status: int | None = None


class System(Protocol):
    """A batch system."""

    name: str
    mark: str  # at the beginning of lines of its options in a script
    has_hosts: bool  # a job can be for some hosts alone
    keeps_log: bool  # of what a script writes, also where the node does not see its directory

    def head(self, ask: Ask) -> list[str]:
        """The options of a job."""

    def submit(self, ask: Ask, home: Home) -> list[str]:
        """The command that hands a script in."""

    def read_id(self, output: str) -> str:
        """The job's id, from what that has answered; empty: there is none."""

    def send(self, job_id: str, output: str) -> list[str]:
        """The command that gives a job its script, by what the query has answered.

        The script is its input. Empty: the batch system has carried it, or it is too early.
        """

    def query(self, job_id: str) -> list[str]:
        """The command that tells how a job stands."""

    def read_stand(self, status: int, output: str) -> Stand:
        """What that has answered."""

    def cancel(self, job_id: str) -> list[str]:
        """The command that ends a job."""


class Home(Struct, frozen=True):
    """What a job calls whose nodes do not see the session's directory.

    Attributes:
        script: the path of the job's script, by which its node finds out.
        mark: a word in it that no other one has.
        caller: the program that calls, and its arguments.
        key: hexadecimal; it is in the script alone, which only the user and the batch system read.
        host: the application's.
        directory: the application's.
    """

    script: str
    mark: str
    caller: Sequence[str]
    key: str
    host: str
    directory: str


def script(
    system: System | None,
    ask: Ask,
    before: Sequence[str],
    environment: Mapping[str, str],
    python: str,
    allocation: Sequence[str],
    agent: Sequence[str],
    home: Home | None = None,
) -> str:
    """The script of a pilot's job: daemons on its nodes, an allocation of them, the agent in it.

    Args:
        system: None: it is not handed in, and runs in a job that is there.
        before: commands that come first.
        environment: variables that it has to have.
        allocation: options of ``yodjob alloc``.
        home: who is called where the node does not see the session's directory; None: nobody.
    """
    head = [f"#{system.mark} {line}" for line in system.head(ask)] if system is not None else []
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    hold = [python, "-P", "-m", "partition.yodjob", "alloc", "-quiet", *allocation]
    control = shlex.join([python, "-P", "-m", "partition.yodctl"])
    away: list[str] = []
    if home is not None:
        away = [
            f"if ! grep -qs {home.mark} {shlex.quote(home.script)}; then",
            *before,
            f"[ -x {shlex.quote(python)} ] || exit {End.NO_YOD}",
            f"export YOD_OPEN_TO={shlex.quote(home.host)}",
            f"{shlex.join(home.caller)} <<'END'",
            home.key,
            "END",
            "status=$?",
            f"{control} down --force >&2",
            "exit $status",
            "fi",
        ]
    log = system is not None and not system.keeps_log
    return "\n".join(
        (
            "#!/bin/sh",
            *head,
            "",
            *exports,
            *away,
            *([f"exec >>{shlex.quote(ask.log)} 2>&1"] if log else []),
            *before,
            f"{control} up >&2 || exit 1",
            f"{shlex.join(hold)} {shlex.join(agent)}",
            "status=$?",
            f"{control} down >&2",
            "exit $status",
            "",
        )
    )
