"""A bag of tasks: python bag.py [COUNT]"""

import sys

import yod.pilot as rp

count = int(sys.argv[1]) if len(sys.argv) > 1 else 100

with rp.Session() as session:
    pmgr = rp.PilotManager(session=session)
    tmgr = rp.TaskManager(session=session)

    pilot = pmgr.submit_pilots(
        rp.PilotDescription({"resource": "local.localhost", "runtime": 15, "cores": 4})
    )
    tmgr.add_pilots(pilot)

    descriptions = []
    for _ in range(count):
        description = rp.TaskDescription()
        description.executable = "/bin/date"
        description.arguments = ["-u"]
        descriptions.append(description)
    tasks = tmgr.submit_tasks(descriptions)
    tmgr.wait_tasks()

    states = [task.state for task in tasks]
    print({state: states.count(state) for state in sorted(set(states))})
