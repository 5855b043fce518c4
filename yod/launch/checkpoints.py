"""Checkpoints of a running job: when one is begun, and what its end means."""

from __future__ import annotations

import math
import signal

from native.machine import Action
from native.wire.group import Begin, Done
from yod.launch.ending import Ending
from yod.launch.events import Checked, CheckpointAsked, Checkpointed, Interrupted, Tell
from yod.launch.phases import Phase, Progress
from yod.launch.report import Report
from yod.launch.tree import Tree
from yod.plan.checkpoint import AUTO, Occasion
from yod.plan.plan import Plan

WRITTEN_STATUS = 75  # the job has been written down and ended: EX_TEMPFAIL, go on later
COST_S = 10.0  # of a checkpoint, until one has been made
COST_MIN_S = 0.1
NODES_S = 90.0  # nodes have so long to make directories, to record what they find, to commit
_MB = 1e6


class Checkpoints:
    """One checkpoint at a time; what is asked for meanwhile is refused.

    The time to the next one counts from the end of the last, and from go.

    Args:
        mtbf_s: mean time between the failures of one node.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        tree: Tree,
        report: Report,
        ending: Ending,
        mtbf_s: float,
    ) -> None:
        self._chosen = plan.checkpointing
        self._size = plan.size
        self._progress = progress
        self._tree = tree
        self._report = report
        self._ending = ending
        self._began: float | None = None  # None: none is being made
        self._asked = CheckpointAsked(ends=False)
        self._is_trial = False  # what is being made
        self._behind: CheckpointAsked | None = None  # asked for during a trial
        self._until: float | None = None
        self._mtbf_s = mtbf_s
        self._cost_s = COST_S

    def deadline(self) -> float | None:
        """When the next one is due; None: none is."""
        if self._progress.phase is not Phase.RUNNING or self._began is not None:
            return None
        if self._chosen is None or not self._chosen.every_s:
            return None
        if self._until is None:
            self._until = self._progress.began[Phase.RUNNING] + self._interval_s()
        return self._until

    def why_not(self, *, ends: bool = False) -> str:
        """Why no checkpoint can be begun; empty: one can, or the job can end behind one."""
        if self._chosen is None:
            return "it was started without --checkpoint-dir"
        if self._progress.phase is not Phase.RUNNING:
            return "its ranks do not run"
        if self._began is not None and not self._is_trial:
            return "" if ends else "a checkpoint is being made already"
        if self._report.size > self._size:
            return "it has started more ranks (MPI_Comm_spawn), which are not written down"
        return ""

    def precedes(self, event: Interrupted) -> bool:
        """A checkpoint is to be made before this ends the job, and can be begun."""
        chosen = self._chosen
        if chosen is None or Occasion.TERM not in chosen.on or event.by:
            return False
        if event.signal_number != signal.SIGTERM or self._asked.signal_number:
            return False
        return not self.why_not(ends=True)

    @property
    def most_s(self) -> float:
        """How long a checkpoint may take."""
        return 0.0 if self._chosen is None else self._chosen.grace_s + NODES_S

    def may_precede_time_limit(self) -> bool:
        """A checkpoint is to be made when the time is over, and can be begun."""
        chosen = self._chosen
        is_wanted = chosen is not None and Occasion.TIMEOUT in chosen.on
        return is_wanted and not self.why_not(ends=True)

    def at_time_limit(self, now: float) -> list[Action]:
        """The time is over: the job ends behind a checkpoint, or without one."""
        return self.asked(CheckpointAsked(ends=True, is_timeout=True), now)

    def due(self, now: float) -> list[Action]:
        """Time has passed: begin one if that is due."""
        until = self.deadline()
        if until is None or now < until:
            return []
        if why := self.why_not():
            self._again(now)
            return [Tell(f"no checkpoint: {why}")]
        return self._begin(CheckpointAsked(ends=False), now)

    def asked(self, event: CheckpointAsked, now: float) -> list[Action]:
        """A command or a signal asks for one."""
        if self._is_trial:
            if not event.is_trial and (self._behind is None or event.ends):
                self._behind = event
            return []
        if event.ends and not event.is_trial and self._began is not None:
            self._asked = event  # the job ends behind the one that is being made
            return []
        if why := self.why_not():
            return [Checked(why) if event.is_trial else Checkpointed(b"", why)]
        return self._begin(event, now)

    def done(self, message: Done, now: float) -> list[Action]:
        """RUNNING: the root has answered."""
        if self._began is None:
            return []
        took_s, self._began = now - self._began, None
        if self._is_trial:
            self._is_trial = False
            behind, self._behind = self._behind, None
            begun = [] if behind is None else self.asked(behind, now)
            return [Checked(message.text), *begun]
        self._cost_s = max(took_s, COST_MIN_S)
        self._again(now)
        if message.text:
            return [Checkpointed(b"", message.text), *self._failed(message.text)]
        path = message.path.decode(errors="replace")
        amount = f"{message.ranks} ranks, {message.size / _MB:.1f} MB, {took_s:.1f} s"
        actions: list[Action] = [
            Tell(f"checkpoint {path} ({amount})", is_error=False),
            Checkpointed(message.path, ""),
        ]
        if self._asked.ends:
            text = f"ended behind its checkpoint; yod --restart {path} goes on"
            self._report.fail(WRITTEN_STATUS, text)
            actions += [Tell(text), *self._ending.all_done(now)]
        return actions

    def _failed(self, why: str) -> list[Action]:
        number = self._asked.signal_number
        if self._asked.is_timeout:
            self._report.time_out("its time limit is over")
        elif not number:
            return [Tell(f"no checkpoint: {why}; the job goes on")]
        else:
            self._report.interrupt(number, keeps_going=True)
        return [
            Tell(f"no checkpoint: {why}; SIGTERM sent to all ranks"),
            *self._tree.signal(signal.SIGTERM),
        ]

    def _begin(self, asked: CheckpointAsked, now: float) -> list[Action]:
        chosen = self._chosen
        assert chosen is not None
        self._began, self._is_trial = now, asked.is_trial
        if not asked.is_trial:
            self._asked = asked
        how = (chosen.signal_number, chosen.grace_s, chosen.keep, chosen.recipe, asked.is_trial)
        return self._tree.send(Begin(self._tree.job_id, *how))

    def _interval_s(self) -> float:
        """Young's: the square root of twice what one costs times the time between failures."""
        assert self._chosen is not None
        if self._chosen.every_s != AUTO:
            return self._chosen.every_s
        return math.sqrt(2 * self._cost_s * self._mtbf_s / len(self._tree.nodes))

    def _again(self, now: float) -> None:
        if self._chosen is not None and self._chosen.every_s:
            self._until = now + self._interval_s()
