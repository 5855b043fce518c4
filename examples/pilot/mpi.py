"""Tasks of several ranks: python mpi.py [PROGRAM]

PROGRAM may be linked to any MPI library that yod knows; a shell script shows the ranks otherwise.
"""

import sys

import yod.pilot as rp

with rp.Session() as session:
    pmgr = rp.PilotManager(session)
    tmgr = rp.TaskManager(session)
    tmgr.add_pilots(pmgr.submit_pilots(rp.PilotDescription({"cores": 4, "runtime": 15})))

    descriptions = []
    for ranks in (1, 2, 4):
        description = rp.TaskDescription({"ranks": ranks, "cores_per_rank": 1, "use_mpi": True})
        if len(sys.argv) > 1:
            description.executable = sys.argv[1]
        else:
            description.executable = "/bin/sh"
            description.arguments = ["-c", "echo rank $RP_RANK of $RP_RANKS"]
        descriptions.append(description)
    for task in tmgr.submit_tasks(descriptions):
        task.wait()
        print(task.uid, task.state, sorted(task.stdout.splitlines()), task.reason)
