"""The command yod-pilot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import yod.pilot as rp
from tests.support.wait import LIMIT_S, wait_until

COMMAND = str(Path(sys.executable).parent / "yod-pilot")


@pytest.fixture
def work(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def run(*words, status=0, text=None):
    done = subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, timeout=LIMIT_S, input=text, check=False
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def test_sessions_are_shown_while_they_run_and_afterwards(work):
    with rp.Session("campaign") as session:
        pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
        tmgr.add_pilots(pmgr.submit_pilots({"cores": 1, "runtime": 5}))
        entries = {"executable": "sh", "arguments": ["-c", "echo so sorry >&2; exit 3"]}
        failed = tmgr.submit_tasks({"uid": "bad", **entries})
        assert failed.wait(timeout=LIMIT_S) == rp.FAILED
        tmgr.submit_tasks({"uid": "runs", "executable": "sleep", "arguments": ["60"]})
        tmgr.submit_tasks({"uid": "waits", "executable": "true"})
        tmgr.wait_tasks("runs", rp.AGENT_EXECUTING, timeout=LIMIT_S)
        wait_until(lambda: "cores" in tmgr.get_tasks("waits").why)
        assert run("list").stdout == (
            "campaign  pilot.0000 PMGR_ACTIVE; 1 AGENT_EXECUTING, 1 AGENT_SCHEDULING, 1 FAILED\n"
        )
        assert run("why", "runs").stdout == "runs is AGENT_EXECUTING: it runs\n"
        assert "0 of 1 are free" in run("why", "waits", "campaign").stdout
    assert run("list", "--failed").stdout == "campaign  bad  exit code 3  so sorry\n"
    shown = json.loads(run("show", "--json", "campaign").stdout)
    assert shown["tasks"] == {"FAILED": 1, "CANCELED": 2}
    assert [pilot["state"] for pilot in shown["pilots"]] == ["CANCELED"]
    assert run("show", "campaign").stdout.splitlines()[1] == "bad  FAILED  exit code 3"
    assert "no task nothing" in run("why", "nothing", status=1).stderr
    assert "journal: No such file" in run("show", "nowhere", status=1).stderr
    assert "No such option" in run("list", "--nothing", status=2).stderr


def test_a_command_runs_for_each_line_and_a_second_time_for_those_that_failed(work):
    script = "[ {} != 3 ] || [ -e ../../../three ] && echo {}"
    words = ("map", "-cores", "2", "--session", "m", "--output", "all", "-", "sh", "-c", script)
    text = "".join(f"{n}\n" for n in range(1, 6))
    done = run(*words, text=text, status=1)
    assert "line.000003  exit code 1" in done.stderr
    assert "4 of 5 lines done" in done.stderr
    Path("three").touch()
    done = run(*words, text=text)
    assert "5 of 5 lines done" in done.stderr
    assert Path("all").read_text() == text


def test_ctrl_c_ends_the_tasks_of_a_map(work):
    words = [COMMAND, "map", "-cores", "2", "--session", "m", "-", "sleep"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdin
    process.stdin.write("60\n60\n")
    process.stdin.close()
    wait_until(lambda: Path("m/pilot.0000/line.000002/line.000002.out").exists())
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    assert process.stderr and "Traceback" not in process.stderr.read()
    process.stderr.close()
    assert "2 CANCELED" in run("list").stdout
