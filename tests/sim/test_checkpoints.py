"""Checkpoints of a job on some nodes, with a fault: never a half one called whole."""

from __future__ import annotations

import random

import pytest

from native.limits import Limits
from native.wire.group import Checkpoints
from tests.sim.apps import Mix, draw
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job
from tests.sim.seeds import seeds
from tests.sim.world import Sim
from yod.launch.checkpoints import WRITTEN_STATUS
from yod.launch.phases import Phase
from yod.plan.checkpoint import Checkpointing

CRASHES = (Victim.ROOT, Victim.INNER, Victim.LEAF, Victim.KEEPER, Victim.LINK, Victim.USER)


def play(seed: int, *, is_faulty: bool, ends: bool) -> tuple[Sim, object]:
    rng = random.Random(seed)
    nodes = rng.choice([1, 3, 7, 12])
    limits = Limits(arity_count=2, heartbeat_s=20.0, silent_s=70.0)
    sim = Sim(seed, nodes, limits=limits)
    mix = Mix(uses_pmi=False, seconds=rng.choice([2.0, 10.0]), writes=2)
    how = Checkpointing(
        directory="/scratch",
        signal_number=0 if seed % 4 == 3 else 12,
        grace_s=5.0,
        every_s=rng.choice([0.0, 1.0]),
        where=Checkpoints(b"/scratch", ".collecting-1"),
        recipe=b"{}",
    )
    found = []

    def run() -> None:
        sim.boot()
        yod = sim.launch(Job(draw(rng, nodes, mix), checkpointing=how))
        found.append(yod)
        faults = Faults(sim)
        if is_faulty:
            fault = Fault(
                rng.choice(CRASHES), Phase.RUNNING, rng.uniform(0, 3), 30.0, place=rng.randrange(9)
            )
            faults.plan(yod, fault)

        def ask(left: int) -> None:
            if yod.machine.phase is Phase.RUNNING:
                yod.checkpoint(ends and left == 1)
            if left > 1 and not yod.has_ended:
                sim.clock.after(rng.uniform(0.1, 1.5), lambda: ask(left - 1))

        sim.clock.after(0.5, lambda: ask(4))
        sim.finish()
        for pct in sim.pcts.values():
            pct.savers.check()
        assert yod.truth is not None
        assert len(yod.checkpoints) <= yod.truth.checkpoints

    sim.guarded(run)
    return sim, found[0]


@pytest.mark.parametrize("seed", seeds(40, of=400))
def test_no_half_checkpoint_is_whole_whatever_fails(seed: int):
    play(seed, is_faulty=True, ends=seed % 3 == 0)


@pytest.mark.parametrize("seed", seeds(20, of=100))
def test_a_job_that_nothing_happens_to_goes_on_behind_its_checkpoints(seed: int):
    _, yod = play(seed, is_faulty=False, ends=False)
    assert yod.machine.report.exit_status == 0, yod.said


def test_checkpoints_are_made_and_a_job_ends_behind_one():
    """The scenarios above are about something."""
    made = ended = 0
    for seed in range(20):
        _, yod = play(seed, is_faulty=False, ends=True)
        made += len(yod.checkpoints)
        ended += yod.machine.report.exit_status == WRITTEN_STATUS
    assert made > 10
    assert ended > 2
