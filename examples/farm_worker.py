"""Asks rank 0 for numbers and squares them; see farm.load."""

from mpi4py import MPI

world = MPI.COMM_WORLD
answer = None
while True:
    world.send(answer, dest=0)
    task = world.recv(source=0)
    if task is None:
        break
    answer = task * task
