"""Calls in workers that keep state: a raptor, whose workers are made of a class of this file.

python examples/pilot/raptor.py
"""

import yod.pilot as rp


class Reader(rp.raptor.DefaultWorker):
    """Reads a table once, and looks things up in it many times."""

    def __init__(self, raptor_id):
        super().__init__(raptor_id)
        self.table = {n: n * n for n in range(1000)}
        self.asked = 0

    def look_up(self, n):
        self.asked += 1
        return self.table[n]

    def how_often(self):
        return self.asked


@rp.pythontask
def hello(name):
    print("hello", name)


if __name__ == "__main__":
    with rp.Session() as session:
        tmgr = rp.TaskManager(session)
        pilot = rp.PilotManager(session).submit_pilots({"cores": 2, "runtime": 10})
        tmgr.add_pilots(pilot)
        (raptor,) = pilot.submit_raptors(rp.TaskDescription({"mode": rp.RAPTOR_MASTER}))
        workers = raptor.submit_workers(
            rp.TaskDescription({"ranks": 2, "raptor_file": __file__, "raptor_class": "Reader"})
        )
        mode = {"mode": rp.TASK_METHOD}
        tasks = raptor.submit_tasks(
            [rp.TaskDescription({**mode, "method": "look_up", "args": [n]}) for n in range(100)]
        )
        tasks += raptor.submit_tasks({"mode": rp.TASK_FUNCTION, "function": hello("raptor")})
        tmgr.wait_tasks([task.uid for task in tasks])
        print(sum(task.return_value for task in tasks[:-1]), tasks[-1].stdout, end="")
        raptor.rpc("stop")
        print(raptor.wait(), [worker.wait() for worker in workers])
