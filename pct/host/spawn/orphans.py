"""Processes that a lost keeper has left behind.

When a keeper is killed, its ranks die with it, but the processes that they have started do
not. Those become children of this process, which is a subreaper (:mod:`native.host.process`).
Nothing tells of which job such a child was. So every child is killed that is neither a keeper
nor known to be something else.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection
from functools import partial

from native.loop.reactor import Owner, Reactor
from native.text import shown

_DESCRIBED_MAX = 8
_WALKS_MAX = 16  # for a process that forks faster than we can list its children


class Orphans:
    """Kills and reaps the orphans of this process.

    They come one generation at a time: each round kills the present children, with all
    processes below them, and waits for the children. A process that cannot be killed makes
    all callers wait: while it lives, the node is not free.

    Args:
        spared: gives the direct children that live on, with all below them. It is called in
            each round.
    """

    def __init__(self, reactor: Reactor, spared: Callable[[], Collection[int]] = frozenset) -> None:
        self._reactor = reactor
        self._spared = spared
        self._left: set[int] = set()  # children of this round that are not reaped yet
        # A process that was killed below a child becomes a child when that one ends. It has no
        # environment any more that tells of its job, so it would be taken for the program's own.
        self._killed: set[int] = set()
        self._waiting: list[tuple[Owner | None, Callable[[], None]]] = []

    def kill(self, done: Callable[[], None]) -> None:
        """Kill all orphans, and call ``done`` when none is left, maybe at once."""
        self._waiting.append((self._reactor.owner, done))
        if not self._left:
            self._reactor.run_for(None, self._round)

    @property
    def left(self) -> frozenset[int]:
        """Children that were killed and have not ended."""
        return frozenset(self._left)

    def _round(self) -> None:
        spared = frozenset(self._spared()) - self._killed
        children = [pid for pid in children_of(os.getpid()) if pid not in spared]
        if not children:
            waiting, self._waiting = self._waiting, []
            self._killed.clear()
            for owner, done in waiting:
                self._reactor.run_for(owner, done)
            return
        self._left.update(children)
        for unix_pid in _stop_all(children):
            _kill(unix_pid, signal.SIGKILL)
            self._killed.add(unix_pid)
        for unix_pid in children:
            self._reactor.on_child(unix_pid, partial(self._reaped, unix_pid))

    def _reaped(self, unix_pid: int, wait_status: int) -> None:
        self._left.discard(unix_pid)
        if not self._left:
            self._round()


def children_of(unix_pid: int) -> list[int]:
    """Direct children of a process, including dead ones that have not been reaped."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{unix_pid}/task"):
            with open(f"/proc/{unix_pid}/task/{task}/children", "rb", buffering=0) as children:
                found += map(int, children.read().split())
    except OSError:  # it has ended
        pass
    return found


def tree_of(unix_pid: int) -> list[int]:
    """A process and all below it."""
    found = [unix_pid]
    for each in found:
        found += children_of(each)
    return found


def described(unix_pids: Collection[int]) -> str:
    """For people: each of these that is alive, what it runs, and its state (proc(5))."""
    told = [text for text in map(_described, sorted(unix_pids)[:_DESCRIBED_MAX]) if text]
    more = len(unix_pids) - _DESCRIBED_MAX
    return ", ".join([*told, f"{more} more"] if more > 0 else told)


def _described(unix_pid: int) -> str:
    try:
        with open(f"/proc/{unix_pid}/stat", "rb", buffering=0) as stat:
            name, _, rest = stat.read(4096).partition(b"(")[2].rpartition(b")")
    except OSError:  # it has ended
        return ""
    state = rest.split()[0].decode()
    return "" if state == "Z" else f"process {unix_pid} ({shown(name)}, state {state})"


def not_of_job(
    unix_pids: list[int], job_ids: range, ranks: Collection[int] = frozenset()
) -> list[int]:
    """Those of some processes that no rank of these jobs has started.

    A process has the job's number in its environment, which it may hide or change: then it
    counts as none of them. One that has ended has only its session, which each rank leads.

    Args:
        ranks: process ids of ranks.
    """
    return [
        unix_pid
        for unix_pid in unix_pids
        if _job_of(unix_pid) not in job_ids and _session_of(unix_pid) not in ranks
    ]


def _session_of(unix_pid: int) -> int:
    """The session of a process; 0: it is gone."""
    try:
        return os.getsid(unix_pid)
    except OSError:
        return 0


def _job_of(unix_pid: int) -> int:
    """The job whose rank a process is, or descends from; 0: none, as far as can be seen."""
    try:
        with open(f"/proc/{unix_pid}/environ", "rb", buffering=0) as environment:
            entries = environment.readall().split(b"\0")
    except OSError:
        return 0
    for entry in entries:
        name, _, value = entry.partition(b"=")
        if name == b"YOD_JOB_ID" and value.isdigit():
            return int(value[:18])
    return 0


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
    except OSError:  # it has ended, or belongs to another user
        pass
