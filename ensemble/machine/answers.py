"""What the scheduler's answers mean for the jobs of a study. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ensemble.machine import job as j
from ensemble.machine.job import JobState
from ensemble.machine.jobs import CANCELLED_AGAIN_S, Stage

if TYPE_CHECKING:
    from ensemble.machine.state import Ensemble

ATTEMPTS_MAX = 10  # of a submission, with delays from 1 s or the timer's to 60 s
DELAY_MIN_S, DELAY_MAX_S = 1.0, 60.0


def _submitted(machine: Ensemble, event: j.Submitted, now: float) -> None:
    entry = machine.jobs.get(event.uid)
    if entry is None or entry.job.job_id:
        return
    entry.job = replace(entry.job, job_id=event.job_id)
    machine.jobs.enter(entry, Stage.SUBMITTED)
    machine.out.append(j.Took(entry.job))
    machine.say(f"{entry.job.text}: submitted", is_detail=not entry.job.is_server)
    machine.show(entry, JobState.WAITING)


def _submission_failed(machine: Ensemble, event: j.SubmissionFailed, now: float) -> None:
    entry = machine.jobs.get(event.uid)
    if entry is None:
        return
    entry.attempts += 1
    machine.say(f"{entry.job.text}: not submitted: {event.text}")
    if entry.is_doomed:
        machine.over(entry, JobState.ERROR, now)
    elif entry.attempts < ATTEMPTS_MAX:
        delay_s = max(machine.settings.timer_s, DELAY_MIN_S) * 2 ** (entry.attempts - 1)
        machine.jobs.enter(entry, Stage.DELAYED, now + min(delay_s, DELAY_MAX_S))
    elif entry.job.is_server:
        machine.jobs.remove(entry)
        machine.out.append(j.Forget(entry.job, JobState.ERROR))
        machine.end(1, f"the server cannot be submitted: {event.text}", now)
    else:
        machine.over(entry, JobState.ERROR, now)


def _submission_unknown(machine: Ensemble, event: j.SubmissionUnknown, now: float) -> None:
    entry = machine.jobs.get(event.uid)
    if entry is not None and not entry.job.job_id:
        machine.say(f"{entry.job.text}: {event.text}; the scheduler is asked for its name")
        machine.jobs.enter(entry, Stage.UNSURE)


def _found(machine: Ensemble, event: j.Found, now: float) -> None:
    for entry in machine.jobs.of(event.uids):
        entry.is_asked = False
        job_id = event.job_ids.get(entry.job.uid, "")
        if entry.job.job_id:
            continue
        if job_id:
            _submitted(machine, j.Submitted(entry.job.uid, job_id), now)
        elif not entry.is_lost(now):  # it may be on its way
            entry.again_at = now + machine.settings.timer_s
        elif entry.is_doomed:
            machine.over(entry, JobState.ERROR, now)
        else:
            _submission_failed(
                machine, j.SubmissionFailed(entry.job.uid, "the scheduler does not have it"), now
            )


def _find_failed(machine: Ensemble, event: j.FindFailed, now: float) -> None:
    machine.say(f"jobs cannot be looked for: {event.text}")
    for entry in machine.jobs.of(event.uids):
        entry.is_asked = False
        entry.again_at = now + machine.settings.timer_s


def _updated(machine: Ensemble, event: j.Updated, now: float) -> None:
    if event.asked:
        machine.is_updating = False
        if machine.has_update_failed:
            machine.has_update_failed = False
            machine.say("the scheduler answers again")
    for uid, state in event.states.items():
        if (entry := machine.jobs.get(uid)) is not None:
            entry.missing_count = 0
            machine.take(entry, state, now)
    for entry in machine.jobs.of(uid for uid in event.asked if uid not in event.states):
        if not entry.is_lost(now):
            continue
        if entry.is_doomed:
            if entry.stage is Stage.CANCELLED:
                machine.over(entry, JobState.FAILED, now)
            continue
        machine.say(f"{entry.job.text}: the scheduler knows it no more; cancelled")
        machine.take(entry, JobState.FAILED, now, is_over=False)
        machine.doom(entry)


def _update_failed(machine: Ensemble, event: j.UpdateFailed, now: float) -> None:
    machine.is_updating = False
    if not machine.has_update_failed:
        machine.has_update_failed = True
        machine.say(f"the scheduler does not say how jobs are: {event.text}")


def _cancelled(machine: Ensemble, event: j.Cancelled, now: float) -> None:
    for entry in machine.jobs.of(event.uids):
        entry.missing_count = 0
        machine.jobs.enter(entry, Stage.CANCELLED, now + CANCELLED_AGAIN_S)


def _cancellation_failed(machine: Ensemble, event: j.CancellationFailed, now: float) -> None:
    for entry in machine.jobs.of(event.uids):
        machine.say(f"{entry.job.text}: not cancelled: {event.text}")
        machine.jobs.enter(entry, Stage.SUBMITTED, now + machine.settings.timer_s)


OF_SCHEDULER: dict[type, Callable[[Ensemble, Any, float], None]] = {
    j.Submitted: _submitted,
    j.SubmissionFailed: _submission_failed,
    j.SubmissionUnknown: _submission_unknown,
    j.Found: _found,
    j.FindFailed: _find_failed,
    j.Updated: _updated,
    j.UpdateFailed: _update_failed,
    j.Cancelled: _cancelled,
    j.CancellationFailed: _cancellation_failed,
}
