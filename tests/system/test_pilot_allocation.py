"""Pilots in allocations of a partition: starters on several nodes."""

from __future__ import annotations

import sys

from tests.support.partition import finish

SCRIPT = """
import os, signal, sys
import yod.pilot as rp
from pathlib import Path

def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})

with rp.Session() as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots(
        {"resource": "yod.partition", "cores": 6, "runtime": 5}
    )
    tmgr.add_pilots(pilot)
    assert pilot.wait(rp.PMGR_ACTIVE, timeout=60) == rp.PMGR_ACTIVE, pilot.reason
    go = Path(pilot.pilot_sandbox, "go")
    wait = "echo $YOD_NODE_NAME; while [ ! -e ../go ]; do sleep 0.01; done"
    tasks = tmgr.submit_tasks([shell(wait) for _ in range(6)])
    tmgr.wait_tasks(state=rp.AGENT_EXECUTING, timeout=60)
    go.touch()
    tmgr.wait_tasks(timeout=60)
    print("singles", sorted(task.stdout.strip() for task in tasks))
    mpi = tmgr.submit_tasks(shell("echo $RP_RANK $YOD_NODE_NAME", ranks=4, ranks_per_node=2))
    print(mpi.wait(timeout=60), mpi.reason)
    told = {int(line.split()[0]): line.split()[1] for line in mpi.stdout.splitlines()}
    print("as placed", [told[n] for n in range(4)] == [slot["node"] for slot in mpi.slots])
    spread = {"arguments": ["-c", "echo $RP_RANK $YOD_NODE_NAME"], "executable": "sh"}
    one = tmgr.submit_tasks(shell("echo; while [ ! -e ../stop ]; do sleep 0.01; done"))
    one.wait(rp.AGENT_EXECUTING, timeout=60)
    for entries in ({"ranks": 2, "ranks_per_node": 1}, {"ranks": 3}):
        task = tmgr.submit_tasks(rp.TaskDescription(spread | entries))
        task.wait(timeout=60)
        told = dict(line.split() for line in task.stdout.splitlines())
        nodes = [told.get(str(n)) for n in range(task.ranks)]
        print(nodes == [slot["node"] for slot in task.slots])
    Path(pilot.pilot_sandbox, "stop").touch()
    go.unlink()
    same = {"colocate": "a"}
    lost = tmgr.submit_tasks(shell("echo $YOD_NODE_NAME; sleep 60", tags=same))
    again = tmgr.submit_tasks(
        shell("echo $YOD_NODE_NAME; [ -e ../go ] || sleep 60", restartable=True, tags=same)
    )
    for task in (lost, again):
        task.wait(rp.AGENT_EXECUTING, timeout=60)
    for task in (again, lost):
        output = Path(task.output_files[0])
        while not (output.exists() and output.read_text()):
            pass
    node = output.read_text().strip()
    go.touch()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
            if words.startswith(sys.argv[1].encode()) and session.uid.encode() in words:
                if f"YOD_NODE_NAME={node}".encode() in Path("/proc", name, "environ").read_bytes():
                    os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
    print(lost.wait(timeout=60), lost.reason)
    print(again.wait(timeout=60), again.stdout.strip() != node)
    print(pilot.state, tmgr.submit_tasks(shell("true", ranks=4)).wait(timeout=60))
"""


def test_tasks_run_on_every_node_and_ranks_where_they_were_placed(start_local, tmp_path):
    from yod.pilot.agent.starters import PROGRAM

    partition = start_local(3, slots=2)
    command = partition.start_command(sys.executable, "-c", SCRIPT, PROGRAM, cwd=tmp_path)
    done = finish(command)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    nodes = ["node0", "node0", "node1", "node1", "node2", "node2"]
    assert lines[0] == f"singles {nodes}"
    assert lines[1:3] == ["DONE ", "as placed True"]
    assert lines[3:5] == ["True", "True"]  # one rank on each node; partly filled ones
    assert lines[5] == "FAILED its keeper is lost: the starter has ended"
    assert lines[6:] == ["DONE True", "PMGR_ACTIVE DONE"]
