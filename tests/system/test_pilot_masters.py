"""Masters of raptors with programs of their own, with real agents and workers."""

from __future__ import annotations

from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError
from tests.support.wait import wait_until
from yod.pilot.analysis.checker import check
from yod.pilot.plot.load import load
from yod.pilot.plot.view import View
from yod.pilot.profile.reader import read
from yod.pilot.raptor.front import Front

LIMIT_S = 60.0

# Squares by its workers, has a program run, takes no call named "unwanted", and prints all results.
MASTER = """\
import sys
import yod.pilot as rp


class Own(rp.raptor.Master):
    def __init__(self, cfg=None):
        super().__init__(cfg)
        self.left = 3
        self.seen = []

    def request_cb(self, tasks):
        return [task for task in tasks if task["uid"] != "unwanted"]

    def result_cb(self, tasks):
        for task in tasks:
            value, mode = task["return_value"], task["description"]["mode"]
            print(task["uid"], mode, task["state"], task["exit_code"], value, flush=True)
            self.left -= 1
        if self.left <= 0:
            self.stop()

    def worker_state_cb(self, workers, state):
        self.seen.append(state)


if __name__ == "__main__":
    master = Own()
    description = {"mode": rp.RAPTOR_WORKER, "ranks": 2}
    description |= {"raptor_file": "worker.py", "raptor_class": "Own"}
    uids = master.submit_workers([rp.TaskDescription(description)])
    master.wait_workers(count=1)
    print(uids, master.workers[uids[0]]["status"], master.alive(), flush=True)
    master.start()
    call = {"uid": "own", "mode": rp.TASK_FUNC, "function": "square", "args": [7]}
    program = {"uid": "program", "executable": "echo", "arguments": ["out"], "raptor_id": None}
    master.submit_tasks([rp.TaskDescription(call), rp.TaskDescription(program)])
    master.join()
    print(master.alive(), master.seen)
"""

WORKER = """\
import yod.pilot as rp


class Own(rp.raptor.DefaultWorker):
    def square(self, n):
        return n * n

    def through(self, word):
        task = self.get_master().run_task({"executable": "echo", "arguments": [word]})
        return task["state"], task["stdout"]
"""


@pytest.fixture
def tmgr(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    Path("master.py").write_text(MASTER)
    Path("worker.py").write_text(WORKER)
    with rp.Session() as session:
        tmgr = rp.TaskManager(session)
        tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 4, "runtime": 5}))
        yield tmgr


def master(tmgr, text=None, **entries):
    if text is not None:
        Path("master.py").write_text(text)
    entries = {
        "mode": rp.RAPTOR_MASTER,
        "executable": "python3",
        "arguments": ["master.py"],
        "input_staging": ["master.py", "worker.py"],
        **entries,
    }
    (raptor,) = tmgr.submit_raptors(rp.TaskDescription(entries))
    return raptor


def test_a_master_submits_workers_and_tasks_and_sees_all_results(tmgr):
    raptor = master(tmgr)
    call = {"mode": rp.TASK_METHOD, "method": "square", "args": [3], "uid": "outer"}
    outer, unwanted = raptor.submit_tasks([call, {**call, "uid": "unwanted"}])
    assert outer.wait(timeout=LIMIT_S) == rp.DONE
    assert outer.return_value == 9
    assert unwanted.wait(timeout=LIMIT_S) == rp.FAILED
    assert unwanted.reason == f"its raptor {raptor.uid} has not taken it"
    assert raptor.wait(timeout=LIMIT_S) == rp.DONE, raptor.stderr
    lines = Path(raptor.output_files[0]).read_text().splitlines()
    assert lines[0] == f"['{raptor.uid}.worker.0000'] ACTIVE False"
    assert sorted(lines[1:4]) == [
        "outer task.method DONE 0 9",
        "own task.function DONE 0 49",
        "program task.executable DONE 0 None",
    ]
    assert lines[4].startswith("False ['AGENT_EXECUTING'")
    late = raptor.submit_tasks({**call, "uid": "late"})[0]
    assert late.wait(timeout=LIMIT_S) == rp.FAILED
    assert late.reason == f"its raptor {raptor.uid} has ended"


def test_a_method_of_a_worker_has_a_task_run_and_waits_for_it(tmgr):
    raptor = master(tmgr, MASTER.replace("self.left = 3", "self.left = 4"))
    call = {"mode": rp.TASK_METHOD, "method": "through"}
    tasks = raptor.submit_tasks([{**call, "args": [word]} for word in ("one", "two")])
    assert [task.wait(timeout=LIMIT_S) for task in tasks] == [rp.DONE] * 2, tasks[0].exception
    assert [task.return_value for task in tasks] == [(rp.DONE, "one\n"), (rp.DONE, "two\n")]
    assert raptor.wait(timeout=LIMIT_S) == rp.DONE


def test_a_master_whose_class_is_in_a_file_ends_when_the_application_says_so(tmgr):
    raptor = master(tmgr, executable="", arguments=[], raptor_file="master.py", raptor_class="Own")
    (worker,) = raptor.submit_workers({"raptor_file": "worker.py", "raptor_class": "Own"})
    call = {"mode": rp.TASK_METHOD, "method": "square", "args": [5]}
    task = raptor.submit_tasks(call)[0]
    assert task.wait(timeout=LIMIT_S) == rp.DONE
    raptor.rpc("stop")
    assert (raptor.wait(timeout=LIMIT_S), worker.wait(timeout=LIMIT_S)) == (rp.DONE, rp.DONE)


def test_calls_for_a_master_end_with_it_whatever_became_of_it(tmgr, tmp_path):
    path = tmp_path / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)\n"
    raptor = master(tmgr, waits + "raise SystemExit(3)\n", input_staging=["master.py"])
    call = {"mode": rp.TASK_METHOD, "method": "square", "args": [5]}
    one, other = raptor.submit_tasks([call, call])
    told = f"the program of its raptor {raptor.uid} has not come yet"
    wait_until(lambda: one.why == told, what="the call waits for the master")
    other.cancel()
    assert other.wait(timeout=LIMIT_S) == rp.CANCELED
    path.touch()
    assert raptor.wait(timeout=LIMIT_S) == rp.FAILED
    assert raptor.exit_code == 3
    assert one.wait(timeout=LIMIT_S) == rp.FAILED
    assert one.reason == f"its raptor {raptor.uid} has ended"


def test_a_master_that_is_canceled_takes_its_workers_with_it(tmgr):
    raptor = master(tmgr)
    call = {"mode": rp.TASK_METHOD, "method": "square", "args": [5]}
    assert raptor.submit_tasks(call)[0].wait(timeout=LIMIT_S) == rp.DONE
    raptor.cancel()
    assert raptor.wait(timeout=LIMIT_S) in (rp.CANCELED, rp.DONE)
    # All four cores are free again.
    task = tmgr.submit_tasks({"executable": "true", "cores_per_rank": 4})
    assert task.wait(timeout=LIMIT_S) == rp.DONE


def test_a_request_that_cannot_be_chosen_fails_with_what_the_master_raised(tmgr):
    bad = MASTER.replace("return [task for", "1 / 0\n        return [task for").replace(
        "    master.submit_tasks([rp", "    0 and ([rp"
    )
    raptor = master(tmgr, bad)
    call = {"mode": rp.TASK_METHOD, "method": "square", "args": [5]}
    task = raptor.submit_tasks(call)[0]
    assert task.wait(timeout=LIMIT_S) == rp.FAILED
    assert (
        task.reason == f"request_cb of its raptor {raptor.uid}: ZeroDivisionError: division by zero"
    )
    raptor.rpc("stop")
    assert raptor.wait(timeout=LIMIT_S) == rp.DONE


def test_what_a_master_submits_wrongly_is_told_to_it(tmgr):
    script = (
        MASTER[: MASTER.index("if __name__")]
        + """
master = Own()
for entries in (
    {"executable": "true", "input_staging": ["here"]},
    {"executable": "true", "rank": 2},
    {"mode": rp.RAPTOR_MASTER},
    {"executable": "true", "uid": "twice"},
):
    try:
        master.submit_tasks([rp.TaskDescription(entries) for _ in range(2)])
    except Exception as error:
        print(type(error).__name__, error)
master.left = 1
master.submit_tasks(rp.TaskDescription({"executable": "true", "uid": "theirs"}))
master.join()
"""
    )
    tmgr.submit_tasks({"executable": "true", "uid": "theirs"}).wait(timeout=LIMIT_S)
    raptor = master(tmgr, script)
    assert raptor.wait(timeout=LIMIT_S) == rp.DONE, raptor.stderr
    lines = Path(raptor.output_files[0]).read_text().splitlines()
    assert "'input_staging' names files of the application" in lines[0]
    assert "there is no key 'rank'; did you mean 'ranks'?" in lines[1]
    assert "a raptor is submitted by the application" in lines[2]
    assert "task twice: there is one of this name" in lines[3]
    assert lines[4] == "theirs task.executable FAILED None None"


def test_only_the_program_of_a_task_can_submit_to_its_pilot(monkeypatch):
    monkeypatch.delenv("RP_TASK_ID", raising=False)
    with pytest.raises(UsageError, match="only the program of a task can submit tasks"):
        Front()


def test_calls_end_when_their_master_never_comes_to_the_pilot(tmgr):
    raptor = master(tmgr, input_staging=["master.py", "missing.py"])
    call = {"mode": rp.TASK_METHOD, "method": "square", "args": [5]}
    task = raptor.submit_tasks(call)[0]
    assert raptor.wait(timeout=LIMIT_S) == rp.FAILED
    assert task.wait(timeout=LIMIT_S) == rp.FAILED
    assert task.reason == f"its raptor {raptor.uid} has ended"


def test_what_a_master_has_run_is_in_the_profiles_and_its_core_seconds_are_counted(
    place, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("master.py").write_text(MASTER.replace("self.left = 3", "self.left = 2"))
    Path("worker.py").write_text(WORKER)
    with rp.Session("campaign") as session:
        tmgr = rp.TaskManager(session)
        tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 4, "runtime": 5}))
        raptor = master(tmgr)
        assert raptor.wait(timeout=LIMIT_S) == rp.DONE, raptor.stderr
    assert check(read("campaign"), "campaign") == []
    view = View(load("campaign"))
    assert view.wrong == []
    assert view.story.tasks[f"{raptor.uid}.worker.0000"].cores == 2
    assert view.story.tasks["program"].cores == 1
    assert view.counts["DONE"] >= 1
