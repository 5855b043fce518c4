"""Programs for nodes that do not see the session's directory, run with the name of a resource.

One has tasks, the other one functions, raptors and an executor; what that prints is below it.
"""

from __future__ import annotations

TASKS = """
import os, sys
import yod.pilot as rp
from pathlib import Path

def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})

def square(n):
    return n * n

Path("in.dat").write_text("from the application\\n")
with rp.Session("s") as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots({"resource": sys.argv[1], "cores": 4, "runtime": 5})
    tmgr.add_pilots(pilot)
    assert pilot.wait(rp.PMGR_ACTIVE, timeout=110) == rp.PMGR_ACTIVE, pilot.reason
    task = tmgr.submit_tasks(shell("cat in.dat; hostname >where",
        input_staging=["in.dat"], output_staging=["where > where.1"]))
    mpi = tmgr.submit_tasks(shell("hostname", ranks=2, ranks_per_node=1))
    call = tmgr.submit_tasks({"mode": rp.TASK_FUNCTION, "function": square, "args": [7]})
    print(tmgr.wait_tasks(timeout=110), [each.reason for each in (task, mpi, call)])
    print(repr(task.stdout), Path("where.1").read_text() in ("node0\\n", "node1\\n"))
    print(sorted(mpi.stdout.split()), call.return_value)
    print(Path("s/client.sock.tcp").read_text().split()[2], pilot.job.job_id, flush=True)
    sys.stdin.read()
print(pilot.state, pilot.reason)
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
    pilot = pmgr.submit_pilots({"resource": sys.argv[1], "cores": 4, "runtime": 5})
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
with rp.Executor(resource=sys.argv[1], cores=4, runtime=5) as executor:
    print(sum(executor.map(abs, range(1000))))
    print(executor.submit(rank, resource_dict={"cores": 2}).result())
"""

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
