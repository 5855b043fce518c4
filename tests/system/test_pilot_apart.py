"""Pilots on hosts that do not see the session's directory: files of tasks are carried."""

from __future__ import annotations

import sys

import pytest

from tests.support.partition import finish
from tests.support.pilot_calls import CALLS, EXPECTED

SCRIPT = """
import os
import yod.pilot as rp
from pathlib import Path

def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})

def told(name, task):
    print(name, task.wait(timeout=90), task.reason)

Path("in.dat").write_text("from the application\\n")
Path("large.dat").write_bytes(os.urandom(300_000))
Path("big.dat").write_bytes(bytes(8_000_000))
with rp.Session() as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots({"resource": "yod.partition", "cores": 4, "runtime": 5})
    tmgr.add_pilots(pilot)
    assert pilot.wait(rp.PMGR_ACTIVE, timeout=60) == rp.PMGR_ACTIVE, pilot.reason
    pilot.stage_in("in.dat > pilot:///shared.dat")
    link = {"source": "pilot:///shared.dat", "target": "task:///shared", "action": rp.LINK}
    one = tmgr.submit_tasks(shell(
        "cat in.dat shared; hostname >where; cp large.dat copy; mkfifo pipe",
        input_staging=["in.dat", "large.dat", link],
        output_staging=["where > where.1", "copy > back.dat"],
    ))
    told("one", one)
    print(repr(one.stdout), Path("where.1").read_text().strip() == one.slots[0]["node"])
    print(Path("back.dat").read_bytes() == Path("large.dat").read_bytes())
    print(sorted(name for name in os.listdir(one.sandbox)))
    print(Path(one.output_files[0]).read_text() == one.stdout)
    mpi = tmgr.submit_tasks(shell(
        "cat in.dat >out.$RP_RANK; hostname >>out.$RP_RANK; echo rank",
        ranks=2, ranks_per_node=1, input_staging=["in.dat"],
    ))
    told("mpi", mpi)
    found = [Path(mpi.sandbox, f"out.{n}").read_text().splitlines() for n in range(2)]
    print(found == [["from the application", slot["node"]] for slot in mpi.slots])
    print(repr(Path(mpi.output_files[0]).read_text()))
    told("failing", failing := tmgr.submit_tasks(shell("echo left >left; exit 3")))
    print(Path(failing.sandbox, "left").read_text().strip(), failing.exit_code)
    told("full", tmgr.submit_tasks(shell("true", input_staging=["big.dat"])))
    many = tmgr.submit_tasks([shell("cat in.dat", input_staging=["in.dat"]) for _ in range(12)])
    print(set(tmgr.wait_tasks([each.uid for each in many], timeout=90)))
    slow = tmgr.submit_tasks(shell("echo up; sleep 600"))
    slow.wait(rp.AGENT_EXECUTING, timeout=60)
    slow.cancel()
    print("slow", slow.wait(timeout=60))
print(sorted(os.listdir(pilot.pilot_sandbox + "/carried")))
"""


@pytest.fixture
def apart(start_hosts, tmp_path):
    """Hosts, and a directory that each of them has files of its own in."""
    data = tmp_path / "data"
    data.mkdir()
    hosts = start_hosts(2, slots=2)
    for host in hosts.hosts[:2]:
        host.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", data], check=True)
    return hosts, data


@pytest.mark.hosts
def test_input_is_carried_to_hosts_with_files_of_their_own_and_output_back(apart):
    hosts, data = apart
    done = finish(hosts.start_command(sys.executable, "-c", SCRIPT, cwd=data))
    assert done.err == "", done.out
    lines = done.out.splitlines()
    assert lines[:3] == [
        "one DONE ",
        "'from the application\\nfrom the application\\n' True",
        "True",
    ]
    outputs = ["task.000000.err", "task.000000.out"]
    assert lines[3] == str(["copy", "in.dat", "large.dat", "shared", *outputs, "where"])
    assert lines[4:7] == ["True", "mpi DONE ", "True"]
    assert lines[7] == repr("rank\nrank\n")
    assert lines[8:10] == ["failing FAILED exit code 3", "left 3"]
    assert lines[10].startswith("full FAILED its input on node")
    assert lines[10].endswith("big.dat: No space left on device")
    assert lines[11:] == ["{'DONE'}", "slow CANCELED", "[]"]
    for host in hosts.hosts[:2]:
        left = host.run(["find", data, "-type", "f"]).stdout
        assert "in.dat" not in left and "starters.key" not in left


@pytest.mark.long
@pytest.mark.hosts
def test_functions_raptors_and_executors_run_on_hosts_that_lack_the_sessions_directory(apart):
    hosts, data = apart
    done = finish(hosts.start_command(sys.executable, "-c", CALLS, "yod.partition", cwd=data))
    assert done.err == "", done.out
    assert done.out.splitlines() == EXPECTED.splitlines()
