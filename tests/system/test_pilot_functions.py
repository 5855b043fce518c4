"""Tasks that are calls of functions, and executors, with real agents and workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError, YodError
from tests.support.partition import finish
from tests.support.wait import wait_for_exit, wait_until

LIMIT_S = 60.0


@pytest.fixture
def session(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("YOD_CALL_BYTES", "1000000")
    with rp.Session() as session:
        yield session
    wait_until(lambda: not threading.enumerate()[1:], what="all threads have ended")


@pytest.fixture
def tmgr(session):
    tmgr = rp.TaskManager(session)
    tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 2, "runtime": 5}))
    return tmgr


def call(function, *args, **entries):
    entries = {"mode": rp.TASK_FUNCTION, "function": function, "args": args, **entries}
    return rp.TaskDescription(entries)


def where():
    return os.getpid(), os.getcwd(), os.environ["RP_TASK_ID"], os.environ.get("MINE")


def prints():
    print("hello")
    print("no", file=sys.stderr)
    os.system("echo child")


def raises(text):
    raise KeyError(text)


class Odd(Exception):
    def __reduce__(self):
        raise TypeError("it stays here")


def odd():
    raise Odd("odd")


def killed(path=None):
    print("so far", flush=True)
    if path is not None:
        with open(path, "a") as file:
            if file.tell():
                return "again"
            file.write("once")
    os.kill(os.getpid(), signal.SIGKILL)


def stays(path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(path).touch()
    while True:
        time.sleep(1)


def test_a_function_runs_with_its_arguments_and_gives_its_value_back(tmgr):
    offset = 100
    tasks = tmgr.submit_tasks(
        [
            call(lambda n, more=0: n + more + offset, 1, kwargs={"more": 10}),
            rp.TaskDescription({"mode": rp.TASK_EVAL, "code": "6 * 7"}),
            rp.TaskDescription({"mode": rp.TASK_FUNCTION, "function": rp.PythonTask(max, (3, 4))}),
        ]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 3
    assert [task.return_value for task in tasks] == [111, 42, 4]
    assert {task.exit_code for task in tasks} == {0}
    assert len(tasks[0].slots) == 1


def test_calls_share_warm_workers_and_each_has_its_own_directory_and_variables(tmgr):
    tasks = tmgr.submit_tasks([call(where, environment={"MINE": str(n)}) for n in range(40)])
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 40
    values = [task.return_value for task in tasks]
    assert len({value[0] for value in values}) <= 2
    for n, (task, value) in enumerate(zip(tasks, values, strict=True)):
        assert value[1:] == (task.sandbox, task.uid, str(n))


def test_what_a_function_and_its_programs_print_is_the_tasks_output(tmgr):
    task, quiet = tmgr.submit_tasks([call(prints), call(len, "abc")])
    tmgr.wait_tasks(timeout=LIMIT_S)
    assert sorted(task.stdout.splitlines()) == ["child", "hello"]
    assert task.stderr == "no\n"
    assert [Path(path).read_text() for path in task.output_files] == [task.stdout, "no\n"]
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_what_a_function_raises_is_told_with_its_traceback_and_the_worker_goes_on(tmgr):
    tasks = tmgr.submit_tasks([call(raises, "key"), call(odd), call(sys.exit, 3)])
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.FAILED] * 3
    assert [task.exception for task in tasks] == ["KeyError('key')", "Odd('odd')", "SystemExit(3)"]
    assert tasks[0].reason == "KeyError('key')"
    assert "in raises" in tasks[0].exception_detail
    assert "worker.py" not in tasks[0].exception_detail
    assert (tasks[0].exit_code, tasks[0].return_value) == (1, None)
    assert tmgr.submit_tasks(call(os.getpid)).wait(timeout=LIMIT_S) == rp.DONE


def test_a_call_that_cannot_be_packed_is_refused_and_no_task_is_taken(tmgr):
    with pytest.raises(UsageError, match=r"task \S+: the call cannot be packed: TypeError"):
        tmgr.submit_tasks([call(len, "abc"), call(len, threading.Lock())])
    with pytest.raises(UsageError, match="YOD_CALL_BYTES"):
        tmgr.submit_tasks(call(len, os.urandom(1_000_001)))
    assert tmgr.list_tasks() == []


def test_a_result_that_is_too_large_or_cannot_be_packed_fails_its_task_alone(tmgr):
    large, lock, fits = tmgr.submit_tasks(
        [call(bytes, 2_000_000), call(threading.Lock), call(bytes, 900_000)]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.FAILED, rp.FAILED, rp.DONE]
    assert "at most 1000000 are taken (YOD_CALL_BYTES)" in large.reason
    assert "cannot pickle" in lock.reason
    assert "The result of the call cannot be packed." in lock.exception_detail
    assert fits.return_value == bytes(900_000)


def test_a_worker_that_is_killed_in_a_call_fails_it_by_name(tmgr):
    task = tmgr.submit_tasks(call(killed))
    assert task.wait(timeout=LIMIT_S) == rp.FAILED
    assert task.reason == "its worker ended in the call: killed by SIGKILL"
    assert task.stdout == "so far\n"
    assert Path(task.output_files[0]).read_text() == "so far\n"
    quits = tmgr.submit_tasks(call(os._exit, 0))
    assert quits.wait(timeout=LIMIT_S) == rp.FAILED
    assert quits.reason == "its worker ended in the call: exit code 0"


def test_a_restartable_call_of_a_worker_that_is_killed_runs_again_but_not_for_ever(tmgr, tmp_path):
    again, never = tmgr.submit_tasks(
        [
            call(killed, str(tmp_path / "once"), restartable=True),
            call(killed, restartable=True),
        ]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE, rp.FAILED]
    assert again.return_value == "again"
    assert never.reason == "its worker ended in the call: killed by SIGKILL"


def test_a_call_that_never_returns_is_ended_by_its_time_or_by_cancel(tmgr, tmp_path, monkeypatch):
    late = tmgr.submit_tasks(call(stays, str(tmp_path / "late"), timeout=0.3))
    gone = tmgr.submit_tasks(call(stays, str(tmp_path / "gone")))
    wait_until((tmp_path / "gone").exists, what="the call runs")
    gone.cancel()
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.CANCELED] * 2
    assert late.reason == "its time of 0.3 s is over"
    assert tmgr.submit_tasks(call(len, "abc")).wait(timeout=LIMIT_S) == rp.DONE


def test_a_later_program_finds_values_and_raptors_again(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with rp.Session("again") as session:
        tmgr = rp.TaskManager(session)
        tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": 2, "runtime": 5}))
        (raptor,) = tmgr.submit_raptors({"mode": rp.RAPTOR_MASTER})
        raptor.submit_workers({})
        tmgr.submit_tasks([call(len, "abc", uid="a"), call(waits, str(tmp_path / "go"), uid="b")])
        assert tmgr.wait_tasks("a", timeout=LIMIT_S) == rp.DONE
        tmgr.wait_tasks("b", rp.AGENT_EXECUTING, timeout=LIMIT_S)
        session.close(terminate=False)
    with rp.Session("again") as session:
        pmgr = rp.PilotManager(session)
        pmgr.wait_pilots(state=rp.PMGR_ACTIVE, timeout=LIMIT_S)  # it can be given tasks at once
        tmgr = rp.TaskManager(session)
        (tmp_path / "go").touch()
        same = tmgr.submit_tasks(call(len, "other", uid="a"))
        assert (same.state, same.return_value) == (rp.DONE, 3)
        assert tmgr.wait_tasks("b", timeout=LIMIT_S) == rp.DONE
        raptor = tmgr.get_tasks("raptor.0000")
        assert raptor.submit_tasks(call(len, "abcd"))[0].wait(timeout=LIMIT_S) == rp.DONE
        assert tmgr.submit_raptors({"mode": rp.RAPTOR_MASTER})[0].uid == "raptor.0001"


SCRIPT = """
import os
import yod.pilot as rp

def node(n, way):
    import pathlib, time
    pathlib.Path(f"../{way}{n}").touch()
    while not all(pathlib.Path(f"../{way}{each}").exists() for each in range(4)):
        time.sleep(0.01)
    return os.environ["YOD_NODE_NAME"]

with rp.Session() as session:
    tmgr = rp.TaskManager(session)
    entries = {"resource": "yod.partition", "cores": 4, "runtime": 5}
    tmgr.add_pilots(rp.PilotManager(session).submit_pilots(entries))
    tasks = tmgr.submit_tasks(
        [
            rp.TaskDescription({"mode": "function", "function": node, "args": [n, "task"]})
            for n in range(4)
        ]
    )
    print(tmgr.wait_tasks(timeout=60))
    print(sorted(task.return_value for task in tasks))
    with rp.Executor(pilot=session.get_pilot_managers()[0].get_pilots()) as executor:
        names = lambda: (int(os.environ["RP_RANK"]), os.environ["YOD_NODE_NAME"])
        print(executor.submit(names, resource_dict={"cores": 2, "num_nodes": 2}).result(60))
    (raptor,) = tmgr.submit_raptors({"mode": rp.RAPTOR_MASTER})
    raptor.submit_workers([{"ranks": 2}] * 2)
    tasks = raptor.submit_tasks(
        [
            rp.TaskDescription({"mode": "function", "function": node, "args": [n, "raptor"]})
            for n in range(4)
        ]
    )
    tmgr.wait_tasks([task.uid for task in tasks], timeout=60)
    print(sorted(task.return_value for task in tasks))
"""


def test_calls_run_on_every_node_of_an_allocation(start_local, tmp_path):
    partition = start_local(2, slots=2)
    done = finish(partition.start_command(sys.executable, "-c", SCRIPT, cwd=tmp_path))
    assert (done.status, done.err) == (0, "")
    nodes = ["node0", "node0", "node1", "node1"]
    ranks = [(0, "node0"), (1, "node1")]
    assert done.out.splitlines() == [str(["DONE"] * 4), str(nodes), str(ranks), str(nodes)]


# -- executors -------------------------------------------------------------


@pytest.fixture
def executor(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("YOD_CALL_BYTES", "1000000")
    with rp.Executor(2) as executor:
        yield executor
    wait_until(lambda: not threading.enumerate()[1:], what="all threads have ended")


def square(n):
    if n == 13:
        raise ValueError("thirteen")
    return n * n


def rank():
    return int(os.environ["RP_RANK"]), int(os.environ["RP_RANKS"])


def first_raises():
    if os.environ["RP_RANK"] == "0":
        raise ValueError("of rank 0")
    time.sleep(600)


def waits(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return os.getpid()


def test_an_executor_gives_values_and_exceptions_with_their_traceback(executor):
    assert executor.submit(lambda n, m: n - m, 5, m=3).result(LIMIT_S) == 2
    with pytest.raises(KeyError, match="key") as caught:
        executor.submit(raises, "key").result(LIMIT_S)
    assert "in raises" in str(caught.value.__cause__)
    with pytest.raises(YodError, match="Odd"):
        executor.submit(odd).result(LIMIT_S)


def test_arguments_that_are_futures_are_waited_for(executor, tmp_path):
    path = tmp_path / "go"
    slow = executor.submit(waits, str(path))
    pair = executor.submit(lambda each, other: [*each, other], [slow, 2], slow)
    last = executor.submit(len, pair)
    failing = executor.submit(len, executor.submit(raises, "key"))
    unwanted = executor.submit(len, slow)
    assert unwanted.cancel()
    with pytest.raises(KeyError, match="key"):
        failing.result(LIMIT_S)
    assert not last.done()
    executor.shutdown(wait=False)
    path.touch()
    assert last.result(LIMIT_S) == 3
    assert pair.result() == [slow.result(), 2, slow.result()]


def test_a_map_gives_results_in_order_up_to_the_call_that_raises(executor):
    assert list(executor.map(square, range(20, 2020))) == [n * n for n in range(20, 2020)]
    assert list(executor.map(max, [1, 5], [4, 2], chunksize=2)) == [4, 5]
    results = executor.map(square, range(10, 30), chunksize=5)
    assert [next(results) for _ in range(3)] == [100, 121, 144]
    with pytest.raises(ValueError, match="thirteen"):
        next(results)


def test_a_call_gets_what_its_resource_dict_says(executor, tmp_path):
    assert executor.submit(rank).result(LIMIT_S) == (0, 1)
    both = executor.submit(rank, resource_dict={"cores": 2})
    assert both.result(LIMIT_S) == [(0, 2), (1, 2)]
    threads = executor.submit(os.getenv, "OMP_NUM_THREADS", resource_dict={"threads_per_core": 2})
    assert threads.result(LIMIT_S) == "2"
    assert executor.submit(os.getcwd, resource_dict={"cwd": str(tmp_path)}).result(LIMIT_S) == str(
        tmp_path
    )
    with pytest.raises(UsageError, match="wants 3 cores, and max_workers is 2"):
        executor.submit(rank, resource_dict={"cores": 3})
    with pytest.raises(UsageError, match="there is no key 'core'"):
        executor.submit(rank, resource_dict={"core": 2})


def test_a_rank_that_raises_ends_the_call_that_others_are_in(executor):
    future = executor.submit(first_raises, resource_dict={"cores": 2})
    with pytest.raises(ValueError, match="of rank 0"):
        future.result(LIMIT_S)
    assert executor.submit(rank).result(LIMIT_S) == (0, 1)


def test_a_dead_worker_fails_its_call_by_name_or_gives_it_back(executor, tmp_path):
    with pytest.raises(rp.WorkerLost, match=r"executor.0000.000001 has ended: .*signal 9"):
        executor.submit(killed).result(LIMIT_S)
    again = executor.submit(killed, str(tmp_path / "once"), resource_dict={"restart_limit": 1})
    assert again.result(LIMIT_S) == "again"
    with pytest.raises(rp.WorkerLost, match="signal 9"):
        executor.submit(killed, resource_dict={"restart_limit": 2}).result(LIMIT_S)


def test_a_call_that_never_returns_is_ended_when_its_time_is_over(executor, tmp_path):
    future = executor.submit(stays, str(tmp_path / "stays"), resource_dict={"run_time_max": 0.3})
    with pytest.raises(TimeoutError, match=r"its time of 0\.3 s is over"):
        future.result(LIMIT_S)
    assert executor.submit(rank).result(LIMIT_S) == (0, 1)


def test_what_cannot_be_packed_or_is_too_large_fails_alone(executor):
    with pytest.raises(UsageError, match="the call cannot be packed: TypeError"):
        executor.submit(len, threading.Lock())
    with pytest.raises(TypeError, match="cannot pickle"):
        executor.submit(threading.Lock).result(LIMIT_S)
    with pytest.raises(YodError, match="at most 1000000 are taken"):
        executor.submit(bytes, 2_000_000).result(LIMIT_S)
    assert executor.submit(len, "abc").result(LIMIT_S) == 3


def test_calls_that_have_not_begun_are_canceled_and_others_are_waited_for(executor, tmp_path):
    running = [executor.submit(waits, str(tmp_path / "go")) for _ in range(2)]
    wait_until(lambda: all(each.running() for each in running), what="two calls run")
    waiting, other = (executor.submit(len, "abc") for _ in range(2))
    assert waiting.cancel()
    assert not running[0].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(len, "abc")
    (tmp_path / "go").touch()
    executor.shutdown()
    assert other.cancelled()
    assert running[0].result(0) != running[1].result(0)


def test_executors_share_a_pilot_that_stays(session, tmgr):
    pilot = session.get_pilot_managers()[0].get_pilots()[0]
    for _ in range(2):
        with rp.Executor(1, pilot=pilot) as one, rp.Executor(1, pilot=pilot) as other:
            assert one.submit(os.getpid).result(LIMIT_S) != other.submit(os.getpid).result(LIMIT_S)
    assert pilot.state == rp.PMGR_ACTIVE
    executor = rp.Executor(pilot=pilot)
    with pytest.raises(rp.WorkerLost, match="a rank needs 99 cores"):
        executor.submit(len, "", resource_dict={"threads_per_core": 99}).result(LIMIT_S)
    os.kill(pilot.unix_pid, signal.SIGKILL)
    with pytest.raises(rp.WorkerLost, match=r"pilot\.0000"):
        executor.submit(time.sleep, 600).result(LIMIT_S)
    with pytest.raises(rp.WorkerLost, match=r"pilot\.0000"):
        executor.submit(len, "").result(LIMIT_S)
    executor.shutdown()


def test_a_session_that_is_closed_first_fails_the_calls_of_its_executors(session, tmgr):
    pilot = session.get_pilot_managers()[0].get_pilots()[0]
    executor = rp.Executor(pilot=pilot)
    future = executor.submit(time.sleep, 600)
    wait_until(future.running, what="the call runs")
    session.close()
    with pytest.raises(rp.WorkerLost):
        future.result(LIMIT_S)
    executor.shutdown()


def test_an_executor_whose_program_is_killed_leaves_no_pilot(place, tmp_path):
    script = (
        "import os, time, yod.pilot\n"
        "executor = yod.pilot.Executor(1)\n"
        "print(executor.submit(os.getpid).result())\n"
        "print(executor._pilots[0].unix_pid, flush=True)\n"
        "executor.submit(time.sleep, 600)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        processes = [int(program.stdout.readline()) for _ in range(2)]
        program.kill()
    for each in processes:
        wait_for_exit(each)  # a zombie has ended: this process may be its new parent
