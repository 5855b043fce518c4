"""A client whose clock is ahead of its agent's, or behind: what it sees is in order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.partition import ROOT
from tests.support.wait import LIMIT_S
from yod.pilot.analysis.checker import check
from yod.pilot.analysis.usage import usage_of
from yod.pilot.model import states
from yod.pilot.plot.load import load
from yod.pilot.profile.reader import read

(LIBRARY,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
HOUR_S = 3600.0
SKEW_S = 5.0  # half of what the client may take to say its time, on a busy host

# The client alone has another clock: what it starts has its host's.
CLIENT = """
import os
import yod.pilot as rp
for name in ("LD_PRELOAD", "FAKETIME", "DONT_FAKE_MONOTONIC"):
    del os.environ[name]
with rp.Session("s") as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    tmgr.register_callback(lambda task, state: print(task.uid, state))
    pilot = pmgr.submit_pilots({"cores": 2, "runtime": 1})
    tmgr.add_pilots(pilot)
    tmgr.submit_tasks([{"uid": f"t{n}", "executable": "date", "arguments": ["+%s"]} for n in "ab"])
    tmgr.wait_tasks(timeout=60)
    print("clock", tmgr.get_tasks("ta").stdout.strip())
"""


@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "behind"])
def test_what_a_client_of_another_clock_sees_is_in_order(place, tmp_path, hours):
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME": f"{hours:+}h",
        "DONT_FAKE_MONOTONIC": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = [line.split() for line in done.stdout.splitlines()]
    for uid in ("ta", "tb"):
        passed = [state for name, state in told if name == uid]
        assert passed == [*states.TASK.states[1:], states.DONE]

    profiles = read(str(tmp_path / "s"))
    begun = {name: records[0] for name, records in profiles.items()}
    agent, client = begun["pilot.0000/agent_0.prof"], begun["tmgr.0000.prof"]
    assert client.msg.endswith(":sys")
    assert agent.msg.endswith(":ntp")
    here, there = map(float, agent.msg.split(":")[2:4])
    assert here == pytest.approx(float(told[-1][1]), abs=60)  # that of a task
    assert there - here == pytest.approx(hours * HOUR_S, abs=SKEW_S)
    assert check(profiles, "s", skew_s=SKEW_S) == []

    (usage,) = usage_of(load(str(tmp_path / "s")))
    assert usage.until - usage.since < HOUR_S / 2
    assert usage.totals()["exec_cmd"] > 0
