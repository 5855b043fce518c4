"""What scripts of RADICAL-Pilot count on: its own examples, and what they show."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError, YodError
from tests.support.partition import ROOT
from tests.support.wait import LIMIT_S

RADICAL = ROOT / ".venv-radical"
EXAMPLES = RADICAL / "share" / "radical.pilot" / "examples"
IMPORT = re.compile(r"^( *)import radical\.pilot( +)as rp", re.MULTILINE)
# What each prints, and how often: docs/pilot-rp.md has all of them.
PRINTED = {
    "00_getting_started.py": (r"task.0000\d\d: DONE \[0\], .* 20\d\d", 10),
    "02_failing_tasks.py": (r"task.000\d\d0: FAIL, exit: +127", 13),
    "03_multiple_pilots.py": (r"pilot.0000 +: 128", 2),
    "04_scheduler_selection.py": (r"pilot.0000 +: 256", 1),
    "06_task_output_data.py": (r"task.\d+: DONE, exit: +0, out: .input.dat. -> .output.dat", 128),
    "07_shared_task_data.py": (r"task.\d+: DONE, exit: +0", 128),
    "08_task_environment.py": (r"out: task.\d+ greets jabberwocky", 128),
    "09_mpi_tasks.py": (r"task.\d+: DONE, exit: +0, ranks", 2),
    "10_pre_and_post_exec.py": (r"out: task.\d+ greets jabberwocky", 128),
    "11_task_input_data_tar.py": (r"task.\d+: DONE, exit: +0", 16),
    "misc/colocated.py": (r"b00\d-t00\d", 6),
    "misc/io_staging_dict.py": (r"Task task.000000 state: DONE, exit code: 0", 1),
    "misc/io_staging_shared.py": (r" STDOUT: \n", 4),
    "misc/io_staging_simple.py": (r"Task task.000000 state: DONE, exit code: 0", 1),
    "misc/raptor.py": (r"id: task\.\S+ \[DONE\]", 10),
    "misc/raptor_simple.py": (r"(?:task|raptor)\.\d+ \[DONE\]", 3),
    "misc/task_priorities.py": (r"task.\d+ \[\d\]: DONE", 200),
}


def run_example(tmp_path, name, change=("", "")):
    """Run an example with its import changed; what it says, and the directory where it has run."""
    if not EXAMPLES.exists():
        pytest.skip("radical.pilot is not there: tests/setup")
    copy = tmp_path / "examples"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    script = copy / name
    parts = script.parent.glob(f"{script.stem}_*.py") if name == "misc/raptor.py" else ()
    for path in (script, *parts):
        text, changed = IMPORT.subn(r"\1import yod.pilot\2as rp", path.read_text())
        assert changed == 1
        path.write_text(text.replace(*change) if change[0] else text)
    (packages,) = (RADICAL / "lib").glob(
        "python*/site-packages"
    )  # radical.utils, by which it talks
    environment = {
        **os.environ,
        "PATH": f"{os.environ['PATH']}:{RADICAL}/bin",  # radical-pilot-hello.sh
        "PYTHONPATH": str(packages),
        "HOME": str(tmp_path),
        "RADICAL_REPORT": "TRUE",
        "RADICAL_REPORT_ANIME": "FALSE",
        "RADICAL_PILOT_REPORT": "TRUE",
    }
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=script.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    return told, script.parent


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_of_the_reference_runs_with_its_import_changed(place, tmp_path, name):
    told, _ = run_example(tmp_path, name)
    pattern, count = PRINTED[name]
    assert len(re.findall(pattern, told)) == count, told


def test_tasks_of_the_example_of_channels_talk_by_the_references_own_classes(place, tmp_path):
    # A worker that begins when others have done all the work would wait for ever.
    _, directory = run_example(tmp_path, "misc/rp_app_comm.py", ("n_worker =  16", "n_worker = 1"))
    (said,) = directory.glob("rp.session.*/pilot.0000/task.000000/task.000000.out")
    answers = re.findall(r"^< (\d{6}) : \['task\.\d{6}: \[(\d+)\]'\]$", said.read_text(), re.M)
    assert [int(n) for n, _ in answers] == list(range(1000))
    assert sorted(int(work) for _, work in answers) == list(range(1000))


def test_the_table_has_each_example_and_marks_those_that_are_run():
    table = (ROOT / "docs" / "pilot-rp.md").read_text()
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith(("| `", "| in `"))]
    named = {
        name: row[2] for row in rows for name in re.findall(r"`(?:[a-z]+/)?(\w+\.py)`", row[0])
    }
    there = {path.name for path in EXAMPLES.rglob("*.py")}
    assert sorted(named) == sorted(there)
    parts = {"raptor_master.py", "raptor_worker.py"}
    tested = {name for name, here in named.items() if "tested" in here} - parts
    assert tested == {Path(name).name for name in (*PRINTED, "rp_app_comm.py")}


# Calls and attributes of the reference's that its users do not need here, and why.
NOT_HERE = {
    "its own parts, such as its registry, bridges, components and proxy": {
        *("Session.crosswire_pubsub", "Session.get_rm", "Session.reg_addr", "Session.proxy_url"),
        *("Session.cmgr", "PilotManager.initialize", "PilotManager.finalize"),
        *("PilotManager.control_cb", "TaskManager.initialize", "TaskManager.finalize"),
        *("TaskManager.scheduler", "Pilot.attach_tmgr"),
    },
    "Session.get_resource_config and list_resources say what is in files of sites": {
        *("Session.rcfg", "Session.rcfgs"),
    },
    "texts for its developers": {"Session.dump", "PilotManager.dump", "TaskManager.dump"},
    "all files are in the session's directory": {"Session.base", "Session.fetch_logfiles"},
    "its journal is not for others to write": {"Session.inject_metadata"},
    "PilotManager.list_pilots": {"PilotManager.check_uid"},
    "raptors' workers are submitted by a raptor": {"TaskManager.submit_workers"},
    "agents are asked by the calls that there are": {"TaskManager.pilot_rpc", "Pilot.rpc"},
    "the port of 'enable_ep', which is refused": {"Pilot.rest_url"},
    "Pilot.nodelist": {"Pilot.resources"},
    "a pilot is one partition": {"Task.partition"},
}


@pytest.mark.parametrize("name", ["Session", "PilotManager", "TaskManager", "Pilot", "Task"])
def test_what_classes_of_the_reference_have_is_here_or_has_a_reason(name):
    if not EXAMPLES.exists():
        pytest.skip("radical.pilot is not there: tests/setup")
    module = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    (path,) = RADICAL.glob(f"lib/python*/site-packages/radical/pilot/{module}.py")
    classes = [each for each in ast.walk(ast.parse(path.read_text())) if hasattr(each, "bases")]
    (theirs,) = [each for each in classes if each.name == name]
    named = {each.name for each in theirs.body if isinstance(each, ast.FunctionDef)}
    there = {f"{name}.{each}" for each in named if not each.startswith("_")}
    ours = getattr(rp, name)
    own = set(re.findall(r"\bself\.(\w+)", inspect.getsource(ours.__init__)))
    here = {
        each for each in there if hasattr(ours, (word := each.partition(".")[2])) or word in own
    }
    reasons = set[str]().union(*NOT_HERE.values())
    assert there - here == reasons & there
    assert not {each for each in reasons - there if each.startswith(f"{name}.")}


def test_arguments_and_variables_may_name_variables_that_there_are(session):
    tmgr = rp.TaskManager(session)
    tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 2, "runtime": 5}))
    echo = {"executable": "/bin/echo", "arguments": ["$RP_TASK_ID", "${MINE}", "$OTHER $1 `id`"]}
    one, other, ranks = tmgr.submit_tasks(
        [
            {**echo, "uid": "one", "environment": {"MINE": "in $RP_TASK_ID"}},
            {**echo, "uid": "other", "pre_exec": ["export MINE='a b'"]},
            {"executable": "/bin/echo", "arguments": "$RP_RANK", "ranks": 2},
        ]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 3
    assert one.stdout == "one in one $OTHER $1 `id`\n"
    assert other.stdout == "other a b $OTHER $1 `id`\n"
    assert sorted(ranks.stdout.split()) == ["0", "1"]


def test_tasks_have_the_environment_that_has_been_prepared_for_their_pilot(session):
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    before = {"shell": {"type": "shell", "pre_exec": ["export FOO=bar", "export BAR=$FOO.$FOO"]}}
    pilot = pmgr.submit_pilots({"cores": 2, "runtime": 5, "prepare_env": before})
    pilot.prepare_env("own", {"type": "venv", "pre_exec": "export MORE=more"})
    tmgr.add_pilots(pilot)
    words = ["-c", "import os, sys; print(sys.prefix, os.environ['MORE'])"]
    tasks = tmgr.submit_tasks(
        [
            {"executable": "/bin/echo", "arguments": ["$BAR"], "named_env": "shell"},
            {"executable": "python", "arguments": words, "named_env": "own"},
            {"executable": "true", "named_env": "rp"},
            {"executable": "true", "named_env": "none"},
        ]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 3 + [rp.FAILED]
    assert tasks[0].stdout == "bar.bar\n"
    assert tasks[1].stdout == f"{pilot.pilot_sandbox}/env/own more\n"
    assert "env/none.sh: No such file" in tasks[3].stderr
    with pytest.raises(YodError, match=r"environment bad cannot be made: .*nothing.*; see /"):
        pilot.prepare_env("bad", {"type": "shell", "pre_exec": ["nothing"]})
    for spec, told in ({"type": "conda"}, "'type' is 'conda'"), ({"typ": "venv"}, "no key 'typ'"):
        with pytest.raises(UsageError, match=told):
            pilot.prepare_env("other", spec)


def test_tasks_wait_for_the_services_of_their_pilot_and_know_what_these_have_said(session):
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    script = "sleep 0.2; echo 'port: 4711' > ../word; cat ../word; sleep 3600"
    service = {"uid": "db.0", "executable": "sh", "arguments": ["-c", script]}
    service["info_pattern"] = "stdout:port: ([0-9]+)"
    pilot = pmgr.submit_pilots({"cores": 3, "runtime": 5, "services": [service]})
    tmgr.add_pilots(pilot)
    own = tmgr.submit_tasks({**service, "uid": "own", "mode": rp.TASK_SERVICE})
    user, told = tmgr.submit_tasks(
        [
            {"executable": "cat", "arguments": ["../word"]},
            {"executable": "echo", "arguments": ["$RP_INFO_DB_0"], "services": ["db.0"]},
        ]
    )
    assert own.wait_info(LIMIT_S) == "4711"
    assert tmgr.wait_tasks([user.uid, told.uid], timeout=LIMIT_S) == [rp.DONE] * 2
    assert (user.stdout, told.stdout) == ("port: 4711\n", "4711\n")
    own.cancel()
    own.wait(timeout=LIMIT_S)


def test_a_service_that_fails_is_told_to_all_that_wait_for_it_and_to_those_that_come(session):
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    bad = {"uid": "db", "executable": "false", "info_pattern": "never"}
    tmgr.add_pilots(pmgr.submit_pilots({"cores": 1, "runtime": 5, "services": [bad]}))
    for _ in range(2):
        task = tmgr.submit_tasks({"executable": "true"})
        assert task.wait(timeout=LIMIT_S) == rp.FAILED
        assert task.reason == "its service db ended before it was ready"
    own = tmgr.submit_tasks({**bad, "uid": "own", "mode": rp.TASK_SERVICE})
    with pytest.raises(YodError, match="own is FAILED, and has said nothing of itself"):
        own.wait_info(LIMIT_S)


def test_callbacks_of_pilots_and_tasks_take_lists_where_the_environment_says_so(
    session, monkeypatch
):
    monkeypatch.setenv("RADICAL_PILOT_BULK_CB", "True")
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    heard: list[str] = []
    pmgr.register_callback(lambda pilots: heard.extend(each.state for each in pilots))
    tmgr.register_callback(lambda tasks: heard.extend(each.state for each in tasks))
    tmgr.add_pilots(pmgr.submit_pilots({"cores": 1, "runtime": 5}))
    assert tmgr.submit_tasks({"executable": "true"}).wait(timeout=LIMIT_S) == rp.DONE
    assert {rp.PMGR_ACTIVE, rp.DONE} < set(heard)


def test_a_session_that_is_closed_takes_nothing(place, tmp_path):
    with rp.Session(base=str(tmp_path)) as session:
        pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    for take in (lambda: tmgr.submit_tasks({"executable": "true"}), lambda: pmgr.submit_pilots({})):
        with pytest.raises(YodError, match=f"session {session.uid} is closed"):
            take()


def test_where_files_have_been_brought_is_told(session):
    pilot = rp.PilotManager(session).submit_pilots({"cores": 1, "runtime": 5})
    Path("a").write_text("a")
    assert pilot.stage_in("a > pilot:///sub/b") == [f"file://localhost{pilot.pilot_sandbox}/sub/b"]
    assert pilot.stage_out("pilot:///sub/b > c") == [f"file://localhost{os.getcwd()}/c"]
    assert Path("c").read_text() == "a"


@pytest.mark.parametrize(
    ("cleanup", "are_kept"),
    [(None, [True, False]), (True, [False, False]), (False, [True, True])],
)
def test_sandboxes_are_removed_as_the_end_of_a_session_says_or_each_pilot(
    session, cleanup, are_kept
):
    pilots = rp.PilotManager(session).submit_pilots(
        [{"cores": 1, "runtime": 5}, {"cores": 1, "runtime": 5, "cleanup": True}]
    )
    for pilot in pilots:
        assert pilot.wait(rp.PMGR_ACTIVE, timeout=LIMIT_S) == rp.PMGR_ACTIVE
    session.close(cleanup=cleanup)
    assert [os.path.exists(pilot.pilot_sandbox) for pilot in pilots] == are_kept


def test_a_session_says_what_pilots_can_run_on_and_who_manages_them(session, tmp_path, monkeypatch):
    site = tmp_path / "resource_own.json"
    schemas = {"local": {"job_manager_endpoint": "slurm://localhost/"}}
    site.write_text(json.dumps({"big": {"cores_per_node": 8, "schemas": schemas}}))
    monkeypatch.setenv("YOD_PILOT_RESOURCES", str(tmp_path))
    assert {"local.localhost", "slurm.here", "own.big"} <= set(session.list_resources())
    assert session.get_resource_config("own.big")["cores_per_node"] == 8
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    assert session.get_pilot_managers() == [pmgr] and session.get_task_managers() == [tmgr]
    assert session.as_dict()["pmgrs"] == [pmgr.uid] == [pmgr.as_dict()["uid"]]
    assert tmgr.as_dict() == {"uid": tmgr.uid, "session": session.uid, "tasks": []}
