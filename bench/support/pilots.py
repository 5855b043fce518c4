"""Scripts of ``bench/pilot.py``, each for an interpreter of its own."""

OURS = """
import json, os, time
began = time.time()
import yod.pilot as rp
def processor_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
with rp.Session() as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots({"cores": CORES, "runtime": 60})
    tmgr.add_pilots(pilot)
    probe = rp.TaskDescription({"executable": "true"})
    tmgr.submit_tasks(probe).wait(rp.AGENT_EXECUTING)
    first = time.time() - began
    pids = os.getpid(), pilot.unix_pid
    before = [processor_s(pid) for pid in pids]
    at = time.time()
    tmgr.submit_tasks([rp.TaskDescription(PROGRAM) for _ in range(COUNT)])
    states = tmgr.wait_tasks()
    took = time.time() - at
    client, agent = (processor_s(pid) - then for pid, then in zip(pids, before))
    at = time.time()
assert set(states) == {"DONE"}
print(json.dumps({"per_s": COUNT / took, "first_s": first, "close_s": time.time() - at,
                  "client_ms": client * 1e3 / COUNT, "agent_ms": agent * 1e3 / COUNT}))
"""
CALLS = {
    "HyperQueue": """
import json, time
began = time.time()
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=CORES))
    client = cluster.client()
    at = time.time()
    job = Job()
    for _ in range(COUNT):
        job.program(ARGV)
    client.wait_for_jobs([client.submit(job)])
    took = time.time() - at
print(json.dumps({"per_s": COUNT / took}))
""",
    "Parsl": """
import json, time
import parsl
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor
parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=CORES)], usage_tracking=0))
@parsl.bash_app
def one():
    return " ".join(ARGV)
at = time.time()
for each in [one() for _ in range(COUNT)]:
    each.result()
print(json.dumps({"per_s": COUNT / (time.time() - at)}))
parsl.dfk().cleanup()
""",
    "executorlib": """
import json, subprocess, time
from executorlib import SingleNodeExecutor
with SingleNodeExecutor(max_workers=CORES, block_allocation=True) as pool:
    pool.submit(len, "a").result()
    at = time.time()
    for each in [pool.submit(subprocess.call, ARGV) for _ in range(COUNT)]:
        each.result()
    print(json.dumps({"per_s": COUNT / (time.time() - at)}))
""",
    "RADICAL-Pilot": """
import json, time
began = time.time()
import radical.pilot as rp
session = rp.Session()
pmgr, tmgr = rp.PilotManager(session=session), rp.TaskManager(session=session)
entries = {"resource": "local.localhost", "runtime": 60, "cores": CORES}
tmgr.add_pilots(pmgr.submit_pilots(rp.PilotDescription(entries)))
first = tmgr.submit_tasks(rp.TaskDescription({"executable": "true"}))
first.wait(["AGENT_EXECUTING", "DONE"])
first_s = time.time() - began
at = time.time()
tmgr.submit_tasks([rp.TaskDescription(PROGRAM) for _ in range(COUNT)])
tmgr.wait_tasks()
took = time.time() - at
at = time.time()
session.close()
figures = {"per_s": COUNT / took, "first_s": first_s, "close_s": time.time() - at}
print(json.dumps(figures))
""",
}
CALLING = """
import json, subprocess, time
CONTEXT
def main():
    with OPEN as pool:
        for each in [pool.submit(subprocess.call, ["sleep", "0.2"]) for _ in range(CORES)]:
            each.result()
        figures = {}
        at = time.time()
        for _ in range(COUNT):
            pool.submit(len, "abc").result()
        figures["one_per_s"] = COUNT / (time.time() - at)
        at = time.time()
        for each in [pool.submit(len, "abc") for _ in range(COUNT)]:
            each.result()
        figures["submitted_per_s"] = COUNT / (time.time() - at)
        many = ["abc"] * (10 * COUNT)
        at = time.time()
        assert sum(pool.map(len, many CHUNKS)) == 3 * len(many)
        figures["mapped_per_s"] = len(many) / (time.time() - at)
    print(json.dumps(figures))
if __name__ == "__main__":
    main()
"""
FUNCTION_TASKS = """
import json, time
import yod.pilot as rp
with rp.Session() as session:
    tmgr = rp.TaskManager(session)
    tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": CORES, "runtime": 60}))
    entries = {"mode": rp.TASK_FUNCTION, "function": len, "args": ["abc"]}
    tmgr.submit_tasks([rp.TaskDescription(entries) for _ in range(CORES)])
    tmgr.wait_tasks()
    at = time.time()
    tasks = tmgr.submit_tasks([rp.TaskDescription(entries) for _ in range(COUNT)])
    tmgr.wait_tasks()
    took = time.time() - at
    assert {task.return_value for task in tasks} == {3}
print(json.dumps({"submitted_per_s": COUNT / took}))
"""
WAITING = """
import json, os, time
import yod.pilot as rp
def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with rp.Session() as session:
    tmgr = rp.TaskManager(session)
    pilot = rp.PilotManager(session).submit_pilots({"cores": 1, "runtime": 60})
    tmgr.add_pilots(pilot)
    first = tmgr.submit_tasks(rp.TaskDescription({"executable": "sleep", "arguments": ["3600"]}))
    first.wait(rp.AGENT_EXECUTING)
    pids = os.getpid(), pilot.unix_pid
    before = [resident(pid) for pid in pids]
    at = time.time()
    tmgr.submit_tasks([rp.TaskDescription({"executable": "true"}) for _ in range(COUNT)])
    came = time.time() - at
    client, agent = (resident(pid) - then for pid, then in zip(pids, before))
    at = time.time()
    tmgr.cancel_tasks()
    tmgr.wait_tasks()
    canceled = time.time() - at
print(json.dumps({"client_bytes": client / COUNT, "agent_bytes": agent / COUNT,
                  "came_us": came * 1e6 / COUNT, "canceled_us": canceled * 1e6 / COUNT}))
"""
