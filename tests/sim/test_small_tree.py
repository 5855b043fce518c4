"""Seven nodes, one job of seven ranks: kill every process at every event it handles.

Replay one: ``pytest "tests/sim/test_small_tree.py::test_...[pct3]"``; the text of a
failure names the event.
"""

from __future__ import annotations

import itertools

import pytest

from native.limits import Limits
from native.wire.load import Mpi, Protocol
from tests.sim.actor import Actor
from tests.sim.apps import Mix, draw
from tests.sim.clock import Violation
from tests.sim.launchers import Job, YodActor
from tests.sim.world import Sim

NODES = 7
MIX = Mix(seconds=0.05, writes=2, forks=0.3)
FEWER = 4
STRIDE = 17  # events between two kills
SPAWNING = (
    Mix(seconds=0.05, writes=1, is_stuck=0, spawns=0.6, children=(b"prompt",)),
    Mix(seconds=0.05, writes=1, is_stuck=0, spawns=0.6, children=(b"pmix-prompt",), uses_pmix=True),
)
LIMITS = Limits(heartbeat_s=30.0, silent_s=100.0, arity_count=2)
BACK_S = 3.0
PROMPT_S = 5.0  # a killed process is noticed at once; nobody need wait for a deadline


def start(name: str, mix: Mix = MIX, nodes: int = NODES) -> tuple[Sim, YodActor, Actor]:
    """A job on these nodes that has just been asked for, and one actor of it."""
    sim = Sim(7, nodes, limits=LIMITS)
    sim.boot()
    offered = Protocol.PMIX if mix.uses_pmix else Protocol.PMI1
    yod = sim.launch(Job(draw(sim.clock.rng, nodes, mix), mpi=Mpi((offered,))))
    assert sim.bebopd is not None
    actors: list[Actor] = [*sim.pcts.values(), sim.bebopd, yod]
    return sim, yod, next(actor for actor in actors if actor.name == name)


def kill_at(name: str, event: int, action: int, mix: Mix = MIX, nodes: int = NODES) -> None:
    """One run in which a process dies."""
    sim, yod, victim = start(name, mix, nodes)
    victim.dies_at = (victim.events + event, action)

    def run() -> None:
        again = set(sim.hosts)

        def restart() -> None:
            for number in again:
                sim.start_pct(number)
            sim.start_bebopd()

        for second in range(1, 40):
            sim.clock.after(second * BACK_S, restart)
        sim.finish()
        took = yod.ended_at - yod.began_at
        if yod.has_ended and took > PROMPT_S:
            raise Violation(f"yod took {took:.1f} s; said: {yod.said}")

    try:
        sim.guarded(run)
    except AssertionError as error:
        raise Violation(f"{name} killed at event {event}, action {action}: {error}") from error


def test_nobody_dies():
    sim, yod, _ = start("yod0")
    sim.guarded(sim.finish)
    assert yod.machine.report.exit_status == 0
    assert not yod.said


@pytest.mark.parametrize("name", [*(f"pct{number}" for number in range(NODES)), "bebopd", "yod0"])
@pytest.mark.parametrize("action", [0, 1, 99], ids=["before", "within", "after"])
def test_a_process_dies_at_any_event(name: str, action: int):
    sim, yod, victim = start(name)
    before = victim.events
    sim.clock.run(1e3, lambda: yod.has_ended)
    count = victim.events - before
    assert count > 3
    for event in range(1, count + 1):
        kill_at(name, event, action)


@pytest.mark.parametrize("name", [*(f"pct{number}" for number in range(FEWER)), "yod0"])
@pytest.mark.parametrize("mix", SPAWNING, ids=["pmi", "pmix"])
def test_a_process_dies_while_ranks_spawn(name: str, mix: Mix):
    sim, yod, victim = start(name, mix, FEWER)
    before = victim.events
    sim.clock.run(1e3, lambda: yod.has_ended)
    assert yod.truth is not None
    assert len(yod.truth.worlds) > 2
    for event in range(1, victim.events - before + 1, STRIDE):
        kill_at(name, event, event % 2, mix, FEWER)


def test_a_keeper_dies_at_any_moment():
    for number, moment in itertools.product(range(NODES), range(1, 200, 3)):
        sim, yod, _ = start("yod0")
        began = sim.clock.now

        def kill(number: int = number, sim: Sim = sim, yod: YodActor = yod) -> None:
            for keeper in list(sim.hosts[number].keepers):
                assert yod.truth is not None
                yod.truth.trouble.add("keeper killed")
                keeper.be_killed()

        sim.clock.at(began + moment * 2e-3, kill)
        try:
            sim.guarded(sim.finish)
        except AssertionError as error:
            raise Violation(f"keeper {number} killed at {moment}: {error}") from error
        if number == NODES - 1 and yod.ended_at < began + moment * 2e-3:
            break
