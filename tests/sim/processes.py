"""A node's processes and their pipes, faked."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.clock import Clock

if TYPE_CHECKING:
    from tests.sim.system import Host
    from tests.sim.truth import JobTruth

PIPE_BYTES = 64 * 1024
READ_BYTES = 64 * 1024


class Pipe:
    """One stream of one rank: bytes counted, not kept; what they are follows from where."""

    def __init__(self, clock: Clock, truth: JobTruth, rank: int, stream: int) -> None:
        self._clock = clock
        self._truth = truth
        self._rank = rank
        self._stream = stream
        self.writers = 0
        self._start = 0  # offset of the first byte that has not been read
        self._held = 0
        self._waiting: tuple[int, Callable[[], None]] | None = None
        self._reader: Callable[[bytes], None] | None = None
        self._is_paused = self._is_held_back = False
        self._is_scheduled = False
        self._left: int | None = None

    def open(self) -> None:
        """One more process has the writing end."""
        self.writers += 1

    def close_writer(self) -> None:
        """A process that had the writing end is gone."""
        self.writers -= 1
        if not self.writers:
            self._waiting = None
            self._look()

    def write(self, count: int, done: Callable[[], None]) -> None:
        """Write; ``done`` when all of it is in the pipe."""
        fits = min(count, PIPE_BYTES - self._held)
        self._held += fits
        self._truth.written(self._rank, self._stream, fits)
        if count > fits:
            self._waiting = (count - fits, done)
        else:
            self._clock.after(1e-6, done)
        self._look()

    def connect(self, reader: Callable[[bytes], None], is_paused: bool) -> None:
        """The PCT has the reading end."""
        self._reader = reader
        self._is_paused = is_paused
        self._look()

    def pause(self, is_paused: bool) -> None:
        """Read or do not."""
        self._is_paused = is_paused
        self._look()

    def hold(self, is_on: bool) -> None:
        """Read what there is now, and no more; or read on."""
        was_on, self._is_held_back = self._is_held_back, is_on
        left = 0 if was_on or not is_on else self._held
        while left and (reader := self._reader) is not None:
            count = min(left, READ_BYTES)
            left -= count
            reader(self._take(count))
        self._look()

    def finish(self) -> None:
        """What is in the pipe now is the last, whoever may still write."""
        self._left = self._held
        self._is_held_back = False
        self._look()

    def close(self) -> None:
        """The PCT is through with it."""
        self._reader = None

    def _look(self) -> None:
        is_read = self._reader is not None and not self._is_paused and not self._is_held_back
        if not is_read or self._is_scheduled:
            return
        if self._held or not self.writers or self._left is not None:
            self._is_scheduled = True
            self._clock.after(self._clock.rng.uniform(1e-5, 1e-4), self._read)

    def _read(self) -> None:
        self._is_scheduled = False
        reader = self._reader
        if reader is None or self._is_paused or self._is_held_back:
            return
        count = min(self._held, READ_BYTES)
        if self._left is not None:
            count = min(count, self._left)
            self._left -= count
        elif not count and self.writers:
            return
        if not count:
            self._reader = None
        reader(self._take(count))
        self._look()

    def _take(self, count: int) -> bytes:
        data = self._truth.text(self._rank, self._stream, self._start, count)
        self._start += count
        self._held -= count
        if self._waiting is not None and count:
            rest, done = self._waiting
            self._waiting = None
            self.write(rest, done)
        return data


class UnixProcess:
    """A process of a job: a rank, or what one has started."""

    def __init__(self, host: Host, job_id: int, rank: int) -> None:
        self.host = host
        self.job_id = job_id
        self.rank = rank
        self.is_dying = False
        self.stuck_s = 0.0
        self.pipes: list[Pipe] = []
        self.on_end: Callable[[], None] = lambda: None
        self.unix_pid = next(host.pids)
        host.processes[self.unix_pid] = self

    def kill(self, signo: int) -> None:
        """A signal; of its own kind for ranks."""
        if signo in (signal.SIGKILL, signal.SIGTERM):
            self.die(int(signo))

    def die(self, wait_status: int) -> None:
        """End, soon."""
        if self.is_dying:
            return
        self.is_dying = True
        delay = self.host.clock.rng.uniform(1e-5, 1e-3) + self.stuck_s
        self.host.clock.after(delay, lambda: self.ended(wait_status))

    def ended(self, wait_status: int) -> None:
        """It is no more."""
        if self.host.processes.pop(self.unix_pid, None) is None:
            return
        for pipe in self.pipes:
            pipe.close_writer()
        self.on_end()
