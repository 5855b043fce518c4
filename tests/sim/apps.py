"""What ranks do: programs as generators of steps, each taken by the fake system."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator

from msgspec import Struct

Step = tuple[object, ...]
Steps = Generator[Step, bytes, None]


class Start(Struct, frozen=True):
    """How a rank comes to its entry.

    Attributes:
        delay_s: from the keeper's start to held, or to what goes wrong.
        error: errno of a failing exec; 0: none.
        exit_code: of an end before the entry; -1: none.
        hangs: never comes to its entry.
    """

    delay_s: float = 0.002
    error: int = 0
    exit_code: int = -1
    hangs: bool = False


class Program(Struct, frozen=True):
    """One rank's program.

    Attributes:
        on_term: exit code of its SIGTERM handler; -1: no handler; -2: ignores it.
        handles_usr1: else SIGUSR1 kills it.
        stuck_s: how long a SIGKILL takes.
    """

    steps: Callable[[int, int], Steps]  # rank, size
    start: Start = Start()
    on_term: int = -1
    handles_usr1: bool = True
    stuck_s: float = 0.0


def quiet(seconds: float = 0.01, code: int = 0) -> Program:
    """Computes, then exits."""

    def steps(rank: int, size: int) -> Steps:
        yield "compute", seconds
        yield "exit", code

    return Program(steps)


def pmi_steps(rank: int, size: int) -> Steps:
    """A whole conversation: put, barrier, get a neighbour's, barrier, finalize."""
    yield "pmi", b"cmd=init pmi_version=1 pmi_subversion=1"
    yield "pmi", b"cmd=get_maxes"
    name = (yield "pmi", b"cmd=get_my_kvsname").rpartition(b"kvsname=")[2].strip()
    yield "pmi", b"cmd=put kvsname=%s key=card-%d value=address of %d" % (name, rank, rank)
    yield "barrier", 0
    neighbour = (rank + 1) % size
    answer = yield "pmi", b"cmd=get kvsname=%s key=card-%d" % (name, neighbour)
    yield "expect", b"value=address of %d\n" % neighbour, answer
    yield "barrier", 1
    yield "pmi", b"cmd=finalize"


class Mix(Struct, frozen=True):
    """What is drawn for a job; see :func:`draw`."""

    seconds: float = 0.5
    writes: int = 3
    largest_write: int = 4000
    uses_pmi: bool = True
    reads_stdin: bool = False
    forks: float = 0.1  # of the ranks
    ends_badly: float = 0.0
    starts_badly: float = 0.0
    ignores_term: float = 0.1
    hangs: float = 0.0
    aborts: float = 0.0


def draw(rng: random.Random, size: int, mix: Mix) -> list[Program]:
    """A program for each rank."""
    return [_draw_one(random.Random(rng.getrandbits(64)), rank, mix) for rank in range(size)]


def _draw_one(rng: random.Random, rank: int, mix: Mix) -> Program:
    start = Start(delay_s=rng.uniform(0.001, 0.02))
    if rng.random() < mix.starts_badly:
        start = rng.choice(
            [
                Start(start.delay_s, error=2),
                Start(start.delay_s, error=13),
                Start(start.delay_s, exit_code=3),
                Start(start.delay_s, exit_code=0),
                Start(hangs=True),
            ]
        )
    choice = rng.random()
    code, signo, hangs, aborts = 0, 0, False, False
    if choice < mix.ends_badly:
        code, signo = rng.choice([(1, 0), (42, 0), (0, 11), (0, 6)])
    elif choice < mix.ends_badly + mix.hangs:
        hangs = True
    elif choice < mix.ends_badly + mix.hangs + mix.aborts:
        aborts = True
    forks = rng.random() < mix.forks
    sizes = [
        (rng.choice([1, 1, 1, 2]), rng.randint(1, mix.largest_write)) for _ in range(mix.writes)
    ]
    pauses = [rng.uniform(0, mix.seconds) / (mix.writes + 1) for _ in range(mix.writes + 1)]
    reads = mix.reads_stdin and rank == 0

    def steps(rank: int, size: int) -> Steps:
        if mix.uses_pmi:
            yield from pmi_steps(rank, size)
        if forks:
            yield "fork", pauses[0] * 4, bool(size % 2)
        for (stream, count), pause in zip(sizes, pauses, strict=False):
            yield "compute", pause
            yield "write", stream, count
        if reads:
            while (yield ("read",)):
                pass
        yield "compute", pauses[-1]
        if hangs:
            yield ("hang",)
        if aborts:
            yield "pmi", b"cmd=abort exitcode=77"
            yield ("hang",)
        if signo:
            yield "raise", signo
        yield "exit", code

    on_term = rng.choice([-1, -1, -1, 0, 143])
    if rng.random() < mix.ignores_term:
        on_term = -2
    stuck = rng.choice([rng.uniform(0, 3), rng.uniform(10, 30)]) if rng.random() < 0.03 else 0.0
    return Program(steps, start, on_term, rng.random() < 0.95, stuck)
