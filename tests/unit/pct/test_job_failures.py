"""What fails a job on its node, and how that is told."""

import pytest

from native.machine import DeadlineReached
from native.wire import keeper, load
from native.wire.keeper import ExecStep
from pct.events import (
    DropJob,
    KeeperEnd,
    KeeperNotStarted,
    KeeperReported,
    KillOrphans,
    MapNotGiven,
    OrphansKilled,
    OutOfMemory,
    OutputRead,
    RemoveLeftovers,
)
from tests.unit.pct.job_of import (
    ALL_DONE,
    BEGIN,
    EMPTY,
    JOB_ID,
    NOW,
    PRESENT,
    RUNNING,
    Tree,
    a_job,
    ended,
    failure,
    held,
    pct,
    received,
    started,
    to_yod,
    vote,
)


@pytest.mark.parametrize(
    ("errno", "step", "kind", "text"),
    [
        (2, ExecStep.OPEN, load.FailureKind.NOT_FOUND, "no such file or directory"),
        (20, ExecStep.OPEN, load.FailureKind.NOT_FOUND, "not a directory"),
        (13, ExecStep.EXEC, load.FailureKind.NOT_EXECUTABLE, "permission denied"),
        (8, ExecStep.EXEC, load.FailureKind.NOT_EXECUTABLE, "neither a binary"),
    ],
)
def test_a_program_that_cannot_be_executed_names_rank_path_and_reason(errno, step, kind, text):
    job = a_job(PRESENT)
    report = KeeperReported(JOB_ID, keeper.ExecFailed(0, errno, step, "/bin/a.out"))
    (action,) = job.handle(report, NOW)
    assert action.message.kind is kind
    assert action.message.rank == 0
    assert action.message.phase == "starting"
    assert text in action.message.text and "/bin/a.out" in action.message.text


@pytest.mark.parametrize(
    ("wait_status", "text"),
    [
        (3 << 8, "ended with exit code 3 before its entry"),
        (11, "killed by SIGSEGV before its entry"),
        (35, "killed by signal 35 before its entry"),
    ],
)
def test_a_rank_that_ends_before_its_entry_fails_the_job_and_is_counted(wait_status, text):
    job = a_job(PRESENT, started(0))
    actions = job.handle(ended(0, wait_status, was_released=False), NOW)
    outcome = load.Outcome(wait_status, False, (0,), (20,), (3000,), (1000,), (1500,), (250,), (8,))
    assert actions == [
        to_yod(failure(load.FailureKind.EARLY_EXIT, "starting", text, rank=0)),
        to_yod(load.Completions(JOB_ID, (outcome,))),
    ]


def test_a_failure_is_told_once_for_its_kind():
    job = a_job(PRESENT, started(0), started(1), ranks_each=2)
    first = job.handle(ended(0, 256, was_released=False), NOW)
    second = job.handle(ended(1, 256, was_released=False), NOW)
    kinds = [type(action.message) for action in (*first, *second)]
    assert kinds == [load.Failure, load.Completions, load.Completions]


def test_a_lost_keeper_fails_the_job_and_leaves_nothing_to_end():
    job = a_job(*RUNNING)
    lost = KeeperReported(JOB_ID, keeper.KeeperLost("killed by SIGKILL"))
    assert job.handle(lost, NOW) == [
        to_yod(failure(load.FailureKind.KEEPER_LOST, "running", "killed by SIGKILL")),
        KillOrphans(JOB_ID, 0),
    ]
    assert job.handle(OrphansKilled(JOB_ID, 0), NOW) == [RemoveLeftovers(JOB_ID, 0)]
    assert job.handle(EMPTY, NOW) == []
    job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW)
    job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW)
    assert job.handle(ALL_DONE, NOW)[-1] == DropJob(JOB_ID)


def test_a_keeper_that_cannot_be_started_fails_the_job_and_leaves_nothing_to_end():
    job = a_job(PRESENT)
    assert job.handle(KeeperNotStarted(JOB_ID, 0, "no process"), NOW) == [
        to_yod(failure(load.FailureKind.KEEPER_LOST, "starting", "no process"))
    ]
    assert job.handle(ALL_DONE, NOW)[-1] == DropJob(JOB_ID)


def test_a_map_that_cannot_be_written_fails_the_job():
    text = "the map of the ranks that use Portals cannot be written: no space"
    assert a_job(*RUNNING).handle(MapNotGiven(JOB_ID, "no space"), NOW) == [
        to_yod(failure(load.FailureKind.NO_WIREUP, "running", text))
    ]


def test_who_does_not_come_to_its_entry_in_time_is_named():
    job = a_job(PRESENT, started(0), held(0), started(1), ranks_each=2)
    assert job.deadline() == BEGIN + 30.0
    assert job.handle(DeadlineReached(), BEGIN + 30) == [
        to_yod(
            failure(
                load.FailureKind.TIMED_OUT,
                "starting",
                "no answer in 30 s from n20 (ranks not at their entry: 1)",
            )
        )
    ]
    assert job.deadline() is None


def test_children_that_do_not_answer_in_time_are_named():
    job = a_job(PRESENT, received(pct(2), vote(2)), size=3)
    (forming,) = job.handle(DeadlineReached(), BEGIN + 100)
    assert forming.message.text == "no answer in 33 s from n21"
    job = a_job(PRESENT, *(received(pct(place), vote(place, 0)) for place in (1, 2)), size=3)
    (loading,) = job.handle(DeadlineReached(), BEGIN + 100)
    assert loading.message.text == "no answer in 33 s from n21, n22"
    assert loading.message.kind is load.FailureKind.TIMED_OUT


def test_a_held_job_waits_as_long_as_yod_likes():
    assert a_job(PRESENT, started(0), held(0)).deadline() is None


def test_a_failure_below_reaches_yod_at_once_and_the_tree_waits_for_the_word_to_end():
    tree = Tree(3)
    tree.everywhere(PRESENT)
    tree.take_to_yod()
    tree.at(2, KeeperReported(JOB_ID, keeper.ExecFailed(2, 2, ExecStep.OPEN, "/bin/a.out")))
    (told,) = tree.take_to_yod()
    assert (told.kind, told.node, told.rank) == (load.FailureKind.NOT_FOUND, 22, 2)
    tree.from_yod(load.AllDone(JOB_ID))
    assert all(tree.took(place, KeeperEnd) == [KeeperEnd(JOB_ID)] for place in range(3))


def test_a_rank_that_the_kernel_kills_at_the_jobs_memory_fails_the_job_and_says_so():
    job = a_job(*RUNNING)
    (told,) = job.handle(OutOfMemory(JOB_ID, 0), NOW)
    failure = told.message
    assert (failure.kind, failure.rank) == (load.FailureKind.OUT_OF_MEMORY, 0)
    assert "the job has reached its memory on this node (--mem)" in failure.text
