"""Profiles of real sessions: right, readable by RADICAL-Analytics, drawn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import yod.pilot as rp
from tests.support.partition import ROOT
from tests.support.wait import LIMIT_S
from yod.pilot.profile.reader import paths_of, read

COMMAND = str(Path(sys.executable).parent / "yod-pilot")
RADICAL = ROOT / ".venv-radical" / "bin" / "python"
READS = ROOT / "tests" / "support" / "radical_reads.py"


def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})


def run(*words, status=0):
    done = subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


@pytest.fixture
def work(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def campaign(work):
    """A session with tasks of one and two cores, one that fails and one that never begins."""
    Path("in.txt").write_text("text")
    with rp.Session("campaign") as session:
        tmgr = rp.TaskManager(session)
        tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 4, "runtime": 5}))
        tmgr.submit_tasks(
            [
                *(shell("sleep 0.05", cores_per_rank=1 + n % 2) for n in range(8)),
                shell("echo 'so <sorry>' >&2; exit 3", uid="bad"),
                shell("true", uid="a,b", input_staging=["in.txt"], output_staging=["in.txt > c"]),
                shell("$RP_PROF app_start; $RP_PROF app_stop 'a, b'", uid="notes"),
                rp.TaskDescription({"uid": "nix", "executable": "no-such-program"}),
            ]
        )
        tmgr.wait_tasks(timeout=LIMIT_S)
    return work / "campaign"


def test_radical_analytics_and_we_find_the_same_core_seconds(campaign):
    if not RADICAL.exists():
        pytest.skip("radical.analytics is not there: tests/setup")
    written = run("plot", "campaign", "--radical").stdout.split()
    assert [Path(each).name for each in written] == [
        *("campaign.reg.json", "pmgr.0000.json", "tmgr.0000.json")
    ]
    done = subprocess.run(
        [RADICAL, READS, campaign], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    ours = json.loads(run("plot", "campaign", "--json").stdout)
    assert theirs["accuracy"] == 0
    assert theirs["consistent"] == {"state_model": [], "timestamps": []}
    assert len(theirs["states"]["task.000000"]) == 16
    assert theirs["states"]["bad"][-4:] != ["DONE"]
    core_s = ours["core_seconds"]
    assert theirs["provided"] == pytest.approx(core_s["provided"], abs=1e-6)
    for use in ("exec_prep", "exec_sh", "exec_cmd"):
        assert theirs["consumed"][use] == pytest.approx(core_s[use], abs=1e-5), use
    assert 1 <= theirs["most"] <= 4
    assert ours["wrong"] == []
    assert sum(core_s.values()) == pytest.approx(2 * core_s["provided"])
    assert ours["tasks"] == {"DONE": 10, "FAILED": 2}


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "data")]

    def handle_data(self, data):
        self.text += data


def test_a_session_is_drawn_as_a_figure_a_page_and_a_trace(campaign):
    assert run("plot", "campaign").stdout == "campaign/plot.png\n"
    assert (campaign / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "none of .png" in run("plot", "campaign", "--output", "p.no", status=1).stderr

    assert run("plot", "campaign", "--web").stdout == "campaign/plot.html\n"
    text = (campaign / "plot.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.links
    assert not re.search(r"https?://|url\(|@import", text)
    assert page.tags.count("svg") == 3
    assert "exit code 3" in page.text
    assert "so <sorry>" in page.text
    assert "10 DONE, 2 FAILED" in page.text

    run("plot", "campaign", "--trace", "--output", "t.json")
    events = json.loads(Path("t.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X" and event["cat"] == "task"]
    assert {event["name"] for event in slices} >= {"task.000000", "bad", "a,b"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in slices)
    counter = [event for event in events if event["ph"] == "C"]
    assert counter[-1]["args"] == {"tasks": 0}


def test_a_task_notes_events_of_its_own(campaign):
    notes = (campaign / "pilot.0000" / "notes" / "notes.prof").read_text().splitlines()
    assert [line.split(",")[1] for line in notes] == ["app_start", "app_stop"]


def test_a_python_program_notes_events_of_its_own(work, monkeypatch):
    rp.prof("app_start")  # it is no task: nothing happens
    monkeypatch.setenv("RP_PROF_TGT", str(work / "x.prof"))
    monkeypatch.setenv("RP_TASK_ID", "task.7")
    rp.prof("app_start", "a, b")
    line = (work / "x.prof").read_text()
    assert re.fullmatch(r"\d+\.\d{7},app_start,app,MainThread,task\.7,,a; b\n", line)


def test_what_runs_is_drawn_too(work):
    with rp.Session("s") as session:
        tmgr = rp.TaskManager(session)
        pilot = rp.PilotManager(session).submit_pilots({"cores": 2, "runtime": 5})
        tmgr.add_pilots(pilot)
        task = tmgr.submit_tasks(shell("touch ../up; sleep 60"))
        task.wait(rp.AGENT_EXECUTING, timeout=LIMIT_S)
        sums = json.loads(run("plot", "s", "--json").stdout)
        assert sums["wrong"] == []
        task.cancel()
        task.wait(timeout=LIMIT_S)
    sums = json.loads(run("plot", "s", "--json").stdout)
    assert (sums["tasks"], sums["wrong"]) == ({"CANCELED": 1}, [])


def test_sessions_of_a_directory_are_drawn_where_none_is_named(work):
    assert run("plot", status=1).stderr == f"yod-pilot: there is no session in {work}\n"
    for name in ("a", "b"):
        with rp.Session(name) as session:
            tmgr = rp.TaskManager(session)
            tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 1, "runtime": 5}))
            assert tmgr.submit_tasks(shell("true")).wait(timeout=LIMIT_S) == rp.DONE
    assert run("plot", "--web").stdout == "a/plot.html\nb/plot.html\n"
    assert run("plot", "b", "--trace").stdout == "b/trace.json\n"
    assert "are for one session, not for 2" in run("plot", "--json", status=2).stderr


def test_profiles_can_be_turned_off(work, monkeypatch):
    monkeypatch.setenv("YOD_PROFILE", "0")
    with rp.Session("s") as session:
        tmgr = rp.TaskManager(session)
        tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 1, "runtime": 5}))
        task = tmgr.submit_tasks(shell("echo [$RP_PROF$RP_PROF_TGT]"))
        assert task.wait(timeout=LIMIT_S) == rp.DONE
        assert task.stdout == "[]\n"
    assert paths_of("s") == []
    assert "it has no profiles: YOD_PROFILE=0" in run("plot", "s", status=1).stderr
    assert "there is no session " in run("plot", "nowhere", status=1).stderr
    assert "at a time" in run("plot", "s", "--web", "--json", status=2).stderr


def test_a_profile_ends_where_the_disk_is_full(work):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    os.mkdir("s.d")
    from yod.pilot.profile.writer import Writer

    os.symlink("/dev/full", "s.d/tmgr.0000.prof")
    writer = Writer("s.d", "tmgr.0000")
    writer.flush()
    writer.prof("setup_done")
    writer.close()
    assert writer.failure == "No space left on device"


def test_the_profile_of_each_component_is_there(campaign):
    files = read(str(campaign))
    assert {Path(name).stem for name in files} == {
        *("campaign", "pmgr.0000", "pmgr_launching.0000", "tmgr.0000", "tmgr_scheduling.0000"),
        *("tmgr_staging_input.0000", "tmgr_staging_output.0000", "bootstrap_0", "agent_0"),
        *("agent_staging_input.0000", "agent_scheduling.0000", "agent_executing.0000"),
        "agent_staging_output.0000",
    }
    assert all(records[-1].event == "END" for records in files.values())
