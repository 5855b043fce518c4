"""A pool of processes that are started where there is room; they square numbers.

yod -sz 1 python examples/pool.py
"""

from mpi4py.futures import MPIPoolExecutor


def square(number):
    return number * number


if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=3) as pool:
        print(f"sum of squares {sum(pool.map(square, range(20)))}", flush=True)
