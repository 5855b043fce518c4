"""A batch script that is written down as a whole, in a world where everything may be lost.

The machine is the real one (:mod:`partition.batch.saving`). What it has carried out is faked: the
script, which counts; the saver, which stops it, writes it down and makes that a checkpoint by one
step; the commands that ask; the job, which is preempted or loses its node, and begins again.

Rules, looked at after each step:

1. A script that was ended behind its checkpoint is whole in it: it has not counted since.
2. While nothing is written down, a script that is there runs, unless it is suspended.
3. Who was told of a checkpoint has one.
4. A script that comes back goes on where its last checkpoint is, and no checkpoint is lost.
5. Nobody waits for an answer while nothing is written down.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable

from native.machine import Action
from partition.batch.saving import (
    Answer,
    Asked,
    ContinueScript,
    EndScript,
    SaverEnded,
    Saving,
    SavingState,
    SendSignal,
    StartSaver,
)
from tests.sim.clock import Violation

SAVER_STEPS = ("looks", "stops it", "writes", "has made the checkpoint")


class Script:
    """The processes of one attempt of the job.

    Attributes:
        count: how far it is.
        left_at: the count when it was ended behind its checkpoint; None: it was not.
    """

    def __init__(self, count: int, heeds_term: bool) -> None:
        self.count = count
        self.heeds_term = heeds_term
        self.is_there, self.is_stopped, self.is_suspended = True, False, False
        self.left_at: int | None = None


class World:
    """One job, from its first attempt to its end.

    Args:
        goal: how far the script counts.
        make: makes the machine of an attempt.
    """

    def __init__(self, seed: int, goal: int = 40, make: Callable[[], Saving] = Saving) -> None:
        self._rng = random.Random(seed)
        self._goal = goal
        self._make = make
        self.checkpoints: list[int] = []  # counts, the newest last
        self.waiting: list[Asked] = []  # commands
        self.attempts = 0
        self.was_saved = 0
        self._begin()

    def play(self, fault_steps: int = 300) -> None:
        """Play to the job's end; after so many steps nothing is lost any more.

        Raises:
            Violation: a rule is broken, or it has no end.
        """
        for step in range(fault_steps + 40 * self._goal):
            if self.script.is_there and self.script.count >= self._goal:
                return
            self._step(is_faulty=step < fault_steps)
            self._check()
        raise Violation(f"the script does not end: it is at {self.script.count}")

    def _begin(self) -> None:
        """The job is given slots: its script begins, or comes back."""
        self.attempts += 1
        last = self.checkpoints[-1] if self.checkpoints else 0
        self.script = Script(last, self._rng.random() < 0.5)
        self._saving = self._make()
        self._saver: int | None = None  # the step that it does next
        self._seen: int | None = None  # the count that it writes down
        self._is_trial = self._goes_on_behind = False
        self.waiting.clear()  # the broker of the attempt before has gone

    def _step(self, *, is_faulty: bool) -> None:
        happens: list[Callable[[], None]] = [self._count, self._save]
        if is_faulty:
            happens += [self._ask, self._preempt, self._suspend, self._lose]
        weights = [8, 8, 3, 1, 1, 1][: len(happens)]
        if not is_faulty and self.script.is_suspended:
            self._suspend()
        self._rng.choices(happens, weights)[0]()

    # -- what happens -----------------------------------------------------------

    def _count(self) -> None:
        script = self.script
        if not script.is_there:
            self._begin()
        elif not script.is_stopped:
            script.count += 1

    def _ask(self) -> None:
        """A command asks, or one that has asked is lost."""
        if self.waiting and self._rng.random() < 0.2:
            self.waiting.remove(self._rng.choice(self.waiting))
        elif self.script.is_there and not self.script.is_suspended:
            asked = Asked(self._rng.random() < 0.4, self._rng.random() < 0.3)
            self.waiting.append(asked)
            self._handle(asked)

    def _preempt(self) -> None:
        """SIGTERM to the script; now and then SIGKILL, since it has been too late."""
        if not self.script.is_there:
            return
        if self._rng.random() < 0.3:
            self._end_attempt()
        elif self.script.is_suspended:
            self._term()
        else:
            self._handle(Asked(ends=True, signal_number=signal.SIGTERM))

    def _suspend(self) -> None:
        """It is suspended, or goes on; where a saver is at work, when that has ended."""
        script = self.script
        script.is_suspended = not script.is_suspended
        self._goes_on_behind = not script.is_suspended and self._saver is not None
        if not self._goes_on_behind:
            script.is_stopped = script.is_suspended

    def _lose(self) -> None:
        """The saver is killed, or the node is lost with all that is there."""
        if self._rng.random() < 0.3:
            self._end_attempt()
        elif self._saver is not None:
            self._saver_ends("", "its saver ended with 137")

    def _end_attempt(self) -> None:
        self.script.is_there = False
        self._saver = None
        self._begin()

    def _save(self) -> None:
        """The saver does its next step."""
        if self._saver is None:
            return
        what, script = SAVER_STEPS[self._saver], self.script
        self._saver += 1
        if not script.is_there:
            self._saver_ends("", "the script has ended")
        elif what == "looks" and self._rng.random() < 0.2:
            self._saver_ends("", "criu cannot write it down")
        elif what == "looks" and self._is_trial:
            self._saver_ends("", "")
        elif what == "stops it":
            script.is_stopped, self._seen = True, script.count
        elif what == "writes":
            assert self._seen is not None
            self.checkpoints.append(self._seen)  # by one rename
        elif what == SAVER_STEPS[-1]:
            self._saver_ends(f"checkpoint.{len(self.checkpoints)}", "")

    def _saver_ends(self, path: str, trouble: str) -> None:
        self._saver = None
        self._handle(SaverEnded(path, trouble))
        if self._goes_on_behind:
            self._goes_on_behind = self.script.is_stopped = False

    # -- what the broker does ---------------------------------------------------

    def _handle(self, event: Asked | SaverEnded) -> None:
        for action in self._saving.handle(event):
            self._perform(action)

    def _perform(self, action: Action) -> None:
        script = self.script
        match action:
            case StartSaver(is_trial):
                self._saver, self._seen, self._is_trial = 0, None, is_trial
            case Answer(is_trial, path, trouble):
                if path and path != f"checkpoint.{len(self.checkpoints)}":
                    raise Violation(f"rule 3: {path} is not there")
                if not (path or trouble or is_trial):
                    raise Violation("rule 3: neither a checkpoint nor why there is none")
                self.waiting = [each for each in self.waiting if each.is_trial != is_trial]
            case EndScript():
                if script.is_there:
                    script.is_there, script.left_at = False, script.count
                    self.was_saved += 1
            case ContinueScript():
                script.is_stopped = script.is_suspended
            case SendSignal():
                self._term()

    def _term(self) -> None:
        if self.script.is_there and self.script.heeds_term:
            self.script.is_there = False

    # -- rules ------------------------------------------------------------------

    def _check(self) -> None:
        script, is_resting = self.script, self._saving.state is SavingState.RESTING
        last = self.checkpoints[-1] if self.checkpoints else 0
        if script.left_at is not None and script.left_at != last:
            raise Violation(f"rule 1: ended at {script.left_at}, and its checkpoint is of {last}")
        if is_resting and script.is_there and script.is_stopped and not script.is_suspended:
            raise Violation("rule 2: it is stopped, and nobody lets it go on")
        if script.is_there and script.count < last:
            raise Violation(f"rule 4: it is at {script.count} behind a checkpoint of {last}")
        if is_resting and self.waiting:
            raise Violation("rule 5: a command waits, and nothing is being done")
