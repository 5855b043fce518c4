"""Jobs with a time limit whose yods are stopped, or do not end them: they keep no node for ever."""

from __future__ import annotations

import random

import pytest

from native.limits import Limits
from tests.sim.actor import FOR_EVER
from tests.sim.apps import Mix, draw
from tests.sim.clock import Violation
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job, YodActor
from tests.sim.seeds import seeds
from tests.sim.world import Machines, Sim
from yod.launch.machine import Launch
from yod.launch.phases import Phase
from yod.plan.plan import Options, TimeLimit

LIMITS = Limits(
    arity_count=2, heartbeat_s=20.0, silent_s=70.0, kill_wait_s=5.0, overtime_s=20.0, end_s=5.0
)
LIMIT_S = 15.0
GRACE_S = LIMITS.kill_wait_s + LIMITS.overtime_s
LONG_S = 1e5  # of the ranks
FAULTS = (Victim.BEBOPD, Victim.LEAF, Victim.INNER, Victim.CUT_BEBOPD, Victim.STOP_PCT)


def never_ends_it(*words: object) -> Launch:
    """A yod that takes no notice of its time limit."""
    launch = Launch(*words)  # type: ignore[arg-type]
    launch._time_limits.deadline = lambda: None  # type: ignore[method-assign]
    return launch


def play(seed: int, has_faults: bool = True) -> Sim:
    """A job, and in many runs a fault while its time goes by."""
    rng = random.Random(seed)
    nodes = rng.choice([1, 3, 7])
    machines = Machines(launch=rng.choice([Launch, never_ends_it]))
    sim = Sim(seed, nodes, limits=LIMITS, machines=machines)
    mix = Mix(uses_pmi=False, seconds=LONG_S, writes=0, is_stuck=0.0, forks=0.0)
    programs = draw(rng, nodes, mix)
    options = Options(input_ranks=(), time_limit=TimeLimit(LIMIT_S))

    def stop(yod: YodActor) -> None:
        yod.stopped_until = FOR_EVER
        if yod.truth is not None:
            yod.truth.trouble.add("yod was stopped")

    def run() -> None:
        sim.boot()
        yod = sim.launch(Job(programs, options=options))
        faults = Faults(sim)
        if has_faults and rng.random() < 0.7:
            delay_s = rng.uniform(0, LIMIT_S + GRACE_S)
            back_s = rng.uniform(1.0, 10.0)
            victim = rng.choice(FAULTS)
            faults.plan(yod, Fault(victim, Phase.RUNNING, delay_s, back_s, place=seed % 9))
        strike = sim.on_phase

        def entered(who: YodActor, phase: Phase) -> None:
            strike(who, phase)
            if phase is Phase.RUNNING:
                sim.clock.after(rng.uniform(0, LIMIT_S - 1.0), lambda: stop(who))

        sim.on_phase = entered
        sim.clock.run(sim.clock.now + LIMIT_S + GRACE_S + 20.0)
        sim.finish()

    sim.guarded(run)
    return sim


@pytest.mark.parametrize("seed", seeds(30, of=300))
def test_no_job_has_its_nodes_longer_than_its_time_and_the_grace(seed: int):
    play(seed)


@pytest.mark.parametrize("seed", range(6))
def test_without_a_fault_they_are_free_as_soon_as_the_grace_is_over(seed: int):
    sim = play(seed, has_faults=False)
    (row,) = sim.disk.past.values()
    assert row.state.value == "TIMEOUT"
    assert row.ended - row.began <= LIMIT_S + GRACE_S + 2.0


def test_the_rule_of_time_limits_finds_who_does_not_keep_to_them(monkeypatch):
    from allocator.overtime import Overtime

    monkeypatch.setattr(Overtime, "due", lambda self, now: [])
    monkeypatch.setattr(Overtime, "deadline", lambda self: None)
    with pytest.raises(Violation, match="rule 12"):
        for seed in range(20):
            play(seed)
