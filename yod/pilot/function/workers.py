"""Which worker has which call: the rules of a pool.

    STARTING  a process that has not come yet; it has a call
    BUSY      it has a call, and runs it
    IDLE      it has none
    ENDING    it has been told to end

A worker belongs to a key, such as its node and its GPUs, and has one call at a time. One that is
idle gives way when a worker with another key of the same node is started, so a node never has more
workers than it has had calls at a time.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Key(Struct, frozen=True):
    """What a worker has to be for a call."""

    node: int
    gpus: tuple[int, ...] = ()


class State(Enum):
    """How a worker stands."""

    STARTING = "starting"
    BUSY = "busy"
    IDLE = "idle"
    ENDING = "ending"


class Start(Struct, frozen=True):
    """Start a worker; :meth:`Workers.came` or :meth:`Workers.over` follows."""

    number: int
    key: Key


class Give(Struct, frozen=True):
    """Give a worker a call."""

    number: int
    uid: str


class End(Struct, frozen=True):
    """Have a worker end."""

    number: int


class Lose(Struct, frozen=True):
    """The worker of a call is gone.

    Attributes:
        has_begun: the call may have done something.
    """

    uid: str
    has_begun: bool


Action = Start | Give | End | Lose


class _Worker:
    __slots__ = ("key", "state", "uid")

    def __init__(self, key: Key, uid: str) -> None:
        self.key = key
        self.uid = uid
        self.state = State.STARTING


class Workers:
    """All workers of one pool."""

    def __init__(self) -> None:
        self._workers: dict[int, _Worker] = {}
        self._idle: dict[Key, list[int]] = {}
        self._numbers = 0
        self._by_uid: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._workers)

    def state_of(self, number: int) -> State | None:
        """How a worker stands; None: there is none."""
        worker = self._workers.get(number)
        return worker.state if worker else None

    def uid_of(self, number: int) -> str:
        """The call that a worker has; empty: none."""
        worker = self._workers.get(number)
        return worker.uid if worker else ""

    def number_of(self, uid: str) -> int | None:
        """The worker that has a call."""
        return self._by_uid.get(uid)

    def want(self, uid: str, key: Key) -> list[Action]:
        """A call is to be run."""
        idle = self._idle.get(key)
        if idle:
            number = idle.pop()
            worker = self._workers[number]
            worker.state, worker.uid = State.BUSY, uid
            self._by_uid[uid] = number
            return [Give(number, uid)]
        actions: list[Action] = []
        for other, numbers in self._idle.items():
            if other.node == key.node and numbers:
                actions += self._end(numbers.pop())
                break
        self._numbers += 1
        self._workers[self._numbers] = _Worker(key, uid)
        self._by_uid[uid] = self._numbers
        return [*actions, Start(self._numbers, key)]

    def came(self, number: int) -> list[Action]:
        """A worker is there."""
        worker = self._workers.get(number)
        if worker is None or worker.state is not State.STARTING:
            return []
        worker.state = State.BUSY
        return [Give(number, worker.uid)]

    def answered(self, number: int) -> str:
        """A worker has done its call, whose name is returned; empty: it has had none."""
        worker = self._workers.get(number)
        if worker is None or worker.state is not State.BUSY:
            return ""
        uid, worker.uid = worker.uid, ""
        worker.state = State.IDLE
        self._idle.setdefault(worker.key, []).append(number)
        del self._by_uid[uid]
        return uid

    def over(self, number: int) -> list[Action]:
        """A worker's process has ended."""
        worker = self._workers.pop(number, None)
        if worker is None:
            return []
        if worker.state is State.IDLE:
            self._idle[worker.key].remove(number)
        if not worker.uid:
            return []
        del self._by_uid[worker.uid]
        return [Lose(worker.uid, worker.state is not State.STARTING)]

    def broke(self, number: int) -> list[Action]:
        """A worker does not speak any more."""
        worker = self._workers.get(number)
        if worker is None or worker.state is State.ENDING:
            return []
        if worker.state is State.IDLE:
            self._idle[worker.key].remove(number)
        return self._end(number)

    def _end(self, number: int) -> list[Action]:
        self._workers[number].state = State.ENDING
        return [End(number)]
