"""The ends of ranks: completions for yod, and what else follows from an end."""

from __future__ import annotations

from native.machine import Action
from native.waitstatus import how_it_ended
from native.wire import keeper, load
from pct.events import OutOfMemory
from pct.job.failures import Failures
from pct.job.keepers import Keepers
from pct.job.progress import Progress
from pct.job.rules.outcomes import Outcomes, Tally
from pct.job.wiring import Wiring
from pct.tree.group import Group

DELAY_S = 0.05  # how long normal ends are collected; as long again for each level below


class Ends:
    """The ends of one job's ranks at and below one node.

    Attributes:
        ranks: those of this node that have ended.
        well: those of them that ended with 0.
    """

    def __init__(
        self,
        message: load.Load,
        group: Group,
        progress: Progress,
        failures: Failures,
        keepers: Keepers,
        wiring: Wiring,
    ) -> None:
        self.ranks: set[int] = set()
        self.well: set[int] = set()
        self._node = message.nodes[message.place].node
        self._group = group
        self._progress = progress
        self._failures = failures
        self._keepers = keepers
        self._wiring = wiring
        below = set(group.places_below())
        counts = message.runs.counts(len(message.nodes))
        total = sum(counts[place] for place in below)
        self._outcomes = Outcomes(message.job_id, total)
        self._delay_s = DELAY_S * (1 + group.levels)

    def deadline(self) -> float | None:
        """The time at which collected completions are sent; None: there are none."""
        return self._outcomes.due

    def expect(self, count: int) -> None:
        """More ranks are being started in this subtree."""
        self._outcomes.expect(count)

    def rank_ended(self, report: keeper.RankEnded, world: int, now: float) -> list[Action]:
        """A rank of this node has ended."""
        self.ranks.add(report.rank)
        if self._progress.times is not None:
            self._progress.times.rank_ended(now)
        if report.wait_status == 0:
            self.well.add(report.rank)
        actions: list[Action] = []
        if world:
            actions += self._wiring.rank_runs(world, report.rank, "it ended before its entry")
            actions += self._wiring.tool_ended(world, report.wait_status)
        elif not report.was_released:
            text = f"{how_it_ended(report.wait_status)} before its entry"
            actions += self._failures.report(load.FailureKind.EARLY_EXIT, text, rank=report.rank)
        self._outcomes.add(self._tally(report, now), now + self._delay_s)
        return [
            *actions,
            *self.tell(now),
            *self._wiring.rank_left(
                report.rank, report.wait_status, report.mpi_library, report.was_signalled
            ),
        ]

    def out_of_memory(self, event: OutOfMemory, now: float) -> list[Action]:
        """The kernel has killed a rank of this node."""
        text = "the kernel has killed it: the job has reached its memory on this node (--mem)"
        return self._failures.report(load.FailureKind.OUT_OF_MEMORY, text, rank=event.rank)

    def _tally(self, report: keeper.RankEnded, now: float) -> Tally:
        return Tally(
            rank=report.rank,
            node=self._node,
            unix_pid=self._keepers.unix_pids.get(report.rank, 0),
            wait_status=report.wait_status,
            was_released=report.was_released,
            elapsed_ms=int((now - self._progress.started_at) * 1000),
            user_ms=int(report.user_s * 1000),
            system_ms=int(report.system_s * 1000),
            max_rss_kb=report.max_rss_bytes // 1024,
            was_signalled=report.was_signalled,
        )

    def ended_below(self, place: int, message: load.Completions, now: float) -> list[Action]:
        """Ranks of a child's subtree have ended."""
        self._outcomes.merge(message.outcomes, now + self._delay_s)
        return [*self.tell(now), *self._wiring.ranks_left_below(place, message.outcomes)]

    def tell(self, now: float) -> list[Action]:
        """Send the completions that are due."""
        return self._up(self._outcomes.take(now))

    def tell_all(self) -> list[Action]:
        """Send all completions that have not been sent."""
        return self._up(self._outcomes.take_all())

    def repeat(self) -> list[Action]:
        """Send those that the old parent was sent: it may not have passed them on."""
        return self._up(self._outcomes.repeat())

    def told(self) -> list[load.Completions]:
        """All completions that have been sent."""
        return self._outcomes.repeat()

    def _up(self, messages: list[load.Completions]) -> list[Action]:
        return [action for message in messages for action in self._group.up(message)]
