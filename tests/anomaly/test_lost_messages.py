"""Fail the first send, then the second, ... until a launch no longer comes so far.

A send that fails is a connection that breaks with all that was on its way, as the
real port promises; both ends are told.
"""

from __future__ import annotations

import itertools

import pytest

from native.ids import PortalId
from native.limits import Limits
from native.wire.base import Message
from tests.sim.apps import Mix, draw
from tests.sim.clock import Violation
from tests.sim.launchers import Job
from tests.sim.network import Process
from tests.sim.world import Sim

MIX = Mix(seconds=0.05, writes=2, forks=0.3)


class FailAt:
    """Breaks the connection of the n-th message that is sent after :meth:`arm`."""

    def __init__(self, sim: Sim, number: int) -> None:
        self.has_fired = False
        self.what = ""
        self._left = number
        self._sim = sim

    def arm(self) -> None:
        """Count from here."""
        self._sim.network.fail_send = self._fails

    def _fails(self, source: Process, target: PortalId, message: Message) -> bool:
        self._left -= 1
        if self._left:
            return False
        self.has_fired = True
        self.what = f"{type(message).__name__} from {source.name} to {target}"
        for truth in self._sim.truths.values():
            truth.trouble.add(self.what)
        return True


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_everything_is_free_whichever_send_fails(nodes: int):
    for number in itertools.count(1):
        sim = Sim(number, nodes, limits=Limits(heartbeat_s=1e5, silent_s=1e6, arity_count=2))
        fault = FailAt(sim, number)
        try:
            _run(sim, fault, nodes)
        except AssertionError as error:
            raise Violation(f"send {number}, {fault.what}: {error}") from error
        if not fault.has_fired:
            break
    assert number > 12 * nodes


def _run(sim: Sim, fault: FailAt, nodes: int) -> None:
    def play() -> None:
        sim.boot()
        yod = sim.launch(Job(draw(sim.clock.rng, nodes, MIX)))
        fault.arm()
        sim.clock.run(200.0, lambda: yod.has_ended)
        sim.network.fail_send = lambda *_: False
        sim.finish()
        if not fault.has_fired and yod.machine.report.exit_status != 0:
            raise Violation(f"exit status {yod.machine.report.exit_status}: {yod.said}")

    sim.guarded(play)
