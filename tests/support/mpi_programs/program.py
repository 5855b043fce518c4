"""What the tests ask of an MPI library by way of mpi4py; program.c is the same in C.

See there for the words. Nothing but mpi4py and the standard library.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from array import array

LARGE_BYTES = 1 << 20
LINGER_S = 1.0
TASKS, ROUNDS, DIES_AT, WRONG = 20, 100, 10, 3

status = 0


def wrong(what: str) -> None:
    global status
    print(f"rank {rank} of {size}: wrong {what}", file=sys.stderr)
    status = WRONG


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def end_so(how: str) -> None:
    code = int(how)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


what = sys.argv[1] if len(sys.argv) > 1 else "life"
stage = sys.argv[2] if len(sys.argv) > 2 else ""
how = sys.argv[3] if len(sys.argv) > 3 else "0"
before = os.sched_getaffinity(0)
if (what, stage) == ("die", "before-init") and int(os.environ["YOD_RANK"]) == (
    int(os.environ["YOD_SIZE"]) - 1
):
    end_so(how)

from mpi4py import MPI  # noqa: E402  importing it is MPI_Init

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
is_last = rank == size - 1


def check_sum(comm: MPI.Intracomm) -> None:
    """Sum of all ranks of a communicator, by the library and by arithmetic."""
    answer = array("i", [0])
    comm.Allreduce([array("i", [comm.Get_rank()]), MPI.INT], [answer, MPI.INT])
    if answer[0] != comm.Get_size() * (comm.Get_size() - 1) // 2:
        wrong("sum")


def pattern(of: int) -> bytes:
    """The large message of a rank."""
    cycle = bytes((at * 7 + of) % 256 for at in range(256))
    return cycle * (LARGE_BYTES // 256)


def check_ring() -> None:
    """A large message to the next rank, which knows what it has to be."""
    after, previous = (rank + 1) % size, (rank - 1) % size
    received = bytearray(LARGE_BYTES)
    world.Sendrecv([pattern(rank), MPI.BYTE], after, 5, [received, MPI.BYTE], previous, 5)
    if received != pattern(previous):
        wrong("ring")


def check_shared() -> int:
    """Ranks that can share memory with this one, tried with shared memory."""
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    window = MPI.Win.Allocate_shared(4, 4, comm=node)
    window.Fence()
    own, _ = window.Shared_query(node.Get_rank())
    memoryview(own).cast("B")[:4] = (1000 + node.Get_rank()).to_bytes(4, sys.byteorder)
    window.Fence()
    last, _ = window.Shared_query(node.Get_size() - 1)
    number = int.from_bytes(bytes(memoryview(last).cast("B")[:4]), sys.byteorder)
    if number != 1000 + node.Get_size() - 1:
        wrong("shared memory")
    window.Fence()
    window.Free()
    count = node.Get_size()
    node.Free()
    return count


def life() -> None:
    check_sum(world)
    check_ring()
    node = check_shared()
    check_processors()
    say(f"rank {rank} of {size}, {node} on its node")


def check_processors() -> None:
    """No thread is bound otherwise than the process was at its start."""
    for thread in os.listdir("/proc/self/task"):
        try:
            now = os.sched_getaffinity(int(thread))
        except ProcessLookupError:  # it has ended
            continue
        if now != before:
            wrong("processors after MPI_Init")


def place() -> None:
    check_processors()
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    here = f"{node.Get_rank()} of {node.Get_size()} here"
    say(f"rank {rank}: {here}, processors {','.join(map(str, sorted(before)))}")


def universe() -> None:
    number = world.Get_attr(MPI.UNIVERSE_SIZE)
    say(f"universe {-1 if number is None else number}")


def abort() -> None:
    world.Barrier()
    if is_last:
        world.Abort(int(stage))
    world.Barrier()


def die() -> None:
    if stage == "after-init":
        if is_last:
            end_so(how)
        world.Barrier()
    elif stage == "in-collective":
        for number in range(ROUNDS):
            if number == DIES_AT and is_last:
                end_so(how)
            check_sum(world)


def linger() -> None:
    say("up")
    select.select([], [], [], time.monotonic() - float(stage) + LINGER_S)


def up() -> None:
    check_sum(world)
    say("up")
    while True:
        signal.pause()


def wait() -> None:
    check_sum(world)
    say("up")
    word = world.bcast(sys.stdin.read(1) if rank == 0 else None)
    say(f"rank {rank} of {size} heard {word}")


def farm() -> None:
    task, answer = array("i", [0]), array("i", [0])
    if rank > 0:
        while True:
            world.Send([answer, MPI.INT], 0, 1)
            world.Recv([task, MPI.INT], 0, 1)
            if task[0] < 0:
                return
            answer[0] = task[0] * task[0]
    total, idle, tasks, came_from = 0, size - 1, iter(range(TASKS)), MPI.Status()
    while idle:
        world.Recv([answer, MPI.INT], MPI.ANY_SOURCE, 1, came_from)
        total += answer[0]
        task[0] = next(tasks, -1)
        idle -= task[0] < 0
        world.Send([task, MPI.INT], came_from.Get_source(), 1)
    say(f"{size - 1} workers: sum of squares {total}")


def meet(other: MPI.Intercomm, is_high: bool) -> None:
    """Both sides of a spawn: one world of all, checked, and let go again."""
    others = other.Get_remote_size()
    everyone = other.Merge(is_high)
    check_sum(everyone)
    everyone.bcast(17)
    count = everyone.Get_size()
    if count != size + others and not is_high:
        wrong("merged size")
    everyone.Barrier()
    everyone.Free()
    other.Disconnect()
    say(f"{'child' if is_high else 'parent'} {rank} of {size} met {others}: {count}")


def child() -> None:
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        wrong("parent")
        return
    if stage:
        end_so(stage)
    number = world.Get_attr(MPI.APPNUM)
    say(f"appnum {-1 if number is None else number}")
    meet(parent, True)


def spawn() -> None:
    meet(world.Spawn(sys.executable, [__file__, "child"], int(stage)), False)


def spawn_die() -> None:
    world.Spawn(sys.executable, [__file__, "child", stage], 1)
    signal.pause()


def spawn_multiple() -> None:
    words = [__file__, "child"]
    children = world.Spawn_multiple([sys.executable] * 2, [words, words], [1, 2])
    meet(children, False)


def spawn_missing() -> None:
    try:
        world.Spawn("/no/such/program", maxprocs=1)
        wrong("spawn of nothing")
    except MPI.Exception:
        say("not spawned")


def publish() -> None:
    """The lower half of the world accepts, the upper connects."""
    name = "service of a test"
    is_upper = rank >= (size + 1) // 2
    half = world.Split(is_upper)
    port = ""
    if rank == 0:
        port = MPI.Open_port()
        MPI.Publish_name(name, port)
    world.Barrier()
    if is_upper:
        if half.Get_rank() == 0:
            port = MPI.Lookup_name(name)
        other = half.Connect(port)
    else:
        other = half.Accept(port)
    everyone = other.Merge(is_upper)
    check_sum(everyone)
    count = everyone.Get_size()
    everyone.Barrier()
    everyone.Free()
    other.Disconnect()
    world.Barrier()
    if rank == 0:
        MPI.Unpublish_name(name, port)
        MPI.Close_port(port)
    half.Free()
    say(f"rank {rank} connected: {count}")


globals()[what.replace("-", "_")]()
MPI.Finalize()
if (what, stage) == ("die", "after-finalize") and is_last:
    end_so(how)
sys.exit(status)
