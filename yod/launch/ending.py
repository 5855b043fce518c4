"""The end of a launch: through the tree, else by a reset, and bebopd's confirmation.

    all_done   RUNNING or earlier -> ENDING     the root ends the job on all nodes
    reset      -> RESETTING                     each PCT that has not confirmed is told
    release    -> RELEASING                     bebopd is asked to confirm the free slots
    done       -> DONE

Every other part of a launch ends it by one of these.
"""

from __future__ import annotations

from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, DeadlineReached, Send
from native.waitstatus import SIGNAL_BASE
from native.wire import alloc, io, load
from native.wire.base import JobEnd, State
from yod.launch.events import Finish, Leave, OutputWritten, Rescue, Tell
from yod.launch.output import Outputs
from yod.launch.phases import Phase, Progress
from yod.launch.report import NEVER_STARTED, Report
from yod.launch.tree import Tree


class Ending:
    """Ends the job, and sees that its nodes are free.

    Attributes:
        awaits_bebopd: the launch is over when bebopd has confirmed the free slots; else when the
            nodes have.
    """

    def __init__(
        self,
        progress: Progress,
        tree: Tree,
        report: Report,
        outputs: Outputs,
        bebopd: PortalId,
        limits: Limits,
    ) -> None:
        self.awaits_bebopd = True
        self._progress = progress
        self._tree = tree
        self._report = report
        self._outputs = outputs
        self._bebopd = bebopd
        self._limits = limits

    # -- ways to end ------------------------------------------------------

    def give_up(self, text: str, now: float) -> list[Action]:
        """The launch has failed; the text says why."""
        self._report.end_because("the launch failed")
        self._report.fail(NEVER_STARTED, text)
        return [Tell(text), *self.all_done(now)]

    def all_done(self, now: float) -> list[Action]:
        """End the job through the tree."""
        self._progress.enter(Phase.ENDING, now, self._end_s)
        return self._tree.all_done(self._report.is_complete)

    def reset(self, now: float) -> list[Action]:
        """Tell every PCT that has not confirmed the end."""
        self._progress.enter(Phase.RESETTING, now, self._reset_s)
        return self._tree.reset() or self.release(now)

    @property
    def _end_s(self) -> float:
        """For the end of a job; nodes may have to drain a checkpoint."""
        return self._limits.end_s + self._tree.rescue_s

    @property
    def _reset_s(self) -> float:
        """For a reset. A node that another one could not reach may be reached from here."""
        waits = self._tree.waits_for_others(self._report.lost)
        if waits:
            return self._end_s
        return min(self._limits.lost_end_s, self._limits.end_s)

    def release(self, now: float) -> list[Action]:
        """Ask bebopd to confirm that the slots are free."""
        self._progress.enter(Phase.RELEASING, now, self._limits.end_s + self._limits.allocate_s)
        rescue: list[Action] = []
        if self._tree.rescued:
            done = self._report.completions.items()
            ended = tuple(rank for rank, completion in done if not completion.wait_status)
            rescue = [Rescue(self._tree.rescue_attempt, ended)]
        self._tree.end_rescue()
        is_over = not (self.awaits_bebopd or self._tree.unconfirmed or self._report.lost)
        return [
            *rescue,
            Send(self._bebopd, self._tree.release(self._report.end(), self._report.lost)),
            *(self.done() if is_over else []),
        ]

    def done(self) -> list[Action]:
        """The launch is over."""
        self._progress.finish()
        self._report.close()
        return [Finish()]

    def leave(self, signal_number: int) -> list[Action]:
        """Send every PCT a reset and bebopd a release, and wait for no answer."""
        self._report.note("left before the end of the job was confirmed")
        text = "interrupted before its end was confirmed"
        self._tree.end_rescue()
        end = JobEnd(State.CANCELLED, SIGNAL_BASE + signal_number, signal_number, text)
        actions = [*self._tree.reset(), Send(self._bebopd, self._tree.release(end))]
        actions += self.done()
        self._report.leave(signal_number, text)
        return [*actions, Leave()]

    # -- while the job ends -----------------------------------------------

    def nodes_ended(self, released: load.Released, now: float) -> list[Action]:
        """FORMING to ENDING: nothing of the job is left on some nodes."""
        self._tree.confirm(released.nodes)
        if self._tree.root in self._tree.unconfirmed:
            return []
        # The root has confirmed for all nodes below it. Others were lost, or cut off from it.
        return self.reset(now) if self._tree.unconfirmed else self.release(now)

    def output_arrived(self, output: io.Output, now: float) -> list[Action]:
        """ENDING: it lasts as long as output arrives."""
        self._progress.extend(now, self._end_s)
        return self._outputs.arrived(output, now)

    def lines_arrived(self, lines: io.Lines, now: float) -> list[Action]:
        """ENDING: it lasts as long as output arrives."""
        self._progress.extend(now, self._end_s)
        return self._outputs.lines_arrived(lines, now)

    def output_written(self, event: OutputWritten, now: float) -> list[Action]:
        """ENDING: it lasts as long as output is read from yod, however slowly."""
        if event.count_bytes:  # else these were yod's own words
            self._progress.extend(now, self._end_s)
        return self._outputs.written(event, now)

    def not_confirmed(self, _: DeadlineReached, now: float) -> list[Action]:
        """ENDING: the root has not confirmed the end in time."""
        if self._outputs.are_waiting:  # their reader has stopped, not the job
            self._progress.extend(now, self._end_s)
            return []
        self._tree.end_rescue()
        names = self._tree.unconfirmed_names
        self._report.note(f"reset, as no end was confirmed by {names}")
        return [Tell(f"no end confirmed by {names}: resetting"), *self.reset(now)]

    # -- while nodes are reset --------------------------------------------

    def node_reset(self, released: load.Released, now: float) -> list[Action]:
        """RESETTING: a PCT has confirmed."""
        self._tree.confirm(released.nodes)
        return self.after_reset(now)

    def after_reset(self, now: float) -> list[Action]:
        """RESETTING ends when no PCT is left that could confirm."""
        if not self._tree.unconfirmed:
            return self.release(now)
        if not self._tree.waits_for_others(self._report.lost):
            self._progress.hasten(now, self._reset_s)
        return []

    def not_reset(self, _: DeadlineReached, now: float) -> list[Action]:
        """RESETTING: some PCT has not confirmed in time; bebopd asks it again."""
        return self.release(now)

    # -- while bebopd confirms --------------------------------------------

    def node_freed(self, released: load.Released, now: float) -> list[Action]:
        """RELEASING: a PCT has confirmed late."""
        self._tree.confirm(released.nodes)
        return []

    def confirmed(self, released: alloc.Released, now: float) -> list[Action]:
        """RELEASING: bebopd knows the slots to be free, but for unreachable nodes."""
        self._report.lose(*released.unreachable)
        return self.done()

    def refused(self, _: alloc.Refused, now: float) -> list[Action]:
        """RELEASING: the slots are no longer ours."""
        return self.done()

    def not_released(self, _: DeadlineReached, now: float) -> list[Action]:
        """RELEASING: bebopd has not answered in time."""
        self._report.note("bebopd did not confirm that the nodes are free")
        return self.done()
