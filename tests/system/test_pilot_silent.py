"""An agent that stands still is given up, and does nothing more when it goes on.

Whoever starts an agent and dies has it found by a later client.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import yod.pilot as rp
from tests.support.partition import ROOT, finish
from tests.support.wait import LIMIT_S, wait_for_exit, wait_until
from yod.pilot.client.pilot import Link, Process

SILENT_S = 1.0
REASON = "its agent has not said a word for 1 s (YOD_PILOT_SILENT_S)"


def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})


def stop(pilot):
    """Stop the agent of a pilot that is active. Gives its process id."""
    unix_pid = int(Path(pilot.pilot_sandbox, "agent.pid").read_text())
    os.kill(unix_pid, signal.SIGSTOP)
    return unix_pid


@pytest.fixture
def short(session):
    """A manager whose pilots are given up soon, which their beginning does not count for."""
    session.limits = replace(session.limits, pilot_silent_s=SILENT_S)
    return rp.PilotManager(session)


def test_a_pilot_whose_agent_stands_still_is_failed_and_its_tasks_run_elsewhere(session, short):
    tmgr = rp.TaskManager(session)
    pilot = short.submit_pilots({"cores": 1, "runtime": 5})
    session.limits = replace(session.limits, pilot_silent_s=60.0)
    other = short.submit_pilots({"cores": 1, "runtime": 5})
    tmgr.add_pilots(pilot)
    count = session.path + "/count"
    runs = tmgr.submit_tasks(shell("sleep 600"))
    runs.wait(rp.AGENT_EXECUTING, LIMIT_S)
    waits = tmgr.submit_tasks([shell(f"echo x >> {count}", restartable=True) for _ in range(5)])
    tmgr.wait_tasks([task.uid for task in waits], rp.AGENT_SCHEDULING, LIMIT_S)
    agent = stop(pilot)
    tmgr.add_pilots(other)
    wait_until(lambda: pilot.state != rp.PMGR_ACTIVE or "does not answer" in pilot.why)
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    assert pilot.reason == REASON
    assert runs.wait(timeout=LIMIT_S) == rp.FAILED
    assert runs.reason == f"its pilot pilot.0000 is FAILED: {REASON}"
    assert tmgr.wait_tasks([task.uid for task in waits], timeout=LIMIT_S) == [rp.DONE] * 5
    assert {task.pilot for task in waits} == {other.uid}
    wait_for_exit(agent)
    assert Path(count).read_text() == "x\n" * 5


def test_an_agent_of_another_host_that_goes_on_begins_nothing_more(session, short, monkeypatch):
    tmgr = rp.TaskManager(session)
    pilot = short.submit_pilots({"cores": 1, "runtime": 5})
    tmgr.add_pilots(pilot)
    runs = tmgr.submit_tasks(shell("echo $$ > pid; while [ ! -e ../go ]; do sleep 0.01; done"))
    runs.wait(rp.AGENT_EXECUTING, LIMIT_S)
    wait_until(lambda: Path(runs.sandbox, "pid").exists() and Path(runs.sandbox, "pid").read_text())
    waits = tmgr.submit_tasks([shell("touch ../begun") for _ in range(5)])
    tmgr.wait_tasks([task.uid for task in waits], rp.AGENT_SCHEDULING, LIMIT_S)
    # It is one of this host, which a client could kill.
    for kind, name in ((Link, "kill"), (Process, "signal")):
        monkeypatch.setattr(kind, name, lambda *_: None)
    monkeypatch.setattr(Link, "is_near", False)
    agent = stop(pilot)
    tmgr.submit_tasks(shell("touch ../begun"))
    Path(pilot.pilot_sandbox, "go").touch()  # what the agent hears first is that there is room
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    assert set(tmgr.wait_tasks(timeout=LIMIT_S)) == {rp.FAILED}
    os.kill(agent, signal.SIGCONT)
    wait_for_exit(agent)
    assert not Path(pilot.pilot_sandbox, "begun").exists()
    assert "its client has given it up" in pilot.log
    monkeypatch.undo()


def test_an_agent_that_says_something_now_and_then_is_not_given_up(session):
    session.limits = replace(session.limits, pilot_silent_s=4 * SILENT_S)
    pilot = rp.PilotManager(session).submit_pilots({"cores": 1, "runtime": 5})
    pilot.wait(rp.PMGR_ACTIVE, LIMIT_S)
    for _ in range(3):
        agent = stop(pilot)
        wait_until(lambda: pilot.is_quiet, what="it is asked")
        os.kill(agent, signal.SIGCONT)
        wait_until(lambda: not pilot.is_quiet, what="it has answered")
    assert pilot.state == rp.PMGR_ACTIVE


SCRIPT = """
import os, signal
import yod.pilot as rp
from pathlib import Path

with rp.Session() as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots({"resource": "yod.partition", "cores": 1, "runtime": 5})
    tmgr.add_pilots(pilot)
    assert pilot.wait(rp.PMGR_ACTIVE, timeout=60) == rp.PMGR_ACTIVE, pilot.reason
    task = tmgr.submit_tasks({"executable": "sleep", "arguments": ["600"]})
    task.wait(rp.AGENT_EXECUTING, timeout=60)
    os.kill(int(Path(pilot.pilot_sandbox, "agent.pid").read_text()), signal.SIGSTOP)
    print(task.wait(timeout=60), task.reason)
    again = {"resource": "yod.partition", "cores": 1, "runtime": 5, "candidate_hosts": ["0"]}
    print(pmgr.submit_pilots(again).wait(rp.PMGR_ACTIVE, timeout=60))
"""


def test_the_allocation_of_a_pilot_that_is_given_up_ends(start_local, tmp_path):
    partition = start_local(1, slots=1)
    env = {"YOD_PILOT_SILENT_S": "1"}
    done = finish(partition.start_command(sys.executable, "-c", SCRIPT, cwd=tmp_path, env=env))
    assert (done.status, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first == f"FAILED its pilot pilot.0000 is FAILED: {REASON}"
    assert second == "PMGR_ACTIVE"  # there is one slot


CLIENT = """
import os, signal
import yod.pilot as rp
session = rp.Session("again")

def stop(pilot, state):
    if state == rp.PMGR_ACTIVE_PENDING:
        os.kill(pilot.unix_pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGKILL)

pmgr = rp.PilotManager(session)
pmgr.register_callback(stop)
pmgr.submit_pilots({"cores": 1, "runtime": 5}).wait()
"""


@pytest.fixture
def left(place, tmp_path, monkeypatch):
    """The session of a client that has died while its agent started; the agent is stopped."""
    monkeypatch.chdir(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", CLIENT], env=env, timeout=LIMIT_S, check=False)
    with rp.Session("again") as session:
        yield session


def test_an_agent_that_starts_when_its_client_dies_is_found_when_it_comes(left):
    (pilot,) = rp.PilotManager(left).get_pilots()
    assert pilot.state == rp.PMGR_ACTIVE_PENDING
    done = subprocess.run(
        [Path(sys.executable).parent / "yod-pilot", "show", "again"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "pilot.0000  PMGR_ACTIVE_PENDING  its agent has not come yet\n"
    os.kill(pilot.unix_pid, signal.SIGCONT)
    assert pilot.wait(rp.PMGR_ACTIVE, LIMIT_S) == rp.PMGR_ACTIVE
    tmgr = rp.TaskManager(left)
    tmgr.add_pilots(pilot)
    assert tmgr.submit_tasks(shell("true")).wait(timeout=LIMIT_S) == rp.DONE


def test_an_agent_that_ends_before_it_has_come_fails_its_pilot(left):
    (pilot,) = rp.PilotManager(left).get_pilots()
    assert pilot.state == rp.PMGR_ACTIVE_PENDING
    os.kill(pilot.unix_pid, signal.SIGKILL)
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    assert pilot.reason == "its agent has ended before it was active: no word"


def test_an_agent_that_has_not_come_yet_is_ended_with_its_session(left):
    (pilot,) = rp.PilotManager(left).get_pilots()
    agent = pilot.unix_pid
    os.kill(agent, signal.SIGCONT)
    left.close()
    assert pilot.state == rp.CANCELED
    wait_for_exit(agent)
