"""A token goes once round all ranks; each adds its number.

yod -sz 4 python examples/ring.py
"""

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

if rank == 0:
    first = world.isend(0, dest=(rank + 1) % size)  # alone it is its own neighbour
    token = world.recv(source=(rank - 1) % size)
    first.wait()
    print(f"ring of {size}: the token came back as {token}, expected {sum(range(size))}")
else:
    token = world.recv(source=rank - 1)
    world.send(token + rank, dest=(rank + 1) % size)
