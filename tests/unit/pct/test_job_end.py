"""The end of a job: completions on their way up, what is waited for, release."""

import gc
import weakref

import pytest

from native.machine import Log, PeerGone
from native.wire import io, keeper, load
from pct.events import (
    PMIX_SERVER,
    DropJob,
    FinishOutput,
    KeeperEnd,
    KeeperReported,
    KillOrphans,
    LeftoversRemoved,
    ObjectStored,
    OrphansKilled,
    OutputRead,
    RemoveLeftovers,
)
from pct.job.progress import JobState
from pct.pmi_events import PmixServerEnded
from tests.unit.pct.job_of import (
    ALL_DONE,
    EMPTY,
    JOB_ID,
    LACKING,
    NOW,
    PMIX,
    PRESENT,
    RUNNING,
    YOD,
    Tree,
    a_job,
    ended,
    started,
    to_yod,
)


def test_equal_ends_are_one_outcome_and_an_abnormal_one_does_not_wait():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.at(1, ended(1))
    assert tree.take_to_yod() == []
    tree.at(2, ended(2, 256))
    known = [outcome for done in tree.take_to_yod() for outcome in done.outcomes]
    assert [(each.wait_status, each.ranks) for each in known] == [(0, (1,)), (256, (2,))]
    tree.at(0, ended(0))
    (last,) = tree.take_to_yod()
    assert last.outcomes[0].ranks == (0,)


def test_normal_ends_wait_a_moment_for_the_rest_of_the_subtree():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    for rank in (3, 4, 5):
        tree.at(rank, ended(rank))
    assert tree.take_to_yod() == []
    tree.wait(0.1)  # place 1 and 2 send what they have
    tree.wait(0.2)  # the root sends what it has
    done = [outcome.ranks for message in tree.take_to_yod() for outcome in message.outcomes]
    assert sorted(rank for ranks in done for rank in ranks) == [3, 4, 5]


def test_all_done_ends_a_job_in_every_state_of_its_launch():
    for events in [(), (PRESENT,), (LACKING,), (PRESENT, started(0)), RUNNING]:
        job = a_job(*events)
        actions = job.handle(ALL_DONE, NOW)
        if PRESENT in events:
            assert actions == [KeeperEnd(JOB_ID)]
            for stream in (1, 2):
                job.handle(OutputRead(JOB_ID, 0, stream, b""), NOW)
            actions = job.handle(EMPTY, NOW)
        assert to_yod(load.Released.of(JOB_ID, (20,))) in actions
        assert actions[-1] == DropJob(JOB_ID)


def test_a_job_that_is_over_takes_no_object_that_arrives_late():
    job = a_job(ALL_DONE)
    assert job.state is JobState.RELEASED
    assert job.handle(PRESENT, NOW) == []
    assert job.handle(ObjectStored(JOB_ID, 0, b"/x"), NOW) == []
    assert job.handle(PeerGone(YOD, "gone"), NOW) == []


def test_a_job_that_is_over_has_let_go_of_what_its_ranks_put():
    job = a_job(*RUNNING)
    space = weakref.ref(job._wiring.wireup._worlds[0].space)
    gc.disable()
    try:
        for event in (ALL_DONE, EMPTY, *(OutputRead(JOB_ID, 0, each, b"") for each in (1, 2))):
            job.handle(event, NOW)
        assert job.state is JobState.RELEASED
        assert space() is None
    finally:
        gc.enable()


def test_nothing_is_released_before_the_last_byte_of_output_has_gone_up():
    job = a_job(*RUNNING, ALL_DONE)
    assert job.handle(EMPTY, NOW) == [FinishOutput(JOB_ID)]  # once
    assert job.handle(OutputRead(JOB_ID, 0, 1, b"bye"), NOW) == [
        to_yod(io.Output(JOB_ID, 0, 1, 0, b"bye"))
    ]
    assert job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW) == []
    actions = job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW)
    assert actions[-1] == DropJob(JOB_ID)


@pytest.mark.parametrize("world", [0, PMIX_SERVER], ids=["ranks", "PMIx server"])
def test_a_node_is_free_only_when_the_orphans_of_a_lost_keeper_are_killed(world):
    tree = Tree(1, mpi=PMIX)
    tree.run()
    job = tree.jobs[0]
    for stream in (1, 2):
        job.handle(OutputRead(JOB_ID, 0, stream, b""), NOW)
    if world:
        job.handle(EMPTY, NOW)
        lost = PmixServerEnded(JOB_ID, "killed by SIGKILL", has_orphans=True)
    else:
        job.handle(PmixServerEnded(JOB_ID, "exited"), NOW)
        lost = KeeperReported(JOB_ID, keeper.KeeperLost("killed by SIGKILL"))
    assert KillOrphans(JOB_ID, world) in job.handle(lost, NOW)
    assert DropJob(JOB_ID) not in job.handle(ALL_DONE, NOW)
    assert job.handle(OrphansKilled(JOB_ID, world), NOW) == [RemoveLeftovers(JOB_ID, world)]
    assert job.handle(LeftoversRemoved(JOB_ID, world), NOW)[-1] == DropJob(JOB_ID)


def test_what_ranks_have_left_in_shared_memory_is_removed_before_the_node_is_free():
    job = a_job(*RUNNING)
    for stream in (1, 2):
        job.handle(OutputRead(JOB_ID, 0, stream, b""), NOW)
    job.handle(ALL_DONE, NOW)
    empty = KeeperReported(JOB_ID, keeper.KeeperEmpty())
    assert job.handle(empty, NOW) == [RemoveLeftovers(JOB_ID, 0)]
    first, *_, last = job.handle(LeftoversRemoved(JOB_ID, 0, ("mpich_shm_7",)), NOW)
    assert first == Log("removed mpich_shm_7, which nobody has mapped", JOB_ID)
    assert last == DropJob(JOB_ID)
