"""A time limit of the job: a signal that warns its ranks, and their end."""

from __future__ import annotations

import signal

from native.deadlines import earliest
from native.machine import Action
from native.wire import load
from yod.launch.checkpoints import Checkpoints
from yod.launch.ending import Ending
from yod.launch.events import Tell
from yod.launch.phases import Phase, Progress
from yod.launch.report import Report
from yod.launch.tree import Tree
from yod.plan.plan import Options, TimeLimit


class TimeLimits:
    """Ends the ranks when their time is over: SIGTERM, and after the kill delay SIGKILL.

    Without a kill delay they are killed at once. The time counts from go. Where a checkpoint is to
    be made first, the job ends behind that. A launch without a limit of its own has that of its
    queue.
    """

    def __init__(
        self,
        options: Options,
        progress: Progress,
        tree: Tree,
        report: Report,
        ending: Ending,
        checkpoints: Checkpoints,
        kill_delay_s: float,
    ) -> None:
        self._limit = options.time_limit
        self._whose = "its time limit of"
        self._progress = progress
        self._tree = tree
        self._report = report
        self._ending = ending
        self._checkpoints = checkpoints
        self._kill_delay_s = kill_delay_s
        self._has_warned = False
        self._kill_at: float | None = None  # the time is over

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do; None: never."""
        if self._progress.phase is not Phase.RUNNING or (limit := self._in_force()) is None:
            return None
        if self._kill_at is not None:
            return self._kill_at
        end = self._progress.began[Phase.RUNNING] + limit.time_s
        is_to_warn = limit.signal_number and not self._has_warned
        return earliest(end, end - limit.before_s if is_to_warn else None)

    def _in_force(self) -> TimeLimit | None:
        """Its own limit, or that of its queue; None: it may run for any time."""
        if self._limit is None and self._tree.grant is not None and self._tree.grant.time_s:
            self._limit, self._whose = TimeLimit(self._tree.grant.time_s), "its queue's limit of"
        return self._limit

    def due(self, now: float) -> list[Action]:
        """Time has passed: do what it is time for."""
        until = self.deadline()
        if until is None or now < until:
            return []
        assert self._limit is not None
        from native import duration  # few launches have a limit

        text = f"{self._whose} {duration.written(self._limit.time_s)} is over"
        if self._kill_at is not None:
            return [Tell(f"{text}; its ranks are being killed"), *self._ending.all_done(now)]
        if now < self._progress.began[Phase.RUNNING] + self._limit.time_s:
            self._has_warned = True
            number = self._limit.signal_number
            return self._tree.send(load.Signal(self._tree.job_id, number))
        self._kill_at = now + self._kill_delay_s
        if self._checkpoints.may_precede_time_limit():
            self._kill_at += self._checkpoints.most_s
            return [Tell(f"{text}: a checkpoint is made"), *self._checkpoints.at_time_limit(now)]
        self._report.time_out(text)
        if not self._kill_delay_s:
            return [Tell(f"{text}; its ranks are being killed"), *self._ending.all_done(now)]
        return [Tell(f"{text}; SIGTERM sent to all ranks"), *self._tree.signal(signal.SIGTERM)]
