"""A job whose nodes tell when they came to the end of their phases (``yod --trace``)."""

from __future__ import annotations

import random

import pytest

from native.limits import Limits
from native.wire.group import NodeTimes
from pct.job.rules.times import Times
from tests.sim.apps import Mix, draw
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job, YodActor
from tests.sim.seeds import seeds
from tests.sim.world import Sim
from yod.launch.phases import Phase
from yod.plan.plan import Options

HARM = (Victim.ROOT, Victim.INNER, Victim.LEAF, Victim.KEEPER, Victim.USER, Victim.LINK)
PHASES = (Phase.FORMING, Phase.LOADING, Phase.STARTING, Phase.RUNNING, Phase.ENDING)
STEPS = ("joined", "loaded", "started", "held", "went", "ended", "told", "left")
MICRO = 1e6


class Seen:
    """What has been told of a launch, and when its load messages really came.

    Attributes:
        arrived: node -> by the clock of the simulation, which is one for all.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived: dict[int, float] = {}
        self.yods: list[YodActor] = []
        original = Times.__init__

        def begun(times: Times, message, started_at: float) -> None:
            original(times, message, started_at)
            self.arrived[message.nodes[message.place].node] = started_at

        monkeypatch.setattr(Times, "__init__", begun)

    def play(self, seed: int, victims: tuple[Victim, ...]) -> YodActor:
        """A launch that is traced; the rules of the simulation hold."""
        rng = random.Random(seed)
        nodes = rng.choice([1, 3, 7, 20])
        limits = Limits(arity_count=rng.choice([2, 3]), heartbeat_s=20.0, silent_s=70.0)
        sim = Sim(seed, nodes, limits=limits)
        programs = draw(rng, nodes, Mix(uses_pmi=False, seconds=2.0, writes=1))
        self.arrived.clear()

        def run() -> None:
            sim.boot()
            yod = sim.launch(Job(programs, options=Options(input_ranks=(), tells_times=True)))
            self.yods.append(yod)
            if victims:
                what, delay_s = (rng.choice(victims), rng.choice(PHASES)), rng.uniform(0, 0.5)
                Faults(sim).plan(yod, Fault(*what, delay_s, 5.0, place=seed % 9))
            sim.finish()

        sim.guarded(run)
        return self.yods[-1]


def check_order(times: NodeTimes) -> None:
    reached = [at for name in STEPS if (at := getattr(times, name)) >= 0]
    assert reached[0] >= 0
    normal = [getattr(times, name) for name in STEPS[:5] if getattr(times, name) >= 0]
    assert normal == sorted(normal)
    assert times.left < 0 or times.left == max(reached)


@pytest.mark.parametrize("seed", seeds(20, of=400))
def test_every_node_of_a_launch_has_its_times_where_they_were(seed: int, monkeypatch):
    seen = Seen(monkeypatch)
    yod = seen.play(seed, ())
    began = yod.machine.began
    times = yod.machine.node_times
    assert times.keys() == seen.arrived.keys() == {n.node for n in yod.machine.grant.nodes}
    for node, each in times.items():
        check_order(each)
        assert all(getattr(each, name) >= 0 for name in STEPS)
        came = began[Phase.FORMING] + each.came / MICRO
        # Ways down and up differ, at each hop; a vote is there no sooner than it is sent.
        assert began[Phase.FORMING] <= came <= began[Phase.LOADING]
        assert abs(came - seen.arrived[node]) <= began[Phase.LOADING] - began[Phase.FORMING]
        went = seen.arrived[node] + each.went / MICRO
        assert len(times) == 1 or went >= began[Phase.RUNNING] - 1e-6
        told = seen.arrived[node] + each.told / MICRO
        assert told >= began[Phase.ENDING] - 1e-6


@pytest.mark.parametrize("seed", seeds(40, of=400))
def test_times_that_are_told_are_of_the_nodes_of_the_job_whatever_fails(seed: int, monkeypatch):
    yod = Seen(monkeypatch).play(seed, HARM)
    for node, each in yod.machine.node_times.items():
        assert node in {granted.node for granted in yod.machine.grant.nodes}
        check_order(each)


def test_most_nodes_tell_their_times_when_one_fails(monkeypatch):
    """The scenarios above are about something."""
    seen = Seen(monkeypatch)
    told = size = 0
    for seed in range(20):
        yod = seen.play(seed, HARM)
        told += len(yod.machine.node_times)
        size += len(yod.machine.grant.nodes) if yod.machine.grant else 0
    assert size // 2 < told < size
