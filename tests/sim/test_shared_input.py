"""Input that all ranks share, with a fault: no line is read twice, torn, or lost."""

from __future__ import annotations

import random

import pytest

from native.limits import Limits
from tests.sim.apps import Mix, draw
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job, YodActor
from tests.sim.seeds import seeds
from tests.sim.world import Sim
from yod.launch.phases import Phase
from yod.launch.running import PIECE_BYTES
from yod.plan.input import ALL
from yod.plan.plan import Options

HARM = (Victim.ROOT, Victim.INNER, Victim.LEAF, Victim.KEEPER, Victim.LINK, Victim.USER)
PAUSES = (Victim.STOP_YOD, Victim.STOP_PCT, Victim.USR1)


def text(rng: random.Random, count: int) -> bytes:
    """Lines that differ, some longer than a piece; the last one may have no end."""
    lines = []
    for number in range(count):
        size = rng.choice([0, 3, 100, rng.randrange(3 * PIECE_BYTES) if number % 7 == 0 else 1])
        lines.append(b"%d:" % number + b"x" * size)
    return b"\n".join(lines) + b"\n" * rng.randrange(2)


def play(seed: int, victims: tuple[Victim, ...]) -> tuple[YodActor, bytes]:
    """A job whose ranks share some lines; what is read obeys rule 13."""
    rng = random.Random(seed)
    nodes = rng.choice([1, 3, 7])
    sim = Sim(seed, nodes, limits=Limits(arity_count=2, heartbeat_s=20.0, silent_s=70.0))
    mix = Mix(uses_pmi=False, seconds=rng.choice([0.05, 2.0, 10.0]), writes=1)
    given = text(rng, rng.randrange(60))
    job = Job(
        draw(rng, nodes, mix),
        options=Options(input_ranks=ALL, shares_input=True, stops_ranks=seed % 2 == 1),
        input_bytes=len(given),
        text=given,
    )
    found: list[YodActor] = []

    def run() -> None:
        sim.boot()
        found.append(sim.launch(job))
        if victims:
            victim = rng.choice(victims)
            fault = Fault(victim, Phase.RUNNING, rng.uniform(0, 3), 5.0, place=rng.randrange(9))
            Faults(sim).plan(found[0], fault)
        sim.finish()

    sim.guarded(run)
    return found[0], given


def check(yod: YodActor, given: bytes) -> list[bytes]:
    """The lines that were read: whole but for the last of each rank, and each once."""
    assert yod.truth is not None
    lines = given.splitlines(keepends=True)
    seen: list[bytes] = []
    for pieces in yod.truth.pieces.values():
        *whole, last = b"".join(pieces).splitlines(keepends=True)
        assert all(line in lines for line in whole)
        assert any(line.startswith(last) for line in lines)
        seen += [*whole, last]
    assert len(seen) == len({number(line) for line in seen})
    return seen


def number(line: bytes) -> bytes:
    """Of a line that has at least begun."""
    return line.partition(b":")[0]


@pytest.mark.parametrize("seed", seeds(20, of=400))
def test_no_line_is_read_twice_or_torn_whatever_fails(seed: int):
    check(*play(seed, HARM))


@pytest.mark.parametrize("seed", seeds(20, of=400))
def test_nothing_is_lost_by_what_only_delays(seed: int):
    yod, given = play(seed, PAUSES)
    seen = check(yod, given)
    assert yod.truth is not None
    if yod.truth.at_end and not any("no rank has read" in said for said in yod.said):
        assert sorted(map(number, seen)) == sorted(map(number, given.splitlines()))


def test_lines_are_read_to_the_end():
    """The scenarios above are about something."""
    ends = 0
    for seed in range(20):
        yod, given = play(seed, ())
        seen = check(yod, given)
        assert yod.truth is not None
        ends += bool(yod.truth.at_end) and len(seen) == len(given.splitlines())
    assert ends > 5
