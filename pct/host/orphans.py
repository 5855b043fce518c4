"""Processes that a lost keeper has left behind.

When a keeper is killed, its ranks die with it, but not the processes that they have started.
Those become children of this process, which is a subreaper (:mod:`native.host.process`): of
all jobs together, so that nobody can tell whose they were. A child that is no keeper's, and
that nobody else has started, is therefore killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection
from functools import partial

from native.loop.reactor import Owner, Reactor

_WALKS_MAX = 16  # a process that forks faster than we walk must not keep us


class Orphans:
    """Kills and reaps the orphans of this process.

    They come one generation at a time: each round kills the children that there are, and
    waits for them. A process that cannot be killed makes whoever waits wait on: while it
    lives, the node is not free.

    Args:
        spared: direct children that live on, with all below them. Asked in each round.
    """

    def __init__(self, reactor: Reactor, spared: Callable[[], Collection[int]] = frozenset) -> None:
        self._reactor = reactor
        self._spared = spared
        self._left: set[int] = set()  # of this round, not reaped yet
        self._waiting: list[tuple[Owner | None, Callable[[], None]]] = []

    def kill(self, done: Callable[[], None]) -> None:
        """Kill them, and call ``done`` when there are none, maybe at once."""
        self._waiting.append((self._reactor.owner, done))
        if not self._left:
            self._reactor.run_for(None, self._round)

    def _round(self) -> None:
        spared = frozenset(self._spared())
        children = [pid for pid in children_of(os.getpid()) if pid not in spared]
        if not children:
            waiting, self._waiting = self._waiting, []
            for owner, done in waiting:
                self._reactor.run_for(owner, done)
            return
        self._left.update(children)
        for unix_pid in _stop_all(children):
            _kill(unix_pid, signal.SIGKILL)
        for unix_pid in children:
            self._reactor.on_child(unix_pid, partial(self._reaped, unix_pid))

    def _reaped(self, unix_pid: int, wait_status: int) -> None:
        self._left.discard(unix_pid)
        if not self._left:
            self._round()


def children_of(unix_pid: int) -> list[int]:
    """Direct children of a process, dead ones that nobody has reaped included."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{unix_pid}/task"):
            with open(f"/proc/{unix_pid}/task/{task}/children", "rb", buffering=0) as children:
                found += map(int, children.read().split())
    except OSError:  # it has ended
        pass
    return found


def _stop_all(roots: list[int]) -> list[int]:
    """Stop these and all below them, so that none forks while we kill."""
    stopped: set[int] = set()
    for _ in range(_WALKS_MAX):
        found = list(roots)
        for unix_pid in found:
            found += children_of(unix_pid)
        if stopped.issuperset(found):
            break
        for unix_pid in set(found) - stopped:
            _kill(unix_pid, signal.SIGSTOP)
        stopped.update(found)
    return list(stopped)


def _kill(unix_pid: int, signo: int) -> None:
    try:
        os.kill(unix_pid, signo)
    except OSError:  # it has ended, or is not ours to kill
        pass
