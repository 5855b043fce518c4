"""A job that is held until its user says go (``yod -attach``), with a fault meanwhile."""

from __future__ import annotations

import random

import pytest

from native.limits import Limits
from tests.sim.apps import Mix, draw
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job, YodActor
from tests.sim.seeds import seeds
from tests.sim.world import Sim
from yod.launch.events import SuspensionAsked
from yod.launch.phases import Phase
from yod.plan.plan import Options

LIMITS = Limits(arity_count=2, heartbeat_s=20.0, silent_s=70.0)
HELD_S = 10 * LIMITS.phase_s  # longer than any limit of the load
HARM = (Victim.ROOT, Victim.INNER, Victim.LEAF, Victim.KEEPER, Victim.YOD, Victim.USER)
PAUSES = (Victim.BEBOPD, Victim.STOP_YOD, Victim.STOP_PCT, Victim.USR1)


def play(seed: int, victims: tuple[Victim, ...], goes_after_s: float = 0.0) -> YodActor:
    """A job that is held, and then is not; the rules of the simulation hold.

    Args:
        goes_after_s: it goes by itself then; 0: only when its user says so, after HELD_S.
    """
    rng = random.Random(seed)
    nodes = rng.choice([1, 3, 7])
    sim = Sim(seed, nodes, limits=LIMITS)
    programs = draw(rng, nodes, Mix(uses_pmi=False, seconds=2.0, writes=1))
    found: list[YodActor] = []

    def run() -> None:
        sim.boot()
        options = Options(input_ranks=(), awaits_user=True, goes_after_s=goes_after_s)
        yod = sim.launch(Job(programs, options=options))
        found.append(yod)
        faults = Faults(sim)
        if victims:
            delay_s = rng.uniform(0, HELD_S)
            faults.plan(yod, Fault(rng.choice(victims), Phase.HELD, delay_s, 5.0, place=seed % 9))
        strike = sim.on_phase

        def entered(who: YodActor, phase: Phase) -> None:
            strike(who, phase)
            if phase is Phase.HELD and not goes_after_s:
                sim.clock.after(HELD_S, lambda: resume(who))

        sim.on_phase = entered
        sim.finish()

    sim.guarded(run)
    return found[0]


def resume(yod: YodActor) -> None:
    if not yod.is_over:
        yod.handle(SuspensionAsked(is_on=False))


def held_s(yod: YodActor) -> float:
    began = yod.machine.began
    return began[Phase.RUNNING] - began[Phase.HELD]


@pytest.mark.parametrize("seed", seeds(20, of=400))
def test_a_job_that_is_held_ends_or_runs_whatever_fails(seed: int):
    yod = play(seed, HARM)
    assert Phase.HELD in yod.machine.began


@pytest.mark.parametrize("seed", seeds(20, of=400))
def test_a_job_is_held_for_as_long_as_the_user_wants_whatever_delays(seed: int):
    yod = play(seed, PAUSES)
    assert held_s(yod) >= HELD_S - 1e-6


@pytest.mark.parametrize("seed", seeds(10, of=200))
def test_a_job_that_sleeps_goes_by_itself_or_ends_whatever_fails(seed: int):
    yod = play(seed, HARM, goes_after_s=HELD_S)
    if Phase.RUNNING in yod.machine.began:
        assert held_s(yod) >= HELD_S - 1e-6


def test_a_job_that_is_held_and_let_go_ends_as_any_other():
    """The scenarios above are about something."""
    yods = [play(seed, ()) for seed in range(20)]
    assert all(held_s(yod) >= HELD_S - 1e-6 for yod in yods)
    assert sum(yod.machine.report.exit_status == 0 for yod in yods) > 5
