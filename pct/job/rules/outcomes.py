"""Completions on their way up the tree: equal outcomes are folded, each rank is sent once.

An abnormal end is sent at once, together with all ends that are known by then. Others are
collected until the whole subtree has ended or a delay has passed, so that a thousand ranks that
end together are one message for each hop: normal ends, and those by a signal that yod has sent,
which yod expects, and whose words must not hold up the signal on its way to other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from native.wire.load import Completions, Outcome

RANKS_PER_MESSAGE = 4096


class Tally(Struct, frozen=True):
    """How one rank ended, with the fields of :class:`native.wire.load.Outcome`."""

    rank: int
    node: int
    unix_pid: int
    wait_status: int
    was_released: bool
    elapsed_ms: int
    user_ms: int
    system_ms: int
    max_rss_kb: int
    was_signalled: bool = False


class Outcomes:
    """The completions of one subtree.

    Attributes:
        due: the time at which collected ends are sent at the latest; None: there are none.
    """

    def __init__(self, job_id: int, total: int) -> None:
        self.due: float | None = None
        self._job_id = job_id
        self._total = total  # ranks in the subtree
        self._known = 0
        self._waiting: list[Outcome] = []
        self._is_urgent = False
        self._sent: list[Completions] = []

    def expect(self, count: int) -> None:
        """More ranks have been started in the subtree."""
        self._total += count

    def add(self, tally: Tally, due: float) -> None:
        """A rank of this node has ended."""
        columns = (
            (tally.rank,),
            (tally.node,),
            (tally.unix_pid,),
            (tally.elapsed_ms,),
            (tally.user_ms,),
            (tally.system_ms,),
            (tally.max_rss_kb,),
        )
        outcome = Outcome(
            tally.wait_status, tally.was_released, *columns, was_signalled=tally.was_signalled
        )
        self.merge((outcome,), due)

    def merge(self, outcomes: tuple[Outcome, ...], due: float) -> None:
        """Ranks below have ended."""
        for outcome in outcomes:
            self._known += len(outcome.ranks)
            self._is_urgent |= outcome.wait_status != 0 and not outcome.was_signalled
            self._waiting.append(outcome)
        if self.due is None and self._waiting:
            self.due = due

    def take(self, now: float) -> list[Completions]:
        """Take what is to be sent now; empty while ends are being collected."""
        if not self._waiting:
            return []
        is_due = self.due is not None and now >= self.due
        if not (self._is_urgent or is_due or self._known >= self._total):
            return []
        return self.take_all()

    def take_all(self) -> list[Completions]:
        """Take everything that has not been sent."""
        messages = [
            Completions(self._job_id, (piece,))
            for outcome in fold(self._waiting)
            for piece in _cut(outcome)
        ]
        self._waiting, self._is_urgent, self.due = [], False, None
        self._sent += messages
        return messages

    def repeat(self) -> list[Completions]:
        """Everything that has been sent; a new parent may not know it."""
        return list(self._sent)


def fold(outcomes: list[Outcome]) -> list[Outcome]:
    """Merge outcomes that are equal but for their ranks; keep the order of the first."""
    groups: dict[tuple[int, bool, bool], list[Outcome]] = {}
    for outcome in outcomes:
        way = (outcome.wait_status, outcome.was_released, outcome.was_signalled)
        groups.setdefault(way, []).append(outcome)
    folded = []
    for group in groups.values():
        if len(group) == 1:
            folded.append(group[0])
            continue
        columns = zip(*(_columns(outcome) for outcome in group), strict=True)
        joined = (tuple(chain.from_iterable(column)) for column in columns)
        folded.append(_like(group[0], joined))
    return folded


def _columns(outcome: Outcome) -> tuple[tuple[int, ...], ...]:
    return (
        outcome.ranks,
        outcome.nodes,
        outcome.unix_pids,
        outcome.elapsed_ms,
        outcome.user_ms,
        outcome.system_ms,
        outcome.max_rss_kb,
    )


def _like(outcome: Outcome, columns: Iterable[tuple[int, ...]]) -> Outcome:
    """The same outcome for other ranks."""
    ranks, nodes, unix_pids, elapsed_ms, user_ms, system_ms, max_rss_kb = columns
    return Outcome(
        outcome.wait_status,
        outcome.was_released,
        ranks,
        nodes,
        unix_pids,
        elapsed_ms,
        user_ms,
        system_ms,
        max_rss_kb,
        outcome.was_signalled,
    )


def _cut(outcome: Outcome) -> list[Outcome]:
    if len(outcome.ranks) <= RANKS_PER_MESSAGE:
        return [outcome]
    pieces = []
    for start in range(0, len(outcome.ranks), RANKS_PER_MESSAGE):
        part = slice(start, start + RANKS_PER_MESSAGE)
        pieces.append(_like(outcome, (column[part] for column in _columns(outcome))))
    return pieces
