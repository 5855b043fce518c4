"""Raptors: queues of calls, and workers that keep state, with real agents and workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError
from tests.support.wait import wait_until

LIMIT_S = 60.0


@pytest.fixture
def tmgr(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with rp.Session() as session:
        tmgr = rp.TaskManager(session)
        tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 3, "runtime": 5}))
        yield tmgr
    wait_until(lambda: not threading.enumerate()[1:], what="all threads have ended")


class Counter(rp.raptor.DefaultWorker):
    """Counts its calls."""

    def __init__(self, raptor_id):
        super().__init__(raptor_id)
        self.count = 0

    def add(self, n):
        self.count += n
        return os.getpid(), self.count


class Modal(rp.raptor.DefaultWorker):
    """Has modes of its own."""

    def __init__(self, raptor_id):
        super().__init__(raptor_id)
        self.register_mode("told", lambda task: ("out\n", "err\n", 0, task["uid"], None))
        self.register_mode("failed", lambda _: ("", "", 7, None, ("Odd('one')", "where it was")))
        self.register_mode("ended", lambda _: ("", "", 3, None, (None, None)))
        self.register_mode("later", self.later)

    async def later(self, task):
        return task["description"]["args"][0] * 2


class Summing(rp.raptor.MPIWorker):
    """Sums over the ranks of a call."""

    def sum(self, comm, n):
        return comm.rank, comm.allreduce(n), os.environ["RP_RANK"], os.environ["RP_RANKS"]


def ranks_of(comm):
    print("rank", comm.rank)
    return comm.allgather(os.environ["RP_RANK"])


def fails_in_one(comm):
    if comm.rank == 1:
        raise ValueError("one of them")
    comm.barrier()


def stays(path):
    Path(path).touch()
    while True:
        time.sleep(1)


def killed():
    print("so far", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def function(called, *args, **entries):
    entries = {"mode": rp.TASK_FUNCTION, "function": called, "args": args, **entries}
    return rp.TaskDescription(entries)


@pytest.fixture
def raptor(tmgr):
    (raptor,) = tmgr.submit_raptors({"mode": rp.RAPTOR_MASTER})
    return raptor


def test_workers_are_made_once_in_each_rank_and_keep_what_they_have(tmgr, raptor):
    entries = {"ranks": 2, "raptor_file": __file__, "raptor_class": "Counter"}
    (worker,) = raptor.submit_workers(entries)
    method = {"mode": rp.TASK_METHOD, "method": "add", "args": [1]}
    tasks = raptor.submit_tasks([rp.TaskDescription(method) for _ in range(40)])
    uids = [task.uid for task in tasks]
    assert tmgr.wait_tasks(uids, timeout=LIMIT_S) == [rp.DONE] * 40
    counts: dict[int, int] = {}
    for pid, count in (task.return_value for task in tasks):
        counts[pid] = max(counts.get(pid, 0), count)
    assert len(counts) <= 2
    assert sum(counts.values()) == 40
    assert worker.state == rp.AGENT_EXECUTING
    raptor.rpc("stop")
    assert (raptor.wait(timeout=LIMIT_S), worker.wait(timeout=LIMIT_S)) == (rp.DONE, rp.DONE)
    late = raptor.submit_tasks(rp.TaskDescription(method))[0]
    assert late.wait(timeout=LIMIT_S) == rp.FAILED
    assert late.reason == f"its raptor {raptor.uid} has ended"


def test_a_task_may_name_a_mode_that_its_worker_has_registered(tmgr, raptor):
    raptor.submit_workers({"ranks": 1, "raptor_file": __file__, "raptor_class": "Modal"})
    entries = [{"mode": name} for name in ("told", "failed", "ended", "tolled")]
    tasks = raptor.submit_tasks([*entries, {"mode": "later", "args": [21]}])
    told, failed, ended, unknown, later = tasks
    tmgr.wait_tasks([task.uid for task in tasks], timeout=LIMIT_S)
    assert (told.state, told.return_value, told.stdout) == (rp.DONE, told.uid, "out\n")
    assert told.stderr == "err\n"
    assert (failed.state, failed.exit_code, failed.exception) == (rp.FAILED, 7, "Odd('one')")
    assert failed.exception_detail == "where it was"
    assert (ended.state, ended.exit_code, ended.exception) == (rp.FAILED, 3, "exit code 3")
    assert later.return_value == 42
    assert unknown.state == rp.FAILED
    assert "mode 'tolled' is unknown; the worker knows ended, eval, exec" in unknown.exception
    with pytest.raises(UsageError, match="'mode' is 'told', which is none of"):
        tmgr.submit_tasks({"mode": "told"})


def test_each_mode_of_a_call_is_run_by_the_workers(tmgr, raptor):
    raptor.submit_workers({"ranks": 1})
    tasks = raptor.submit_tasks(
        [
            function("hello", "you"),
            function(rp.PythonTask(max, (1, 2))),
            rp.TaskDescription({"mode": "eval", "code": "6 * 7"}),
            rp.TaskDescription({"mode": "proc", "executable": "echo", "arguments": ["proc"]}),
            rp.TaskDescription({"mode": "shell", "command": "echo shell; exit 3"}),
            function("nothing"),
        ]
    )
    found = tmgr.wait_tasks([task.uid for task in tasks], timeout=LIMIT_S)
    assert found == [rp.DONE] * 4 + [rp.FAILED] * 2
    assert [task.return_value for task in tasks[:3]] == ["hello you", 2, 42]
    assert tasks[0].stdout.startswith("hello you: ")
    assert [task.stdout for task in tasks[3:5]] == ["proc\n", "shell\n"]
    assert (tasks[4].exit_code, tasks[5].exit_code) == (3, 1)
    assert "no attribute 'nothing'" in tasks[5].exception


def test_a_call_that_is_canceled_or_kills_its_rank_harms_no_other(tmgr, raptor, tmp_path):
    stuck, waiting = raptor.submit_tasks(
        [function(stays, str(tmp_path / "stays")), function(len, "abc")]
    )
    wait_until(lambda: "has no worker" in waiting.why, what="the calls wait")
    raptor.submit_workers({"ranks": 1})
    wait_until((tmp_path / "stays").exists, what="the call runs")
    assert waiting.why == f"it waits for one of 1 workers of the raptor {raptor.uid}"
    unwanted = raptor.submit_tasks(function(len, "abc"))[0]
    unwanted.cancel()
    assert unwanted.wait(timeout=LIMIT_S) == rp.CANCELED
    stuck.cancel()
    assert stuck.wait(timeout=LIMIT_S) == rp.CANCELED
    assert waiting.wait(timeout=LIMIT_S) == rp.DONE
    dies = raptor.submit_tasks(function(killed))[0]
    assert dies.wait(timeout=LIMIT_S) == rp.FAILED
    assert dies.reason == f"the worker {raptor.uid}.0000 ended in the call"
    raptor.submit_workers({"ranks": 1})
    assert raptor.submit_tasks(function(len, ""))[0].wait(timeout=LIMIT_S) == rp.DONE
    left = raptor.submit_tasks(function(stays, str(tmp_path / "again")))[0]
    wait_until((tmp_path / "again").exists, what="the call runs")
    raptor.cancel()
    assert raptor.wait(timeout=LIMIT_S) == rp.CANCELED
    assert left.wait(timeout=LIMIT_S) == rp.FAILED


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"mode": rp.TASK_METHOD, "method": "add"}, "'raptor_id' is missing"),
        ({"mode": rp.RAPTOR_WORKER}, "'raptor_id' is missing"),
        ({"mode": "eval", "code": "1", "raptor_id": "no"}, "its manager has no such raptor"),
    ],
)
def test_what_cannot_be_is_refused_with_the_key(tmgr, raptor, entries, told):
    with pytest.raises(UsageError, match=told):
        tmgr.submit_tasks(rp.TaskDescription(entries))


def test_a_worker_whose_class_is_not_there_says_so(tmgr, raptor):
    (worker,) = raptor.submit_workers({"raptor_class": "Absent"})
    assert worker.wait(timeout=LIMIT_S) == rp.FAILED
    assert "raptor_class Absent: yod.pilot.raptor has no such class" in worker.stderr


def test_calls_of_several_ranks_have_a_communicator_of_their_own(tmgr, raptor):
    entries = {"ranks": 3, "raptor_file": __file__, "raptor_class": "Summing"}
    (worker,) = raptor.submit_workers(entries)
    several = [{"mode": rp.TASK_METHOD, "method": "sum", "args": [n], "ranks": 2} for n in range(5)]
    method = raptor.submit_tasks(several)
    all_ranks = raptor.submit_tasks(function(rp.PythonTask(ranks_of, (None,)), ranks=3))[0]
    alone = raptor.submit_tasks(function(os.getpid))[0]
    greeted = raptor.submit_tasks(function("hello_mpi", ranks=2, kwargs={"msg": "you"}))[0]
    code = raptor.submit_tasks({"mode": "eval", "code": "os.environ['RP_RANK']", "ranks": 2})[0]
    command = "echo hello $RP_RANK/$RP_RANKS"
    shell = raptor.submit_tasks({"mode": "shell", "command": command, "ranks": 2})[0]
    large = raptor.submit_tasks(function(ranks_of, ranks=4))[0]
    uids = [t.uid for t in (*method, all_ranks, alone, greeted, code, shell)]
    assert tmgr.wait_tasks(uids, timeout=LIMIT_S) == [rp.DONE] * len(uids), method[0].exception
    for n, task in enumerate(method):
        assert task.return_value == [(rank, 2 * n, str(rank), "2") for rank in range(2)]
    assert all_ranks.return_value == [["0", "1", "2"]] * 3
    assert all_ranks.stdout == "rank 0\nrank 1\nrank 2\n"
    assert Path(all_ranks.output_files[0]).read_text().count("rank") == 3
    assert isinstance(alone.return_value, int)
    assert greeted.return_value == ["hello_mpi you"] * 2
    assert code.return_value == ["0", "1"]
    assert sorted(shell.stdout.splitlines()) == ["hello 0/2", "hello 1/2"]
    assert large.why == (f"it has 4 ranks, and the largest worker of the raptor {raptor.uid} has 3")
    raptor.rpc("stop")
    assert (raptor.wait(timeout=LIMIT_S), worker.wait(timeout=LIMIT_S)) == (rp.DONE, rp.DONE)
    assert large.wait(timeout=LIMIT_S) == rp.FAILED


def test_a_call_that_fails_in_one_rank_fails_as_that_and_its_worker_may_begin_anew(
    tmgr, raptor, tmp_path
):
    entries = {"ranks": 2, "raptor_class": "MPIWorker", "restartable": True}
    raptor.submit_workers(entries)
    failing = raptor.submit_tasks(function(fails_in_one, ranks=2))[0]
    after = raptor.submit_tasks(function(ranks_of, ranks=2))[0]
    assert failing.wait(timeout=LIMIT_S) == rp.FAILED
    assert failing.exception == "ValueError('one of them')"
    assert after.wait(timeout=LIMIT_S) == rp.DONE
    stuck = raptor.submit_tasks(function(stays, str(tmp_path / "stays"), ranks=2))[0]
    wait_until((tmp_path / "stays").exists, what="the call runs")
    stuck.cancel()
    assert stuck.wait(timeout=LIMIT_S) == rp.CANCELED
    last = raptor.submit_tasks(function(ranks_of, ranks=2))[0]
    assert last.wait(timeout=LIMIT_S) == rp.DONE


def test_a_call_of_several_ranks_without_a_world_says_what_a_communicator_needs(tmgr, raptor):
    raptor.submit_workers({"ranks": 2})
    one, other = raptor.submit_tasks(
        [function(ranks_of, ranks=2), function(os.getenv, "RP_RANK", ranks=2)]
    )
    assert other.wait(timeout=LIMIT_S) == rp.DONE
    assert other.return_value == ["0", "1"]
    assert one.wait(timeout=LIMIT_S) == rp.FAILED
    assert "a communicator needs a worker whose class is an MPIWorker" in one.exception


def test_an_mpi_worker_whose_ranks_do_not_find_one_another_says_so(tmgr, raptor):
    (worker,) = raptor.submit_workers({"ranks": 2, "raptor_class": "MPIWorker", "use_mpi": False})
    assert worker.wait(timeout=LIMIT_S) == rp.FAILED
    assert "submit the worker with 'use_mpi': True" in worker.stderr
