"""Sends numbers to the workers and adds up their results; see farm.load."""

import argparse

from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--tasks", type=int, default=20)
tasks = iter(range(parser.parse_args().tasks))

world = MPI.COMM_WORLD
status = MPI.Status()
done, total = 0, 0
idle = world.Get_size() - 1
while idle:
    answer = world.recv(source=MPI.ANY_SOURCE, status=status)
    if answer is not None:
        done, total = done + 1, total + answer
    task = next(tasks, None)  # None: there is no more work
    idle -= task is None
    world.send(task, dest=status.Get_source())
print(f"{done} tasks done by {world.Get_size() - 1} workers: sum of squares {total}")
