"""A node tells one placing of a job from another."""

from native.machine import DeadlineReached, Send
from native.wire import alloc, load
from tests.unit.pct.job_of import EMPTY, JOB_ID, OPENED, PRESENT, YOD
from tests.unit.pct.node_of import BEBOPD, granted, ready, received


def test_the_end_of_an_earlier_attempt_is_confirmed_and_the_later_one_goes_on():
    machine = ready()
    machine.handle(received(granted(of_attempt=1)), 0.0)
    freed = alloc.Freed(JOB_ID, ((20, 1),), 0)
    released = Send(YOD, load.Released.of(JOB_ID, (20,)))
    assert machine.handle(received(load.Reset(JOB_ID)), 0.0) == [released, Send(BEBOPD, freed)]
    assert JOB_ID in machine.jobs


def test_bebopd_is_told_which_attempt_of_a_job_is_here():
    machine = ready()
    machine.handle(received(granted(of_attempt=2)), 0.0)
    assert Send(BEBOPD, alloc.Hosting(JOB_ID, 2)) in machine.handle(PRESENT, 0.0)
    (announce,) = machine.handle(DeadlineReached(), 10.0)
    assert [job.attempt for job in announce.message.jobs] == [2]
    events = received(load.Reset(JOB_ID, 2)), OPENED, EMPTY
    actions = [action for event in events for action in machine.handle(event, 10.0)]
    assert Send(BEBOPD, alloc.Freed(JOB_ID, ((20, 1),), 2)) in actions
