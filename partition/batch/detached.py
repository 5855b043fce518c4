"""A detached job: a yod whose output is spooled, and to which terminals attach."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from msgspec import msgpack

from native.host import programs, rlimits, userdirs
from native.limits import Limits
from native.loop.reactor import Reactor
from native.text import shown
from native.transport.raw import PtlError
from native.waitstatus import as_known
from native.wire.batch import Serving, Task
from partition.attach import spool
from partition.attach.host import AttachHost
from partition.attach.spool import Spool
from partition.broker.command import NOT_EXECUTABLE, CannotStartError, default_signals
from pct.host.streams import OutputPipe

LOCAL = "local."  # before the number of a job that no bebopd has


class Detached:
    """A yod in a process group of its own, in the allocation that the broker holds.

    Args:
        host: the address of this host that others reach.
        on_serving: called with the job's id, and where terminals attach.
        on_end: called with its wait status, when all of its output is spooled.

    Attributes:
        wait_status: None: it has not ended.
    """

    def __init__(
        self,
        task: Task,
        host: str,
        reactor: Reactor,
        limits: Limits,
        *,
        on_serving: Callable[[str, Serving], None],
        on_end: Callable[[int], None],
    ) -> None:
        self.wait_status: int | None = None
        self._task = task
        self._host = host
        self._reactor = reactor
        self._limits = limits
        self._on_serving = on_serving
        self._on_end = on_end
        self._unix_pid = 0
        self._ended_with: int | None = None
        self._outputs: dict[int, OutputPipe] = {}
        self._spool: Spool | None = None
        self._terminals: AttachHost | None = None
        self._stack = ExitStack()
        self._slow = reactor.timer(self._finished)  # a terminal that does not read
        self._stack.callback(self._slow.close)

    def start(self, job_id: str, variables: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            CannotStartError: there is no yod, or no room for it or its output.
        """
        try:
            self._start(job_id, variables)
        except OSError as error:
            what = shown(os.fsdecode(error.filename)) if error.filename else "yod"
            text = f"{what}: {error.strerror or error}"
            raise CannotStartError(text, NOT_EXECUTABLE) from None
        except PtlError as error:
            text = f"cannot listen at {self._host}: {error.reason}"
            raise CannotStartError(text, NOT_EXECUTABLE) from None

    def _start(self, job_id: str, variables: Mapping[str, str]) -> None:
        state = userdirs.make_state(os.environ)
        self._spool = spool.make(state, spool.name_of(job_id), self._limits.spool_bytes)
        self._stack.callback(self._spool.close)
        stdin, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)
        try:
            self._terminals = AttachHost(
                int(job_id.removeprefix(LOCAL)),
                self._host,
                self._spool,
                writing,
                self._reactor,
                self._limits,
                on_interrupt=self.signal_alone,
                on_idle=self._finished,
            )
            self._stack.callback(self._terminals.close)
            self._spawn(variables, stdin)
        finally:
            os.close(stdin)
        serving = Serving(self._terminals.address, self._terminals.key)
        self._spool.note(spool.REACH, msgpack.encode(serving))
        self._on_serving(job_id, serving)

    def _spawn(self, variables: Mapping[str, str], stdin: int) -> None:
        environment = self._task.environment | {
            os.fsencode(name): os.fsencode(value) for name, value in variables.items()
        }
        _, *rest = self._task.words
        words = [*map(os.fsencode, programs.command_line("yod")), *rest]
        pipes = {stream: os.pipe2(os.O_CLOEXEC) for stream in (1, 2)}
        actions = [
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            *((os.POSIX_SPAWN_DUP2, writing, stream) for stream, (_, writing) in pipes.items()),
        ]
        try:
            with rlimits.as_before(), default_signals():
                self._unix_pid = os.posix_spawn(
                    words[0], words, environment, file_actions=actions, setsigmask=(), setpgroup=0
                )
        finally:
            for _, writing in pipes.values():
                os.close(writing)
        for stream, (reading, _) in pipes.items():
            os.set_blocking(reading, False)
            self._outputs[stream] = OutputPipe(self._reactor, reading, partial(self._read, stream))
        self._reactor.on_child(self._unix_pid, self._reaped)

    def signal(self, *numbers: int) -> None:
        """Send it signals."""
        for number in numbers:
            self.signal_alone(number)

    def signal_alone(self, number: int) -> None:
        """Send it a signal."""
        if self._unix_pid:
            os.kill(self._unix_pid, number)  # a child that is not reaped keeps its id

    def suspend(self, is_on: bool) -> None:
        """It goes on, and serves its terminals; its ranks are a step."""

    def hang_up(self) -> None:
        """Tell it that the allocation is over."""
        self.signal(signal.SIGTERM, signal.SIGCONT)

    def say(self, text: str) -> None:
        """Add a line of the broker's to the output."""
        if self._spool is not None and self._terminals is not None:
            self._spool.write(2, f"yodjob: {text}\n".encode())
            self._terminals.grown()

    def close(self) -> None:
        """Hang up on all terminals."""
        self._stack.close()
        for output in self._outputs.values():
            output.close()

    def _read(self, stream: int, data: bytes) -> None:
        assert self._spool is not None and self._terminals is not None
        if data:
            self._spool.write(stream, data)
            self._terminals.grown()
        else:
            del self._outputs[stream]
            self._look_at_end()

    def _reaped(self, wait_status: int) -> None:
        self._unix_pid = 0
        self._ended_with = wait_status
        for output in list(self._outputs.values()):
            output.finish()
        self._look_at_end()

    def _look_at_end(self) -> None:
        if self._ended_with is not None and not self._outputs:
            assert self._spool is not None and self._terminals is not None
            known = as_known(self._ended_with)
            self._spool.note(spool.ENDED, str(known).encode())
            self._slow.set(self._reactor.monotonic() + self._limits.end_s)
            self._terminals.ended(known)

    def _finished(self) -> None:
        if self.wait_status is None:
            assert self._ended_with is not None
            self.wait_status = self._ended_with
            self._slow.set(None)
            self._on_end(self.wait_status)
