"""While the application runs: its completions, the kill delay, input, remote files, warnings."""

from __future__ import annotations

import signal

from native.errors import PeerProtocolError
from native.limits import Limits
from native.machine import Action, DeadlineReached
from native.wire import io, load, pmi
from yod.launch.ending import Ending
from yod.launch.events import (
    InputRead,
    ReadInput,
    RemoteServed,
    Resized,
    ServeRemote,
    Tell,
    UseTerminal,
)
from yod.launch.phases import Progress
from yod.launch.report import Report
from yod.launch.spawn import Spawner
from yod.launch.tree import Tree
from yod.plan.plan import Options


class Running:
    """Ends the job after its last rank, or some time after the first that failed.

    The other ranks have the kill delay to end by themselves, and after SIGTERM the same
    time again. The progress of RUNNING is timed only then.
    """

    def __init__(
        self,
        options: Options,
        progress: Progress,
        tree: Tree,
        report: Report,
        spawner: Spawner,
        ending: Ending,
        limits: Limits,
    ) -> None:
        self._options = options
        self._progress = progress
        self._tree = tree
        self._report = report
        self._spawner = spawner
        self._ending = ending
        self._kill_delay_s = limits.kill_delay_s
        self._has_sent_term = False
        self._has_told_of_lonely_ranks = False
        self._has_told_of_limit = False
        self._terminal_rank = options.terminal_rank

    # -- completions ------------------------------------------------------

    def completed(self, completions: load.Completions, now: float) -> list[Action]:
        """RUNNING: ranks have ended."""
        actions: list[Action] = []
        was_clean = self._report.has_succeeded_so_far
        for outcome in _in_rank_order(completions):
            actions += self._count(outcome)
        if was_clean and not self._report.has_succeeded_so_far:
            actions += self._first_failure(now)
        if self._report.is_complete:
            actions += self._ending.all_done(now)
        return actions

    def counted(self, completions: load.Completions, now: float) -> list[Action]:
        """Any other phase: ranks have ended, which ends nothing more."""
        return [
            action for outcome in _in_rank_order(completions) for action in self._count(outcome)
        ]

    def _count(self, outcome: load.Outcome) -> list[Action]:
        actions: list[Action] = []
        for rank in self._report.complete(outcome, self._tree.sent_signals):
            self._spawner.ended(rank)
            if rank == self._terminal_rank:
                actions.append(UseTerminal(False))
        return actions

    def _first_failure(self, now: float) -> list[Action]:
        if self._report.is_complete:
            return []
        if self._options.keeps_going:
            text = f"{self._report.first_failure}; the others go on"
            return [Tell(text, is_error=False)]
        if self._options.kills_at_once:
            self._progress.until = now
            return []
        self._progress.until = now + self._kill_delay_s
        text = f"{self._report.tell_first_failure()}; the others have {self._kill_delay_s:g} s"
        return [Tell(f"{text} to end")]

    def kill_due(self, _: DeadlineReached, now: float) -> list[Action]:
        """The kill delay is over."""
        if self._options.kills_at_once:
            text = f"{self._report.tell_first_failure()}; the others are being killed"
            return [Tell(text), *self._ending.all_done(now)]
        if self._has_sent_term:
            return [Tell("the others are being killed"), *self._ending.all_done(now)]
        self._has_sent_term = True
        self._progress.until = now + self._kill_delay_s
        advice = "SIGTERM sent to the others (--keep-going lets them run)"
        return [Tell(advice), *self._tree.signal(signal.SIGTERM)]

    # -- input ------------------------------------------------------------

    def input_wanted(self, credit: io.InputCredit, now: float) -> list[Action]:
        """Rank 0 has room for more input."""
        return [ReadInput(credit.count_bytes)]

    def resized(self, event: Resized, now: float) -> list[Action]:
        """RUNNING: the rank's terminal gets the size of the user's."""
        return self._tree.send(io.Resize(self._tree.job_id, event.window))

    def input_read(self, event: InputRead, now: float) -> list[Action]:
        """Input for rank 0."""
        return self._tree.send(io.Input(self._tree.job_id, event.data))

    # -- remote files -----------------------------------------------------

    def remote_asked(self, asked: io.RemoteRequest, now: float) -> list[Action]:
        """Any phase with nodes: ranks need files before they are at their entry.

        Raises:
            PeerProtocolError: the job has no such directory, or no such node.
        """
        if asked.directory >= len(self._options.remote):
            raise PeerProtocolError(f"remote files of directory {asked.directory}")
        if asked.place >= len(self._tree.nodes):
            raise PeerProtocolError(f"remote files for place {asked.place}")
        return [ServeRemote(asked.place, asked.mount, asked.directory, asked.frame)]

    def remote_served(self, event: RemoteServed, now: float) -> list[Action]:
        """It has been carried out."""
        reply = io.RemoteReply(self._tree.job_id, event.place, event.mount, event.frame)
        return self._tree.send(reply)

    # -- warnings ---------------------------------------------------------

    def ranks_are_alone(self, alone: pmi.Alone, now: float) -> list[Action]:
        """MPI ranks did not find each other; told once."""
        if self._has_told_of_lonely_ranks:
            return []
        self._has_told_of_lonely_ranks = True
        return [Tell(f"rank {alone.rank}: {alone.text}")]

    def limit_reached(self, excess: pmi.Excess, now: float) -> list[Action]:
        """A node has refused a request of its ranks; told once."""
        if self._has_told_of_limit:
            return []
        self._has_told_of_limit = True
        return [Tell(f"{excess.name}: the application's request was refused: {excess.text}")]


def _in_rank_order(completions: load.Completions) -> list[load.Outcome]:
    """Of outcomes that arrive together the one of the lowest rank counts as the first."""
    return sorted(completions.outcomes, key=lambda outcome: min(outcome.ranks, default=0))
