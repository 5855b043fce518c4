"""Every press goes a step further and says what it did and what the next will do."""

import pytest

from yod.signals import Interrupts, Press, Stage


def test_presses_are_counted_up_to_the_reset_and_the_first_signal_is_kept():
    presses = Interrupts()
    assert (presses.press, presses.first_signal) == (Press.NONE, 0)
    for number, step in (
        (15, Press.TERMINATE),
        (2, Press.KILL),
        (2, Press.RESET),
        (2, Press.RESET),
    ):
        presses.next(number, Stage.RUNNING)
        assert (presses.press, presses.first_signal) == (step, 15)


@pytest.mark.parametrize("stage", [Stage.RUNNING, Stage.ENDING, Stage.LEAVING])
def test_every_press_but_the_one_that_leaves_says_what_the_next_does(stage):
    presses = Interrupts()
    said = [presses.next(2, stage) for _ in range(3)]
    assert all("interrupt" in text for text in said if not text.startswith("leaving"))


def test_what_is_said_follows_what_the_interrupt_finds():
    presses = Interrupts()
    assert presses.next(2, Stage.LOADING).startswith("the load is being cancelled")
    assert presses.next(2, Stage.ENDING).startswith("nodes are being reset")
    assert presses.next(2, Stage.LEAVING).startswith("leaving")
