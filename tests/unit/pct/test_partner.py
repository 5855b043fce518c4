"""Another node holds what a node keeps of a checkpoint: room, losses, and who may say what."""

from __future__ import annotations

import pytest

from native.errors import PeerProtocolError
from native.machine import PeerGone, Send
from native.wire import group, load
from pct import events
from pct.job.rules import partner
from pct.rare_events import PassToSaver, ShareDrained, ShareKept, ShareRead
from tests.unit.pct import job_of
from tests.unit.pct.job_of import JOB_ID as ID
from tests.unit.pct.test_saving_local import BEGIN, DRAIN, SHARED, WHERE, savers

HOLDER, WARD = job_of.pct(1), job_of.pct(2)  # of the root of three
WINDOW = partner.WINDOW_BYTES
DRAINS = (b"drain-copied", b"0", WHERE.local, b"c.0", *SHARED, b"1", b"2", b"c.2.held", b"1000")


def told(actions) -> list[bytes]:
    return [each.data for each in actions if isinstance(each, PassToSaver)]


def sent(actions, peer) -> list[object]:
    return [each.message for each in actions if isinstance(each, Send) and each.target == peer]


def room(count_bytes: int):
    return job_of.received(HOLDER, group.ShareTaken(ID, 3, count_bytes))


def share(data: bytes = b"", attempt: int = 3, *, is_over: bool = False):
    return job_of.received(WARD, group.Share(ID, attempt, data, is_over))


def running(place: int):
    """A node of three that run."""
    parent = job_of.pct(0) if place else job_of.YOD
    children = [] if place else [1, 2]
    below = [job_of.received(job_of.pct(each), job_of.vote(each)) for each in children]
    for each in children:
        piece = load.Held(ID, (each,), (3000 + each,), (), job_of.slowest(each), True)
        below.append(job_of.received(job_of.pct(each), piece))
    around = (job_of.started(place), job_of.held(place), job_of.received(parent, load.Go(ID)))
    events_of = (job_of.PRESENT, *below, *around)
    return job_of.a_job(*events_of, size=3, place=place, parent=parent, checkpoints=WHERE)


def kept():
    """The root of three nodes, all of which keep their ranks."""
    job = running(0)
    job.handle(job_of.received(job_of.YOD, BEGIN), job_of.BEGIN)
    job.handle(events.SaverEnded(ID, 7, b"", ""), job_of.BEGIN)
    done = group.Done(ID, 1, 7, is_kept=True)
    for child in (HOLDER, WARD):
        job.handle(job_of.received(child, done), job_of.BEGIN)
    return job


def draining():
    job = kept()
    actions = job.handle(job_of.received(job_of.YOD, DRAIN), job_of.BEGIN)
    assert savers(actions) == [DRAINS]
    assert group.ShareTaken(ID, 3, WINDOW) in sent(actions, WARD)
    return job


def test_a_share_goes_to_the_holder_as_far_as_it_has_room():
    job = draining()
    assert told(job.handle(room(5), job_of.BEGIN)) == [b"credit 5\n"]
    assert sent(job.handle(ShareRead(ID, b"abcd"), job_of.BEGIN), HOLDER) == [
        group.Share(ID, 3, b"abcd")
    ]
    beyond = job.handle(ShareRead(ID, b"abcd"), job_of.BEGIN)  # a saver that does not obey
    assert sent(beyond, HOLDER) == [group.Share(ID, 3, b"", is_over=True)]
    assert sent(job.handle(ShareRead(ID, b"x"), job_of.BEGIN), HOLDER) == []


def test_room_that_is_told_of_before_the_saver_runs_is_kept_for_it():
    job = kept()
    assert told(job.handle(room(5), job_of.BEGIN)) == []
    assert told(job.handle(job_of.received(job_of.YOD, DRAIN), job_of.BEGIN)) == [b"credit 5\n"]


def test_what_is_held_waits_in_front_of_the_saver_within_the_window():
    job = draining()
    half = WINDOW // 2
    assert told(job.handle(share(b"x" * half), job_of.BEGIN)) == [b"data %d\n" % half + b"x" * half]
    assert sent(job.handle(ShareKept(ID, 100), job_of.BEGIN), WARD) == []  # too little to ask for
    (taken,) = sent(job.handle(ShareKept(ID, half), job_of.BEGIN), WARD)
    assert half - 100 <= taken.count_bytes <= half
    job.handle(share(b"x" * half), job_of.BEGIN)
    with pytest.raises(PeerProtocolError, match="more of a share than there is room for"):
        job.handle(share(b"x" * (half + 100)), job_of.BEGIN)


def test_a_share_that_is_drained_is_forgotten_once():
    job = draining()
    over = [group.Share(ID, 3, b"", is_over=True)]
    assert sent(job.handle(ShareDrained(ID), job_of.BEGIN), HOLDER) == over
    assert told(job.handle(share(is_over=True), job_of.BEGIN)) == [b"forget\n"]
    assert sent(job.handle(events.SaverEnded(ID, 7, b"", ""), job_of.BEGIN), HOLDER) == []


def test_a_saver_that_ends_before_its_time_holds_nothing_and_its_ward_drains_alone():
    job = draining()
    actions = job.handle(events.SaverEnded(ID, 0, b"", "no space"), job_of.BEGIN)
    assert group.ShareTaken(ID, 3, 0) in sent(actions, WARD)
    assert group.Share(ID, 3, b"", is_over=True) in sent(actions, HOLDER)
    assert told(draining().handle(room(0), job_of.BEGIN)) == [b"alone\n"]
    late = kept()
    late.handle(room(0), job_of.BEGIN)
    assert told(late.handle(job_of.received(job_of.YOD, DRAIN), job_of.BEGIN)) == [b"alone\n"]


def test_what_comes_of_an_earlier_checkpoint_is_ignored():
    job = draining()
    assert told(job.handle(share(b"x", attempt=2), job_of.BEGIN)) == []
    old = job_of.received(HOLDER, group.ShareTaken(ID, 2, 9))
    assert told(job.handle(old, job_of.BEGIN)) == []


@pytest.mark.parametrize(
    "message", [group.Share(ID, 3, b"x"), group.ShareTaken(ID, 3, 9)], ids=["share", "room"]
)
def test_another_node_of_the_job_can_neither_give_a_share_nor_take_one(message):
    job = draining()
    wrong = HOLDER if isinstance(message, group.Share) else WARD
    with pytest.raises(PeerProtocolError):
        job.handle(job_of.received(wrong, message), job_of.BEGIN)


@pytest.mark.parametrize(("lost", "line"), [(HOLDER, b"alone\n"), (WARD, b"lost\n")])
def test_the_saver_hears_once_that_a_node_is_lost(lost, line):
    job = draining()
    assert told(job.handle(PeerGone(lost, "died"), job_of.BEGIN)) == [line]
    place = 1 if lost == HOLDER else 2
    rescue = job_of.received(job_of.YOD, group.Rescue(ID, (place,)))
    assert told(job.handle(rescue, job_of.BEGIN)) == []


def is_killed(actions) -> bool:
    return events.KillSaver(ID) in actions


@pytest.mark.parametrize("is_rescued", [False, True])
def test_the_end_of_a_job_ends_a_drain_unless_a_lost_node_is_rescued(is_rescued):
    job = draining()
    if is_rescued:
        rescue = group.Rescue(ID, (2,))
        actions = job.handle(job_of.received(job_of.YOD, rescue), job_of.BEGIN)
        assert told(actions) == [b"lost\n"]
        assert sent(actions, HOLDER) == [rescue]
    actions = job.handle(job_of.received(job_of.YOD, load.AllDone(ID)), job_of.BEGIN)
    assert is_killed(actions) is not is_rescued
    if is_rescued:  # yod does not wait any longer
        given_up = job_of.received(job_of.YOD, group.Rescue(ID, ()))
        assert is_killed(job.handle(given_up, job_of.BEGIN))


def test_a_node_under_a_lost_root_drains_on_until_yod_resets_it():
    job = running(1)
    root = job_of.pct(0)
    job.handle(job_of.received(root, BEGIN), job_of.BEGIN)
    job.handle(events.SaverEnded(ID, 7, b"", ""), job_of.BEGIN)
    job.handle(job_of.received(root, DRAIN), job_of.BEGIN)
    assert not is_killed(job.handle(PeerGone(root, "died"), job_of.BEGIN))
    assert is_killed(job.handle(job_of.received(job_of.YOD, load.Reset(ID)), job_of.BEGIN))
