"""Nodes are drained, resumed and restarted while jobs run and processes die.

One seed alone: ``pytest "tests/sim/test_operators.py::test_orders_hold_whatever_dies[17]"``.
"""

from __future__ import annotations

import pytest

from native.wire.nodes import Drain, Restart
from tests.sim import scenario
from tests.sim.apps import Mix, draw
from tests.sim.clock import Violation
from tests.sim.launchers import Job
from tests.sim.operators import Operator
from tests.sim.test_small_tree import BACK_S, LIMITS
from tests.sim.world import Sim
from yod.launch.phases import Phase


@pytest.mark.parametrize("seed", range(40))
def test_orders_hold_whatever_dies(seed: int):
    scenario.operated(seed)


@pytest.mark.parametrize("action", [0, 1, 2], ids=["before", "within", "after"])
def test_bebopd_may_die_at_any_event_of_an_order(action: int):
    """At the event that is the commit, too: between the disk and the answer."""
    event, is_over = 0, False
    while not is_over:
        event += 1
        is_over = _dies(event, action)
    assert event > 8


def _dies(event: int, action: int) -> bool:
    """bebopd dies at an event while a job runs and nodes are drained; whether there is none."""
    sim = Sim(7, 3, limits=LIMITS)
    sim.boot()
    operator = Operator(sim)
    yod = sim.launch(Job(draw(sim.clock.rng, 3, Mix(seconds=0.5))))
    sim.clock.run(sim.clock.now + 9.0, lambda: yod.machine.phase is Phase.RUNNING)
    bebopd = sim.bebopd
    assert bebopd is not None
    bebopd.dies_at = bebopd.events + event, action

    def run() -> None:
        for second in range(1, 40):
            sim.clock.after(second * BACK_S, sim.start_bebopd)
        for order in (Drain((1,), "fan"), Restart((2, 0)), Drain((2,), "disk")):
            operator.give(order)
            sim.clock.run(sim.clock.now + 1.0, lambda: not operator.is_waiting)
            sim.start_bebopd()
        sim.finish()
        if yod.machine.report.exit_status:
            raise Violation(f"the job was disturbed: {yod.said}")

    try:
        sim.guarded(run)
    except AssertionError as error:
        raise Violation(f"bebopd killed at event {event}: {error}") from error
    return bebopd.process.is_alive
