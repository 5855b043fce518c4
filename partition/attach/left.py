"""A launch whose user has left: its process keeps the output, and terminals attach to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from msgspec import msgpack

from native.host import userdirs
from native.limits import Limits
from native.loop.reactor import Reactor
from native.wire.batch import Serving
from partition.attach import spool
from partition.attach.host import AttachHost
from partition.attach.spool import Spool


class Left:
    """The output of a launch from now on, and its terminals.

    Args:
        job_id: by which the launch is found.
        host: the address of this host that others reach.
        environment: the user's; it says where their directories are.
        on_interrupt: called with the number of a signal for the job.

    Attributes:
        stdin_fd: the input that is typed at a terminal; -1: it has been taken.

    Raises:
        OSError: there is no room for the output.
        PtlError: nobody could attach.
    """

    def __init__(
        self,
        job_id: str,
        host: str,
        environment: Mapping[str, str],
        reactor: Reactor,
        limits: Limits,
        on_interrupt: Callable[[int], None],
    ) -> None:
        self._limits = limits
        self._reactor = reactor
        self._on_end: Callable[[], None] | None = None
        with ExitStack() as stack:
            state = userdirs.make_state(environment)
            self._spool: Spool = spool.make(state, spool.name_of(job_id), limits.spool_bytes)
            stack.callback(self._spool.close)
            self.stdin_fd, writing = os.pipe2(os.O_CLOEXEC)
            stack.callback(self._close_stdin)
            os.set_blocking(writing, False)
            os.set_blocking(self.stdin_fd, False)
            self._terminals = AttachHost(
                int(job_id.rpartition(".")[2]),
                host,
                self._spool,
                writing,
                reactor,
                limits,
                on_interrupt=on_interrupt,
                on_idle=self._finished,
            )
            stack.callback(self._terminals.close)
            self._slow = reactor.timer(self._finished)  # a terminal that does not read
            stack.callback(self._slow.close)
            self._stack = stack.pop_all()
        serving = Serving(self._terminals.address, self._terminals.key)
        self._spool.note(spool.REACH, msgpack.encode(serving))

    def take_stdin(self) -> int:
        """The descriptor of the input, which becomes the caller's."""
        fd, self.stdin_fd = self.stdin_fd, -1
        return fd

    def write(self, stream: int, data: bytes | bytearray | memoryview) -> None:
        """Add to the output."""
        if data:
            self._spool.write(stream, bytes(data))
            self._terminals.grown()

    def end(self, wait_status: int, on_end: Callable[[], None]) -> None:
        """The launch is over. Terminals that read get the rest.

        Args:
            on_end: called once, when they have it.
        """
        self._on_end = on_end
        self._spool.note(spool.ENDED, str(wait_status).encode())
        self._slow.set(self._reactor.monotonic() + self._limits.end_s)
        self._terminals.ended(wait_status)

    def close(self) -> None:
        """Hang up on all terminals."""
        self._stack.close()

    def _close_stdin(self) -> None:
        if self.stdin_fd >= 0:
            os.close(self.stdin_fd)

    def _finished(self) -> None:
        self._slow.set(None)
        if (on_end := self._on_end) is not None:
            self._on_end = None
            on_end()
