"""Checkpoints of a running job: when one is begun, and what its end means."""

from __future__ import annotations

import math
import signal

from native.machine import Action
from native.text import shown
from native.wire import load
from native.wire.base import SIZE_MAX
from native.wire.group import Begin, Done, GoOn, WriteDown
from yod.launch.ending import Ending
from yod.launch.events import (
    Checked,
    CheckpointAsked,
    Checkpointed,
    Interrupted,
    MarkOutput,
    Tell,
)
from yod.launch.phases import Phase, Progress
from yod.launch.report import Report
from yod.launch.tree import Tree
from yod.plan.checkpoint import AUTO, Occasion
from yod.plan.plan import Plan

WRITTEN_STATUS = 75  # the job has been written down and ended: EX_TEMPFAIL, go on later
COST_S = 10.0  # of a checkpoint, until one has been made
COST_MIN_S = 0.1
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
        self._attempts = 0
        self._ends_job = False  # behind what its nodes copy
        self._is_kept = False  # on its nodes, and is drained from there
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
        return 0.0 if self._chosen is None else self._chosen.most_s

    def may_precede_time_limit(self) -> bool:
        """A checkpoint is to be made when the time is over, and can be begun."""
        chosen = self._chosen
        is_wanted = chosen is not None and Occasion.TIMEOUT in chosen.on
        return is_wanted and not self.why_not(ends=True)

    def at_time_limit(self, now: float) -> list[Action]:
        """The time is over: the job ends behind a checkpoint, or without one."""
        return self.asked(CheckpointAsked(ends=True, is_timeout=True), now)

    def wanted(self, message: WriteDown, now: float) -> list[Action]:
        """From the grant to the end: others need its slots, or a node of its is drained."""
        occasion = Occasion.PREEMPT if message.gives_way else Occasion.DRAIN
        if self._chosen is None or occasion not in self._chosen.on:
            return []
        if why := self.why_not(ends=True):
            return self._cannot(message, why, now)
        asked = CheckpointAsked(ends=True, gives_way=message.gives_way)
        return [Tell(f"{message.text}: a checkpoint is made"), *self.asked(asked, now)]

    def _cannot(self, message: WriteDown, why: str, now: float) -> list[Action]:
        if not message.gives_way:
            return [Tell(f"{message.text}; no checkpoint: {why}; the job goes on")]
        if self._progress.phase is Phase.RUNNING:
            return self._terminated(f"{message.text}; no checkpoint: {why}")
        return self._ending.give_up(f"{message.text}; {why} yet", now)

    def _terminated(self, text: str) -> list[Action]:
        """For others. How the ranks end decides the status, as where bebopd ends them."""
        told = Tell(f"{text}; SIGTERM sent to all ranks")
        return [told, *self._tree.send(load.Signal(self._tree.job_id, signal.SIGTERM))]

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
            if not event.is_trial:
                self._behind = _both(self._behind, event)
            return []
        if event.ends and not event.is_trial and self._began is not None:
            self._asked = _both(self._asked, event)  # it ends behind the one that is being made
            return []
        if why := self.why_not():
            return [Checked(why) if event.is_trial else Checkpointed(b"", why)]
        return self._begin(event, now)

    def done(self, message: Done, now: float) -> list[Action]:
        """RUNNING: the root has answered."""
        if self._began is None:
            return []
        if message.is_kept and not message.text:
            return self._kept(message, now)
        took_s, self._began = now - self._began, None
        was_kept, self._is_kept = self._is_kept, False
        if self._is_trial:
            self._is_trial = False
            behind, self._behind = self._behind, None
            begun = [] if behind is None else self.asked(behind, now)
            return [Checked(message.text), *begun]
        if not was_kept:
            self._cost_s = max(took_s, COST_MIN_S)
        self._again(now)
        goes_on = [] if was_kept else self._goes_on()
        if self._ends_job or self._report.is_complete:  # which have waited for this
            return [*self._ended(message), *self._ending.all_done(now)]
        if message.text:
            return [*goes_on, Checkpointed(b"", message.text), *self._failed(message.text)]
        path = shown(message.path)
        amount = f"{message.ranks} ranks, {message.size / _MB:.1f} MB, {took_s:.1f} s"
        actions: list[Action] = [
            Tell(f"checkpoint {path} ({amount})", is_error=False),
            *([MarkOutput(message.path)] if self._holds else []),
            Checkpointed(message.path, ""),
            *goes_on,
        ]
        if self._asked.ends:
            text = f"ended behind its checkpoint; yod --restart {path} goes on"
            self._report.end_because("the job ends behind its checkpoint")
            self._report.fail(WRITTEN_STATUS, text)
            actions += [Tell(text), *self._ending.all_done(now)]
        return actions

    def _kept(self, message: Done, now: float) -> list[Action]:
        """All ranks are saved on their nodes: they go on, and the nodes drain."""
        assert self._began is not None and self._chosen is not None
        took_s, self._is_kept = now - self._began, True
        self._cost_s = max(took_s, COST_MIN_S)  # what the ranks have waited for
        amount = f"{message.ranks} ranks, {message.size / _MB:.1f} MB, {took_s:.1f} s"
        text = f"checkpoint on the nodes ({amount}), copied to {self._chosen.directory} meanwhile"
        return [
            Tell(text, is_error=False),
            *([MarkOutput(b"")] if self._holds else []),
            *self._tree.send(GoOn(self._tree.job_id, drains=True)),
        ]

    def precedes_end(self) -> bool:
        """A job that has failed is to end; whether it does so behind what its nodes copy."""
        self._ends_job = self._is_kept
        return self._is_kept

    def node_lost(self, node: int) -> list[Action]:
        """A node is lost, and the job ends: behind what the others drain, where all is kept."""
        if not self._is_kept or self._chosen is None or not self._chosen.local:
            return []
        if len(self._tree.nodes) < 2:
            return []
        text = f"its nodes copy the last checkpoint to {self._chosen.directory}; Ctrl-C ends that"
        rescue = self._tree.rescue(node, self._chosen.drain_s, self._attempts)
        return [Tell(text), *rescue]

    def last_rank_ended(self) -> list[Action]:
        """What is said where a job that has failed waits for its nodes; nothing: it ends."""
        if not self._is_kept or self._report.has_succeeded_so_far:
            return []
        assert self._chosen is not None
        text = f"its nodes copy the last checkpoint to {self._chosen.directory}; Ctrl-C ends that"
        return [Tell(text)]

    def _ended(self, message: Done) -> list[Action]:
        """A checkpoint of a job that has failed meanwhile."""
        if message.text:
            return [Checkpointed(b"", message.text), Tell(f"no checkpoint: {message.text}")]
        text = f"checkpoint {shown(message.path)}; yod --restart goes on from it"
        marks = [MarkOutput(message.path)] if self._holds else []
        return [Tell(text), *marks, Checkpointed(message.path, "")]

    @property
    def _holds(self) -> bool:
        return self._chosen is not None and self._chosen.holds_output

    def _goes_on(self) -> list[Action]:
        """Output, and nodes that keep their ranks for nothing."""
        is_local = self._chosen is not None and bool(self._chosen.local)
        return self._tree.send(GoOn(self._tree.job_id)) if self._holds or is_local else []

    def _failed(self, why: str) -> list[Action]:
        number = self._asked.signal_number
        if self._asked.gives_way:
            return self._terminated(f"no checkpoint: {why}")
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
        holds = chosen.holds_output and not asked.is_trial
        self._attempts = min(self._attempts + 1, SIZE_MAX)
        return self._tree.send(Begin(self._tree.job_id, *how, holds, self._attempts))

    def _interval_s(self) -> float:
        """Young's: the square root of twice what one costs times the time between failures."""
        assert self._chosen is not None
        if self._chosen.every_s != AUTO:
            return self._chosen.every_s
        return math.sqrt(2 * self._cost_s * self._mtbf_s / len(self._tree.nodes))

    def _again(self, now: float) -> None:
        if self._chosen is not None and self._chosen.every_s:
            self._until = now + self._interval_s()


def _both(before: CheckpointAsked | None, event: CheckpointAsked) -> CheckpointAsked:
    """What one checkpoint is for that is asked for twice: the end that comes also without it."""
    if before is None or event.ends_anyway or (event.ends and not before.ends_anyway):
        return event
    return before
