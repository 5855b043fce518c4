"""Pilots on hosts that do not see the session's directory: files of tasks are carried."""

from __future__ import annotations

import sys

import pytest

from tests.support.partition import finish

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


CALLS = """
import os
import sys
import yod.pilot as rp
from pathlib import Path

def count(name):
    print("counting", name)
    Path("left").write_text(str(os.path.exists(HIDDEN)))
    return len(Path(name).read_text())

def fail():
    print("before")
    raise ValueError("not this one")

def end():
    print("last words", flush=True)
    os.kill(os.getpid(), 9)

def rank():
    Path("of." + os.environ["RP_RANK"]).write_text(os.environ["RP_RANK"])
    sys.stdout.write("a rank\\n")  # at once, also where there is no buffer
    return int(os.environ["RP_RANK"])

def told(name, task):
    state = task.wait(timeout=90)
    print(name, state, task.return_value, task.exception or task.reason, repr(task.stdout))

def out(task):
    return Path(task.output_files[0]).read_text()

NODES = ("node0", "node1")
HIDDEN = os.path.abspath("in.dat")
Path("in.dat").write_text("seven..")
Path("reader.py").write_text('''
import os
from pathlib import Path
import yod.pilot as rp

class Reader(rp.raptor.DefaultWorker):
    def __init__(self, raptor_id):
        super().__init__(raptor_id)
        self.calls = 0

    def read(self, name):
        self.calls += 1
        print("call", self.calls)
        Path("left").write_text(str(self.calls))
        return Path(name).read_text()

    def ask(self):
        return self.get_master().run_task({"executable": "hostname"})["stdout"].strip()
''')

def call(function, *args, **entries):
    entries |= {"mode": rp.TASK_FUNCTION, "function": function, "args": args}
    return rp.TaskDescription(entries)

def method(name, *args, **entries):
    return rp.TaskDescription({"mode": rp.TASK_METHOD, "method": name, "args": args, **entries})

with rp.Session() as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots({"resource": "yod.partition", "cores": 4, "runtime": 5})
    tmgr.add_pilots(pilot)
    one = tmgr.submit_tasks(call(count, "in.dat", input_staging=["in.dat"],
                                 output_staging=["left > left.1"]))
    told("one", one)
    print(Path("left.1").read_text(), out(one) == one.stdout, sorted(os.listdir(one.sandbox)))
    many = tmgr.submit_tasks([call(len, "x" * n) for n in range(40)])
    tmgr.wait_tasks(timeout=90)
    print([task.return_value for task in many] == list(range(40)))
    told("failing", failing := tmgr.submit_tasks(call(fail)))
    print(repr(out(failing)))
    told("ended", ended := tmgr.submit_tasks(call(end)))
    print(repr(out(ended)))
    told("ranks", ranks := tmgr.submit_tasks(call(rank, ranks=2, ranks_per_node=1)))
    print(sorted(name for name in os.listdir(ranks.sandbox) if name.startswith("of.")))
    (raptor,) = pilot.submit_raptors(rp.TaskDescription({"mode": rp.RAPTOR_MASTER}))
    keys = {"ranks": 2, "raptor_file": "reader.py", "raptor_class": "Reader"}
    workers = raptor.submit_workers([rp.TaskDescription({**keys, "ranks": n}) for n in (2, 1)])
    calls = raptor.submit_tasks([
        method("read", "in.dat", input_staging=["in.dat"], output_staging=[f"left > left.{n}"])
        for n in range(8)
    ])
    together = raptor.submit_tasks([call(rank, ranks=2)])[0]
    asking = raptor.submit_tasks([method("ask")])[0]
    tmgr.wait_tasks([task.uid for task in calls], timeout=90)
    print({(task.return_value, task.exception) for task in calls})
    numbers = [Path(f"left.{n}").read_text() for n in range(8)]
    print([out(task).split()[1] for task in calls] == numbers)
    told("together", together)
    print(repr(out(together)), sorted(n for n in os.listdir(together.sandbox) if n[:3] == "of."))
    print("asking", asking.wait(timeout=60), asking.return_value in NODES)
    raptor.rpc("stop")
    for worker in workers:
        print("worker", worker.wait(timeout=60))
with rp.Executor(resource="yod.partition", cores=4, runtime=5) as executor:
    print(sum(executor.map(abs, range(1000))))
    print(executor.submit(rank, resource_dict={"cores": 2}).result())
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


EXPECTED = r"""one DONE 7  'counting in.dat\n'
False True ['in.dat', 'left', 'task.000000.out']
True
failing FAILED None ValueError('not this one') 'before\n'
'before\n'
ended FAILED None its worker ended in the call: killed by SIGKILL 'last words\n'
'last words\n'
ranks DONE [0, 1]  'a rank\na rank\n'
['of.0', 'of.1']
{('seven..', None)}
True
together DONE [0, 1]  'a rank\na rank\n'
'a rank\na rank\n' ['of.0', 'of.1']
asking DONE True
worker DONE
worker DONE
499500
[0, 1]
"""


@pytest.mark.long
@pytest.mark.hosts
def test_functions_raptors_and_executors_run_on_hosts_that_lack_the_sessions_directory(apart):
    hosts, data = apart
    done = finish(hosts.start_command(sys.executable, "-c", CALLS, cwd=data))
    assert done.err == "", done.out
    assert done.out.splitlines() == EXPECTED.splitlines()
