"""The savers of checkpoints on one host, faked after ``partition/checkpoint`` and its rules.

12. A checkpoint is made whole only when every rank has been saved since it was asked for, or had
    ended well; and no saver outlives its job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pct import events
from tests.sim.clock import Violation

if TYPE_CHECKING:
    from tests.sim.hosts import PctActor

FAILS, NEVER_SAVED = 0.03, 0.03  # of savers, of nodes


class Saver:
    """One saver."""

    def __init__(self, words: tuple[bytes, ...]) -> None:
        self.words = words
        self.is_collecting = words[0] == b"collect"
        self.tells_ranks = self.is_collecting and words[2] != b"0"
        self.has_ended = False


class Savers:
    """Those of the jobs of one PCT."""

    def __init__(self, pct: PctActor) -> None:
        self._pct = pct
        self._savers: dict[int, Saver] = {}

    def perform(self, action: events.HelperAction) -> None:
        """Carry out an action."""
        job_id = action.job_id
        rng = self._pct.sim.clock.rng
        saver = self._savers.get(job_id)
        match action:
            case events.RunSaver(_, words):
                if saver is not None:
                    raise Violation(f"rule 12: {self._pct.name}: two savers of job {job_id}")
                saver = self._savers[job_id] = Saver(words)
                begin = self._ready if saver.is_collecting else self._commit
                self._later(job_id, saver, rng.uniform(1e-3, 0.2), begin)
            case events.TellSaver(_, None) if saver is not None:
                self._end(job_id, saver, "ranks have not saved")
            case events.KillSaver() if saver is not None:
                self._later(job_id, saver, rng.uniform(1e-4, 1e-2), self._killed)

    def drop(self, job_id: int) -> None:
        """The PCT hangs up on it."""
        self._savers.pop(job_id, None)

    def check(self) -> None:
        """No saver outlives its job."""
        if left := [job_id for job_id in self._savers if job_id not in self._pct.machine.jobs]:
            raise Violation(f"rule 12: {self._pct.name}: savers of the jobs {left}")

    def _later(self, job_id: int, saver: Saver, delay_s: float, call: object) -> None:
        def go() -> None:
            is_there = self._savers.get(job_id) is saver and self._pct.process.is_alive
            if is_there and not saver.has_ended and callable(call):
                call(job_id, saver)

        self._pct.sim.clock.after(delay_s * self._pct.host.slowness, go)

    def _ready(self, job_id: int, saver: Saver) -> None:
        rng = self._pct.sim.clock.rng
        if rng.random() < FAILS:
            self._end(job_id, saver, "no space left on device")
            return
        ranks = self._pct.parts[job_id].ranks.values()
        if saver.tells_ranks and not all(rank.handles_usr1 for rank in ranks):
            self._end(job_id, saver, "a rank does not handle the signal")
            return
        self._pct.handle(events.SaverReady(job_id))
        if rng.random() >= NEVER_SAVED:
            self._later(job_id, saver, rng.uniform(1e-3, 2.0), self._saved)

    def _saved(self, job_id: int, saver: Saver) -> None:
        self._pct.sim.truths[job_id].saved_nodes.add(self._pct.number)
        self._end(job_id, saver, "")

    def _commit(self, job_id: int, saver: Saver) -> None:
        truth = self._pct.sim.truths[job_id]
        unsaved = set(truth.nodes) - truth.saved_nodes
        ended = {rank for rank, (status, _) in truth.ends.items() if not status}
        for rank in range(truth.size):
            if truth.node_of[rank] in unsaved and rank not in ended:
                raise Violation(f"rule 12: job {job_id} is whole without rank {rank}")
        truth.saved_nodes.clear()
        if self._pct.sim.clock.rng.random() < FAILS:
            self._end(job_id, saver, "no space left on device")
            return
        truth.checkpoints += 1
        path = b"/scratch/checkpoint.%d" % truth.checkpoints
        self._end(job_id, saver, "", path)

    def _killed(self, job_id: int, saver: Saver) -> None:
        self._end(job_id, saver, "killed")

    def _end(self, job_id: int, saver: Saver, trouble: str, path: bytes = b"") -> None:
        saver.has_ended = True
        del self._savers[job_id]
        self._pct.handle(events.SaverEnded(job_id, 0 if trouble else 1000, path, trouble))
