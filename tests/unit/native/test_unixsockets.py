"""Descriptors beside the packets of a socket pair."""

from __future__ import annotations

import os
import socket

import pytest

from native.host import unixsockets

SIZE_BYTES = 16


@pytest.fixture
def ends():
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


def test_descriptors_arrive_with_their_packet_and_are_closed_by_an_exec(ends):
    ours, theirs = ends
    with open(os.devnull) as null, open("/proc/self/stat") as stat:
        sent = (null.fileno(), stat.fileno())
        unixsockets.send(ours, b"two", sent)
        unixsockets.send(ours, b"none")
        packet, fds, is_cut = unixsockets.receive(theirs, SIZE_BYTES, 2)
        assert (packet, is_cut) == (b"two", False)
        for fd, original in zip(fds, sent, strict=True):
            assert os.path.sameopenfile(fd, original)
            assert not os.get_inheritable(fd)
    assert unixsockets.receive(theirs, SIZE_BYTES, 2) == (b"none", (), False)
    unixsockets.close_all(fds)


def test_descriptors_without_room_are_missed_and_the_others_come(ends):
    ours, theirs = ends
    with open(os.devnull) as null:
        # An even number: the kernel fills what the room is rounded up to.
        unixsockets.send(ours, b"four", (null.fileno(),) * 4)
    packet, fds, is_cut = unixsockets.receive(theirs, SIZE_BYTES, 2)
    assert (packet, len(fds), is_cut) == (b"four", 2, True)
    unixsockets.close_all(fds)


def test_a_closed_end_is_an_empty_packet(ends):
    ours, theirs = ends
    ours.close()
    assert unixsockets.receive(theirs, SIZE_BYTES, 2) == (b"", (), False)
