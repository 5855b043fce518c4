"""The driver with a machine that only says what it is told to say."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from ensemble import messages as m
from ensemble.host.carrier import Carrier
from ensemble.machine import job as j
from ensemble.machine.job import Job, JobState
from ensemble.machine.settings import Phase
from native.loop.reactor import Reactor

JOB = Job(2, "s-2", epoch=1, client=5, job_id="17")
TAKEN = Job(3, "s-3", epoch=1, client=6)


class Scripted:
    """A machine: the n-th event gets the n-th answer."""

    def __init__(self, *answers: list[j.Action]) -> None:
        self.answers = list(answers)
        self.heard: list[j.Event] = []
        self.phase = Phase.SERVING
        self.counts = dict.fromkeys(JobState, 0)
        self.jobs = self
        self.counted = self.waiting = 0
        self.due: float | None = None

    def handle(self, event, now):
        self.heard.append(event)
        return self.answers.pop(0)

    def deadline(self):
        return self.due


class Witness:
    """Journal, story, runner and listener in one: notes what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.fails: str = ""

    def __getattr__(self, name):
        def call(*values):
            self.calls.append((name, *values))
            if name == self.fails:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call

    def progress(self, text) -> None:
        pass


@pytest.fixture
def drive():
    reactors = []

    def make(*answers):
        reactors.append(Reactor())
        witness, machine = Witness(), Scripted(*answers)
        carrier = Carrier(machine, witness, witness, reactors[-1])  # type: ignore[arg-type]
        carrier.runner = carrier.listener = witness  # type: ignore[assignment]
        return carrier, machine, witness

    yield make
    for reactor in reactors:
        reactor.close()


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        (j.Submit(JOB, True), [("submit", JOB), ("submit", JOB, True)]),  # the journal first
        (j.Find((JOB,)), [("find", (JOB,))]),
        (j.Update((JOB,)), [("update", (JOB,))]),
        (j.Cancel((JOB,)), [("cancel", (JOB,))]),
        (j.Took(JOB), [("has_id", 2, "17")]),
        (j.Forget(JOB, JobState.FAILED), [("over", 2, JobState.FAILED), ("forget", JOB)]),
        (j.Tell(7, 1, m.Ping()), [("send", 7, 1, m.Ping())]),
        (j.Close(7, "why"), [("refuse", 7, "why")]),
        (j.Log("text", True), [("say", "text", True)]),
        (
            j.Abandon((JOB,)),
            [("say", "client 5 (job 17) may be left: its name is s-2"), ("abandon", (JOB,))],
        ),
    ],
)
def test_each_action_is_carried_out_once(drive, action, calls):
    carrier, machine, witness = drive([action])
    carrier.on_event(j.Timeout())
    assert witness.calls == calls and machine.heard == [j.Timeout()]


def test_what_comes_of_an_action_is_heard_after_all_that_were_decided_with_it(drive):
    carrier, machine, witness = drive([j.Cancel((JOB,)), j.Log("then")], [])
    event = j.Cancelled((2,))
    witness.cancel = lambda jobs: carrier.on_event(event)
    carrier.on_event(j.Timeout())
    assert machine.heard == [j.Timeout(), event] and witness.calls == [("say", "then", False)]


def test_nothing_is_submitted_that_the_journal_does_not_have(drive):
    carrier, machine, witness = drive([j.Submit(TAKEN)], [])
    witness.fails = "submit"
    carrier.on_event(j.Timeout())
    assert witness.calls == [("submit", TAKEN)]
    assert machine.heard[1] == j.SubmissionFailed(3, "the journal: No space left on device")


def test_nothing_is_heard_after_the_end(drive):
    carrier, machine, _ = drive([j.Finish(3)])
    carrier.on_event(j.Timeout())
    carrier.on_event(j.Timeout())
    assert carrier.finished == j.Finish(3) and len(machine.heard) == 1


def test_signals_and_deadlines_are_events(drive):
    carrier, machine, _ = drive([j.Log("begins")], [j.Log("timed")], [j.Finish(143)])
    machine.due = 0.0  # long ago: at once

    def observe(actions):
        if actions == [j.Log("timed")]:
            machine.due = None
            os.kill(os.getpid(), signal.SIGTERM)

    carrier.observe = observe
    assert carrier.run() == j.Finish(143)
    assert machine.heard == [j.Timeout(), j.Timeout(), j.Interrupted(signal.SIGTERM)]
