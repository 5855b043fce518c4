"""The rules of an executor: which worker gets which call, and which workers there are.

    STARTING  its task has been submitted; nothing of it has come
    IDLE      it has no call
    BUSY      it has one
    BROKEN    it does not speak any more; its task will say why
    ENDING    it has been told to end

Workers are of a kind, and take calls of their kind. There are as many as cores allow and calls
want. When calls of one kind wait and there is no room, an idle worker of another kind goes; a busy
one goes after its call if they have waited for ``PATIENCE_S``.

Pure: times are seconds on the caller's clock.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from msgspec import Struct

from native.deadlines import Deadlines
from yod.pilot.executor.wants import Kind, Wants

PATIENCE_S = 0.5
STARTS_MAX = 3  # of workers of one kind that end before they come
GRACE_S = 2.0  # for a worker that has broken to be reported


class State(Enum):
    """How a worker stands."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    BROKEN = "broken"
    ENDING = "ending"


class Start(Struct, frozen=True):
    """Submit a worker; :meth:`Crew.came` or :meth:`Crew.over` follows."""

    worker: int
    kind: Kind


class Give(Struct, frozen=True):
    """Give a worker a call."""

    worker: int
    call: int


class End(Struct, frozen=True):
    """Have a worker end: by itself, or by force where it is in a call or has not come."""

    worker: int
    is_forced: bool


class Fail(Struct, frozen=True):
    """A call has no result.

    Attributes:
        is_late: its time is over.
    """

    call: int
    reason: str
    is_late: bool = False


Action = Start | Give | End | Fail


class _Call:
    __slots__ = ("number", "restarts", "since", "wants")

    def __init__(self, number: int, wants: Wants, since: float) -> None:
        self.number = number
        self.wants = wants
        self.restarts = wants.restarts
        self.since = since


class _Worker:
    __slots__ = ("call", "has_come", "kind", "state")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.state = State.STARTING
        self.has_come = False
        self.call: _Call | None = None


class Crew:
    """All workers and calls of one executor.

    Attributes:
        cores: how many its workers may take.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._workers: dict[int, _Worker] = {}
        self._idle: dict[Kind, list[int]] = {}
        self._waiting: dict[Kind, deque[_Call]] = {}  # none is empty
        self._failures: dict[Kind, int] = {}
        self._starting: dict[Kind, int] = {}  # how many
        self._living: dict[Kind, int] = {}  # how many are not ending
        self._deadlines: Deadlines[int] = Deadlines()  # of workers
        self._numbers = 0
        self._used = 0
        self._busy = 0

    # -- what is so -------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """No call waits or runs."""
        return not self._waiting and not self._busy

    @property
    def workers(self) -> list[int]:
        """All workers that are not over."""
        return list(self._workers)

    def state_of(self, worker: int) -> State | None:
        """How a worker stands; None: it is over."""
        found = self._workers.get(worker)
        return found.state if found else None

    def call_of(self, worker: int) -> int | None:
        """The call that a worker has."""
        found = self._workers.get(worker)
        return found.call.number if found and found.call else None

    def deadline(self) -> float | None:
        """When :meth:`due` is to be called; None: nothing is timed."""
        return self._deadlines.earliest()

    # -- events -----------------------------------------------------------------

    def ask(self, number: int, wants: Wants, now: float) -> list[Action]:
        """A call is wanted."""
        call = _Call(number, wants, now)
        kind = wants.kind
        idle = self._idle.get(kind)
        if idle and kind not in self._waiting:
            return [self._give(idle.pop(), call, now)]
        self._waiting.setdefault(kind, deque()).append(call)
        return self._staff(kind)

    def came(self, worker: int, now: float) -> list[Action]:
        """A worker is there."""
        found = self._workers.get(worker)
        if found is None or found.state is not State.STARTING:
            return []
        self._failures.pop(found.kind, None)
        self._starting[found.kind] -= 1
        found.has_come = True
        return self._free(worker, now, is_new=True)

    def answered(self, worker: int, now: float) -> list[Action]:
        """A worker has done its call, or its call was not wanted any more."""
        found = self._workers.get(worker)
        if found is None or found.state is not State.BUSY:
            return []
        self._drop_call(worker)
        return self._free(worker, now)

    def broke(self, worker: int, now: float) -> list[Action]:
        """A worker does not speak any more."""
        found = self._workers.get(worker)
        if found is None or found.state in (State.BROKEN, State.ENDING):
            return []
        if found.state is State.IDLE:
            self._idle[found.kind].remove(worker)
        self._starting[found.kind] -= found.state is State.STARTING
        found.state = State.BROKEN
        self._deadlines.set(worker, now + GRACE_S)
        return []

    def hasten(self, worker: int, until: float) -> None:
        """A rank of a worker has failed in its call; the others have until then."""
        self._deadlines.set(worker, until)

    def over(self, worker: int, reason: str) -> list[Action]:
        """The task of a worker has ended."""
        found = self._workers.pop(worker, None)
        if found is None:
            return []
        kind = found.kind
        self._used -= kind.size
        self._living[kind] -= found.state is not State.ENDING
        self._deadlines.set(worker, None)
        if found.state is State.IDLE:
            self._idle[kind].remove(worker)
        actions: list[Action] = []
        call = found.call
        if call is not None:
            self._busy -= 1
            if call.restarts > 0:
                call.restarts -= 1
                self._waiting.setdefault(kind, deque()).appendleft(call)
            else:
                actions.append(Fail(call.number, reason))
        elif not found.has_come and found.state is not State.ENDING:
            self._starting[kind] -= found.state is State.STARTING
            failures = self._failures[kind] = self._failures.get(kind, 0) + 1
            if failures >= STARTS_MAX:
                actions += self._abandon(kind, reason)
        return actions + self._staff_all()

    def abandon(self, reason: str) -> list[Action]:
        """There is no pilot any more: no call that waits will ever run."""
        return [action for kind in list(self._waiting) for action in self._abandon(kind, reason)]

    def resize(self, cores: int) -> list[Action]:
        """Workers may take so many cores."""
        if cores == self.cores:
            return []
        self.cores = cores
        return self._staff_all()

    def dismiss(self) -> list[Action]:
        """No call will come any more: all that is idle ends."""
        return [
            self._end(worker)
            for worker, found in list(self._workers.items())
            if found.state in (State.IDLE, State.STARTING)
        ]

    def due(self, now: float) -> list[Action]:
        """The time of :meth:`deadline` has come."""
        actions: list[Action] = []
        for worker in self._deadlines.due(now):
            self._deadlines.set(worker, None)
            found = self._workers[worker]
            if found.state is not State.ENDING:
                self._living[found.kind] -= 1
            if found.state is State.BUSY and found.call is not None:
                call = found.call
                self._drop_call(worker)
                reason = f"its time of {call.wants.time_s:g} s is over"
                actions.append(Fail(call.number, reason, is_late=True))
            found.state = State.ENDING
            actions.append(End(worker, is_forced=True))
        return actions

    # -- the rules --------------------------------------------------------------

    def _give(self, worker: int, call: _Call, now: float) -> Action:
        found = self._workers[worker]
        found.state, found.call = State.BUSY, call
        self._busy += 1
        if call.wants.time_s:
            self._deadlines.set(worker, now + call.wants.time_s)
        return Give(worker, call.number)

    def _drop_call(self, worker: int) -> None:
        self._workers[worker].call = None
        self._busy -= 1
        self._deadlines.set(worker, None)

    def _free(self, worker: int, now: float, *, is_new: bool = False) -> list[Action]:
        """A worker can take a call, or gives way."""
        found = self._workers[worker]
        waiting = self._waiting.get(found.kind)
        may_go = waiting is None or (len(self._waiting) > 1 and not is_new)
        if may_go and self._is_wanted_elsewhere(found.kind, now):
            return [self._end(worker), *self._staff_all()]
        if waiting is None:
            found.state = State.IDLE
            self._idle.setdefault(found.kind, []).append(worker)
            return []
        call = waiting.popleft()
        given = self._give(worker, call, now)
        if not waiting:
            del self._waiting[found.kind]
        elif len(self._idle) > 1:
            return [given, *self._staff(found.kind)]
        return [given]

    def _is_wanted_elsewhere(self, own: Kind, now: float) -> bool:
        """Calls of another kind lack the cores of a worker that has nothing to do, or have no
        worker and have waited for long."""
        is_idle = own not in self._waiting
        for kind, calls in self._waiting.items():
            if kind == own or self._starting.get(kind):
                continue
            is_starving = not self._living.get(kind) and now - calls[0].since >= PATIENCE_S
            if not is_idle and not is_starving:
                continue
            if self._lacking(kind) > self._leaving():
                return True
        return False

    def _is_kept_for_another(self, own: Kind) -> bool:
        """Calls that have no worker came earlier: what becomes free is theirs."""
        since = self._waiting[own][0].since
        return any(
            kind != own and not self._living.get(kind) and calls[0].since < since
            for kind, calls in self._waiting.items()
        )

    def _staff_all(self) -> list[Action]:
        """Start what is lacking, for the calls that have waited longest first."""
        actions: list[Action] = []
        for kind in sorted(self._waiting, key=lambda kind: self._waiting[kind][0].since):
            actions += self._staff(kind)
        return actions

    def _staff(self, kind: Kind) -> list[Action]:
        """Start workers for the calls of a kind that wait, or make room for one."""
        actions: list[Action] = []
        starting = self._starting.get(kind, 0)
        if len(self._waiting) > 1 and kind in self._waiting and self._is_kept_for_another(kind):
            return actions
        while starting < len(self._waiting.get(kind, ())):
            lacking = self._lacking(kind)
            if lacking > 0 and not (kind.size > self.cores and not starting):
                if not starting:
                    actions += self._make_room(kind, lacking)
                return actions
            # One that is larger than everything is refused by the pilot, which says why.
            self._numbers += 1
            self._workers[self._numbers] = _Worker(kind)
            self._used += kind.size
            starting += 1
            self._starting[kind] = starting
            self._living[kind] = self._living.get(kind, 0) + 1
            actions.append(Start(self._numbers, kind))
        return actions

    def _make_room(self, kind: Kind, lacking: int) -> list[Action]:
        actions: list[Action] = []
        if not any(self._idle.values()):
            return actions
        lacking -= self._leaving()
        for other, idle in self._idle.items():
            while other != kind and idle and lacking > 0:
                lacking -= other.size
                actions.append(self._end(idle[-1]))
        return actions

    def _lacking(self, kind: Kind) -> int:
        return self._used + kind.size - self.cores

    def _leaving(self) -> int:
        """So many cores will be free soon."""
        return sum(each.kind.size for each in self._workers.values() if each.state is State.ENDING)

    def _end(self, worker: int) -> Action:
        found = self._workers[worker]
        if found.state is State.IDLE:
            self._idle[found.kind].remove(worker)
        is_forced = not found.has_come
        self._starting[found.kind] -= is_forced
        self._living[found.kind] -= 1
        found.state = State.ENDING
        return End(worker, is_forced)

    def _abandon(self, kind: Kind, reason: str) -> list[Action]:
        self._failures.pop(kind, None)
        calls = self._waiting.pop(kind, ())
        return [Fail(call.number, reason) for call in calls]
