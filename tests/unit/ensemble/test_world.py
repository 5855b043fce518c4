"""Invariants of the launcher's machine, whatever scheduler and servers do."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from ensemble.machine import job as j
from ensemble.machine.job import JobState
from ensemble.machine.jobs import Stage
from ensemble.machine.settings import Phase
from tests.unit.ensemble.world import World

SEEDS = range(25)


def is_clean(world: World) -> None:
    assert world.finished is not None
    assert world.alive() == [], world.log[-20:]
    assert world.abandoned == () and world.journal.jobs == {}


@pytest.mark.parametrize("polls", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_study_is_completed_whatever_fails_and_no_job_is_left(seed, polls):
    world = World(seed, trouble=0.2, polls=polls, clients=30, job_limit=7)
    world.run(until=5000)
    assert world.finished is not None and world.finished.exit_status == 0, world.log[-20:]
    assert world.ended == set(range(30))
    is_clean(world)


@pytest.mark.parametrize("polls", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_launcher_that_is_told_to_stop_leaves_no_job(seed, polls):
    world = World(seed, trouble=0.3, polls=polls, clients=30, job_limit=9, stop_s=1000)
    at = world.rng.uniform(0, 150)
    world.calm_at = at + 60
    world.run(until=at)
    if world.finished is None:
        world.give(j.Interrupted(signal.SIGTERM))
    world.run(until=5000)
    assert world.finished is not None and world.finished.exit_status in (0, 128 + signal.SIGTERM)
    is_clean(world)


@pytest.mark.parametrize("polls", [True, False])
@pytest.mark.parametrize("phase", [Phase.BEGINNING, Phase.AWAITING, Phase.SERVING, Phase.ENDING])
def test_a_launcher_that_is_told_to_stop_in_any_phase_leaves_no_job(phase, polls):
    world = World(1, trouble=0.3, polls=polls, clients=5, job_limit=3, stop_s=1000)
    advance(world, lambda: world.machine.phase is phase)
    stop(world)


@pytest.mark.parametrize("stage", Stage)
def test_a_launcher_that_is_told_to_stop_leaves_no_job_of_any_stage(stage):
    world = World(1, trouble=0.3, polls=True, clients=30, job_limit=9, stop_s=1000)
    advance(world, lambda: any(entry.stage is stage for entry in world.machine.jobs))
    stop(world)


def advance(world: World, is_there: Callable[[], bool]) -> None:
    """Until something is so."""
    while not is_there():
        assert world.finished is None
        world.run(until=world.now + 0.05)


def stop(world: World) -> None:
    world.calm_at = world.now + 60
    world.give(j.Interrupted(signal.SIGTERM))
    world.run(until=5000)
    assert world.finished is not None and world.finished.exit_status == 128 + signal.SIGTERM
    is_clean(world)


def test_a_job_that_vanishes_from_the_scheduler_is_cancelled_and_told_once_as_failed():
    world = World(1, trouble=0, polls=True, clients=5, job_limit=3)
    advance(world, lambda: world.machine.jobs.counted == 3)
    advance(world, lambda: any(not real.job.is_server for real in world.alive()))
    lost = next(real for real in world.alive() if not real.job.is_server)
    lost.is_hidden = True
    advance(world, lambda: any("knows it no more" in line for line in world.log))
    assert world.told[1, lost.job.client][-1] == JobState.FAILED.value
    world.run(until=5000)
    assert world.finished is not None and world.finished.exit_status == 0
    is_clean(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_interrupt_names_every_job_that_is_left(seed):
    world = World(seed, trouble=0.3, polls=True, clients=30, job_limit=9)
    world.run(until=world.rng.uniform(0, 100))
    world.give(j.Interrupted(signal.SIGINT))
    if world.finished is None:
        world.give(j.Interrupted(signal.SIGINT))
    assert world.finished is not None and world.finished.exit_status == 128 + signal.SIGINT
    named = {job.name for job in world.abandoned}
    assert {real.job.name for real in world.alive()} <= named
    assert {job.name for job in world.journal.jobs.values()} <= named


@pytest.mark.parametrize("seed", SEEDS)
def test_a_launcher_that_is_started_again_neither_loses_nor_doubles_a_job(seed):
    world = World(seed, trouble=0.2, polls=True, clients=20, job_limit=6)
    for _ in range(3):
        world.run(until=world.now + world.rng.uniform(1, 40))
        if world.finished is None:
            world.kill_launcher()
    world.run(until=5000)
    assert world.finished is not None and world.ended == set(range(20)), world.log[-20:]
    is_clean(world)
    names = [real.job.name for real in world.real.values()]
    assert len(names) == len(set(names))


def test_every_final_state_is_reached_from_a_true_one():
    """A client that was told as terminated has really terminated."""
    world = World(3, trouble=0.3, polls=True, clients=30, job_limit=7)
    world.run(until=5000)
    ended = {real.job.client for real in world.real.values() if real.state is JobState.TERMINATED}
    assert world.ended <= ended
