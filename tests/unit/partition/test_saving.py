"""When a script is written down, and what follows."""

from __future__ import annotations

import pytest

from partition.batch.saving import (
    Answer,
    Asked,
    ContinueScript,
    EndScript,
    SaverEnded,
    Saving,
    SavingState,
    SendSignal,
    StartSaver,
)

DONE, FAILED = SaverEnded("/c/checkpoint.1", ""), SaverEnded("", "disk full")


@pytest.fixture
def saving() -> Saving:
    return Saving()


def begun(saving: Saving, asked: Asked) -> Saving:
    assert saving.handle(asked) == [StartSaver(asked.is_trial)]
    assert saving.state is SavingState.SAVING
    return saving


@pytest.mark.parametrize(
    ("asked", "ended", "actions"),
    [
        (Asked(), DONE, [Answer(False, DONE.path, ""), ContinueScript()]),
        (Asked(ends=True), DONE, [Answer(False, DONE.path, ""), EndScript()]),
        (Asked(ends=True), FAILED, [Answer(False, "", "disk full"), ContinueScript()]),
        (Asked(is_trial=True), FAILED, [Answer(True, "", "disk full")]),
        (
            Asked(ends=True, signal_number=15),
            FAILED,
            [Answer(False, "", "disk full"), ContinueScript(), SendSignal(15)],
        ),
    ],
)
def test_a_script_ends_only_behind_its_checkpoint_and_else_goes_on(saving, asked, ended, actions):
    assert begun(saving, asked).handle(ended) == actions
    assert saving.state is SavingState.RESTING


def test_who_asks_for_one_while_it_is_made_has_the_same(saving):
    begun(saving, Asked())
    assert saving.handle(Asked()) == []
    assert saving.handle(DONE) == [Answer(False, DONE.path, ""), ContinueScript()]


def test_whether_one_could_be_made_is_not_looked_at_while_one_is(saving):
    begun(saving, Asked())
    busy = "a checkpoint is being made already"
    assert saving.handle(Asked(is_trial=True)) == [Answer(True, "", busy)]


def test_who_asks_while_it_is_only_looked_at_has_what_follows(saving):
    begun(saving, Asked(ends=True, is_trial=True))
    assert saving.handle(Asked(is_trial=True)) == []
    assert saving.handle(Asked()) == []
    assert saving.handle(Asked()) == []
    assert saving.handle(SaverEnded("", "")) == [Answer(True, "", ""), StartSaver(False)]
    assert saving.handle(DONE) == [Answer(False, DONE.path, ""), ContinueScript()]


def test_a_script_that_is_to_end_does_behind_the_checkpoint_that_is_made(saving):
    begun(saving, Asked())
    assert saving.handle(Asked(ends=True)) == []
    assert saving.handle(DONE) == [Answer(False, DONE.path, ""), EndScript()]


def test_a_script_that_is_to_end_while_it_is_only_looked_at_does_behind_a_checkpoint(saving):
    begun(saving, Asked(is_trial=True))
    assert saving.handle(Asked(ends=True, signal_number=15)) == []
    assert saving.handle(SaverEnded("", "")) == [Answer(True, "", ""), StartSaver(False)]
    assert saving.handle(DONE)[-1] == EndScript()


def test_a_second_signal_is_sent_at_once(saving):
    begun(saving, Asked(ends=True, signal_number=15))
    assert saving.handle(Asked(ends=True, signal_number=15)) == [SendSignal(15)]
