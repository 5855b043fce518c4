"""What a node's host does to a job, one fault at a time, on seven nodes."""

from __future__ import annotations

import pytest

from native.ids import ObjectKey
from native.wire.load import Mpi, Protocol
from pct.pmi_events import Devices
from tests.sim import scenario
from tests.sim.apps import Mix, draw
from tests.sim.keeper import FakeKeeper
from tests.sim.launchers import Job, YodActor
from tests.sim.seeds import seeds
from tests.sim.test_small_tree import LIMITS, NODES
from tests.sim.world import Sim
from yod.launch.machine import Phase

EVERY_NODE = range(NODES)
SHORT = Mix(seconds=0.05)


def a_partition() -> Sim:
    sim = Sim(7, NODES, limits=LIMITS)
    sim.boot()
    return sim


def launched(sim: Sim, mix: Mix = SHORT, **fields: object) -> YodActor:
    """A job on every node whose image, and whose arguments where asked for, are shipped."""
    job = Job(draw(sim.clock.rng, NODES, mix), **fields)  # type: ignore[arg-type]
    return sim.launch(job)


def finished(sim: Sim, yod: YodActor, trouble: str) -> str:
    """Run to the end; what the user read."""
    if trouble:
        sim.clock.run(sim.clock.now + 60.0, lambda: yod.truth is not None)
        assert yod.truth is not None
        yod.truth.trouble.add(trouble)
    sim.guarded(sim.finish)
    assert yod.has_ended
    return "\n".join(yod.said)


def publishes(sim: Sim, at: int) -> str:
    """What the user reads when a node cannot give the image its name."""
    sim.hosts[at].publish_error = "[Errno 28] No space left on device"
    return finished(sim, launched(sim), "an object cannot be published")


@pytest.mark.parametrize("at", EVERY_NODE)
def test_an_object_that_cannot_be_given_its_name_fails_the_job_with_the_reason(at: int):
    sim = a_partition()
    said = publishes(sim, at)
    assert "No space left on device" in said and f"n{at}" in said, said


@pytest.mark.parametrize("image_bytes", [1, 3_000_000, 200_000_000])
def test_an_object_that_arrives_damaged_is_not_executed(image_bytes: int):
    sim = a_partition()
    yod = launched(sim, image_bytes=image_bytes)

    def damage(entered: YodActor, phase: Phase) -> None:
        if phase is Phase.LOADING and entered.truth is not None:
            sim.objects.damaged.add(ObjectKey(entered.truth.job_id, 0))

    sim.on_phase = damage
    said = finished(sim, yod, "an object is damaged")
    assert "it arrived damaged" in said, said
    assert yod.truth is not None and not yod.truth.passed


@pytest.mark.parametrize("at", EVERY_NODE)
def test_a_node_without_memory_for_the_arguments_fails_the_job_with_the_reason(at: int):
    sim = a_partition()
    sim.hosts[at].has_memory = False
    said = finished(sim, launched(sim, arguments_inline=False), "no memory")
    assert "the arguments: cannot allocate memory" in said and f"n{at}" in said, said


@pytest.mark.parametrize("seed", seeds(12, of=20))
def test_objects_are_whole_when_they_are_executed(seed: int):
    scenario.shipped(seed)


@pytest.mark.parametrize("seed", seeds(15, of=30))
def test_nothing_is_left_of_keepers_that_are_killed(seed: int):
    scenario.keepers(seed)


@pytest.mark.parametrize("at", EVERY_NODE)
def test_only_ranks_of_a_node_without_a_fabric_are_told_to_look_for_none(at: int):
    sim = a_partition()
    sim.hosts[at].devices = Devices(has_fabric=True, has_any=True, has_settings=False)
    told: dict[str, bool] = {}

    def look(yod: YodActor, phase: Phase) -> None:
        if phase is Phase.RUNNING:
            for host in sim.hosts.values():
                (keeper,) = (each for each in host.keepers if isinstance(each, FakeKeeper))
                names = [entry.partition(b"=")[0] for entry in keeper.spec.environment]
                told[host.name] = b"OMPI_MCA_mtl" in names

    sim.on_phase = look
    mix = Mix(seconds=0.05, uses_pmix=True)
    finished(sim, launched(sim, mix, mpi=Mpi((Protocol.PMIX,))), "")
    assert told == {f"n{number}": number != at for number in EVERY_NODE}
