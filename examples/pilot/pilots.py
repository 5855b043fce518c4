"""Several pilots, of which one is drained while tasks run: python pilots.py"""

from collections import Counter

import yod.pilot as rp

with rp.Session() as session:
    pmgr = rp.PilotManager(session)
    tmgr = rp.TaskManager(session, scheduler=rp.SCHEDULER_BACKFILLING)
    pilots = pmgr.submit_pilots([rp.PilotDescription({"cores": n, "runtime": 15}) for n in (1, 2)])
    tmgr.add_pilots(pilots)
    pmgr.wait_pilots(state=rp.PMGR_ACTIVE)
    tmgr.submit_tasks(
        [rp.TaskDescription({"executable": "/bin/sleep", "arguments": ["0.01"]}) for _ in range(60)]
    )
    tmgr.wait_tasks()
    print(sorted(Counter(task.pilot for task in tmgr.get_tasks()).items()))

    tmgr.remove_pilots(pilots[0].uid, drain=True)
    late = tmgr.submit_tasks([rp.TaskDescription({"executable": "/bin/true"}) for _ in range(10)])
    tmgr.wait_tasks()
    print({task.pilot for task in late})
