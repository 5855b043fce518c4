"""Processes that the end of a job does not end.

A keeper kills what is below it and says when nothing is left. What is done when it does not say so
in time is in :mod:`pct.job.rules.unkillable`. The job holds its slots until the process has ended.
"""

from __future__ import annotations

from native.machine import Action, Log
from native.wire import alloc, load
from pct.events import KillKeepers, NameProcesses, ProcessesNamed, TellBebopd
from pct.job.keepers import Keepers
from pct.job.rules.unkillable import NAMED, Countdown, Step


class Killing:
    """What a node does when processes of a job do not end in time."""

    def __init__(self, message: load.Load, keepers: Keepers, unkillable_s: float) -> None:
        self._job_id = message.job_id
        self._node = message.nodes[message.place].node
        self._keepers = keepers
        self._countdown = Countdown(unkillable_s)

    def begin(self, now: float) -> None:
        """The keepers have been told to kill what is left."""
        self._countdown.begin(now)

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do; None: nothing is timed."""
        return self._countdown.deadline()

    def due(self, now: float) -> list[Action]:
        """Time has passed: if it has come, do what is next against what is still there."""
        step = self._countdown.due(now)
        if step is None:
            return []
        if not self._keepers.has_any:
            self._countdown.stop()
            return []
        if step is Step.NAME:
            return [NameProcesses(self._job_id)]
        limit_s = self._countdown.limit_s
        text = f"its processes have not ended in {limit_s:g} s: its keepers are killed"
        return [Log(text, self._job_id), KillKeepers(self._job_id)]

    def named(self, event: ProcessesNamed, now: float) -> list[Action]:
        """The processes that are still there, if any is."""
        if not event.text or not self._keepers.has_any:
            return []
        text = NAMED.format(event.text)
        return [
            Log(text, self._job_id),
            TellBebopd(alloc.Unfit(self._job_id, self._node, text)),
        ]
