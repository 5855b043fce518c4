"""Checkpoints of a job on some nodes, with a fault: never a half one called whole."""

from __future__ import annotations

import random

import pytest

from native.limits import Limits
from native.wire.group import Checkpoints
from pct.job.rules import partner
from tests.sim.apps import Mix, draw
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job
from tests.sim.seeds import seeds
from tests.sim.world import Sim
from yod.launch.checkpoints import WRITTEN_STATUS
from yod.launch.phases import Phase
from yod.plan.checkpoint import Checkpointing

WINDOW_BYTES = 2000
DRAIN_S = 1.5  # nodes that hang take longer
CRASHES = (Victim.ROOT, Victim.INNER, Victim.LEAF, Victim.KEEPER, Victim.LINK, Victim.USER)


@pytest.fixture(autouse=True)
def narrow_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than a node keeps."""
    monkeypatch.setattr(partner, "WINDOW_BYTES", WINDOW_BYTES)


def play(
    seed: int, *, is_faulty: bool, ends: bool, is_local: bool = False, is_lost: bool = False
) -> tuple[Sim, object]:
    rng = random.Random(seed)
    nodes = rng.choice([1, 3, 7, 12])
    limits = Limits(arity_count=2, heartbeat_s=20.0, silent_s=70.0)
    sim = Sim(seed, nodes, limits=limits)
    mix = Mix(uses_pmi=False, seconds=rng.choice([2.0, 10.0]), writes=rng.choice([2, 40]))
    local = b"/dev/shm" if is_local else b""
    how = Checkpointing(
        directory="/scratch",
        signal_number=0 if seed % 4 == 3 else 12,
        grace_s=5.0,
        every_s=rng.choice([0.0, 1.0]),
        where=Checkpoints(b"/scratch", ".collecting-1", local=local, drain_s=DRAIN_S),
        local=local.decode(),
        recipe=b"{}",
        holds_output=seed % 2 == 1,
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

        def lose() -> None:
            """A node is lost when all are kept, and some, or none, have copied."""
            if yod.has_ended or faults.struck:
                return
            if not any("copied to" in line for line in yod.said):
                sim.clock.after(0.01, lose)
                return
            victim = rng.choice((Victim.ROOT, Victim.INNER, Victim.LEAF))
            fault = Fault(victim, Phase.RUNNING, 0.0, 30.0, place=rng.randrange(9))
            sim.clock.after(rng.uniform(0.1, 0.6), lambda: faults.strike(yod, fault))

        if is_lost:
            sim.clock.after(0.5, lose)

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


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("seed", seeds(40, of=400))
def test_no_half_checkpoint_is_whole_whatever_fails(seed: int, is_local: bool):
    play(seed, is_faulty=True, ends=seed % 3 == 0, is_local=is_local)


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("seed", seeds(20, of=100))
def test_a_job_that_nothing_happens_to_goes_on_behind_its_checkpoints(seed: int, is_local: bool):
    _, yod = play(seed, is_faulty=False, ends=False, is_local=is_local)
    assert yod.machine.report.exit_status == 0, yod.said


@pytest.mark.parametrize("is_local", [False, True])
def test_checkpoints_are_made_and_a_job_ends_behind_one(is_local: bool):
    """The scenarios above are about something."""
    made = ended = 0
    for seed in range(20):
        _, yod = play(seed, is_faulty=False, ends=True, is_local=is_local)
        made += len(yod.checkpoints)
        ended += yod.machine.report.exit_status == WRITTEN_STATUS
    assert made > 5
    assert ended > 1


@pytest.mark.parametrize("seed", seeds(30, of=400))
def test_no_half_checkpoint_is_whole_when_nodes_are_lost_while_they_drain(seed: int):
    play(seed, is_faulty=False, ends=False, is_local=True, is_lost=True)


def test_checkpoints_outlive_nodes_that_are_lost_while_they_drain():
    """The scenarios above are about something."""
    lost = [
        play(seed, is_faulty=False, ends=False, is_local=True, is_lost=True) for seed in range(30)
    ]
    assert sum(yod.was_rescued for _, yod in lost) > 5
