"""A job on a small tree that loses nodes: adoption, orphans, resets."""

import pytest

from native.errors import PeerProtocolError
from native.machine import DeadlineReached, PeerGone, Send
from native.wire import alloc, group, load
from pct.events import DropJob, KeeperEnd, KeeperSignal, OutputRead, TellBebopd
from pct.job.progress import JobState
from tests.unit.pct.job_of import (
    ALL_DONE,
    EMPTY,
    JOB_ID,
    NOW,
    PRESENT,
    YOD,
    Tree,
    a_job,
    ended,
    failure,
    held,
    pct,
    received,
    started,
)


def test_a_lost_child_is_told_to_yod_and_not_waited_for_at_the_end():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.lose(2, 0)
    assert tree.take_to_yod() == [
        failure(load.FailureKind.NODE_LOST, "running", "connection reset", place=2)
    ]
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (1, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 21]


def test_a_lost_yod_ends_the_whole_tree():
    tree = Tree(3)
    tree.run()
    tree.at(0, PeerGone(YOD, "killed"))
    assert tree.states() == [JobState.ENDING] * 3
    for place in (1, 2, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    assert [sorted(freed.nodes) for freed in tree.to_bebopd[1:]] == [[20, 21, 22]]


def test_a_node_whose_parent_is_lost_is_adopted_by_the_next_ancestor():
    tree = Tree(7)
    tree.run()
    tree.from_yod(load.Signal(JOB_ID, 15))
    tree.take_to_yod()
    tree.lose(1, 0, 3, 4)
    assert tree.jobs[3].parent == tree.jobs[4].parent == pct(0)
    assert tree.took(3, KeeperSignal) == [KeeperSignal(JOB_ID, 15)] * 2  # repeated on adoption
    assert [message.kind for message in tree.take_to_yod()] == [load.FailureKind.NODE_LOST]

    tree.from_yod(load.AllDone(JOB_ID))
    assert tree.states() == [JobState.ENDING] * 6
    for place in tree.alive()[::-1]:
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = [m for m in tree.take_to_yod() if isinstance(m, load.Released)]
    assert sorted(released.nodes) == [20, 22, 23, 24, 25, 26]


def test_an_adopted_node_reports_its_completions_again():
    tree = Tree(7)
    tree.run()
    tree.at(3, ended(3, 256))
    tree.at(4, ended(4, 256))
    tree.take_to_yod()
    tree.lose(1, 0, 3, 4)
    done = [message for message in tree.take_to_yod() if isinstance(message, load.Completions)]
    assert [message.outcomes[0].ranks for message in done] == [(3,), (4,)]


def test_a_node_asks_ancestor_after_ancestor_and_gives_up_after_orphan_s():
    job = a_job(PRESENT, started(7), held(7), size=15, place=7, parent=pct(3))
    assert job.handle(PeerGone(pct(3), "gone"), NOW) == [Send(pct(1), group.Orphan(JOB_ID, 7))]
    assert job.handle(PeerGone(pct(1), "gone"), NOW) == [Send(pct(0), group.Orphan(JOB_ID, 7))]
    assert job.deadline() == NOW + 10.0
    assert job.handle(DeadlineReached(), NOW + 10) == [KeeperEnd(JOB_ID)]
    assert job.state is JobState.ENDING


def test_a_node_without_any_ancestor_left_ends_its_ranks_and_frees_itself():
    job = a_job(PRESENT, started(1), held(1), size=3, place=1, parent=pct(0))
    assert job.handle(PeerGone(pct(0), "gone"), NOW) == [KeeperEnd(JOB_ID)]
    for stream in (1, 2):
        job.handle(OutputRead(JOB_ID, 1, stream, b""), NOW)
    assert job.handle(EMPTY, NOW) == [TellBebopd(alloc.Freed.of(JOB_ID, (21,))), DropJob(JOB_ID)]


def test_an_orphan_is_taken_only_from_its_place_below():
    job = a_job(size=7)
    with pytest.raises(PeerProtocolError, match="is not at place 3 of the job"):
        job.handle(received(pct(4), group.Orphan(JOB_ID, 3)), NOW)
    with pytest.raises(PeerProtocolError, match="is not at place 9 of the job"):
        job.handle(received(pct(4), group.Orphan(JOB_ID, 9)), NOW)
    below = a_job(size=7, place=1, parent=pct(0))
    with pytest.raises(PeerProtocolError, match="place 5 is not below place 1"):
        below.handle(received(pct(5), group.Orphan(JOB_ID, 5)), NOW)
    assert job.handle(received(pct(3), group.Orphan(JOB_ID, 3)), NOW) == [
        Send(pct(3), group.Adopted(JOB_ID))
    ]


def test_an_orphan_of_a_job_that_is_ending_is_told_so():
    job = a_job(PRESENT, started(0), ALL_DONE, size=7)
    assert job.handle(received(pct(3), group.Orphan(JOB_ID, 3)), NOW) == [
        Send(pct(3), group.Adopted(JOB_ID)),
        Send(pct(3), load.AllDone(JOB_ID)),
    ]


def test_a_reset_ends_each_node_by_itself():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.lose(0)
    for place in (1, 2):
        tree.from_yod(load.Reset(JOB_ID), place)
        assert tree.jobs[place].state is JobState.ENDING
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    assert tree.take_to_yod() == [load.Released.of(JOB_ID, (21,)), load.Released.of(JOB_ID, (22,))]


def test_a_reset_node_tells_yod_what_its_lost_parent_may_have_kept():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.gone.add(0)  # takes what it is sent, and does nothing
    tree.at(1, ended(1, 3 << 8))
    assert tree.take_to_yod() == []
    tree.from_yod(load.Reset(JOB_ID), 1)
    (told,) = [each for each in tree.take_to_yod() if isinstance(each, load.Completions)]
    assert [outcome.ranks for outcome in told.outcomes] == [(1,)]


def test_a_reset_of_a_node_that_waits_for_its_children_frees_it():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.from_yod(load.AllDone(JOB_ID))
    tree.at(0, OutputRead(JOB_ID, 0, 1, b""), OutputRead(JOB_ID, 0, 2, b""), EMPTY)
    assert tree.take_to_yod() == []
    tree.from_yod(load.Reset(JOB_ID))
    assert tree.take_to_yod() == [load.Released.of(JOB_ID, (20,))]


def test_heirs_that_never_call_are_not_waited_for():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    tree.lose(1, 0)
    tree.lose(3)
    tree.lose(4)
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (5, 6, 2, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    assert tree.jobs[0].state is JobState.ENDING
    tree.wait(11.5)
    (released,) = [m for m in tree.take_to_yod() if isinstance(m, load.Released)]
    assert sorted(released.nodes) == [20, 22, 25, 26]


def test_the_children_of_a_lost_child_are_told_to_end_and_waited_for():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    tree.from_yod(load.AllDone(JOB_ID))
    tree.lose(1, 0)  # and its children have not noticed yet
    assert [message.kind for message in tree.take_to_yod()] == [load.FailureKind.NODE_LOST]
    for place in (3, 4):
        tree.at(place, PeerGone(pct(1), "gone"))
    for place in tree.alive()[::-1]:
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 22, 23, 24, 25, 26]


def test_a_node_that_is_reset_tells_its_parent_too():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.from_yod(load.Reset(JOB_ID), 2)
    tree.at(2, OutputRead(JOB_ID, 2, 1, b""), OutputRead(JOB_ID, 2, 2, b""), EMPTY)
    assert tree.take_to_yod() == [load.Released.of(JOB_ID, (22,))]
    assert tree.to_bebopd[1:] == [alloc.Freed.of(JOB_ID, (22,))]
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (1, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 21, 22]
