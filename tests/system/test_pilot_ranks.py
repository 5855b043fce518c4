"""Functions of several ranks, and workers that begin with a function of the application's."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError
from tests.support.wait import wait_until

LIMIT_S = 60.0


@pytest.fixture
def tmgr(session):
    tmgr = rp.TaskManager(session)
    tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 4, "runtime": 5}))
    return tmgr


def call(function, *args, ranks=2, **entries):
    entries = {"mode": rp.TASK_FUNCTION, "function": function, "args": args, **entries}
    return rp.TaskDescription({"ranks": ranks, **entries})


def where(text):
    sys.stdout.write(f"{text}\n")  # at once: without a buffer print writes a line in two parts
    return int(os.environ["RP_RANK"]), os.environ["RP_TASK_ID"], os.getcwd()


def total(comm, n):
    return comm.allreduce(comm.rank + n), comm.size


@rp.pythontask
def met(comm, text):
    comm.Barrier()
    return f"{text} {comm.rank}"


def bad(comm):
    if comm.rank == 1:
        raise ValueError("one")
    comm.Barrier()  # the others wait for it


def leaves(how):
    if os.environ["RP_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL) if how else os._exit(0)
    time.sleep(LIMIT_S)


def stays(path):
    Path(path, os.environ["RP_RANK"]).touch()
    time.sleep(LIMIT_S)


def test_each_rank_of_a_function_is_called_and_all_values_come_back(tmgr):
    task, evaluated = tmgr.submit_tasks(
        [call(where, "here"), rp.TaskDescription({"mode": "eval", "code": "6 * 7", "ranks": 2})]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 2
    assert task.return_value == [(rank, task.uid, task.sandbox) for rank in (0, 1)]
    assert (task.stdout, len(task.slots)) == ("here\nhere\n", 2)
    assert evaluated.return_value == [42, 42]


def test_ranks_that_take_a_communicator_get_one(tmgr):
    pytest.importorskip("mpi4py")
    tasks = tmgr.submit_tasks(
        [
            call(total, 10, ranks=3),
            call(met(None, text="rank")),
            call(total, 1, ranks=1, use_mpi=True),
        ]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 3
    values = [task.return_value for task in tasks]
    assert values == [[(33, 3)] * 3, ["rank 0", "rank 1"], [(1, 1)]]


def test_a_rank_that_raises_or_dies_fails_its_call_and_the_others_do_not_wait_for_it(tmgr):
    tasks = tmgr.submit_tasks([call(bad), call(leaves, 0), call(leaves, 1)])
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.FAILED] * 3
    raised, left, killed = tasks
    assert (raised.exception, raised.exit_code) == ("ValueError('one')", 1)
    assert "in bad" in raised.exception_detail
    assert left.reason == "rank 1 ended in the call: exit code 0"
    assert "SIGKILL" in killed.reason
    assert tmgr.submit_tasks(call(where, "")).wait(timeout=LIMIT_S) == rp.DONE


def test_a_call_of_several_ranks_that_is_canceled_leaves_none(tmgr, tmp_path):
    task = tmgr.submit_tasks(call(stays, str(tmp_path)))
    wait_until(lambda: (tmp_path / "1").exists() and (tmp_path / "0").exists(), what="it runs")
    task.cancel()
    assert task.wait(timeout=LIMIT_S) == rp.CANCELED


def begin():
    return {"base": 100, "pid": os.getpid()}


def add(n, base, pid=None):
    return n + base, pid == os.getpid()


def no_table():
    raise ValueError("no table")


def test_calls_get_what_the_init_function_of_their_worker_has_returned(place, tmp_path):
    with rp.Executor(2, base=str(tmp_path), init_function=begin) as executor:
        found = [executor.submit(add, 1), executor.submit(add, 1, base=5), executor.submit(abs, -1)]
        assert [each.result(LIMIT_S) for each in found] == [(101, True), (6, True), 1]
        ranks = executor.submit(add, 1, resource_dict={"cores": 2})
        assert ranks.result(LIMIT_S) == [(101, True)] * 2
        assert list(executor.map(add, range(2))) == [(100, True), (101, True)]


@pytest.mark.parametrize(
    ("function", "told"),
    [(no_table, "ValueError: no table"), (os.getpid, "returned a int, and no dictionary")],
)
def test_a_worker_that_cannot_begin_says_why(place, tmp_path, function, told):
    with rp.Executor(1, base=str(tmp_path), init_function=function) as executor:
        error = executor.submit(abs, -1).exception(LIMIT_S)
    assert isinstance(error, rp.WorkerLost)
    assert told in str(error)


def test_an_init_function_that_cannot_be_packed_is_refused(place, tmp_path):
    with pytest.raises(UsageError, match="the call cannot be packed"):
        rp.Executor(1, base=str(tmp_path), init_function=threading.Lock().acquire)
