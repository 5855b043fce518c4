"""The script of a batch job as a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from native.host import rlimits
from native.host.rlimits import write_whole
from native.loop.reactor import Reactor
from native.text import shown
from native.wire.batch import Task
from partition.broker.command import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    CannotStartError,
    default_signals,
)

STEP = 0  # the script's number in its allocation


class Script:
    """The script in a process group of its own; our standard streams are its.

    Args:
        variables: that it finds besides those of the allocation.
        on_end: called with its wait status.

    Attributes:
        wait_status: None: it has not ended.
    """

    def __init__(
        self,
        task: Task,
        variables: Mapping[str, str],
        reactor: Reactor,
        on_end: Callable[[int], None],
    ) -> None:
        self.wait_status: int | None = None
        self._task = task
        self._variables = variables
        self._reactor = reactor
        self._on_end = on_end
        self._unix_pid = 0  # 0: it does not run

    def start(self, job_id: str, variables: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            CannotStartError: it cannot be executed.
        """
        task = self._task
        more = {**variables, **self._variables, "YOD_JOB_ID": f"{job_id}.{STEP}"}
        environment = task.environment | {
            os.fsencode(name): os.fsencode(value) for name, value in more.items()
        }
        try:
            path = _in_memory(task.script) if task.script else task.words[0]
            spawn = os.posix_spawn if task.script else os.posix_spawnp
            with rlimits.as_before(), default_signals():
                self._unix_pid = spawn(
                    path, list(task.words), environment, setsigmask=(), setpgroup=0
                )
        except OSError as error:
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            raise CannotStartError(f"{_blamed(task)}: {error.strerror}", status) from None
        self._reactor.on_child(self._unix_pid, self._ended)

    def signal(self, *numbers: int) -> None:
        """Send signals to it and to what it has started in its group."""
        if self._unix_pid:
            for number in numbers:
                with suppress(ProcessLookupError):
                    os.killpg(self._unix_pid, number)

    def signal_alone(self, number: int) -> None:
        """Send a signal to its first process."""
        if self._unix_pid:
            os.kill(self._unix_pid, number)  # a child that is not reaped keeps its id

    def hang_up(self) -> None:
        """Tell it that the allocation is over."""
        self.signal(signal.SIGTERM, signal.SIGCONT)

    def _ended(self, status: int) -> None:
        self._unix_pid = 0
        self.wait_status = status
        self._on_end(status)


def _blamed(task: Task) -> str:
    """What is not there, or cannot be executed: of a script it is the interpreter."""
    words = task.script.partition(b"\n")[0].removeprefix(b"#!").split()
    name = shown(os.fsdecode(task.words[0]))
    return f"{name}: its interpreter {shown(os.fsdecode(words[0]))}" if words else name


def _in_memory(script: bytes) -> bytes:
    """A path by which a script can be executed: its user's file may have changed, or be gone.

    Its interpreter opens the path, so the descriptor stays open in all that is started here.
    """
    fd = os.memfd_create("yod-script", 0)
    write_whole(fd, script)
    return b"/proc/self/fd/%d" % fd
