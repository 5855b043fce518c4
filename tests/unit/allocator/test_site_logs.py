"""A site's logs: a line for each job that is over, in Cplant's form."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from allocator.host.ledger import Ledger
from allocator.host.site_logs import usage_line, user_line
from allocator.jobs.accounting import row_of
from allocator.records import LedgerError
from native.wire.base import State
from native.wire.batch import Row

BEGAN = time.mktime((2026, 11, 25, 14, 3, 7, 0, 0, -1))
DONE = replace(
    row_of(17, 1000, "alice", "/home/alice/a.out", 8, None, BEGAN - 5, BEGAN),
    state=State.COMPLETED,
    nodes=((4, 2), (9, 1)),
    node_count=3,
    ended=BEGAN + 3725,
)


def test_a_line_of_the_user_log_has_the_form_of_cplants() -> None:
    assert user_line(DONE) == (
        "11/25/2026 14:03:07 11/25/2026 15:05:12 01:02:05 0003 alice"
        " /home/alice/a.out, Cplant #17 , 4..5,9"
    )
    failed = replace(DONE, state=State.FAILED, exit_status=3, reason="rank 2\nhas\tfailed", step=2)
    assert user_line(failed).endswith(", Cplant #17.2 , 4..5,9, FAILED, exit status 3, "
                                      r"$'rank 2\nhas\tfailed'")  # fmt: skip
    killed = replace(DONE, state=State.FAILED, signal=9)
    assert user_line(killed).endswith("4..5,9, FAILED, signal 9")


@pytest.mark.parametrize(
    ("state", "reason", "how"),
    [
        (State.COMPLETED, "", "Finished"),
        (State.FAILED, "by root", "Finished"),
        (State.CANCELLED, "by alice", "Killed"),
        (State.CANCELLED, "", "Killed"),
        (State.CANCELLED, "released by root", "Aborted"),
        (State.CANCELLED, "by olive, its node is down", "Aborted"),
    ],
)
def test_the_usage_log_tells_who_has_ended_a_job(state: State, reason: str, how: str) -> None:
    line = usage_line(replace(DONE, state=state, reason=reason, name="a|b"))
    assert line == (
        f"{how}|alice|4|11/25/2026 14:03:07|11/25/2026 15:05:12|a/b|3|4..5,9||17"
    )  # a field has no bar in it


def logged(path: Path) -> list[str]:
    """The ids in a user log, in its order."""
    return re.findall(r"Cplant #([0-9.]+) ,", path.read_text()) if path.exists() else []


def row(job_id: int) -> Row:
    return replace(DONE, job_id=job_id)


def test_each_row_is_logged_once_however_often_bebopd_begins(tmp_path: Path) -> None:
    log = tmp_path / "userlog"
    for job_id in (1, 2, 3):
        ledger = Ledger(tmp_path / "state", user_log=log)
        ledger.job_ended(row(job_id))
        ledger.close()
    assert logged(log) == ["1", "2", "3"]
    (run_log,) = tmp_path.glob("run.log.*")
    assert run_log.name == "run.log.11-25-26"
    assert run_log.read_text().count("\n") == 3
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_site_that_begins_to_log_has_the_jobs_from_then_on(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state")
    ledger.job_ended(row(1))
    ledger.close()
    ledger = Ledger(tmp_path / "state", user_log=tmp_path / "userlog")
    ledger.job_ended(row(2))
    ledger.close()
    assert logged(tmp_path / "userlog") == ["2"]


def test_a_log_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    log = tmp_path / "userlog"
    ledger = Ledger(tmp_path / "state", user_log=log)
    ledger.job_ended(row(1))
    ledger.flush()
    log.rename(tmp_path / "userlog.1")
    ledger.job_ended(row(2))
    ledger.close()
    assert (logged(tmp_path / "userlog.1"), logged(log)) == (["1"], ["2"])


def test_a_log_that_cannot_be_written_is_said_and_lacks_nothing_later(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "userlog"
    ledger = Ledger(tmp_path / "state", user_log=log)
    said: list[str] = []
    ledger.on_waiting = said.append
    ledger.job_ended(row(1))
    ledger.flush()
    assert any("logs/userlog: No such file or directory" in text for text in said)
    os.mkdir(log.parent)
    ledger.job_ended(row(2))
    ledger.close()
    assert logged(log) == ["1", "2"]


def test_a_bebopd_whose_log_cannot_be_written_does_not_begin_with_lines_to_write(
    tmp_path: Path,
) -> None:
    log = tmp_path / "logs" / "userlog"
    ledger = Ledger(tmp_path / "state", user_log=log)
    ledger.job_ended(row(1))
    with pytest.raises(LedgerError, match="No such file"):
        ledger.close()
    with pytest.raises(LedgerError, match="logs/userlog: No such file"):
        Ledger(tmp_path / "state", user_log=log)
