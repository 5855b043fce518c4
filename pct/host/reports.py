"""What a keeper may report of its ranks, and in which order.

A keeper runs as the owner of its job, who can make it report anything. So reports are checked
here before the job's machine, which relies on their order, sees them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from native.errors import PeerProtocolError
from native.wire import keeper as wire


class _Rank(Enum):
    """The last that was reported of a rank."""

    ASKED_FOR = "asked for"
    STARTED = "started"
    HELD = "held"
    ENDED = "ended"


class Reports:
    """The reports of one keeper.

    Args:
        ranks: those that the keeper was told to start.
        mounts: how many directories it was told to mount over.
    """

    def __init__(self, ranks: Iterable[int], mounts: int = 0) -> None:
        self._mounts = list(range(mounts))  # those that have not been reported
        self._ranks = dict.fromkeys(ranks, _Rank.ASKED_FOR)

    def check(self, report: wire.Report | wire.Taken | wire.KeeperFailed) -> None:
        """Check one report.

        Raises:
            PeerProtocolError: the rank is not the keeper's, or the report is out of order.
        """
        match report:
            case wire.StreamsTaken(rank):
                self._demand(rank, _Rank.ASKED_FOR, report)
            case wire.MountTaken(directory):
                if self._mounts[:1] != [directory]:
                    raise PeerProtocolError(f"keeper: mount {directory} makes no sense now")
                del self._mounts[0]
            case wire.RankStarted(rank, unix_pid):
                if unix_pid <= 0:
                    raise PeerProtocolError(f"keeper: rank {rank} has process id {unix_pid}")
                self._enter(rank, _Rank.ASKED_FOR, _Rank.STARTED, report)
            case wire.RankHeld(rank):
                self._enter(rank, _Rank.STARTED, _Rank.HELD, report)
            case wire.RankDying(rank):
                self._demand(rank, _Rank.HELD, report)
            case wire.ExecFailed(rank):
                if self._ranks.get(rank, _Rank.ENDED) is _Rank.ENDED:
                    raise _out_of_order(rank, report)
            case wire.RankEnded(rank):
                if self._ranks.get(rank, _Rank.ENDED) is _Rank.ENDED:
                    raise _out_of_order(rank, report)
                self._ranks[rank] = _Rank.ENDED

    def _enter(self, rank: int, before: _Rank, state: _Rank, report: object) -> None:
        self._demand(rank, before, report)
        self._ranks[rank] = state

    def _demand(self, rank: int, state: _Rank, report: object) -> None:
        if self._ranks.get(rank) is not state:
            raise _out_of_order(rank, report)


def _out_of_order(rank: int, report: object) -> PeerProtocolError:
    return PeerProtocolError(f"keeper: {type(report).__name__} of rank {rank} makes no sense now")
