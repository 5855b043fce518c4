"""The launcher's machine, line by line: what each event of the reference's launcher leads to."""

from __future__ import annotations

import signal
from typing import get_args

import pytest

from ensemble import messages as m
from ensemble.machine import job as j
from ensemble.machine.answers import ATTEMPTS_MAX
from ensemble.machine.job import Job, JobState
from ensemble.machine.settings import Phase, Settings
from ensemble.machine.state import TABLE, Ensemble

CONNECTION = 7
SERVER = 1  # uid of the first job


class Launcher:
    """A machine, and what it has wanted last."""

    def __init__(self, left=(), **settings) -> None:
        settings.setdefault("timer_s", 5.0)
        self.machine = Ensemble(Settings(prefix="s", **settings), left)
        self.now = 0.0
        self.out: list[j.Action] = []
        self.give(j.Timeout())

    def give(self, *events, after_s: float = 0.0) -> list[j.Action]:
        self.now += after_s
        self.out = [a for event in events for a in self.machine.handle(event, self.now)]
        return self.out

    def hear(self, message, after_s: float = 0.0) -> list[j.Action]:
        return self.give(j.Received(CONNECTION, self.machine.epoch, message), after_s=after_s)

    def serve(self):
        """Its server runs and has connected."""
        self.give(j.Submitted(self.machine.server.job.uid, "100"))
        self.give(j.ServerConnected(CONNECTION, self.machine.epoch))
        return self

    def run(self, count: int):
        """The server has asked for clients, which run."""
        self.hear(m.JobSubmission(0, count))
        for job in self.all(j.Submit):
            self.give(j.Submitted(job.job.uid, f"10{job.job.uid}"))
            self.give(j.Updated((), {job.job.uid: JobState.RUNNING}))
        return self

    def all(self, kind):
        return [action for action in self.out if isinstance(action, kind)]

    @property
    def submitted(self) -> list[int]:
        """Ids of clients, -1 for a server."""
        return [action.job.client for action in self.all(j.Submit)]

    @property
    def cancelled(self) -> list[int]:
        return [job.client for action in self.all(j.Cancel) for job in action.jobs]

    @property
    def told(self) -> list[m.Message]:
        return [action.message for action in self.all(j.Tell)]

    @property
    def finish(self) -> j.Finish | None:
        return next(iter(self.all(j.Finish)), None)


@pytest.mark.parametrize("phase", [Phase.AWAITING, Phase.SERVING, Phase.ENDING])
def test_a_study_that_has_begun_has_an_answer_to_every_event(phase):
    lacking = set(get_args(j.Event)) - set(TABLE[phase])
    assert not lacking


def test_the_first_timeout_submits_the_server():
    launcher = Launcher()
    assert launcher.all(j.Submit) == [j.Submit(Job(SERVER, "s-1", epoch=1))]


def test_the_first_server_goes_on_from_a_checkpoint_only_if_told_so():
    assert Launcher(from_checkpoint=True).all(j.Submit)[0].from_checkpoint


def test_jobs_of_an_earlier_launcher_are_looked_for_by_name_and_cancelled():
    left = [Job(4, "s-4", 1, client=2), Job(5, "s-5", 1, client=3, job_id="77")]
    launcher = Launcher(left)
    assert [job.name for find in launcher.all(j.Find) for job in find.jobs] == ["s-4"]
    assert launcher.cancelled == [3]
    launcher.give(j.Found((4,), {4: "76"}))
    assert launcher.cancelled == [2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_all_jobs_and_then_the_launcher_leaves(number):
    launcher = Launcher().serve().run(2)
    launcher.give(j.Interrupted(number))
    assert sorted(launcher.cancelled) == [-1, 0, 1] and launcher.finish is None
    launcher.give(j.Updated((), dict.fromkeys((1, 2, 3), JobState.FAILED)))
    assert launcher.finish is not None and launcher.finish.exit_status == 128 + number
    assert not launcher.all(j.Abandon)


def test_a_second_signal_leaves_at_once_and_hands_over_what_is_left():
    launcher = Launcher().serve().run(1)
    launcher.give(j.Interrupted(15), j.Interrupted(15))
    assert [job.client for job in launcher.all(j.Abandon)[0].jobs] == [-1, 0]
    assert launcher.finish is not None and launcher.finish.exit_status == 143


def test_a_stop_that_takes_too_long_leaves_and_names_what_is_left():
    launcher = Launcher(stop_s=20).serve().run(1)
    launcher.give(j.Interrupted(15))
    launcher.give(j.Timeout(), after_s=21)
    assert len(launcher.all(j.Abandon)[0].jobs) == 2 and launcher.finish is not None


def test_a_job_whose_submission_succeeds_while_stopping_is_cancelled():
    launcher = Launcher().serve()
    launcher.hear(m.JobSubmission(0, 1))
    launcher.give(j.Interrupted(15))
    assert launcher.cancelled == [-1]
    launcher.give(j.Submitted(2, "102"))
    assert launcher.cancelled == [0]


def test_a_submission_that_fails_is_tried_again_later_and_later_and_then_told_as_an_error():
    launcher = Launcher(timer_s=1.0, server_timeout_s=1e9).serve()
    launcher.hear(m.JobSubmission(0, 1))
    delays = []
    for _ in range(ATTEMPTS_MAX - 1):
        failed_at = launcher.now
        launcher.give(j.SubmissionFailed(2, "down"))
        assert not launcher.told
        while not launcher.submitted:
            launcher.give(j.Timeout(), after_s=1.0)
        delays.append(launcher.now - failed_at)
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    launcher.give(j.SubmissionFailed(2, "down"))
    assert launcher.told == [m.JobUpdate(0, JobState.ERROR.value)]


def test_a_server_that_cannot_be_submitted_ends_the_study():
    launcher = Launcher()
    for _ in range(ATTEMPTS_MAX):
        launcher.give(j.SubmissionFailed(SERVER, "down"))
        if launcher.finish is None:
            launcher.give(j.Timeout(), after_s=60)
    assert launcher.finish is not None and launcher.finish.exit_status == 1
    assert launcher.finish.text == "the server cannot be submitted: down"


def test_each_change_of_a_clients_state_is_told_once():
    launcher = Launcher().serve()
    launcher.hear(m.JobSubmission(5, 1))
    launcher.give(j.Submitted(2, "102"))
    assert launcher.told == [m.JobUpdate(5, JobState.WAITING.value)]
    for state in (JobState.RUNNING, JobState.FAILED):
        launcher.give(j.Updated((), {2: state}), j.Updated((), {2: state}))
        assert launcher.told == [m.JobUpdate(5, state.value)]


def test_an_update_that_fails_is_tried_again_and_concludes_nothing():
    launcher = Launcher(update_s=30.0).serve().run(1)
    launcher.give(j.Timeout(), after_s=30)
    assert len(launcher.all(j.Update)) == 1
    launcher.hear(m.Ping())
    launcher.give(j.UpdateFailed("down"))
    assert not launcher.told and not launcher.cancelled
    for _ in range(3):
        launcher.hear(m.Ping(), after_s=10)
    launcher.give(j.Timeout())
    assert len(launcher.all(j.Update)) == 1


def test_a_cancellation_that_fails_is_tried_again():
    launcher = Launcher().serve().run(1)
    launcher.hear(m.JobCancellation(0))
    assert launcher.cancelled == [0]
    launcher.give(j.CancellationFailed((2,), "down"))
    assert launcher.cancelled == []
    launcher.give(j.Timeout(), after_s=5)
    assert launcher.cancelled == [0]


def test_the_server_of_this_epoch_is_taken_and_every_other_one_refused():
    launcher = Launcher()
    launcher.give(j.ServerConnected(3, epoch=0))
    assert launcher.all(j.Close) == [j.Close(3, "epoch 0 is over; this is 1")]
    launcher.serve()
    launcher.give(j.ServerConnected(4, epoch=1))
    assert [close.connection for close in launcher.all(j.Close)] == [4]
    launcher.give(j.Received(CONNECTION, 0, m.JobSubmission(0, 1)))
    assert not launcher.submitted and len(launcher.all(j.Close)) == 1


def lost_by_its_connection(launcher: Launcher) -> None:
    launcher.give(j.ConnectionClosed(CONNECTION))


def lost_by_silence(launcher: Launcher) -> None:
    for _ in range(3):
        launcher.give(j.Timeout(), after_s=5)


def lost_by_its_end(launcher: Launcher) -> None:
    launcher.give(j.Updated((), {SERVER: JobState.FAILED}))
    launcher.give(j.Timeout(), after_s=5)


LOST = pytest.mark.parametrize("loses", [lost_by_its_connection, lost_by_silence, lost_by_its_end])


@LOST
def test_a_lost_server_has_all_jobs_cancelled_and_another_one_submitted_at_once(loses):
    launcher = Launcher(server_timeout_s=10).serve().run(2)
    loses(launcher)
    assert {0, 1} <= set(launcher.cancelled)
    (submitted,) = launcher.all(j.Submit)  # the cancellations have not been answered
    assert (submitted.job.client, submitted.job.epoch, submitted.from_checkpoint) == (-1, 2, True)


@LOST
def test_without_fault_tolerance_a_lost_server_ends_the_study(loses):
    launcher = Launcher(server_timeout_s=10, is_tolerant=False).serve().run(2)
    loses(launcher)
    assert {0, 1} <= set(launcher.cancelled) and not launcher.submitted
    assert launcher.machine.phase is Phase.ENDING


def test_a_server_that_speaks_within_its_time_is_pinged_and_lives():
    launcher = Launcher(server_timeout_s=10).serve()
    for _ in range(5):
        launcher.give(j.Timeout(), after_s=5)
        assert launcher.told == [m.Ping()]
        launcher.hear(m.Ping(), after_s=4)
    assert launcher.machine.epoch == 1


def test_while_the_launcher_stands_still_its_server_is_not_silent():
    launcher = Launcher(server_timeout_s=10).serve()
    launcher.give(j.Timeout(), after_s=1000)  # what the server has said is read next
    launcher.hear(m.Ping())
    assert launcher.machine.epoch == 1
    lost_by_silence(launcher)
    assert launcher.machine.epoch == 2


def test_a_server_connects_within_its_time_not_counting_that_of_a_launcher_that_stands_still():
    launcher = Launcher(connect_s=60)
    launcher.give(j.Submitted(SERVER, "100"), j.Updated((), {SERVER: JobState.RUNNING}))
    launcher.give(j.Timeout(), after_s=1000)
    assert launcher.machine.epoch == 1
    for _ in range(13):
        launcher.give(j.Timeout(), after_s=5)
    assert launcher.machine.epoch == 2


def test_a_crash_loop_ends_with_its_reason():
    launcher = Launcher(restarts=2, restarts_s=300)
    for _ in range(2):
        launcher.serve()
        lost_by_its_connection(launcher)
        assert launcher.submitted == [-1]
    launcher.serve()
    lost_by_its_connection(launcher)
    assert not launcher.submitted and launcher.machine.phase is Phase.ENDING
    assert any("2 restarts within 300 s are enough" in log.text for log in launcher.all(j.Log))


def test_servers_that_are_lost_now_and_then_are_no_crash_loop():
    launcher = Launcher(restarts=2, restarts_s=300)
    for _ in range(10):
        launcher.serve()
        launcher.give(j.ConnectionClosed(CONNECTION), after_s=200)
        assert launcher.submitted == [-1]


def test_a_client_that_fails_is_the_servers_to_judge_or_ends_the_study_without_fault_tolerance():
    launcher = Launcher().serve().run(2)
    launcher.give(j.Updated((), {2: JobState.FAILED}))
    assert launcher.told == [m.JobUpdate(0, JobState.FAILED.value)] and not launcher.submitted
    launcher = Launcher(is_tolerant=False).serve().run(2)
    launcher.give(j.Updated((), {2: JobState.FAILED}))
    assert set(launcher.cancelled) == {-1, 1}
    text = "client 0 (job 102) has failed; fault_tolerance is false"
    assert text in [log.text for log in launcher.all(j.Log)]


def test_jobs_are_submitted_up_to_the_limit_and_the_rest_when_one_ends_or_is_cancelled():
    launcher = Launcher(job_limit=2).serve()
    launcher.hear(m.JobSubmission(0, 5))
    assert launcher.submitted == [0, 1]  # the server does not count
    launcher.give(j.Submitted(2, "102"), j.Submitted(3, "103"))
    launcher.give(j.Updated((), {2: JobState.TERMINATED}))
    assert launcher.submitted == [2]
    launcher.hear(m.JobCancellation(1))  # what is being cancelled does not count, either
    assert (launcher.cancelled, launcher.submitted) == ([1], [3])


def test_a_group_has_the_size_that_the_server_has_said_last_before_that_of_the_configuration():
    launcher = Launcher(group_size=4).serve()
    launcher.hear(m.JobSubmission(0, 1))
    assert launcher.all(j.Submit)[0].job.group_size == 4
    launcher.hear(m.GroupSize(3))
    launcher.hear(m.JobSubmission(1, 1))
    assert launcher.all(j.Submit)[0].job.group_size == 3


def test_a_client_that_waits_for_room_is_withdrawn_when_it_is_cancelled():
    launcher = Launcher(job_limit=1).serve()
    launcher.hear(m.JobSubmission(0, 2))
    launcher.hear(m.JobCancellation(1))
    assert launcher.told == [m.JobUpdate(1, JobState.ERROR.value)] and not launcher.cancelled


def test_the_end_of_a_study_cancels_clients_and_leaves_the_server_to_end_by_itself():
    launcher = Launcher(server_timeout_s=10).serve().run(1)
    launcher.hear(m.CompletionNotification())
    assert launcher.cancelled == [0]
    launcher.give(j.Updated((), {2: JobState.FAILED, SERVER: JobState.TERMINATED}))
    assert launcher.finish == j.Finish(0)


def test_a_server_that_does_not_end_after_its_study_is_cancelled():
    launcher = Launcher(server_timeout_s=10).serve()
    launcher.hear(m.CompletionNotification())
    launcher.give(j.Timeout(), after_s=5)
    assert launcher.cancelled == []
    launcher.give(j.Timeout(), after_s=6)
    assert launcher.cancelled == [-1]


def test_all_jobs_are_asked_about_in_one_call_when_the_interval_has_passed():
    launcher = Launcher(update_s=30.0, server_timeout_s=1e9).serve().run(9)
    asked = []
    for _ in range(24):  # two minutes
        launcher.give(j.Timeout(), after_s=5)
        for update in launcher.all(j.Update):
            asked.append(len(update.jobs))
            launcher.give(j.Updated(tuple(job.uid for job in update.jobs), dict.fromkeys(
                (job.uid for job in update.jobs), JobState.RUNNING)))  # fmt: skip
    assert asked == [10] * 4
