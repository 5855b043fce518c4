"""A hundred nodes, several launches at once, each with a crash.

Seed after seed goes through every kind of victim in every phase. One seed alone:
``pytest "tests/sim/test_partition.py::test_all_rules_hold[17]"``; the same seed gives
the same run.
"""

from __future__ import annotations

import pytest

from native.limits import Limits
from tests.sim import scenario
from tests.sim.apps import Mix, draw
from tests.sim.launchers import Job
from tests.sim.seeds import seeds
from tests.sim.world import Sim


def test_a_hundred_nodes_run_a_job():
    sim = Sim(1, 100, limits=Limits(arity_count=2))

    def run() -> None:
        sim.boot()
        yod = sim.launch(Job(draw(sim.clock.rng, 100, Mix())))
        sim.finish()
        assert yod.machine.report.exit_status == 0, yod.said
        assert yod.ended_at - yod.began_at < 10

    sim.guarded(run)


@pytest.mark.long
def test_a_thousand_nodes_run_a_job():
    sim = Sim(1, 1000, limits=Limits(heartbeat_s=1e3, silent_s=3e3))

    def run() -> None:
        sim.boot()
        yod = sim.launch(Job(draw(sim.clock.rng, 1000, Mix())))
        sim.finish()
        assert yod.machine.report.exit_status == 0, yod.said

    sim.guarded(run)


@pytest.mark.parametrize("seed", seeds(18, of=50))
def test_all_rules_hold(seed: int):
    scenario.run(seed)


@pytest.mark.parametrize("seed", seeds(25, of=75))
def test_output_is_whole_and_in_order(seed: int):
    scenario.chatty(seed)


@pytest.mark.parametrize("seed", seeds(15, of=30))
def test_a_grant_that_nobody_uses_lapses(seed: int):
    scenario.late_load(seed)


@pytest.mark.parametrize("seed", seeds(30, of=100))
def test_spawned_ranks_and_tools_obey_as_loaded_ones_do(seed: int):
    scenario.worlds(seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_gives_the_same_run(seed: int):
    runs = [scenario.run(seed, nodes=10) for _ in range(2)]
    assert runs[0].clock.last() == runs[1].clock.last()
    assert runs[0].clock.count == runs[1].clock.count
