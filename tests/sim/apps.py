"""What ranks do: programs as generators of steps, each taken by the fake system."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator

import msgspec
from msgspec import Struct

from native.wire.load import StartWorld
from native.wire.pmi import SpawnCommand

Step = tuple[object, ...]
Steps = Generator[Step, bytes, None]


class Start(Struct, frozen=True):
    """How a rank comes to its entry.

    Attributes:
        delay_s: from the keeper's start to held, or to what goes wrong.
        error: errno of a failing exec; 0: none.
        interpreter: which that is about; empty: the program itself.
        exit_code: of an end before the entry; -1: none.
        hangs: never comes to its entry.
    """

    delay_s: float = 0.002
    error: int = 0
    interpreter: str = ""
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


def closer(seconds: float) -> Program:
    """Writes, closes its output, goes on for so long, and exits."""

    def steps(rank: int, size: int) -> Steps:
        yield "write", 1, 1000
        yield ("close output",)
        yield "compute", seconds
        yield "exit", 0

    return Program(steps)


def writer(writes: int, largest: int) -> Program:
    """Writes so much, in growing pieces, and exits."""

    def steps(rank: int, size: int) -> Steps:
        for number in range(writes):
            yield "write", 1, 1 + largest * number // writes
        yield "exit", 0

    return Program(steps)


def pmi_steps(rank: int, size: int, inside: Callable[[bytes], Steps] | None = None) -> Steps:
    """A whole conversation: put, barrier, get a neighbour's, barrier, finalize.

    Args:
        inside: what to do before the end, given the name of the key-value space.
    """
    yield "pmi", b"cmd=init pmi_version=1 pmi_subversion=1"
    yield "pmi", b"cmd=get_maxes"
    name = (yield "pmi", b"cmd=get_my_kvsname").rpartition(b"kvsname=")[2].strip()
    yield "space", name
    yield "pmi", b"cmd=put kvsname=%s key=card-%d value=address of %d" % (name, rank, rank)
    yield "barrier", 0
    neighbour = (rank + 1) % size
    answer = yield "pmi", b"cmd=get kvsname=%s key=card-%d" % (name, neighbour)
    yield "expect", b"value=address of %d\n" % neighbour, answer
    if inside is not None:
        yield from inside(name)
    yield "barrier", 1
    yield "pmi", b"cmd=finalize"


def name_steps(rank: int, name: bytes) -> Steps:
    """Rank 0 publishes a name; all look it up, until it is taken back."""
    service = b"service of " + name
    lookup = b"cmd=lookup_name service=" + service
    if not rank:
        answer = yield "pmi", b"cmd=publish_name service=%s port=here of %s" % (service, name)
        yield "expect", b"rc=0", answer
    yield "barrier", 2
    answer = yield "pmi", lookup
    yield "expect", b"port=here of %s info" % name, answer
    yield "barrier", 3
    if not rank:
        answer = yield "pmi", b"cmd=unpublish_name service=" + service
        yield "expect", b"rc=0", answer
    yield "barrier", 4
    answer = yield "pmi", lookup
    yield "expect", b"rc=-1", answer


class Child(Struct, frozen=True):
    """One program of a spawn, as its parent asks for it; see :data:`CHILDREN`."""

    name: bytes
    count: int
    seed: int


def spawn_lines(children: tuple[Child, ...], token: int) -> bytes:
    """What a parent says, without the last end of line."""
    blocks = []
    for number, child in enumerate(children):
        lines = [
            b"mcmd=spawn",
            b"nprocs=%d" % child.count,
            b"execname=" + child.name,
            b"totspawns=%d" % len(children),
            b"spawnssofar=%d" % (number + 1),
            b"arg1=%d" % child.seed,
            b"arg2=%d" % token,
            b"argcnt=2",
        ]
        if not number:
            lines += [b"preput_num=1", b"preput_key_0=parent", b"preput_val_0=%d" % token]
        lines += [b"info_num=0", b"endcmd"]
        blocks.append(b"\n".join(lines))
    return b"\n".join(blocks)


def pmix_steps(rank: int, size: int, inside: Callable[[bytes], Steps], is_child: bool) -> Steps:
    """A whole conversation: commit, fence, get, names, fence of some, leave.

    Nothing of it where the node has no PMIx.

    Args:
        inside: what to do before the end, given the name of the namespace.
    """
    nspace = yield ("joins",)
    if not nspace:
        return
    yield "commit", b"card of %d" % rank
    yield "fence", "all", b"<%d>" % rank
    for other in {(rank + 1) % size, (rank * 7 + 3) % size}:
        yield "get", other
    if is_child:
        yield "connect", b"", b"[%d]" % rank
    if not rank % 2:
        yield "fence", "even", b"{%d}" % rank * (1 if size > 20 else 1 + 100 * rank)
    yield from inside(nspace)
    yield "fence", "all", b""
    yield ("leave",)


def pmix_name_steps(rank: int, nspace: bytes) -> Steps:
    """Rank 0 publishes; all wait for it."""
    if not rank:
        yield "publish", b"name in " + nspace, b"value in " + nspace
    answer = yield "look up", b"name in " + nspace
    yield "expect", b"value in " + nspace, answer


def pmix_spawn_steps(children: tuple[Child, ...], token: int) -> Steps:
    """Spawn, and meet the new world."""
    commands = tuple(
        SpawnCommand(child.name, (b"%d" % child.seed, b"%d" % token), child.count)
        for child in children
    )
    nspace = yield "pmix spawn", token, commands
    if nspace:
        yield "connect", nspace, b"[parent]"


class Mix(Struct, frozen=True):
    """What is drawn for a job; see :func:`draw`."""

    seconds: float = 0.5
    writes: int = 3
    largest_write: int = 4000
    uses_pmi: bool = True
    uses_pmix: bool = False
    reads_stdin: bool = False
    forks: float = 0.1  # of the ranks
    ends_badly: float = 0.0
    starts_badly: float = 0.0
    ignores_term: float = 0.1
    is_stuck: float = 0.03  # in the kernel, when it is to die
    hands_over: float = 0.0  # of the ranks, that give their output to others as well
    hangs: float = 0.0
    aborts: float = 0.0
    is_child: bool = False  # of a spawn
    names: bool = False  # publishes
    spawns: float = 0.0  # of the ranks
    children: tuple[bytes, ...] = (b"worker",)  # names, of which a spawning rank draws
    hangs_early: bool = True  # what starts badly may hang before its entry
    tools: float = 0.0  # of the ranks, that have an agent run something on another node


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
                *([Start(hangs=True)] if mix.hangs_early else []),
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
    token = rng.getrandbits(48) << 1
    children: tuple[Child, ...] = ()
    if rng.random() < mix.spawns:
        name = rng.choice(mix.children)  # one: a world's ranks meet in the same barriers
        children = tuple(
            Child(name, rng.randint(1, 4), rng.getrandbits(48))
            for _ in range(rng.choice([1, 1, 2]))
        )
    seconds, patience = rng.choice([rng.uniform(0, 0.5), 60.0]), rng.choice([0.1, 9.0])
    tool = ("tool", token ^ 1, seconds, rng.choice([0, 0, 3]), patience)
    has_tool = rng.random() < mix.tools

    def inside(rank: int, name: bytes) -> Steps:
        if mix.names:
            yield from name_steps(rank, name)
        if mix.is_child:
            answer = yield "pmi", b"cmd=get kvsname=%s key=parent" % name
            yield "parent", answer
        if children:
            yield "spawn", token, spawn_lines(children, token)

    def inside_pmix(rank: int, nspace: bytes) -> Steps:
        if mix.names:
            yield from pmix_name_steps(rank, nspace)
        if children:
            yield from pmix_spawn_steps(children, token)

    def steps(rank: int, size: int) -> Steps:
        if mix.uses_pmix:
            yield from pmix_steps(
                rank, size, lambda nspace: inside_pmix(rank, nspace), mix.is_child
            )
        elif mix.uses_pmi:
            yield from pmi_steps(rank, size, lambda name: inside(rank, name))
        if has_tool:
            yield tool
        if hands_over:
            yield ("hand over",)
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
            if mix.uses_pmix:
                yield "pmix abort", 77
                yield "exit", 77
            yield "pmi", b"cmd=abort exitcode=77"
            yield ("hang",)
        if signo:
            yield "raise", signo
        yield "exit", code

    hands_over = bool(mix.hands_over) and rng.random() < mix.hands_over
    on_term = rng.choice([-1, -1, -1, 0, 143])
    if rng.random() < mix.ignores_term:
        on_term = -2
    stuck = (
        rng.choice([rng.uniform(0, 3), rng.uniform(10, 30)]) if rng.random() < mix.is_stuck else 0.0
    )
    return Program(steps, start, on_term, rng.random() < 0.95, stuck)


WORKER = Mix(seconds=0.3, writes=2, largest_write=1000, is_child=True)
CHILDREN = {
    b"worker": WORKER,
    b"prompt": msgspec.structs.replace(WORKER, is_stuck=0.0),
    b"nester": msgspec.structs.replace(WORKER, spawns=0.3),
    b"namer": msgspec.structs.replace(WORKER, names=True),
    b"crasher": msgspec.structs.replace(WORKER, ends_badly=0.2),
    b"starter": msgspec.structs.replace(WORKER, starts_badly=0.2, hangs_early=False),
    b"aborter": msgspec.structs.replace(WORKER, aborts=0.2),
}
CHILDREN |= {
    b"pmix-" + name: msgspec.structs.replace(
        mix, uses_pmix=True, children=tuple(b"pmix-" + child for child in mix.children)
    )
    for name, mix in CHILDREN.items()
}
MISSING = b"missing"  # a program that nobody finds


def spawned(message: StartWorld) -> list[Program]:
    """A program for each rank of a spawned world."""
    programs: list[Program] = []
    for member in message.members:
        if message.is_tool:
            programs.append(_tool(member.arguments[2]))
        else:
            rng = random.Random(int(member.arguments[1]))
            programs += draw(rng, member.size, CHILDREN[member.arguments[0]])
    return programs


def tool_command(token: int, seconds: float, code: int) -> bytes:
    """What an agent asks for."""
    return b"daemon %d %f %d" % (token, seconds, code)


def _tool(command: bytes) -> Program:
    _, _, seconds, code = command.split()
    return quiet(float(seconds), int(code))
