"""A batch script is either saved whole, or goes on; never both, and it is never lost."""

from __future__ import annotations

import pytest

from native.machine import Action
from partition.batch.saving import ContinueScript, EndScript, SaverEnded, Saving
from tests.sim.clock import Violation
from tests.sim.scripts import World
from tests.sim.seeds import seeds

TRIALS = 200  # seeds by which a broken machine is found


@pytest.mark.parametrize("seed", seeds(300, of=20_000))
def test_a_script_is_saved_whole_or_goes_on(seed):
    World(seed).play()


def test_the_world_has_what_it_is_about():
    played = [World(seed) for seed in range(TRIALS)]
    for world in played:
        world.play()
    assert any(world.was_saved for world in played)
    assert any(world.attempts > world.was_saved + 1 for world in played)
    assert any(world.checkpoints for world in played)


class EndsUnsaved(Saving):
    """Ends a script that is not written down."""

    def _ended(self, path: str, trouble: str) -> list[Action]:
        actions = super()._ended(path, trouble)
        return [EndScript() if isinstance(each, ContinueScript) else each for each in actions]


class LeavesStopped(Saving):
    """Forgets a script that its saver has stopped."""

    def _ended(self, path: str, trouble: str) -> list[Action]:
        actions = super()._ended(path, trouble)
        return [each for each in actions if not (trouble and isinstance(each, ContinueScript))]


class EndsTwice(Saving):
    """Lets a script go on that it has ended: its count goes on behind the checkpoint."""

    def _ended(self, path: str, trouble: str) -> list[Action]:
        actions = super()._ended(path, trouble)
        is_end = any(isinstance(each, EndScript) for each in actions)
        return [each for each in actions if not isinstance(each, EndScript)] if is_end else actions


class Silent(Saving):
    """Answers nobody whose checkpoint has failed."""

    def _ended(self, path: str, trouble: str) -> list[Action]:
        return super()._ended(path, trouble)[1 if trouble else 0 :]


class Hasty(Saving):
    """Believes a saver that was killed."""

    def handle(self, event: object) -> list[Action]:
        if isinstance(event, SaverEnded) and event.trouble:
            event = SaverEnded("checkpoint.99", "")
        return super().handle(event)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (EndsUnsaved, "rule 1"),
        (LeavesStopped, "rule 2"),
        (EndsTwice, "rule 2"),
        (Silent, "rule 5"),
        (Hasty, "rule 3"),
    ],
)
def test_a_broken_machine_is_found(broken, rule):
    said = []
    for seed in range(TRIALS):
        try:
            World(seed, make=broken).play()
        except Violation as violation:
            said.append(str(violation))
    assert any(each.startswith(rule) for each in said), said[:5]
