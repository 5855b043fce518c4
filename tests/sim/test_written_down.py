"""Launches that end behind a checkpoint: for others, or since a node is drained; with faults.

Whatever happens, a half checkpoint is none (rule 12), who gives way has done so in time, and no
drain ends a job that has no checkpoint.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from allocator.bebopd import Bebopd
from allocator.nodes.placement import ArrayPlacement
from allocator.queue.backfill import Backfill
from native.limits import Limits
from native.wire.group import Checkpoints
from native.wire.nodes import Drain
from tests.sim.apps import Mix, draw
from tests.sim.clock import Violation
from tests.sim.faults import CRASHES, Fault, Faults, Victim
from tests.sim.launchers import Job, YodActor
from tests.sim.operators import Operator
from tests.sim.seeds import seeds
from tests.sim.world import Machines, Sim
from yod.launch.checkpoints import WRITTEN_STATUS
from yod.launch.phases import Phase
from yod.plan.checkpoint import Checkpointing, Occasion
from yod.plan.plan import Options

LIMITS = Limits(
    arity_count=2,
    heartbeat_s=20.0,
    silent_s=70.0,
    nice_checkpoint_s=8.0,
    nice_kill_s=5.0,
    pass_s=0.0,
)
# A node whose processes cannot be killed, or that is lost in silence, is waited for.
WITHIN_S = LIMITS.nice_checkpoint_s + LIMITS.nice_kill_s + LIMITS.end_s + 5.0
FAULTS = (*CRASHES, Victim.LINK, Victim.CUT_BEBOPD, Victim.STOP_PCT, Victim.USER)
LONG = Mix(uses_pmi=False, seconds=300.0, is_stuck=0.0)
SHORT = Mix(uses_pmi=False, seconds=0.2, is_stuck=0.0)


def backfilling(_: object, **options: Any) -> Bebopd:
    return Bebopd(ArrayPlacement(), policy=Backfill, **options)


def play(seed: int, *, drains: bool, is_faulty: bool) -> YodActor:
    rng = random.Random(seed)
    nodes = rng.choice([1, 3, 7])
    sim = Sim(seed, nodes, limits=LIMITS, machines=Machines(bebopd=backfilling))
    how = Checkpointing(
        directory="/scratch",
        signal_number=rng.choice([0, 0, 12]),  # which some ranks do not handle
        grace_s=rng.choice([0.5, 5.0]),
        every_s=rng.choice([0.0, 1.0]),
        on=frozenset({Occasion.PREEMPT, Occasion.DRAIN}),
        where=Checkpoints(b"/scratch", ".collecting-1"),
        recipe=b"{}",
        holds_output=seed % 2 == 1,
    )
    operator = Operator(sim)
    found: list[YodActor] = []

    def run() -> None:
        sim.boot()
        options = Options(gives_way=True, input_ranks=())
        yod = sim.launch(Job(draw(rng, nodes, LONG), options=options, checkpointing=how))
        found.append(yod)
        if not sim.clock.run(sim.clock.now + 30.0, lambda: yod.machine.phase is Phase.RUNNING):
            raise Violation("the launch has not begun")
        sim.clock.run(sim.clock.now + rng.uniform(0.0, 3.0))
        if is_faulty:
            victim, back_s = rng.choice(FAULTS), rng.uniform(0.5, 8.0)
            fault = Fault(victim, Phase.RUNNING, back_s=back_s, place=rng.randrange(9))
            faults = Faults(sim)
            sim.clock.after(rng.uniform(0.0, 4.0), lambda: faults.strike(yod, fault))
        began, other = sim.clock.now, yod
        assert yod.truth is not None
        if drains:
            operator.give(Drain((rng.randrange(nodes),), "fan"))
        else:
            yod.truth.trouble.add("ends for others")  # also where a node has no rank any more
            other = sim.launch(Job(draw(rng, nodes, SHORT)))
        sim.finish()
        if not (drains or is_faulty) and other.machine.report.exit_status != 0:
            raise Violation(f"the other has not run: {other.said}")
        if not (drains or is_faulty or yod.ended_at < began + WITHIN_S):
            raise Violation(f"gave way in {yod.ended_at - began:.1f} s: {yod.said}")

    sim.guarded(run)
    return found[0]


@pytest.mark.parametrize("drains", [False, True], ids=["gives way", "drained"])
@pytest.mark.parametrize("seed", seeds(30, of=400))
def test_no_half_checkpoint_is_whole_and_all_nodes_are_free_whatever_fails(
    seed: int, drains: bool
) -> None:
    play(seed, drains=drains, is_faulty=True)


@pytest.mark.parametrize("seed", seeds(20, of=200))
def test_a_launch_gives_way_in_time_with_its_checkpoint_or_without(seed: int) -> None:
    play(seed, drains=False, is_faulty=False)


@pytest.mark.parametrize("seed", seeds(20, of=200))
def test_a_drain_ends_a_job_behind_its_checkpoint_and_no_other(seed: int) -> None:
    yod = play(seed, drains=True, is_faulty=False)
    is_written = yod.machine.report.exit_status == WRITTEN_STATUS
    assert is_written or yod.machine.report.exit_status == 0, yod.said
    assert is_written <= bool(yod.checkpoints)


@pytest.mark.parametrize("drains", [False, True])
def test_jobs_end_behind_their_checkpoints(drains: bool) -> None:
    """The scenarios above are about something."""
    ended = [play(seed, drains=drains, is_faulty=False) for seed in range(12)]
    statuses = [yod.machine.report.exit_status for yod in ended]
    assert statuses.count(WRITTEN_STATUS) > 6, statuses
