"""Tasks that are submitted as others end: python callbacks.py"""

import threading

import yod.pilot as rp

GENERATIONS = 5
done = threading.Event()


def pilot_changed(pilot: rp.Pilot, state: str) -> None:
    print(f"{pilot.uid}: {state}")


def task_changed(task: rp.Task, state: str, tmgr: rp.TaskManager) -> None:
    if state not in rp.FINAL:
        return
    generation = task.metadata
    print(f"{task.uid} of generation {generation}: {state}")
    if generation == GENERATIONS:
        done.set()
    else:
        tmgr.submit_tasks(
            rp.TaskDescription({"executable": "/bin/true", "metadata": generation + 1})
        )


with rp.Session() as session:
    pmgr = rp.PilotManager(session)
    tmgr = rp.TaskManager(session)
    pmgr.register_callback(pilot_changed)
    tmgr.register_callback(task_changed, cb_data=tmgr)
    tmgr.add_pilots(pmgr.submit_pilots(rp.PilotDescription({"cores": 1, "runtime": 15})))
    tmgr.submit_tasks(rp.TaskDescription({"executable": "/bin/true", "metadata": 1}))
    done.wait()
