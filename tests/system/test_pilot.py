"""Pilots and tasks, with real agents and real programs."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

import yod.pilot as rp
from native.errors import UsageError
from tests.support.wait import wait_until
from yod.pilot.files import staging
from yod.pilot.model.states import TASK

LIMIT_S = 60.0


@pytest.fixture
def pmgr(session):
    return rp.PilotManager(session)


@pytest.fixture
def tmgr(session):
    return rp.TaskManager(session)


@pytest.fixture
def pilot(pmgr, tmgr):
    pilot = pmgr.submit_pilots(rp.PilotDescription({"cores": 4, "runtime": 5}))
    tmgr.add_pilots(pilot)
    return pilot


def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})


def test_a_bag_of_tasks_is_run_and_each_has_its_output(tmgr, pilot):
    tasks = tmgr.submit_tasks([shell(f"echo task {n}; echo no >&2") for n in range(50)])
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 50
    for n, task in enumerate(tasks):
        assert (task.stdout, task.stderr, task.exit_code) == (f"task {n}\n", "no\n", 0)
        out, err = map(Path, task.output_files)
        assert (out.read_text(), err.read_text()) == (f"task {n}\n", "no\n")
        assert out.parent == Path(task.sandbox)
    assert pilot.state == rp.PMGR_ACTIVE


def test_states_are_announced_once_in_order_to_every_callback(session, tmgr, pmgr):
    heard: dict[str, list[str]] = {}
    pilots: list[str] = []
    bulks: list[str] = []

    def raises(task, state):
        raise ValueError("the application's own")

    tmgr.register_callback(raises)
    tmgr.register_callback(
        lambda task, state, data: data.setdefault(task.uid, []).append(state), heard
    )
    tmgr.register_callback(lambda tasks: bulks.extend(task.state for task in tasks), bulk=True)
    pmgr.register_callback(lambda pilot, state: pilots.append(state))
    pilot = pmgr.submit_pilots({"cores": 2, "runtime": 5})
    tmgr.add_pilots(pilot)
    tmgr.submit_tasks([shell("exit 0"), shell("exit 1")])
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE, rp.FAILED]
    done, failed = heard.values()
    assert done == [*TASK.states[1:], rp.DONE]
    assert failed[-1] == rp.FAILED
    values = [TASK.values[state] for state in failed]
    assert all(earlier < later for earlier, later in pairwise(values))
    assert sorted(bulks) == sorted([*done, *failed])
    pilot.cancel()
    assert pilot.wait(timeout=LIMIT_S) == rp.CANCELED
    assert pilots == [*OF_PILOT, rp.CANCELED]


OF_PILOT = ["PMGR_LAUNCHING_PENDING", "PMGR_LAUNCHING", "PMGR_ACTIVE_PENDING", "PMGR_ACTIVE"]


def test_ranks_of_an_mpi_task_see_one_another(tmgr, pilot, programs, tmp_path):
    task = tmgr.submit_tasks(shell("echo $RP_RANK of $RP_RANKS", ranks=3))
    assert task.wait(timeout=LIMIT_S) == rp.DONE
    assert sorted(task.stdout.splitlines()) == ["0 of 3", "1 of 3", "2 of 3"]
    assert len(task.slots) == 3
    alone = tmgr.submit_tasks(shell("echo $RP_RANK", ranks=2, use_mpi=False))
    assert alone.wait(timeout=LIMIT_S) == rp.DONE
    assert sorted(alone.stdout.split()) == ["0", "1"]


def test_commands_around_a_launch_run_once_and_one_that_fails_fails_the_task(tmgr, pilot):
    note = {"pre_launch": ["echo before >> notes"], "post_launch": ["echo behind >> notes"]}
    for entries in ({"ranks": 2}, {}):
        task = tmgr.submit_tasks(shell("echo rank >> notes", **note, **entries))
        assert task.wait(timeout=LIMIT_S) == rp.DONE, task.reason
        notes = Path(task.sandbox, "notes").read_text().split()
        assert notes == ["before", *["rank"] * entries.get("ranks", 1), "behind"]
    bad = tmgr.submit_tasks(shell("true", ranks=2, pre_launch=["exit 7"]))
    assert bad.wait(timeout=LIMIT_S) == rp.FAILED
    assert bad.reason == "pre_launch: exit code 7"
    bad = tmgr.submit_tasks(shell("true", ranks=2, post_launch=["exit 8"]))
    assert bad.wait(timeout=LIMIT_S) == rp.FAILED
    assert bad.reason == "post_launch: exit code 8"


def test_what_fails_says_why(tmgr, pilot):
    asked = {
        "no such program": {"executable": "no-such-program"},
        "exit code": {"executable": "sh", "arguments": ["-c", "exit 3"]},
        "signal": {"executable": "sh", "arguments": ["-c", "kill -SEGV $$"]},
        "too large": {"executable": "true", "cores_per_rank": 99},
        "before": {"executable": "true", "pre_exec": ["false"]},
        "sandbox": {"executable": "true", "sandbox": "/proc/nowhere"},
        "zero": {"executable": "true", "arguments": ["a\0b"]},
        "long": {"executable": "true", "arguments": ["x" * 200_000]},
        "mpi": {"executable": "sh", "arguments": ["-c", "exit 4"], "ranks": 2},
    }
    tasks = tmgr.submit_tasks([rp.TaskDescription(each) for each in asked.values()])
    assert set(tmgr.wait_tasks(timeout=LIMIT_S)) == {rp.FAILED}
    told = {name: (task.exit_code, task.reason) for name, task in zip(asked, tasks, strict=True)}
    assert told["no such program"] == (127, "no-such-program: No such file or directory")
    assert told["exit code"] == (3, "exit code 3")
    assert told["signal"] == (128 + signal.SIGSEGV, f"it was ended by signal {signal.SIGSEGV:d}")
    assert "the largest node has 4 cores" in told["too large"][1]
    assert told["before"] == (1, "exit code 1")
    assert "its sandbox /proc/nowhere" in told["sandbox"][1]
    assert "zero byte" in told["zero"][1]
    assert "190000 are possible" in told["long"][1]
    assert told["mpi"][0] == 4
    assert all(task.why == task.reason for task in tasks)


def test_a_wrong_description_is_refused_and_takes_no_other_one_with_it(tmgr, pilot):
    with pytest.raises(UsageError, match="did you mean 'executable'"):
        tmgr.submit_tasks([shell("true"), rp.TaskDescription({"executabel": "a"})])
    assert tmgr.list_tasks() == []
    with pytest.raises(UsageError, match="there is one of this name"):
        tmgr.submit_tasks([shell("true", uid="a"), shell("true", uid="a")])
    with pytest.raises(UsageError, match="there is no resource 'moon'"):
        pilot.pmgr.submit_pilots({"resource": "moon", "cores": 1})
    with pytest.raises(UsageError, match="there is no state 'READY'"):
        tmgr.wait_tasks(state="READY")
    with pytest.raises(UsageError, match=r"there is no task 'task\.9'"):
        tmgr.get_tasks("task.9")


def test_ranks_have_the_variables_and_the_commands_of_their_task(session, tmgr, pilot):
    task = tmgr.submit_tasks(
        shell(
            "echo $RP_TASK_ID $RP_PILOT_ID $RP_SESSION_ID $RP_CORES_PER_RANK $RP_RANK $RP_RANKS;"
            " echo $RP_TASK_SANDBOX; pwd; echo $OWN $BEFORE",
            environment={"OWN": "1"},
            pre_exec=["export BEFORE=2"],
            post_exec=["echo behind"],
            cores_per_rank=2,
        )
    )
    assert task.wait(timeout=LIMIT_S) == rp.DONE
    first, *rest = task.stdout.splitlines()
    assert first.split() == [task.uid, pilot.uid, session.uid, "2", "0", "1"]
    assert rest == [task.sandbox, task.sandbox, "1 2", "behind"]


def test_time_is_limited_and_a_task_that_does_not_end_is_killed(tmgr, pilot, monkeypatch):
    tasks = tmgr.submit_tasks(
        [
            shell("sleep 60", timeout=0.2),
            shell("sleep 60", timeout=0.2, ranks=2),
            shell("trap '' TERM; sleep 60 & wait; sleep 60", timeout=0.2),
        ]
    )
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.CANCELED] * 3
    assert {task.reason for task in tasks} == {"its time of 0.2 s is over"}


def test_tasks_are_canceled_wherever_they_are(tmgr, pilot):
    running = tmgr.submit_tasks([shell("sleep 60") for _ in range(4)])
    waiting = tmgr.submit_tasks([shell("true") for _ in range(200)])
    assert tmgr.wait_tasks([each.uid for each in running], rp.AGENT_EXECUTING, LIMIT_S)
    wait_until(lambda: "cores" in waiting[0].why, what="the agent has the tasks that wait")
    assert "0 of 4 are free" in waiting[0].why
    assert running[0].why == "it runs"
    tmgr.cancel_tasks()
    assert set(tmgr.wait_tasks(timeout=LIMIT_S)) == {rp.CANCELED}
    late = tmgr.submit_tasks(shell("echo again"))
    assert late.wait(timeout=LIMIT_S) == rp.DONE


def test_thousands_of_tasks_are_canceled_at_once(tmgr, pilot):
    tmgr.submit_tasks([shell("sleep 60") for _ in range(10_000)])
    tmgr.cancel_tasks()
    states = tmgr.wait_tasks(timeout=LIMIT_S)
    assert states == [rp.CANCELED] * 10_000


def test_a_task_starts_within_its_time_or_fails(tmgr, pilot):
    service = functools.partial(shell, mode=rp.TASK_SERVICE)
    silent = service("sleep 60", info_pattern="stdout:ready", startup_timeout=0.3)
    ready = service(
        "echo ready at 7; sleep 60", info_pattern="stdout:ready at (.)", startup_timeout=LIMIT_S
    )
    silent, ready = tmgr.submit_tasks([silent, ready])
    assert silent.wait(timeout=LIMIT_S) == rp.FAILED
    assert silent.reason == "it did not start in 0.3 s"
    wait_until(lambda: ready.info == "7", what="the other one is ready")
    assert ready.state == rp.AGENT_EXECUTING
    with pytest.raises(UsageError, match="has a wrong expression"):
        tmgr.submit_tasks(shell("true", info_pattern="stdout:("))


def test_files_are_brought_before_and_after(tmgr, pilot):
    Path("in.txt").write_text("text")
    task = tmgr.submit_tasks(
        rp.TaskDescription(
            {
                "executable": "sh",
                "arguments": ["-c", "cat in.txt other/b > out.txt"],
                "input_staging": [
                    "in.txt",
                    {"source": "pilot:///shared", "target": "task:///other/b", "action": rp.LINK},
                ],
                "output_staging": ["out.txt > results/", {"source": "none", "flags": rp.NON_FATAL}],
            }
        )
    )
    Path("shared").write_text(" and more")
    pilot.stage_in("shared > pilot:///shared")
    pilot.wait(rp.PMGR_ACTIVE)
    assert task.wait(timeout=LIMIT_S) == rp.DONE, task.reason
    assert Path("results/out.txt").read_text() == "text and more"
    missing = tmgr.submit_tasks(shell("true", input_staging=["nowhere.txt"]))
    assert missing.wait(timeout=LIMIT_S) == rp.FAILED
    assert "nowhere.txt" in missing.reason
    lost = tmgr.submit_tasks(shell("true", output_staging=["nowhere.txt"]))
    assert lost.wait(timeout=LIMIT_S) == rp.FAILED
    assert "the source is missing" in lost.reason


def test_a_task_with_cleanup_leaves_what_was_brought_and_nothing_else(tmgr, pilot):
    tasks = tmgr.submit_tasks(
        [
            shell("echo a > a; echo b", cleanup=True, output_staging=["a > kept"]),
            shell("echo a > a; echo b; exit 3", cleanup=True),
            shell("echo a > a; echo b", cleanup=True, sandbox="own/one"),
            shell("echo a > a; echo b", cleanup=True, output_staging=["a > pilot:///here"]),
            shell("echo a > a; echo b"),
        ]
    )
    ended = [rp.DONE, rp.FAILED, rp.DONE, rp.DONE, rp.DONE]
    assert tmgr.wait_tasks(timeout=LIMIT_S) == ended
    assert [task.stdout for task in tasks] == ["b\n"] * 5
    assert [os.path.exists(task.sandbox) for task in tasks] == [False] * 4 + [True]
    assert Path("kept").read_text() == "a\n"
    assert Path(pilot.pilot_sandbox, "here").read_text() == "a\n"
    assert Path(pilot.pilot_sandbox, "own").is_dir()


def test_output_of_a_pilot_is_brought_when_it_ends(session):
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    asked = {"cores": 1, "runtime": 5, "output_staging": ["sum > results/sum"]}
    pilots = pmgr.submit_pilots([dict(asked), dict(asked)])
    tmgr.add_pilots(pilots[0])
    pilots[1].wait(rp.PMGR_ACTIVE, LIMIT_S)
    task = tmgr.submit_tasks(shell("echo 7 > ../sum"))
    assert task.wait(timeout=LIMIT_S) == rp.DONE
    pmgr.cancel_pilots()
    assert pmgr.wait_pilots(timeout=LIMIT_S) == [rp.CANCELED, rp.FAILED]
    assert Path("results/sum").read_text() == "7\n"
    assert pilots[1].reason.startswith("pilot pilot.0001: task:///sum > client:///results/sum: ")
    here = pmgr.submit_pilots({"cores": 1, "candidate_hosts": "n1"})
    assert here.wait(timeout=LIMIT_S) == rp.FAILED
    assert here.reason.endswith("'candidate_hosts': local.localhost has no choice of hosts")


def test_a_task_is_canceled_while_its_files_are_brought(tmgr, pilot, monkeypatch):
    gate, real = threading.Event(), staging.bring_all

    def bring_all(directives, roots):
        gate.wait(LIMIT_S)
        return real(directives, roots)

    monkeypatch.setattr("yod.pilot.files.staging.bring_all", bring_all)
    Path("in.txt").write_text("text")
    task = tmgr.submit_tasks(shell("touch ../ran", input_staging=["in.txt"]))
    assert task.wait(rp.TMGR_STAGING_INPUT, LIMIT_S) == rp.TMGR_STAGING_INPUT
    task.cancel()
    gate.set()
    assert task.wait(timeout=LIMIT_S) == rp.CANCELED
    assert not Path(pilot.pilot_sandbox, "ran").exists()


def test_a_canceled_task_does_not_run_in_another_pilot(pmgr, tmgr, pilot):
    first = tmgr.submit_tasks([shell("sleep 60") for _ in range(4)])
    tmgr.wait_tasks(state=rp.AGENT_EXECUTING, timeout=LIMIT_S)
    rest = tmgr.submit_tasks([shell("touch ../../ran") for _ in range(20)])
    wait_until(lambda: "cores" in rest[0].why, what="the agent has the tasks that wait")
    os.kill(pilot.unix_pid, signal.SIGSTOP)
    tmgr.remove_pilots(pilot.uid)
    tmgr.cancel_tasks([task.uid for task in rest])
    tmgr.add_pilots(pmgr.submit_pilots({"cores": 2, "runtime": 5}))
    os.kill(pilot.unix_pid, signal.SIGCONT)
    uids = [task.uid for task in rest]
    assert set(tmgr.wait_tasks(uids, timeout=LIMIT_S)) == {rp.CANCELED}
    assert not Path(pilot.session_sandbox, "ran").exists()
    tmgr.cancel_tasks([task.uid for task in first])


def test_nothing_that_a_task_leaves_behind_lives_on(tmgr, pilot):
    task = tmgr.submit_tasks(shell("setsid sleep 3600 & echo $!"))
    assert task.wait(timeout=LIMIT_S) == rp.DONE
    assert not Path(f"/proc/{task.stdout.strip()}").exists()


def test_no_descriptor_of_the_application_lives_on_in_its_pilot(pmgr, tmgr, tmp_path):
    with open(tmp_path / "lock", "w") as lock:
        os.set_inheritable(lock.fileno(), True)
        pilot = pmgr.submit_pilots({"cores": 1, "runtime": 5})
        tmgr.add_pilots(pilot)
        task = tmgr.submit_tasks(shell("ls -l /proc/$$/fd /proc/$PPID/fd"))
        assert task.wait(timeout=LIMIT_S) == rp.DONE
        assert str(lock.name) not in task.stdout
        paths = [os.path.realpath(each) for each in Path(f"/proc/{pilot.unix_pid}/fd").iterdir()]
    assert str(lock.name) not in paths


def test_a_killed_keeper_fails_its_task_by_name(tmgr, pilot):
    task = tmgr.submit_tasks(shell("echo $PPID; exec sleep 60"))
    other = tmgr.submit_tasks(shell("while [ ! -e ../go ]; do sleep 0.01; done"))
    out = Path(pilot.pilot_sandbox, task.uid, f"{task.uid}.out")
    wait_until(lambda: out.exists() and out.read_text().endswith("\n"), what="the task has begun")
    os.kill(int(out.read_text()), signal.SIGKILL)
    assert task.wait(timeout=LIMIT_S) == rp.FAILED
    assert task.reason == "its keeper is lost: killed by SIGKILL"
    Path(pilot.pilot_sandbox, "go").touch()
    assert other.wait(timeout=LIMIT_S) == rp.DONE


def test_a_killed_agent_fails_its_tasks_or_gives_back_those_that_may_run_again(pmgr, tmgr, pilot):
    plain = tmgr.submit_tasks(shell("sleep 60"))
    again = tmgr.submit_tasks(shell("[ -e ../../second ] || sleep 60", restartable=True))
    tmgr.wait_tasks(state=rp.AGENT_EXECUTING, timeout=LIMIT_S)
    os.kill(pilot.unix_pid, signal.SIGKILL)
    assert plain.wait(timeout=LIMIT_S) == rp.FAILED
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    assert plain.reason.startswith(f"its pilot {pilot.uid} is FAILED: the connection to its agent")
    Path(pilot.session_sandbox, "second").touch()
    second = pmgr.submit_pilots({"cores": 1, "runtime": 5})
    tmgr.add_pilots(second)
    assert again.wait(timeout=LIMIT_S) == rp.DONE
    assert (again.pilot, again.restarts) == (second.uid, 1)


def test_a_pilot_is_drained_while_tasks_run(pmgr, tmgr, pilot):
    first = tmgr.submit_tasks(
        [shell("while [ ! -e ../go ]; do sleep 0.01; done") for _ in range(4)]
    )
    tmgr.wait_tasks(state=rp.AGENT_EXECUTING, timeout=LIMIT_S)
    rest = tmgr.submit_tasks([shell("true") for _ in range(20)])
    wait_until(lambda: "cores" in rest[0].why, what="the agent has the tasks that wait")
    tmgr.remove_pilots(pilot.uid)
    second = pmgr.submit_pilots({"cores": 2, "runtime": 5})
    tmgr.add_pilots(second)
    assert set(tmgr.wait_tasks([each.uid for each in rest], timeout=LIMIT_S)) == {rp.DONE}
    assert {task.pilot for task in rest} == {second.uid}
    Path(pilot.pilot_sandbox, "go").touch()
    assert set(tmgr.wait_tasks(timeout=LIMIT_S)) == {rp.DONE}
    assert {task.pilot for task in first} == {pilot.uid}


def test_others_wait_for_a_service(tmgr, pilot):
    service = tmgr.submit_tasks(shell("touch ../up; sleep 60", mode=rp.TASK_SERVICE, uid="db"))
    user = tmgr.submit_tasks(shell("true", services=["db"]))
    assert user.wait(timeout=LIMIT_S) == rp.DONE
    assert service.state == rp.AGENT_EXECUTING
    service.cancel()
    assert service.wait(timeout=LIMIT_S) == rp.CANCELED


@pytest.mark.parametrize("state", [rp.PMGR_ACTIVE_PENDING, rp.PMGR_ACTIVE])
def test_tasks_wait_for_a_service_that_runs_elsewhere(tmgr, pilot, state):
    pilot.wait(state)
    task = tmgr.submit_tasks(shell("echo $RP_INFO_DB_1", services=["db.1"]))
    if state == rp.PMGR_ACTIVE:
        wait_until(lambda: "the service db.1" in task.why, what="it waits for the service")
    pilot.register_service("db.1", "host:7")
    assert (task.wait(timeout=LIMIT_S), task.stdout) == (rp.DONE, "host:7\n")
    with pytest.raises(UsageError, match="cannot name a service"):
        pilot.register_service("", "host:7")


def test_pilots_come_while_tasks_wait_and_go_when_they_are_idle(pmgr, tmgr):
    tmgr.auto_pilots(pmgr, {"cores": 1, "runtime": 5}, most=2, idle=0.2)
    until_both = "while [ ! -e ../../go ]; do sleep 0.01; done"
    tasks = tmgr.submit_tasks([shell(until_both) for _ in range(1500)])
    both = [rp.PMGR_ACTIVE] * 2
    wait_until(lambda: [pilot.state for pilot in pmgr.get_pilots()] == both, what="two pilots")
    Path(pmgr.get_pilots()[0].session_sandbox, "go").touch()
    assert set(tmgr.wait_tasks(timeout=LIMIT_S)) == {rp.DONE}
    assert {task.pilot for task in tasks} == {"pilot.0000", "pilot.0001"}
    assert pmgr.wait_pilots(timeout=LIMIT_S) == [rp.CANCELED] * 2
    assert tmgr.submit_tasks(shell("true")).wait(timeout=LIMIT_S) == rp.DONE
    assert len(pmgr.list_pilots()) == 3


def test_a_pilot_whose_time_is_over_is_done_and_its_tasks_have_a_reason(pmgr, tmgr):
    pilot = pmgr.submit_pilots({"cores": 1, "runtime": 0.01})
    tmgr.add_pilots(pilot)
    task = tmgr.submit_tasks(shell("sleep 60"))
    assert pilot.wait(timeout=LIMIT_S) == rp.DONE
    assert pilot.reason == "its runtime of 0.01 minutes is over"
    assert task.wait(timeout=LIMIT_S) in (rp.CANCELED, rp.FAILED)


def test_an_application_that_forgets_its_session_leaves_no_pilot(place, tmp_path):
    import subprocess

    script = (
        "import yod.pilot as rp\n"
        "s = rp.Session()\n"
        "p = rp.PilotManager(s).submit_pilots({'cores': 1, 'runtime': 5})\n"
        "p.wait(rp.PMGR_ACTIVE)\n"
        "print(p.unix_pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=LIMIT_S,
    )
    assert done.stderr == ""
    assert not Path(f"/proc/{done.stdout.strip()}").exists()
