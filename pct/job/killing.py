"""Processes that the end of a job does not end.

A keeper kills what is below it and says when nothing is left. Its owner may stop it or keep it
busy, so after ``unkillable_s`` the keeper itself is killed, and the PCT kills what it leaves. A
process that is alive as long again after that cannot be killed: it waits in the kernel. bebopd is
told of it and drains the node. The job holds its slots until the process has ended.
"""

from __future__ import annotations

from native.machine import Action, Log
from native.wire import alloc, load
from pct.events import KillKeepers, NameProcesses, ProcessesNamed, TellBebopd
from pct.job.keepers import Keepers

_NAMED = "cannot be killed: {}"


class Killing:
    """What a node does when processes of a job do not end in time."""

    def __init__(self, message: load.Load, keepers: Keepers, unkillable_s: float) -> None:
        self._job_id = message.job_id
        self._node = message.nodes[message.place].node
        self._keepers = keepers
        self._unkillable_s = unkillable_s
        self._is_second = False  # the keepers have been killed
        self._until: float | None = None

    def begin(self, now: float) -> None:
        """The keepers have been told to kill what is left."""
        self._until = now + self._unkillable_s

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do; None: nothing is timed."""
        return self._until

    def due(self, now: float) -> list[Action]:
        """Time has passed: if it has come, do what is next against what is still there."""
        if self._until is None or now < self._until:
            return []
        self._until = None
        if not self._keepers.has_any:
            return []
        if self._is_second:
            return [NameProcesses(self._job_id)]
        self._is_second = True
        self._until = now + self._unkillable_s
        text = f"its processes have not ended in {self._unkillable_s:g} s: its keepers are killed"
        return [Log(text, self._job_id), KillKeepers(self._job_id)]

    def named(self, event: ProcessesNamed, now: float) -> list[Action]:
        """The processes that are still there, if any is."""
        if not event.text or not self._keepers.has_any:
            return []
        text = _NAMED.format(event.text)
        return [
            Log(text, self._job_id),
            TellBebopd(alloc.Unfit(self._job_id, self._node, text)),
        ]
