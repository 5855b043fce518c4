"""Remote files while something fails: calls end, none twice, and the job's end is told."""

from __future__ import annotations

import random

import pytest

from native.limits import Limits
from tests.sim.apps import Mix, draw
from tests.sim.faults import Fault, Faults, Victim
from tests.sim.launchers import Job, YodActor
from tests.sim.remotes import ENDED, Mount
from tests.sim.seeds import seeds
from tests.sim.world import Sim
from yod.launch.phases import Phase
from yod.plan.plan import Options

CRASHES = (Victim.YOD, Victim.ROOT, Victim.INNER, Victim.LEAF, Victim.KEEPER, Victim.USER)


def play(seed: int, *, victim: Victim | None = None, kills_server: bool = False):
    """One job whose ranks use remote files; gives its yod and the mounts of all nodes."""
    rng = random.Random(seed)
    nodes = rng.choice([1, 3, 7, 12])
    limits = Limits(arity_count=2, heartbeat_s=20.0, silent_s=70.0, remote_window_bytes=1 << 17)
    sim = Sim(seed, nodes, limits=limits)
    mix = Mix(uses_pmi=False, seconds=rng.choice([2.0, 8.0]), writes=2)
    found: list[tuple[YodActor, list[Mount]]] = []

    def run() -> None:
        sim.boot()
        yod = sim.launch(Job(draw(rng, nodes, mix), options=Options(remote=(b"/data",))))
        pcts = list(sim.pcts.values())
        if victim is not None:
            fault = Fault(victim, Phase.RUNNING, rng.uniform(0, 2), 30.0, place=rng.randrange(9))
            Faults(sim).plan(yod, fault)
        if kills_server:
            sim.clock.after(rng.uniform(0.0, 3.0), yod.server.kill)
        sim.finish()
        found.append((yod, [mount for pct in pcts for mount in pct.mounts.all.values()]))

    sim.guarded(run)
    return found[0]


@pytest.mark.parametrize("seed", seeds(30, of=300))
def test_nobody_waits_for_a_file_when_the_job_is_over_whatever_fails(seed: int):
    _, mounts = play(seed, victim=CRASHES[seed % len(CRASHES)])
    assert not any(mount.waiting for mount in mounts)


@pytest.mark.parametrize("seed", seeds(20, of=200))
def test_a_killed_process_with_the_files_ends_the_job_and_its_cause_is_told(seed: int):
    yod, mounts = play(seed, kills_server=True)
    assert not any(mount.waiting for mount in mounts)
    if yod.machine.report.exit_status:
        assert sum(ENDED in text for text in [*yod.said, yod.machine.report.reason]) >= 1, yod.said


def test_calls_are_answered_where_nothing_fails_and_fail_where_something_does():
    """The scenarios above are about something."""
    answered = failed = 0
    for seed in range(10):
        yod, mounts = play(seed)
        assert yod.machine.report.exit_status == 0, yod.said
        answered += sum(mount.answered for mount in mounts)
        _, mounts = play(seed, victim=Victim.YOD)
        failed += sum(mount.failed for mount in mounts)
    assert answered > 100
    assert failed > 5
