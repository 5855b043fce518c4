"""A script that is suspended, and goes on, while it is written down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from partition.batch.saved import Container, SavedScript
from partition.batch.saving import SaverEnded

DONE, FAILED = SaverEnded("/c/checkpoint.1", ""), SaverEnded("", "disk full")


class Script(SavedScript):
    """One without processes; what would be done to them is kept."""

    def __init__(self) -> None:
        nothing = cast(Any, SimpleNamespace(task=None, grant=SimpleNamespace(job_id=1)))
        container = Container("/c", nothing, "")
        super().__init__(nothing, nothing, nothing, lambda _: None, container, lambda *_: None)
        self._unix_pid = 1
        self.done: list[str] = []

    def signal(self, *numbers: int) -> None:
        self.done += [f"signal {number}" for number in map(int, numbers)]

    def _continue(self) -> None:
        self.done.append("continue")

    def _start_saver(self, is_trial: bool) -> None:
        self.done.append("saver")


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.mark.parametrize(("is_trial", "ended"), [(False, DONE), (False, FAILED), (True, FAILED)])
def test_it_goes_on_when_its_saver_has_ended(script, is_trial, ended):
    script.checkpoint(False, is_trial)
    script.suspend(True)
    script.suspend(False)
    assert script.done == ["saver", "signal 19"]
    script._handle(ended)
    assert script.done[2:] and set(script.done[2:]) == {"continue"}


def test_one_that_is_suspended_again_stays_so(script):
    script.checkpoint(False, True)
    for is_on in (True, False, True):
        script.suspend(is_on)
    script._handle(FAILED)
    assert script.done == ["saver", "signal 19", "signal 19"]


def test_without_a_saver_it_goes_on_at_once(script):
    script.suspend(True)
    script.suspend(False)
    assert script.done == ["signal 19", "signal 18"]
