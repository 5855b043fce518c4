"""A client that ends, or dies, finds its pilots and tasks again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError, YodError
from tests.support.wait import LIMIT_S, wait_for_exit, wait_until

FIRST = """
import os, signal, sys, time
import yod.pilot as rp
session = rp.Session("campaign")
pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
tmgr.add_pilots(pmgr.submit_pilots({"cores": 1, "runtime": 5}))
def shell(uid, script):
    return {"uid": uid, "executable": "sh", "arguments": ["-c", script]}
tmgr.submit_tasks([
    shell("done", "echo one >> ../count"),
    shell("runs", "echo two >> ../count; while [ ! -e ../go ]; do sleep 0.01; done; echo late"),
    shell("waits", "echo three >> ../count"),
    {**shell("nowhere", "true"), "pilot": "pilot.0007"},
])
tmgr.wait_tasks("done", timeout=60)
tmgr.wait_tasks("runs", rp.AGENT_EXECUTING, timeout=60)
if sys.argv[1] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
session.close(terminate=False)
"""


@pytest.fixture
def first(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(how):
        subprocess.run([sys.executable, "-c", FIRST, how], timeout=LIMIT_S, check=False)

    return run


@pytest.mark.parametrize("how", ["leaves", "dies"])
def test_a_client_finds_its_pilots_and_tasks_again_and_nothing_runs_twice(first, how):
    first(how)
    heard = []
    with rp.Session("campaign") as session:
        pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
        (pilot,) = pmgr.get_pilots()
        assert pilot.wait(rp.PMGR_ACTIVE, timeout=LIMIT_S) == rp.PMGR_ACTIVE
        assert sorted(tmgr.list_tasks()) == ["done", "nowhere", "runs", "waits"]
        assert tmgr.get_tasks("done").state == rp.DONE
        assert tmgr.get_tasks("nowhere").state == rp.TMGR_SCHEDULING
        tmgr.register_callback(lambda task, state: heard.append((task.uid, state)))
        again = tmgr.submit_tasks({"uid": "done", "executable": "sh"})
        assert again is tmgr.get_tasks("done")
        new = tmgr.submit_tasks({"executable": "true"})
        Path(pilot.pilot_sandbox, "go").touch()
        assert tmgr.wait_tasks(["runs", "waits", new.uid], timeout=LIMIT_S) == [rp.DONE] * 3
        assert tmgr.get_tasks("runs").stdout == "late\n"
        count = Path(pilot.pilot_sandbox, "count").read_text()
    assert count == "one\ntwo\nthree\n"
    assert heard.count(("waits", rp.DONE)) == 1
    assert not Path(session.path, "pilot.0000", "agent.sock").exists()


def test_a_manager_that_comes_late_hears_of_tasks_that_have_ended_meanwhile(first):
    first("leaves")
    Path("campaign/pilot.0000/go").touch()
    count = Path("campaign/pilot.0000/count")
    with rp.Session("campaign") as session:
        (pilot,) = rp.PilotManager(session).get_pilots()
        assert pilot.wait(rp.PMGR_ACTIVE, timeout=LIMIT_S) == rp.PMGR_ACTIVE
        wait_until(lambda: count.read_text() == "one\ntwo\nthree\n")
        assert pilot.why_task("nobody")  # what the agent has said before is here, too
        tmgr = rp.TaskManager(session)
        assert tmgr.wait_tasks(["runs", "waits"], timeout=LIMIT_S) == [rp.DONE] * 2
        assert tmgr.get_tasks("runs").stdout == "late\n"


def test_tasks_whose_agent_has_ended_meanwhile_are_told_from_the_journal(first):
    first("dies")
    agent = int(Path("campaign/pilot.0000/agent.pid").read_text())
    os.kill(agent, signal.SIGKILL)
    wait_for_exit(agent)
    with rp.Session("campaign") as session:
        pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
        assert pmgr.wait_pilots(timeout=LIMIT_S) == [rp.FAILED]
        assert tmgr.get_tasks("done").state == rp.DONE
        assert tmgr.get_tasks("runs").wait(timeout=LIMIT_S) == rp.FAILED
        assert "its pilot pilot.0000 has ended" in tmgr.get_tasks("runs").reason
        tmgr.add_pilots(pmgr.submit_pilots({"cores": 1, "runtime": 5}))
        again = tmgr.submit_tasks({"uid": "runs", "executable": "true"})
        assert again.wait(timeout=LIMIT_S) == rp.DONE
        assert again.pilot == "pilot.0001"


def test_a_session_has_one_client_at_a_time(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rp.Session("a"), pytest.raises(UsageError, match="another client has this session"):
        rp.Session("a")
    (tmp_path / "b").mkdir()
    with pytest.raises(UsageError, match="it is there, and is no session"):
        rp.Session("b")
    with pytest.raises(UsageError, match="cannot name a directory"):
        rp.Session("c/d")
    Path("a/journal").write_bytes(b"\x05\0\0\0nonsense")
    with pytest.raises(YodError, match="it is damaged"):
        rp.Session("a")
