"""The savers of checkpoints on one host, faked after ``partition/checkpoint`` and its rules.

12. A checkpoint is made whole only when every rank has been saved since it was asked for, or had
    ended well, and, where it was kept on its node, been drained since, by that or by the node that
    holds its share; and no saver outlives its job. No more of a share is on its way than the
    window.
16. Where output is held, yod marks its files when it has all that each rank had written when it
    was saved, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from native.machine import Action
from pct import events, rare_events
from pct.job.rules import partner
from tests.sim.clock import Violation
from tests.sim.ranks import RankState

if TYPE_CHECKING:
    from tests.sim.hosts import PctActor

SHARE_BYTES, PIECE_BYTES = 9000, 700  # of what a node keeps; the window is smaller
FAILS, NEVER_SAVED = 0.03, 0.03  # of savers, of nodes


class Saver:
    """One saver."""

    def __init__(self, words: tuple[bytes, ...]) -> None:
        self.words = words
        self.is_collecting = words[0] in (b"collect", b"collect-held")
        self.is_held = words[0] == b"collect-held"
        self.tells_ranks = self.is_collecting and words[2] != b"0"
        self.has_ended = False
        self.is_copied = words[0] == b"drain-copied"
        self.place = int(words[1]) if self.is_copied else 0
        self.ward = int(words[7]) if self.is_copied else 0
        self.credit = 0
        self.unsent = SHARE_BYTES if self.is_copied and words[6] == b"1" else 0
        self.held = 0  # bytes of the ward's share
        self.is_alone = self.is_drained = self.is_ward_over = False


class Savers:
    """Those of the jobs of one PCT."""

    def __init__(self, pct: PctActor) -> None:
        self._pct = pct
        self._savers: dict[int, Saver] = {}

    def perform(self, action: Action) -> None:
        """Carry out an action."""
        assert isinstance(action, events.HelperAction | rare_events.HoldOutput)
        job_id = action.job_id
        rng = self._pct.sim.clock.rng
        saver = self._savers.get(job_id)
        match action:
            case events.RunSaver(_, words):
                if saver is not None:
                    raise Violation(f"rule 12: {self._pct.name}: two savers of job {job_id}")
                saver = self._savers[job_id] = Saver(words)
                begin = self._ready if saver.is_collecting else self._commit
                if words[0] == b"drain":
                    begin = self._drain
                if words[0] == b"drop":
                    begin = self._drop
                if saver.is_copied:
                    begin = self._send
                self._later(job_id, saver, rng.uniform(1e-3, 0.2), begin)
            case rare_events.PassToSaver(_, data) if saver is not None:
                self._later(job_id, saver, rng.uniform(1e-4, 1e-2), self._hearing(data))
            case events.TellSaver(_, None) if saver is not None:
                self._end(job_id, saver, "ranks have not saved")
            case rare_events.HoldOutput(_, rank, is_on):
                for number, each in self._pct.parts[job_id].ranks.items():
                    for pipe in each.out.values() if rank in (None, number) else ():
                        pipe.hold(is_on)
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
        truth = self._pct.sim.truths[job_id]
        truth.saved_nodes.add(self._pct.number)
        truth.drained_nodes.discard(self._pct.number)
        for rank in list(self._pct.parts[job_id].ranks) if saver.is_held else ():
            truth.mark(rank)
            self._pct.handle(rare_events.RankSaved(job_id, rank))
        if self._savers.get(job_id) is saver:
            self._end(job_id, saver, "")

    def _drain(self, job_id: int, saver: Saver) -> None:
        truth = self._pct.sim.truths[job_id]
        if self._pct.number not in truth.saved_nodes:
            raise Violation(f"rule 12: {self._pct.name}: job {job_id} is drained and not saved")
        rng = self._pct.sim.clock.rng

        def end() -> None:
            trouble = "no space left on device" if rng.random() < FAILS else ""
            if not trouble:
                truth.drained_nodes.add(self._pct.number)
            self._end(job_id, saver, trouble)

        if rng.random() >= NEVER_SAVED:  # else it is too late
            self._later(job_id, saver, rng.uniform(1e-3, 0.4), lambda *_: end())

    # -- a share that another node holds ------------------------------------------

    def _hearing(self, data: bytes) -> Callable[[int, Saver], None]:
        what, _, rest = data.partition(b"\n")
        word, _, number = what.partition(b" ")

        def hear(job_id: int, saver: Saver) -> None:
            match word:
                case b"credit":
                    saver.credit += int(number)
                    if saver.credit > partner.WINDOW_BYTES:
                        raise Violation(f"rule 12: {self._pct.name}: too much room for a share")
                case b"alone":
                    saver.is_alone = True
                case b"data":
                    saver.held += len(rest)
                case b"forget":
                    saver.is_ward_over = True
                case b"lost" if saver.held == SHARE_BYTES and not saver.is_ward_over:
                    self._later(job_id, saver, 0.3, self._rescue)
                case b"lost":
                    saver.is_ward_over = True
            self._pct.handle(rare_events.ShareKept(job_id, len(data)))
            if self._savers.get(job_id) is saver:
                self._look(job_id, saver)

        return hear

    def _send(self, job_id: int, saver: Saver) -> None:
        if saver.is_drained:
            return
        if saver.unsent and not saver.is_alone:
            count = min(PIECE_BYTES, saver.unsent, saver.credit)
            saver.credit -= count
            saver.unsent -= count
            if count:
                self._pct.handle(rare_events.ShareRead(job_id, b"x" * count))
            self._later(job_id, saver, 2e-3, self._send)
        else:
            self._later(job_id, saver, self._pct.sim.clock.rng.uniform(1e-3, 0.6), self._drain_own)

    def _drain_own(self, job_id: int, saver: Saver) -> None:
        rng = self._pct.sim.clock.rng
        if rng.random() < FAILS:
            self._end(job_id, saver, "no space left on device")
            return
        if rng.random() < NEVER_SAVED:
            return
        truth = self._pct.sim.truths[job_id]
        saver.is_drained = True
        truth.drained_nodes.add(self._pct.number)
        self._pct.handle(rare_events.ShareDrained(job_id))
        if self._savers.get(job_id) is saver:
            self._look(job_id, saver)

    def _rescue(self, job_id: int, saver: Saver) -> None:
        truth = self._pct.sim.truths[job_id]
        node = truth.nodes[saver.ward]
        if node not in truth.saved_nodes:
            raise Violation(f"rule 12: {self._pct.name}: holds what node {node} has not saved")
        truth.drained_nodes.add(node)
        saver.is_ward_over = True
        self._look(job_id, saver)

    def _look(self, job_id: int, saver: Saver) -> None:
        if saver.is_drained and saver.is_ward_over and not saver.has_ended:
            self._end(job_id, saver, "")

    def _drop(self, job_id: int, saver: Saver) -> None:
        ranks = self._pct.parts[job_id].ranks.values()
        if any(rank.state is not RankState.DEAD for rank in ranks):
            raise Violation(f"rule 12: {self._pct.name}: job {job_id} may still be saved")
        self._end(job_id, saver, "")

    def _commit(self, job_id: int, saver: Saver) -> None:
        truth = self._pct.sim.truths[job_id]
        if (rank := truth.unsaved_rank()) is not None:
            raise Violation(f"rule 12: job {job_id} is whole without rank {rank}")
        truth.saved_nodes.clear()
        truth.drained_nodes.clear()
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
