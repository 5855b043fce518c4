"""Every press goes a step further and says what it did and what the next will do."""

import pytest

from yod.launch.signals import Interrupts, Press, Stage


def test_presses_are_counted_up_to_the_one_that_leaves():
    presses = Interrupts(1.0)
    assert presses.press is Press.NONE
    for now, step in enumerate((Press.TERMINATE, Press.KILL, Press.LEAVE, Press.LEAVE)):
        assert presses.take(float(now))
        assert presses.press is step


def test_what_comes_within_a_second_after_a_press_belongs_to_it():
    presses = Interrupts(1.0)
    assert [presses.take(now) for now in (10.0, 10.0, 10.9, 11.0, 11.5, 12.1)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_who_leans_on_ctrl_c_presses_every_second():
    presses = Interrupts(1.0)
    assert sum(presses.take(now / 30) for now in range(91)) == 4


@pytest.mark.parametrize("stage", Stage)
def test_every_press_but_the_one_that_leaves_says_what_the_next_does(stage):
    presses = Interrupts(1.5)
    for now in (0.0, 2.0):
        presses.take(now)
        if stage is not Stage.LOADING or presses.press is Press.TERMINATE:
            assert "interrupt" in presses.said(stage)
    presses.take(4.0)
    assert presses.said(stage) == "the nodes are told to reset; leaving"


def test_what_is_said_follows_what_the_interrupt_finds():
    presses = Interrupts(1.0)
    presses.take(0.0)
    assert presses.said(Stage.LOADING).startswith("the load is being cancelled")
    presses.take(1.0)
    assert presses.said(Stage.ENDING).startswith("nodes are being reset")


def test_the_delay_between_presses_is_named_where_there_is_one():
    for press_s, text in ((0.25, "again after 0.25 s to send SIGKILL"), (0.0, "again to send")):
        presses = Interrupts(press_s)
        presses.take(0.0)
        assert text in presses.said(Stage.RUNNING)
