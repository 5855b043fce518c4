"""Whoever waits for a state of a task or a pilot hears of it, though nothing else happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import YodError
from tests.support.partition import ROOT
from tests.support.wait import wait_until
from yod.pilot.model.states import PILOT, TASK

LIMIT_S = 60.0


class Gate:
    """A file that nobody can read until it is opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fifo = path.with_suffix(".fifo")
        if not path.exists():
            os.mkfifo(path)

    def open(self) -> None:
        """Who reads it gets nothing, and reads it once more. The name is there all the time."""
        os.link(self._path, self._fifo)
        text = self._path.with_suffix(".text")
        text.write_text("text")
        os.replace(text, self._path)
        os.close(os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK))


def begun(session, cores=1):
    tmgr = rp.TaskManager(session)
    pilot = rp.PilotManager(session).submit_pilots({"cores": cores, "runtime": 5})
    tmgr.add_pilots(pilot)
    return tmgr, pilot


def of(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})


def without_a_pilot(session):
    tmgr = rp.TaskManager(session)
    yield tmgr.submit_tasks([of("true") for _ in range(2000)])[-1]


def behind_many(session):
    tmgr, pilot = begun(session)
    pilot.wait(rp.PMGR_ACTIVE)
    tasks = tmgr.submit_tasks([of("sleep 600") for _ in range(2000)])
    yield tasks[-1]
    tmgr.cancel_tasks()


def while_the_client_brings_input(session):
    tmgr, _ = begun(session)
    gate = Gate(Path("gate"))
    yield tmgr.submit_tasks(of("true", input_staging=[_tar("gate", "task:///in")]))
    gate.open()


def while_the_agent_does_nothing(session):
    tmgr, pilot = begun(session)
    pilot.wait(rp.PMGR_ACTIVE)
    os.kill(pilot.unix_pid, signal.SIGSTOP)
    yield tmgr.submit_tasks(of("true"))
    os.kill(pilot.unix_pid, signal.SIGCONT)


def while_the_agent_brings_input(session):
    yield from _behind_a_gate_of_the_pilot(
        session, input_staging=[_tar("pilot:///gate", "task:///in")]
    )


def while_others_have_the_cores(session):
    tmgr, _ = begun(session)
    tmgr.submit_tasks(of("sleep 600")).wait(rp.AGENT_EXECUTING)
    yield tmgr.submit_tasks(of("true"))
    tmgr.cancel_tasks()


def while_it_runs(session):
    tmgr, _ = begun(session)
    yield tmgr.submit_tasks(of("sleep 600"))
    tmgr.cancel_tasks()


def while_the_agent_brings_output(session):
    yield from _behind_a_gate_of_the_pilot(
        session, output_staging=[_tar("pilot:///gate", "pilot:///out")]
    )


def while_the_client_brings_output(session):
    yield from _behind_a_gate_of_the_pilot(
        session, output_staging=[_tar("pilot:///gate", "client:///out")]
    )


def _behind_a_gate_of_the_pilot(session, **staging):
    tmgr, pilot = begun(session)
    pilot.wait(rp.PMGR_ACTIVE)
    gate = Gate(Path(pilot.pilot_sandbox, "gate"))
    yield tmgr.submit_tasks(of("true", **staging))
    gate.open()


def _tar(source, target):
    return {"source": source, "target": target, "action": rp.TARBALL}


STANDING = pytest.mark.parametrize(
    ("standing", "state"),
    [
        (without_a_pilot, rp.TMGR_SCHEDULING),
        (behind_many, rp.TMGR_SCHEDULING),
        (while_the_client_brings_input, rp.TMGR_STAGING_INPUT),
        (while_the_agent_does_nothing, rp.AGENT_STAGING_INPUT_PENDING),
        (while_the_agent_brings_input, rp.AGENT_STAGING_INPUT),
        (while_others_have_the_cores, rp.AGENT_SCHEDULING),
        (while_it_runs, rp.AGENT_EXECUTING),
        (while_the_agent_brings_output, rp.AGENT_STAGING_OUTPUT),
        (while_the_client_brings_output, rp.TMGR_STAGING_OUTPUT),
    ],
)


@STANDING
def test_a_task_that_stands_still_has_been_in_each_state_so_far(session, standing, state):
    last = TASK.values[state]
    course = TASK.states[: last + 1]
    each = standing(session)
    task = next(each)
    try:
        with ThreadPoolExecutor(len(course)) as pool:
            found = list(pool.map(lambda asked: task.wait(asked, LIMIT_S), course))
        for asked, present in zip(course, found, strict=True):
            assert TASK.values[asked] <= TASK.values[present] <= last
        assert task.wait((*TASK.states, rp.DONE)[last + 1], timeout=0.01) == state
    finally:
        next(each, None)


@STANDING
def test_a_task_that_stands_still_is_canceled_where_it_stands(session, standing, state):
    each = standing(session)
    task = next(each)
    assert task.wait(state, LIMIT_S) == state
    task.cancel()
    next(each, None)
    has_run = state in (rp.AGENT_STAGING_OUTPUT, rp.TMGR_STAGING_OUTPUT)
    ends = {rp.DONE if has_run else rp.CANCELED}
    if standing is while_the_agent_does_nothing:  # it may have run when its agent hears of it
        ends.add(rp.DONE)
    assert task.wait(timeout=LIMIT_S) in ends


@STANDING
def test_a_task_that_stands_still_when_its_agent_is_killed_ends_with_a_reason(
    session, standing, state, caplog
):
    each = standing(session)
    task = next(each)
    assert task.wait(state, LIMIT_S) == state
    for pmgr in session.get_pilot_managers():
        for pilot in pmgr.get_pilots():
            os.kill(pilot.unix_pid, signal.SIGKILL)
    if state == rp.TMGR_STAGING_OUTPUT:  # all that is left to do is the client's
        next(each, None)
        assert task.wait(timeout=LIMIT_S) == rp.DONE
    elif standing is without_a_pilot:
        assert task.why == "no pilot has been added to its manager"
    elif standing is behind_many:
        gone = "pilot.0000 is FAILED: "
        wait_until(lambda: gone in task.why, what="it says so")
        assert task.why.startswith("it waits for another pilot: ")
        wait_until(lambda: gone in caplog.text, what="a warning is written")
        assert "tasks of tmgr.0000 wait for a pilot, and none is left" in caplog.text
        tmgr = task.tmgr
        tmgr.add_pilots(session.get_pilot_managers()[0].submit_pilots({"cores": 1, "runtime": 5}))
        tmgr.cancel_tasks()
    else:
        assert task.wait(timeout=LIMIT_S) == rp.FAILED
        assert task.reason.startswith("its pilot pilot.0000 is FAILED: ")
        if state == rp.TMGR_STAGING_INPUT:
            next(each, None)
            assert task.state == rp.FAILED


CLIENT = """
import os, sys
import yod.pilot as rp
from tests.system import test_pilot_waits
session = rp.Session("again")
task = next(getattr(test_pilot_waits, sys.argv[1])(session))
task.wait(sys.argv[2], 60)
session.loop.call(session.journal.flush)
print(task.uid, flush=True)
os.kill(os.getpid(), 9)
"""


@STANDING
def test_a_task_that_stands_still_when_its_client_is_killed_has_its_end_in_a_later_one(
    place, tmp_path, monkeypatch, standing, state
):
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-c", CLIENT, standing.__name__, state]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    with rp.Session("again") as session:
        pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
        task = tmgr.get_tasks(done.stdout.strip())
        if standing is without_a_pilot:
            tmgr.cancel_tasks([uid for uid in tmgr.list_tasks() if uid != task.uid])
            tmgr.add_pilots(pmgr.submit_pilots({"cores": 1, "runtime": 5}))
        for pilot in pmgr.get_pilots():
            if standing is while_the_agent_does_nothing:
                os.kill(int(Path(pilot.pilot_sandbox, "agent.pid").read_text()), signal.SIGCONT)
            for path in (tmp_path / "gate", Path(pilot.pilot_sandbox, "gate")):
                if path.is_fifo():
                    Gate(path).open()
        sleeps = standing in (behind_many, while_others_have_the_cores, while_it_runs)
        if sleeps:
            tmgr.cancel_tasks()
        assert task.wait(timeout=LIMIT_S) == (rp.CANCELED if sleeps else rp.DONE), task.reason
        if state == rp.TMGR_STAGING_INPUT:
            assert Path(task.sandbox, "in").read_text() == "text"


def test_one_that_waits_no_more_takes_the_word_from_nobody(session):
    tmgr = rp.TaskManager(session)
    task = tmgr.submit_tasks(of("true"))
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(task.wait, None, LIMIT_S)
        wait_until(lambda: task.waiters == 1, what="it is waited for")
        assert task.wait(timeout=0.01) == rp.TMGR_SCHEDULING
        pilot = rp.PilotManager(session).submit_pilots({"cores": 1, "runtime": 5})
        with ThreadPoolExecutor(len(PILOT.states)) as pilots:
            found = list(pilots.map(lambda asked: pilot.wait(asked, LIMIT_S), PILOT.states))
        assert {PILOT.values[state] for state in found} <= set(range(1, 5))
        tmgr.add_pilots(pilot)
        assert waits.result() == rp.DONE


@pytest.mark.parametrize("kind", ["task", "pilot"])
def test_whoever_waits_when_the_session_is_closed_gets_an_error(place, tmp_path, kind):
    session = rp.Session(base=str(tmp_path))
    tmgr, pmgr = rp.TaskManager(session), rp.PilotManager(session)
    pilot = pmgr.submit_pilots({"cores": 1, "runtime": 5})
    one = tmgr.submit_tasks(of("true")) if kind == "task" else pilot
    pilot.wait(rp.PMGR_ACTIVE)
    heard: list[str] = []

    def wait():
        try:
            heard.append(one.wait())
        except YodError as error:
            heard.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: one.waiters == 1, what="it is waited for")
    session.close(terminate=False)
    thread.join(LIMIT_S)
    with rp.Session(session.uid, base=str(tmp_path)) as again:  # which ends the pilot
        rp.PilotManager(again)
    assert heard == [f"session {session.uid} is closed"]
    with pytest.raises(YodError, match="is closed"):
        one.wait()
    with pytest.raises(YodError, match="is closed"):
        one.cancel()
