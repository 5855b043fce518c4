"""Remote files in the simulation: the kernels of the nodes, and the process that has the files.

A kernel asks, and whoever waits there gets a reply, or EIO when the mount is aborted; nobody waits
for ever, and no request has two replies.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from native.fuse.frames import Op, reply, unique_of
from native.machine import Action
from pct.rare_events import AnswerRemote, GiveLine, LineWanted, PauseRemote, RemoteAsked
from tests.sim.clock import Violation
from yod.launch.events import OutputFailed, RemoteServed, ServeRemote

if TYPE_CHECKING:
    from tests.sim.hosts import PctActor
    from tests.sim.launchers import YodActor

ENDED = "--remote-io: the process with the files killed by SIGKILL"
MOST_S = 0.2  # between two calls of a rank


class Mount:
    """The mount of one job on one node.

    Attributes:
        waiting: requests without a reply.
        answered: those that had one.
        failed: those that ended with EIO.
    """

    def __init__(self, pct: PctActor, job_id: int) -> None:
        self.waiting: set[int] = set()
        self.answered = self.failed = 0
        self._pct = pct
        self._job_id = job_id
        self._last = 0
        self._is_paused = self._is_closed = False
        self._ask_later()

    def answer(self, frame: bytes) -> None:
        """A reply has come; one that comes after the abort means nothing."""
        number = unique_of(frame)
        if self._is_closed:
            return
        if number not in self.waiting:
            raise Violation(f"{self._pct.name}: request {number} has two replies")
        self.waiting.discard(number)
        self.answered += 1
        self._ask_later()

    def pause(self, is_on: bool) -> None:
        """Read no further requests, or read on."""
        if is_on == self._is_paused:
            raise Violation(f"{self._pct.name}: paused as it was before")
        self._is_paused = is_on
        if not is_on:
            self._ask_later()

    def abort(self) -> None:
        """The descriptor is closed: all calls fail."""
        self._is_closed = True
        self.failed += len(self.waiting)
        self.waiting.clear()

    def _ask_later(self) -> None:
        clock = self._pct.sim.clock
        clock.after(clock.rng.uniform(0, MOST_S), self._ask)

    def _ask(self) -> None:
        if self._is_closed or self._is_paused or not self._pct.process.is_alive:
            return
        self._last += 2
        self.waiting.add(self._last)
        body = struct.pack("<QQIIQII", 1, 0, 30_000, 0, 0, 0, 0)
        head = struct.pack("<IIQQIIIHH", 40 + len(body), Op.READ, self._last, 1, 0, 0, 9, 0, 0)
        self._pct.handle(RemoteAsked(self._job_id, 0, 0, head + body))


class Mounts:
    """Those of one PCT, by job; what is over is kept to be looked at."""

    def __init__(self, pct: PctActor) -> None:
        self.all: dict[int, Mount] = {}
        self._pct = pct

    def begin(self, job_id: int) -> None:
        """The keeper has mounted."""
        self.all[job_id] = Mount(self._pct, job_id)

    def perform(self, action: AnswerRemote | PauseRemote) -> None:
        """Carry out an action."""
        mount = self.all[action.job_id]
        if isinstance(action, AnswerRemote):
            mount.answer(action.frame)
        else:
            mount.pause(action.is_on)

    def abort(self, job_id: int) -> None:
        """Before ranks are killed, and when the job is dropped."""
        if (mount := self.all.get(job_id)) is not None:
            mount.abort()

    def gone(self) -> None:
        """The PCT has died, and the kernel has closed its descriptors."""
        for mount in self.all.values():
            mount.abort()


class Server:
    """The process beside yod that has the files.

    Attributes:
        was_killed: while yod needed it.
    """

    def __init__(self, yod: YodActor) -> None:
        self._yod = yod
        self.was_killed = False

    def perform(self, action: Action) -> None:
        """Carry a request out, in its time."""
        assert isinstance(action, ServeRemote)
        clock = self._yod.sim.clock
        clock.after(clock.rng.choice([1e-4, 1e-3, 0.5]), lambda: self._serve(action))

    def kill(self) -> None:
        """It ends, and yod sees that."""
        if not self._yod.is_over:
            self.was_killed = True
            self._yod.handle(OutputFailed(ENDED))

    def _serve(self, action: ServeRemote) -> None:
        if not (self.was_killed or self._yod.is_over) and action.frame:
            data = reply(unique_of(action.frame), b"x")
            self._yod.handle(RemoteServed(action.place, action.mount, data))


def give_line(pct: PctActor, action: GiveLine) -> None:
    """A rank reads what it is given of shared input, some time later, unless it has ended."""

    def arrive() -> None:
        parts = pct.parts.get(action.job_id)
        if parts is None or 0 not in parts.keepers or not pct.process.is_alive:
            return
        is_over = parts.keepers[0].has_ended(action.rank, action.data)
        if action.data:
            unread = action.data * is_over
            pct.handle(LineWanted(action.job_id, action.rank, unread, is_over))

    delay_s = pct.sim.clock.rng.uniform(1e-5, 1e-1) * pct.host.slowness
    pct.sim.clock.after(delay_s, arrive)
