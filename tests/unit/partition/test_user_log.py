"""The user log: what a line says, the last of them, and what becomes of one that is full."""

from __future__ import annotations

import os
import time

import pytest

from native.host import userdirs
from partition.jobs.log import Launch, last, parse, record, table
from tests.unit.yod.launch_of import Yod, completions
from yod.launch.closing import log_line
from yod.launch.phases import Phase

BEGAN, ENDED = "11/29/2026 07:33:08", "11/29/2026 07:34:10"


def unix_s(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%m/%d/%Y %H:%M:%S"))


def line(*, job_id: int = 17, program: str = "/usr/bin/sh", batch: str = "", rest: str = "") -> str:
    pbs = f" PBS #{batch}," if batch else ""
    head = f"{BEGAN} {ENDED} 00:01:02 0002 alice {program},"
    return f"{head}{pbs} Cplant #{job_id}, 0..1{rest}"


@pytest.mark.parametrize("program", ["/usr/bin/sh", "/a b/c, d", "/x/$'caf\\351'"])
@pytest.mark.parametrize("batch", ["", "12.server"])
@pytest.mark.parametrize("reason", ["", "rank 1 on n1: ended with exit code 4, 5 others too"])
def test_a_line_says_what_ran_where_and_when_and_why_it_failed(program, batch, reason):
    text = line(program=program, batch=batch, rest=f", {reason}" if reason else "")
    times = unix_s(BEGAN), unix_s(ENDED)
    assert parse(text) == Launch(17, program, "alice", 2, "0..1", batch, *times, reason)


@pytest.mark.parametrize("batch", ["", "7"])
def test_what_yod_writes_is_read(batch):
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(1, wait_status=3 << 8))
    made = log_line(yod.report, BEGAN, ENDED, 62.0, "alice", "/bin/a.out", batch)
    found = parse(made)
    assert found is not None
    assert (found.job_id, found.node_count, found.nodes) == (7, 2, "20..21")
    assert (found.batch, found.reason) == (batch, "rank 1 on n21: ended with exit code 3")
    never = parse(log_line(Yod(2).report, BEGAN, ENDED, 0.0, "alice", "/bin/a.out", ""))
    assert never is not None
    assert (never.job_id, never.node_count, never.nodes) == (0, 0, "")


@pytest.mark.parametrize(
    "text", ["", "what is logged", line()[:-5], line().replace("11/29", "13/39"), f"x{line()}"]
)
def test_what_is_no_line_of_yods_is_left_out(text):
    assert parse(text) is None


def test_the_last_launches_are_those_of_the_older_log_too(tmp_path):
    log = tmp_path / "log"
    assert last(str(log), 5) == []
    log.write_text("".join(f"{line(job_id=each)}\n" for each in (3, 4)))
    (tmp_path / "log.1").write_text("".join(f"{line(job_id=each)}\n" for each in (1, 2)) + "x\n")
    assert [each.job_id for each in last(str(log), 9)] == [1, 2, 3, 4]
    assert [each.job_id for each in last(str(log), 3)] == [2, 3, 4]
    assert [each.job_id for each in last(str(log), 1)] == [4]


def test_of_a_long_log_only_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("partition.jobs.log.READ_BYTES", 3 * len(line()) + 1)
    log = tmp_path / "log"
    log.write_text("".join(f"{line(job_id=10 + each)}\n" for each in range(9)))
    assert [each.job_id for each in last(str(log), 9)] == [17, 18]


def test_launches_are_shown_in_columns_and_for_programs():
    never = parse(line(job_id=0, rest=", no nodes").replace("0..1", "-"))
    good = parse(line())
    assert never is not None and good is not None
    stamp = "2026-11-29 07:33:08"
    assert table([never, good]) == [
        "JOBID  NAME  USER   NODES  BEGAN                TIME  REASON",
        f"-      sh    alice  2      {stamp}  1:02  no nodes",
        f"17     sh    alice  2      {stamp}  1:02",
    ]
    assert record(never)["id"] is record(never)["nodes"] is None
    assert (record(good)["id"], record(good)["elapsed_s"], record(good)["reason"]) == (
        "17",
        62.0,
        None,
    )


# -- the file ----------------------------------------------------------------


def test_a_log_that_is_full_becomes_the_older_one(tmp_path, monkeypatch):
    monkeypatch.setattr(userdirs, "USER_LOG_BYTES", 10)
    env = {"XDG_STATE_HOME": str(tmp_path)}
    path = userdirs.make_log(env)
    assert path == str(tmp_path / "yod/userlog")
    assert userdirs.make_log({"XDG_STATE_HOME": str(tmp_path / "none")}) == ""
    log, older = tmp_path / "yod/userlog", tmp_path / "yod/userlog.1"
    for text in ("a" * 10, "b" * 11, "c" * 11):
        log.write_text(text)
        assert userdirs.make_log(env) == path
    assert not log.exists()
    assert older.read_text() == "c" * 11


def test_a_log_that_another_process_puts_away_is_left_to_it(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setattr(userdirs, "USER_LOG_BYTES", 10)
    env = {"XDG_STATE_HOME": str(tmp_path)}
    userdirs.make_log(env)
    log = tmp_path / "yod/userlog"
    log.write_text("a" * 11)
    with log.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        userdirs.make_log(env)
        assert log.exists()
    userdirs.make_log(env)
    assert not log.exists()


def test_a_link_in_the_place_of_the_log_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(userdirs, "USER_LOG_BYTES", 10)
    env = {"XDG_STATE_HOME": str(tmp_path)}
    userdirs.make_log(env)
    (tmp_path / "data").write_text("a" * 11)
    os.symlink(tmp_path / "data", tmp_path / "yod/userlog")
    userdirs.make_log(env)
    assert (tmp_path / "data").exists() and (tmp_path / "yod/userlog").is_symlink()
