"""A connection, and the doors by which it comes: what one peer does is that one's alone."""

from __future__ import annotations

import os
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

import yod.pilot as rp
from native.errors import YodError
from native.frames import framed
from native.loop.reactor import Reactor
from yod.pilot.agent.remote import Arrivals
from yod.pilot.link.greeting import Door
from yod.pilot.link.link import Link, Listener, connect
from yod.pilot.wire import messages

LIMIT_S = 20.0


@pytest.fixture
def reactor():
    found = Reactor()
    yield found
    found.close()


def turns(reactor: Reactor) -> None:
    for _ in range(4):
        reactor.run_once(0.0)


class Peer:
    """The other end of a link."""

    def __init__(self, reactor, on_message):
        ours, self.end = socket.socketpair()
        self.end.settimeout(LIMIT_S)
        self.lost: list[str] = []
        self.link = Link(ours, reactor, lambda body: on_message(self, body), self.lost.append)


def test_what_comes_behind_the_last_message_is_not_taken(reactor):
    heard: list[bytes] = []

    def give(peer, body):
        heard.append(body)
        peer.link.give().close()

    def close(peer, body):
        heard.append(body)
        peer.link.close()

    for last in (give, close):
        peer = Peer(reactor, last)
        peer.end.sendall(framed(b"one") + framed(b"two"))
        turns(reactor)
        assert peer.end.recv(1) == b""
        peer.end.close()
    assert heard == [b"one", b"one"]


def test_a_peer_whose_message_raises_is_lost_and_the_others_are_not(reactor, caplog):
    heard: list[bytes] = []

    def take(peer, body):
        if body == b"a lie":
            raise KeyError("NO_SUCH_STATE")
        heard.append(body)

    liar, other = Peer(reactor, take), Peer(reactor, take)
    liar.end.sendall(framed(b"a lie") + framed(b"more"))
    other.end.sendall(framed(b"hello"))
    turns(reactor)
    assert heard == [b"hello"]
    assert liar.lost == ["internal error, please report: KeyError: 'NO_SUCH_STATE'"]
    assert liar.end.recv(1) == b""
    assert other.lost == []
    assert "NO_SUCH_STATE" in caplog.text
    other.link.close()
    liar.end.close()
    other.end.close()


def test_a_job_that_speaks_for_two_pilots_does_not_end_the_session(tmp_path):
    called: list[str] = []

    class Stand:
        """A pilot that takes the connection of its job."""

        def __init__(self, uid):
            self.uid = uid

        def called(self, link, told):
            called.append(told.pilot_uid)
            link.give().close()

    with rp.Session(base=str(tmp_path)) as session:
        pilots = {uid: Stand(uid) for uid in ("a", "b")}
        session.loop.call(lambda: session._pilots.update(pilots))
        with closing(connect(session.socket)) as end:
            end.settimeout(LIMIT_S)
            opens = [messages.Open(uid, "h:1", b"s", b"x") for uid in pilots]
            end.sendall(b"".join(map(messages.frame, opens)))
            assert end.recv(1) == b""
        assert session.loop.call(lambda: called) == ["a"]
        session.loop.call(session._pilots.clear)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.dup(0)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Steps:
    """Launches nothing."""

    def start(self, *_: object, **__: object) -> None:
        """The step begins."""


def listener(reactor, directory, let_in):
    return Listener("sock", reactor, let_in)


def door(reactor, directory, let_in):
    return Door(str(directory / "sock.tcp"), "127.0.0.1", reactor, let_in)


def arrivals(reactor, directory, let_in):
    return Arrivals(reactor, Steps(), ["n1"], str(directory), let_in, lambda reason: None)


@pytest.mark.parametrize("made", [listener, door, arrivals])
def test_who_comes_where_no_descriptor_is_left_is_hung_up_on_and_the_loop_rests(
    reactor, tmp_path, monkeypatch, made
):
    monkeypatch.setenv("YOD_PARTITION", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    come: list[socket.socket] = []
    at = made(reactor, tmp_path, come.append)
    kind, address = at._end.family, at._end.getsockname()
    ends = [socket.socket(kind) for _ in range(3)]
    with no_descriptor_left():
        for end in ends:
            end.settimeout(LIMIT_S)
            end.connect(address)
        turns(reactor)
        assert select.select([at._end], [], [], 0) == ([], [], [])
        assert [end.recv(1) for end in ends] == [b""] * 3
    later = socket.socket(kind)
    later.connect(address)
    turns(reactor)
    with pytest.raises(BlockingIOError):
        later.recv(1, socket.MSG_DONTWAIT)
    for end in (*ends, later, *come):
        end.close()
    turns(reactor)
    at.close()


def test_a_closed_session_says_so_at_once(tmp_path):
    session = rp.Session(base=str(tmp_path))
    session.close()
    with pytest.raises(YodError, match="is closed"):
        session.loop.call(lambda: None)
