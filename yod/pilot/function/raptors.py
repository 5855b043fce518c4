"""Which worker of a raptor has which call: the rules.

A raptor has a queue of calls, and workers that are tasks of their own; each rank of these is a
worker. One that comes, or has done its call, gets the call that has waited longest.
"""

from __future__ import annotations

from collections import deque


class Raptors:
    """All raptors of one pilot: their calls by uids, their workers by numbers."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[str]] = {}
        self._idle: dict[str, list[int]] = {}
        self._raptors: dict[int, str] = {}  # worker -> its raptor
        self._calls: dict[int, str] = {}  # worker -> its call
        self._running: dict[str, int] = {}  # call -> its worker
        self._queued: dict[str, str] = {}  # call -> the raptor where it waits
        self._ended: set[str] = set()

    def want(self, uid: str, raptor: str) -> int | None:
        """A call is to be run: the worker that gets it now; None: it waits.

        Raises:
            KeyError: the raptor has ended.
        """
        if raptor in self._ended:
            raise KeyError(raptor)
        idle = self._idle.get(raptor)
        if idle:
            return self._give(idle.pop(), uid)
        self._waiting.setdefault(raptor, deque()).append(uid)
        self._queued[uid] = raptor
        return None

    def came(self, worker: int, raptor: str) -> str:
        """A worker is there: its first call; empty: none waits.

        Raises:
            KeyError: the raptor has ended.
        """
        if raptor in self._ended:
            raise KeyError(raptor)
        self._raptors[worker] = raptor
        return self._next(worker)

    def answered(self, worker: int) -> tuple[str, str]:
        """A worker has done its call: that, and its next one; empty: there was or is none."""
        uid = self._calls.pop(worker, "")
        if not uid:
            return "", ""
        del self._running[uid]
        return uid, self._next(worker)

    def gone(self, worker: int) -> str:
        """A worker is not there any more: the call that is lost with it; empty: none."""
        raptor = self._raptors.pop(worker, None)
        if raptor is None:
            return ""
        uid = self._calls.pop(worker, "")
        if uid:
            del self._running[uid]
        elif worker in self._idle.get(raptor, ()):
            self._idle[raptor].remove(worker)
        return uid

    def drop(self, uid: str) -> int | None:
        """A call is not wanted any more: the worker that has it; None: it has waited."""
        raptor = self._queued.pop(uid, None)
        if raptor is not None:
            self._waiting[raptor].remove(uid)
        return self._running.get(uid)

    def end(self, raptor: str) -> tuple[list[str], list[int]]:
        """A raptor takes no more calls: those that wait, and its workers."""
        self._ended.add(raptor)
        waiting = list(self._waiting.pop(raptor, ()))
        for uid in waiting:
            del self._queued[uid]
        return waiting, [each for each, own in self._raptors.items() if own == raptor]

    def why(self, uid: str) -> str:
        """Why a call stands still; empty: it runs, or is not here."""
        raptor = self._queued.get(uid)
        if raptor is None:
            return ""
        workers = sum(own == raptor for own in self._raptors.values())
        if not workers:
            return f"the raptor {raptor} has no worker"
        return f"it waits for one of {workers} workers of the raptor {raptor}"

    def _next(self, worker: int) -> str:
        raptor = self._raptors[worker]
        waiting = self._waiting.get(raptor)
        if not waiting:
            self._idle.setdefault(raptor, []).append(worker)
            return ""
        uid = waiting.popleft()
        del self._queued[uid]
        self._give(worker, uid)
        return uid

    def _give(self, worker: int, uid: str) -> int:
        self._calls[worker] = uid
        self._running[uid] = worker
        return worker
