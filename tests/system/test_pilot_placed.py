"""Tasks where the application wants them, ranks that wait for one another, nodes kept for later."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import yod.pilot as rp
from tests.support.partition import finish

LIMIT_S = 60.0
SUM = """
#include <mpi.h>
#include <stdio.h>

int main (int argc, char **argv)
{
    int rank, sum = 0;

    MPI_Init (&argc, &argv);
    MPI_Comm_rank (MPI_COMM_WORLD, &rank);
    MPI_Allreduce (&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf ("sum %d\\n", sum);
    return MPI_Finalize ();
}
"""


@pytest.fixture
def tmgr(session):
    return rp.TaskManager(session)


@pytest.fixture
def submit(session, tmgr):
    def pilot(**entries):
        entries = {"nodes": 2, "cores": 4, "runtime": 5} | entries
        found = rp.PilotManager(session).submit_pilots(rp.PilotDescription(entries))
        tmgr.add_pilots(found)
        return found

    return pilot


def shell(script, **entries):
    return rp.TaskDescription({"executable": "bash", "arguments": ["-c", script], **entries})


def test_ranks_wait_behind_pre_exec_for_those_whose_commands_take_longer(tmgr, submit):
    submit()
    late = {"1": ["until [ -e go ]; do sleep 0.01; done", "touch late"]}
    entries = {"ranks": 3, "pre_exec": [late], "pre_exec_sync": True}
    task = tmgr.submit_tasks(shell("ls late", **entries))
    assert task.wait(rp.AGENT_EXECUTING, timeout=LIMIT_S) == rp.AGENT_EXECUTING
    Path(task.sandbox, "go").touch()
    assert task.wait(timeout=LIMIT_S) == rp.DONE, task.stderr
    assert task.stdout == "late\n" * 3


def test_no_rank_runs_where_the_commands_of_one_fail(tmgr, submit):
    submit()
    entries = {"ranks": 3, "pre_exec": [{"1": "exit 7"}], "pre_exec_sync": True}
    task = tmgr.submit_tasks(shell("touch ran.$RP_RANK", **entries))
    assert (task.wait(timeout=LIMIT_S), task.exit_code) == (rp.FAILED, 7)
    assert task.stderr == "pre_exec_sync: pre_exec of rank 1 has failed\n" * 2
    assert not list(Path(task.sandbox).glob("ran.*"))


def test_mpi_begins_as_ever_behind_ranks_that_have_waited(tmgr, submit, mpi):
    submit()
    program = mpi.compile("pilot_sum", SUM)
    entries = {"ranks": 3, "pre_exec": ["true"], "pre_exec_sync": True}
    entries |= {"executable": str(program), "environment": mpi.c_env}
    task = tmgr.submit_tasks(rp.TaskDescription(entries))
    assert task.wait(timeout=LIMIT_S) == rp.DONE, task.stderr
    assert task.stdout == "sum 3\n"


def test_a_task_runs_on_the_slots_that_were_chosen_when_they_are_free(tmgr, submit):
    submit()
    chosen = [{"node_index": 1, "cores": [0]}, {"node_index": 0, "cores": [1]}]
    held = tmgr.submit_tasks(shell("until [ -e ../go ]; do sleep 0.01; done", slots=chosen))
    assert held.wait(rp.AGENT_EXECUTING, timeout=LIMIT_S) == rp.AGENT_EXECUTING
    other = tmgr.submit_tasks(shell("true", slots=[{"node_index": 0, "cores": [0, 1]}]))
    free = tmgr.submit_tasks(shell("true", slots=[{"node_index": 0, "cores": [0]}]))
    assert free.wait(timeout=LIMIT_S) == rp.DONE
    assert other.state not in rp.FINAL
    Path(held.sandbox, "..", "go").touch()
    assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 3
    assert [slot["cores"] for slot in held.slots] == [[0], [1]]
    assert other.slots[0]["cores"] == [0, 1]
    never = tmgr.submit_tasks(shell("true", slots=[{"node_index": 2, "cores": [0]}]))
    assert never.wait(timeout=LIMIT_S) == rp.FAILED
    assert never.reason == "'slots' has rank 0 on node 2, which the pilot does not have"


def test_tasks_are_as_large_as_the_file_of_their_pilot_says(tmgr, submit):
    pilot = submit(reconfig_src="sizes.json")
    assert pilot.wait(rp.PMGR_ACTIVE, timeout=LIMIT_S) == rp.PMGR_ACTIVE
    file = Path(pilot.pilot_sandbox, "sizes.json")
    file.write_text('{"ranks": 2, "cores_per_rank": 2}')
    task = tmgr.submit_tasks(shell("echo $RP_RANKS $RP_CORES_PER_RANK"))
    assert task.wait(timeout=LIMIT_S) == rp.DONE, task.reason
    assert (task.stdout, len(task.slots)) == ("2 2\n" * 2, 2)
    file.write_text("no")
    task = tmgr.submit_tasks(shell("true"))
    assert task.wait(timeout=LIMIT_S) == rp.FAILED
    assert task.reason.startswith(f"'reconfig_src': {file}: ")


def test_a_pilot_with_a_sandbox_of_its_own_has_everything_there(session, tmgr, submit, tmp_path):
    own = tmp_path / "scratch"
    pilot = submit(sandbox=str(own), cleanup=True)
    note = {"output_staging": ["note > client:///note", "note > session:///note"]}
    task = tmgr.submit_tasks(shell("pwd | tee note; env | grep RP_.*SANDBOX", **note))
    assert task.wait(timeout=LIMIT_S) == rp.DONE, task.reason
    above = own / "radical.pilot.sandbox"
    there = above / session.uid / pilot.uid
    told = dict(line.split("=", 1) for line in task.stdout.splitlines()[1:])
    assert (task.sandbox, Path("note").read_text()) == (f"{there}/{task.uid}", f"{task.sandbox}\n")
    assert (above / session.uid / "note").exists()
    assert told == {
        "RP_RESOURCE_SANDBOX": str(above),
        "RP_SESSION_SANDBOX": str(above / session.uid),
        "RP_PILOT_SANDBOX": pilot.pilot_sandbox,
        "RP_TASK_SANDBOX": task.sandbox,
    }
    assert (pilot.session_sandbox, task.resource_sandbox) == (str(there.parent), str(above))
    link = Path(session.path, pilot.uid)
    assert os.readlink(link) == str(there)
    names = {os.path.basename(path) for path in session.fetch_profiles(str(tmp_path / "profiles"))}
    assert {"tmgr.0000.prof", "agent_0.prof"} <= names
    session.close()
    assert not there.exists() and not link.is_symlink()


def test_a_sandbox_of_another_session_of_the_same_name_is_left_alone(session, submit, tmp_path):
    there = tmp_path / "radical.pilot.sandbox" / session.uid / "pilot.0000"
    there.mkdir(parents=True)
    (there / "agent.log").touch()
    pilot = submit(sandbox=str(tmp_path), cleanup=True)
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    assert pilot.reason == f"'sandbox': {there} is that of another session of this name"
    session.close()
    assert list(there.iterdir()) == [there / "agent.log"]


def test_a_sandbox_that_cannot_be_made_fails_the_pilot_with_its_key(submit, tmp_path):
    (tmp_path / "file").touch()
    pilot = submit(sandbox=str(tmp_path / "file"))
    assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
    assert pilot.reason.startswith(f"'sandbox': {tmp_path}/file/radical.pilot.sandbox")
    assert pilot.reason.endswith(": Not a directory")


BACKUP = """
import os, signal, sys
import yod.pilot as rp
from pathlib import Path

with rp.Session() as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    asked = {"resource": "yod.partition", "nodes": 1, "backup_nodes": 1, "runtime": 5}
    pilot = pmgr.submit_pilots(asked)
    tmgr.add_pilots(pilot)
    assert pilot.wait(rp.PMGR_ACTIVE, timeout=60) == rp.PMGR_ACTIVE, pilot.reason
    print([node["name"] for node in pilot.nodelist])
    script = "echo $YOD_NODE_NAME; [ $YOD_NODE_NAME = node1 ] || sleep 60"
    shell = {"executable": "sh", "arguments": ["-c", script], "restartable": True, "ranks": 2}
    tasks = tmgr.submit_tasks([rp.TaskDescription({**shell, "use_mpi": False}) for _ in range(2)])
    first = tasks[0]
    first.wait(rp.AGENT_EXECUTING, timeout=60)
    output = Path(first.output_files[0])
    while not (output.exists() and output.read_text().count("node0") == 2):
        pass
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
            if words.startswith(sys.argv[1].encode()) and session.uid.encode() in words:
                if b"YOD_NODE_NAME=node0" in Path("/proc", name, "environ").read_bytes():
                    os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
    tmgr.wait_tasks(timeout=60)
    print(sorted((task.state, task.slots[-1]["node"]) for task in tasks), pilot.state)
"""


def test_a_backup_node_goes_on_with_the_tasks_of_one_that_is_lost(start_local, tmp_path):
    from yod.pilot.agent.starters import PROGRAM

    partition = start_local(2, slots=2)
    command = partition.start_command(sys.executable, "-c", BACKUP, PROGRAM, cwd=tmp_path)
    done = finish(command)
    assert (done.status, done.err) == (0, "")
    first, last = done.out.splitlines()
    assert first == "['node0']"
    assert last == "[('DONE', 'node1'), ('DONE', 'node1')] PMGR_ACTIVE"
