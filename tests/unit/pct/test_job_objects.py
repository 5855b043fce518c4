"""The objects of a job: received, passed on, published, or had from the shared path."""

import pytest

from native.machine import DeadlineReached, Log
from native.wire import alloc, codec, load
from pct.events import (
    DropObject,
    NoPlace,
    ObjectArrived,
    ObjectLost,
    ObjectPassedOn,
    ObjectsChecked,
    ObjectStored,
    PublishObject,
    ReadObject,
    ReceiveObject,
    SendObject,
    StartKeeper,
    TellBebopd,
)
from pct.job.progress import JobState
from pct.pmi_events import OpenPmi
from tests.unit.pct.job_of import (
    ALL_DONE,
    BEGIN,
    CARRIER,
    JOB_ID,
    LACKING,
    NOW,
    OPENED,
    PMIX,
    PRESENT,
    PROGRAM,
    YOD,
    Tree,
    a_job,
    arguments,
    failure,
    keeper_spec,
    pct,
    received,
    slowest,
    to_yod,
    vote,
)

# -- one node --------------------------------------------------------------


def test_a_lacking_object_is_received_before_ranks_start():
    job = a_job()
    assert job.handle(LACKING, NOW) == [
        ReceiveObject(JOB_ID, 0, PROGRAM, 4096, ()),
        TellBebopd(alloc.Hosting(JOB_ID)),
        to_yod(load.Vote(JOB_ID, 1, (0,), (), slowest(0, 1.0))),
    ]
    assert job.state is JobState.LOADING
    actions = job.handle(ObjectStored(JOB_ID, 0, b"/store/a.out"), BEGIN + 2)
    spec = keeper_spec(actions)
    assert actions == [
        StartKeeper(JOB_ID, spec),
        to_yod(load.Loaded(JOB_ID, slowest(0, 2.0))),
    ]
    assert spec.programs[0].path == b"/store/a.out"
    assert job.state is JobState.STARTING


def test_a_node_without_room_waits_for_the_shared_path():
    job = a_job()
    no_place = ObjectsChecked(JOB_ID, (), (), (NoPlace(0, "/dev/shm: full"),))
    room = load.NoRoom(0, 20, "n20", "/dev/shm: full")
    assert job.handle(no_place, NOW) == [
        TellBebopd(alloc.Hosting(JOB_ID)),
        to_yod(load.Vote(JOB_ID, 1, (), (room,), slowest(0, 1.0))),
    ]
    shared = received(YOD, load.UseShared(JOB_ID, 0, b"/enfs/a.out"))
    actions = job.handle(shared, NOW)
    assert keeper_spec(actions).programs[0].path == b"/enfs/a.out"
    assert actions[1:] == [to_yod(load.Loaded(JOB_ID, slowest(0, 1.0)))]


def test_room_for_an_object_that_is_shared_after_all_is_given_back():
    job = a_job(LACKING)
    actions = job.handle(received(YOD, load.UseShared(JOB_ID, 0, b"/enfs/a.out")), NOW)
    assert actions[0] == DropObject(JOB_ID, 0)
    assert keeper_spec(actions).programs[0].path == b"/enfs/a.out"


@pytest.mark.parametrize("number", [0, 1, 1024])
def test_a_shared_path_of_nothing_or_of_the_arguments_changes_nothing(number):
    job = a_job(LACKING, objects=(CARRIER,), arguments=None)
    assert job.handle(received(YOD, load.UseShared(JOB_ID, number, b"/x")), NOW) == []
    assert job.state is JobState.LOADING


def test_arguments_that_came_as_an_object_are_used():
    job = a_job(objects=(CARRIER, PROGRAM), arguments=None)
    job.handle(ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (0,), ()), NOW)
    content = codec.encode_part(arguments(1, object_index=1))
    assert job.handle(ObjectArrived(JOB_ID, 0, CARRIER.digest), NOW) == [ReadObject(JOB_ID, 0)]
    actions = job.handle(ObjectStored(JOB_ID, 0, b"", content), NOW)
    assert OpenPmi(JOB_ID, 1) in actions
    actions = job.handle(OPENED, NOW)
    assert keeper_spec(actions).programs[0].argv == (b"a.out", b"-x")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xc1", "not an arguments object: MessagePack data is malformed: invalid opcode '\\xc1'"),
        (
            codec.encode_part(arguments(2, object_index=1)),
            "the members' sizes do not add up to the grant's ranks",
        ),
        (
            codec.encode_part(arguments(1, object_index=0)),
            "no object 0 to execute, there are 2",
        ),
        (
            codec.encode_part(arguments(1, object_index=2)),
            "no object 2 to execute, there are 2",
        ),
    ],
    ids=["no arguments", "too many ranks", "the arguments themselves", "no such object"],
)
def test_arguments_that_do_not_fit_the_load_fail_it_and_start_nothing(content, text):
    job = a_job(objects=(CARRIER, PROGRAM), arguments=None)
    job.handle(ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (0,), ()), NOW)
    (action,) = job.handle(ObjectStored(JOB_ID, 0, b"", content), NOW)
    assert action.message.kind is load.FailureKind.OBJECT
    assert action.message.text.startswith(text[:60])
    assert job.handle(DeadlineReached(), BEGIN + 20) == []


def test_a_lost_object_fails_the_job():
    assert a_job(LACKING).handle(ObjectLost(JOB_ID, 0, "it arrived damaged"), NOW) == [
        to_yod(failure(load.FailureKind.OBJECT, "loading", "it arrived damaged"))
    ]


def test_an_object_with_another_digest_is_not_published_and_fails_the_job():
    tree = Tree(1)
    tree.at(0, LACKING, ObjectArrived(JOB_ID, 0, bytes(32)), ObjectPassedOn(JOB_ID, 0))
    assert not tree.took(0, PublishObject)
    assert tree.to_yod[-1] == failure(load.FailureKind.OBJECT, "loading", "it arrived damaged")


def test_an_object_that_is_not_wanted_any_more_is_not_published():
    job = a_job(LACKING, received(YOD, load.UseShared(JOB_ID, 0, b"/shared/a.out")))
    assert job.handle(ObjectArrived(JOB_ID, 0, PROGRAM.digest), NOW) == []


def test_an_object_that_is_lost_with_a_peer_is_not_told_a_second_time():
    lost = ObjectLost(JOB_ID, 0, "the child was lost", is_consequence=True)
    assert a_job(LACKING).handle(lost, NOW) == [Log("object 0: the child was lost", JOB_ID)]


def test_a_node_without_room_for_the_arguments_fails_the_job_and_does_not_vote():
    job = a_job(arguments=None, objects=(CARRIER, PROGRAM))
    no_place = ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (), (NoPlace(0, "none left"),))
    text = "the arguments: none left"
    told = to_yod(failure(load.FailureKind.OBJECT, "forming the group", text))
    assert job.handle(no_place, NOW) == [told]


def test_arguments_that_arrive_after_all_done_start_nothing():
    job = a_job(size=3, objects=(CARRIER, PROGRAM), arguments=None, mpi=PMIX)
    for place in (1, 2):
        job.handle(received(pct(place), vote(place)), NOW)
    job.handle(ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (0,), ()), NOW)
    job.handle(ALL_DONE, NOW)
    content = codec.encode_part(arguments(3, object_index=1))
    assert job.handle(ObjectArrived(JOB_ID, 0, CARRIER.digest), NOW) == []
    assert job.handle(ObjectStored(JOB_ID, 0, b"", content), NOW) == []
    assert job.state is JobState.ENDING


# -- a tree of three -------------------------------------------------------


def test_an_object_is_published_when_it_has_arrived_and_has_been_passed_on():
    tree = Tree(3)
    tree.everywhere(LACKING)
    arrived, passed_on = ObjectArrived(JOB_ID, 0, PROGRAM.digest), ObjectPassedOn(JOB_ID, 0)
    publish = PublishObject(JOB_ID, 0, PROGRAM.mode)
    tree.at(0, arrived)
    assert not tree.took(0, PublishObject)
    tree.at(0, passed_on, passed_on)
    assert tree.took(0, PublishObject) == [publish]
    tree.at(1, arrived)  # a leaf passes nothing on
    assert tree.took(1, PublishObject) == [publish]


def test_an_object_goes_only_to_the_children_that_lack_it():
    tree = Tree(3)
    tree.at(0, PRESENT)
    tree.at(1, LACKING)
    tree.at(2, PRESENT)
    assert tree.took(0, SendObject) == [
        SendObject(JOB_ID, 0, PROGRAM, b"/bin/a.out", 4096, (pct(1),))
    ]
    assert tree.took(1, ReceiveObject) == [ReceiveObject(JOB_ID, 0, PROGRAM, 4096, ())]
    assert tree.take_to_yod() == [load.Vote(JOB_ID, 3, (), (), slowest(0))]
    assert tree.states() == [JobState.LOADING, JobState.LOADING, JobState.STARTING]
    tree.at(1, ObjectStored(JOB_ID, 0, b"/store/a.out"))
    assert tree.states() == [JobState.STARTING] * 3


def test_an_object_that_the_root_lacks_is_passed_on_while_it_arrives():
    tree = Tree(3)
    tree.everywhere(LACKING)
    assert tree.took(0, ReceiveObject) == [
        ReceiveObject(JOB_ID, 0, PROGRAM, 4096, (pct(1), pct(2)))
    ]
    assert tree.take_to_yod() == [load.Vote(JOB_ID, 3, (0,), (), slowest(0))]
    for place in (2, 0, 1):
        assert tree.take_to_yod() == []
        tree.at(place, ObjectStored(JOB_ID, 0, b"/store/a.out"))
    assert [type(message) for message in tree.take_to_yod()] == [load.Loaded]


def test_one_node_without_room_is_named_for_each_object():
    tree = Tree(3)
    full = ObjectsChecked(JOB_ID, (), (), (NoPlace(0, "full"),))
    tree.everywhere(full)
    (merged,) = tree.take_to_yod()
    assert len(merged.no_room) == 1 and merged.no_room[0].text == "full"
    tree.from_yod(load.UseShared(JOB_ID, 0, b"/enfs/a.out"))
    assert all(len(tree.took(place, StartKeeper)) == 1 for place in range(3))
    assert [type(message) for message in tree.take_to_yod()] == [load.Loaded]
