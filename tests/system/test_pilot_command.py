"""The command yod-pilot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import yod.pilot as rp
from tests.support.terminal import CTRL_C, a_terminal_of
from tests.support.wait import LIMIT_S, read_until, unread, wait_until

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


def test_a_list_without_sessions_says_where_it_has_looked(work):
    done = run("list", "--json")
    assert done.stdout == "[]\n"
    assert done.stderr == f"yod-pilot: there is no session in {work}\n"


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
    assert run("why", "bad").stdout == "bad is FAILED: exit code 3\n"
    nowhere = f"yod-pilot: there is no session {work}/nowhere\n"
    assert run("show", "nowhere", status=1).stderr == nowhere
    assert "No such option" in run("list", "--nothing", status=2).stderr


def test_a_command_runs_for_each_line_and_a_second_time_for_those_that_failed(work):
    script = "[ {} != 3 ] || [ -e ../../../three ] && echo {}"
    words = ("map", "-cores", "2", "--session", "m", "--output", "all", "-", "sh", "-c", script)
    text = "".join(f"{n}\n" for n in range(1, 6))
    done = run(*words, text=text, status=1)
    assert "line.000003  exit code 1" in done.stderr
    assert "4 of 5 lines done" in done.stderr
    assert "\r" not in done.stderr
    Path("three").touch()
    done = run(*words, text=text)
    assert "5 of 5 lines done" in done.stderr
    assert Path("all").read_text() == text


def on_a_terminal(*words):
    here = ("env", "-C", str(Path.cwd()))
    line = (*here, COMMAND, "map", "-cores", "2", "--session", "m", *words)
    return a_terminal_of(*line, env=os.environ)


def test_on_a_terminal_one_line_says_how_far_a_map_is(work):
    script = "while [ ! -e ../../../go{} ]; do sleep 0.01; done; echo so sorry >&2; [ {} = 1 ]"
    Path("lines").write_text("1\n2\n")
    with on_a_terminal("lines", "sh", "-c", script) as (process, terminal):
        assert read_until(terminal, b"failed").startswith(b"\r0 of 2, 0 failed")
        Path("go2").touch()
        seen = read_until(terminal, b"\r1 of 2, 1 failed")
        assert b"\n" not in seen
        Path("go1").touch()
        seen = read_until(terminal, b" lines done; ")
        assert process.wait(LIMIT_S) == 1
    shown, _, words = seen.partition(b"\n")
    assert shown.endswith(b"\r2 of 2, 1 failed")
    assert words.startswith(b"line.000002  exit code 1  so sorry\nyod-pilot: 1 of 2 lines done; ")


def test_ctrl_c_on_a_terminal_leaves_the_line_whole(work):
    Path("lines").write_text("60\n60\n")
    with on_a_terminal("lines", "sleep") as (process, terminal):
        read_until(terminal, b"\r0 of 2, 0 failed")
        os.write(terminal, CTRL_C)
        said = read_until(terminal, b"\n").replace(b"\r0 of 2, 0 failed", b"")
        assert said in (b"\n", b"\n\n")  # click ends a line, too
        assert process.wait(LIMIT_S) == 130
    assert "2 CANCELED" in run("list").stdout


def test_a_map_says_no_word_on_a_terminal_that_is_to_be_quiet(work):
    Path("lines").write_text("1\n")
    with on_a_terminal("-quiet", "lines", "true") as (process, terminal):
        assert process.wait(LIMIT_S) == 0
        assert unread(terminal) == 0


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
