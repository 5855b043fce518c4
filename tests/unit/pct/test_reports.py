"""A keeper's reports: only of its ranks, each step once and in order."""

import pytest

from native.errors import PeerProtocolError
from native.wire.keeper import (
    ExecFailed,
    ExecStep,
    HowHeld,
    KeeperEmpty,
    KeeperLost,
    RankEnded,
    RankHeld,
    RankStarted,
    StreamsTaken,
)
from pct.host.reports import Reports

STREAMS = StreamsTaken(5, False, True, True, False)
STARTED = RankStarted(5, 1234)
HELD = RankHeld(5, HowHeld.PRELOAD)
FAILED = ExecFailed(5, 2, ExecStep.EXEC, "/a")
ENDED = RankEnded(5, 0, True, 0.0, 0.0, 0, 0.0)


@pytest.mark.parametrize(
    "said",
    [
        [STREAMS, STARTED, HELD, ENDED, KeeperEmpty()],
        [STREAMS, STARTED, ENDED, KeeperEmpty()],
        [STREAMS, STARTED, FAILED, ENDED],
        [STREAMS, STARTED, HELD, FAILED, ENDED],  # held before exec
        [FAILED, ENDED],  # no process
        [KeeperLost("killed")],
    ],
)
def test_what_keepers_report_is_taken(said):
    reports = Reports([5])
    for report in said:
        reports.check(report)


@pytest.mark.parametrize(
    "said",
    [
        [RankStarted(6, 1234)],
        [RankStarted(5, 0)],
        [RankStarted(5, -1)],
        [HELD],
        [STARTED, STARTED],
        [STARTED, STREAMS],
        [STARTED, HELD, HELD],
        [STARTED, ENDED, ENDED],
        [STARTED, ENDED, HELD],
        [STARTED, ENDED, FAILED],
        [RankHeld(6, HowHeld.PRELOAD)],
        [RankEnded(6, 0, True, 0.0, 0.0, 0, 0.0)],
        [ExecFailed(6, 2, ExecStep.EXEC, "/a")],
    ],
)
def test_what_no_honest_keeper_reports_is_refused(said):
    reports = Reports([5])
    for report in said[:-1]:
        reports.check(report)
    with pytest.raises(PeerProtocolError, match="keeper: "):
        reports.check(said[-1])
