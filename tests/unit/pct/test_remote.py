"""Requests for remote files on their way through a node."""

from __future__ import annotations

import struct

import pytest

from native.errors import PeerProtocolError
from native.fuse.frames import Op, cost_of, refusal, reply
from native.machine import Send
from native.wire import group, io
from native.wire.keeper import MountTaken
from pct.host.reports import Reports
from pct.job.rules.remote import RemoteFlow
from pct.rare_events import AnswerRemote, PauseRemote, RemoteAsked
from pct.tree.group import Group
from tests.unit.pct import job_of

ID = job_of.JOB_ID


def request(op: Op, number: int, body: bytes = b"") -> bytes:
    return struct.pack("<IIQQIIIHH", 40 + len(body), op, number, 1, 0, 0, 9, 0, 0) + body


def read(number: int, size: int) -> bytes:
    return request(Op.READ, number, struct.pack("<QQIIQII", 1, 0, size, 0, 0, 0, 0))


def flow(size: int = 1, place: int = 0, window_bytes: int = 1 << 16) -> RemoteFlow:
    remote = group.Remote((b"/data",), window_bytes)
    message = job_of.load_message(size, place, remote=remote)
    parent = job_of.YOD if place == 0 else job_of.pct((place - 1) // 2)
    return RemoteFlow(message, Group(message, parent))


def asked(frame: bytes, mount: int = 0) -> RemoteAsked:
    return RemoteAsked(ID, mount, 0, frame)


def test_a_request_goes_up_as_it_is_with_the_place_of_its_node():
    frame = read(4, 4096)
    (sent,) = flow(3, 2).asked(asked(frame))
    assert sent == Send(job_of.pct(0), io.RemoteRequest(ID, 2, 0, 0, frame))


def test_a_full_share_pauses_reading_until_there_is_a_reply():
    node = flow(2, 0, 1 << 16)  # the share is 32 KiB
    assert PauseRemote(ID, True) not in node.asked(asked(read(2, 20_000)))
    assert node.asked(asked(read(4, 20_000)))[-1] == PauseRemote(ID, True)
    answer = reply(2, b"x")
    given = node.answered(io.RemoteReply(ID, 0, 0, answer))
    assert given == [AnswerRemote(ID, 0, answer), PauseRemote(ID, False)]


def test_one_request_may_be_on_its_way_however_small_the_share_is():
    node = flow(3, 0, 1 << 16)
    assert node.asked(asked(read(2, 100_000)))[-1] == PauseRemote(ID, True)
    assert node.answered(io.RemoteReply(ID, 0, 0, refusal(2, 5)))[-1] == PauseRemote(ID, False)


def test_what_has_no_reply_costs_nothing():
    assert cost_of(request(Op.FORGET, 2, bytes(8))) == 0
    node = flow()
    for number in range(2, 2000, 2):
        assert len(node.asked(asked(request(Op.FORGET, number, bytes(8))))) == 1


def test_a_mount_that_is_gone_gives_its_room_back():
    node = flow()
    assert node.asked(asked(read(2, 100_000), mount=1))[-1] == PauseRemote(ID, True)
    up, on = node.asked(asked(b"", mount=1))
    assert up.message.frame == b"" and on == PauseRemote(ID, False)


def test_a_reply_goes_through_the_child_that_its_node_is_below():
    root = flow(7)
    answer = io.RemoteReply(ID, 5, 0, reply(2))
    assert root.answered(answer) == [Send(job_of.pct(2), answer)]


def test_a_reply_that_nobody_waits_for_is_given_to_the_kernel_and_counts_for_nothing():
    node = flow()
    answer = io.RemoteReply(ID, 0, 3, reply(8))
    assert node.answered(answer) == [AnswerRemote(ID, 3, answer.frame)]


def test_a_frame_that_is_none_is_refused():
    with pytest.raises(PeerProtocolError):
        flow().answered(io.RemoteReply(ID, 0, 0, b"short"))
    with pytest.raises(PeerProtocolError):
        cost_of(read(2, 4096)[:50])


def test_a_keeper_reports_each_directory_once_and_in_order():
    reports = Reports((0,), mounts=2)
    with pytest.raises(PeerProtocolError):
        reports.check(MountTaken(1))
    reports.check(MountTaken(0))
    with pytest.raises(PeerProtocolError):
        reports.check(MountTaken(0))
    reports.check(MountTaken(1))
    with pytest.raises(PeerProtocolError):
        reports.check(MountTaken(2))
