"""A user leaves a launch, and the job goes on: what the machine does in each phase."""

from __future__ import annotations

import signal

import pytest

from tests.unit.yod.launch_of import LIMITS, TERM, Yod, signal_all
from yod.launch.events import (
    Detach,
    DetachAsked,
    Detached,
    Interrupted,
    NotDetached,
    Tell,
)
from yod.launch.phases import Phase

HUP = Interrupted(signal.SIGHUP)
WITH_NODES = [phase for phase in Phase if phase not in (Phase.ALLOCATING, Phase.DONE)]


@pytest.mark.parametrize("phase", WITH_NODES)
def test_a_launch_with_nodes_can_be_left_once(phase):
    yod = Yod(2).to(phase)
    assert yod.handle(DetachAsked()) == [Detach(is_hangup=False)]
    assert yod.handle(Detached()) == []
    assert yod.machine.is_detached
    assert yod.handle(DetachAsked()) == []
    assert yod.phase is phase


def test_before_the_nodes_there_is_no_id_to_come_back_by():
    yod = Yod(2)
    assert yod.handle(DetachAsked()) == [
        Tell("not detached: the job has no nodes yet, and so no id")
    ]


def test_what_cannot_be_left_goes_on_at_its_terminal():
    yod = Yod(2).to(Phase.RUNNING)
    yod.handle(DetachAsked())
    assert yod.handle(NotDetached("no room")) == [Tell("not detached: no room")]
    assert not yod.machine.is_detached
    assert yod.handle(DetachAsked()) == [Detach(is_hangup=False)]


@pytest.mark.parametrize("phase", WITH_NODES)
def test_a_hangup_is_the_users_leave_where_they_have_said_so(phase):
    yod = Yod(2, detaches_on_hangup=True).to(phase)
    assert yod.handle(HUP) == [Detach(is_hangup=True)]
    assert yod.handle(Detached()) == []
    assert yod.handle(HUP) == []


def test_a_hangup_ends_the_job_where_they_have_not():
    yod = Yod(2).to(Phase.RUNNING)
    assert yod.handle(HUP)[1:] == [signal_all(TERM)]


def test_a_hangup_before_the_nodes_ends_the_request():
    yod = Yod(2, detaches_on_hangup=True)
    assert yod.handle(HUP)[0] == Tell("interrupted before nodes were granted")


def test_a_hangup_ends_a_job_whose_output_cannot_be_kept():
    yod = Yod(2, detaches_on_hangup=True).to(Phase.RUNNING)
    assert yod.handle(HUP) == [Detach(is_hangup=True)]
    assert yod.handle(NotDetached("disk full", is_hangup=True))[1:] == [signal_all(TERM)]


def test_other_interrupts_end_a_job_that_was_left():
    yod = Yod(2, detaches_on_hangup=True).to(Phase.RUNNING)
    yod.handle(HUP)
    yod.handle(Detached())
    yod.now += LIMITS.press_s
    assert yod.handle(Interrupted(TERM))[1:] == [signal_all(TERM)]
