"""A browser's connection: what it is sent, and when it is given up."""

import http.client
import socket
import zlib

import pytest

from native.limits import Limits
from native.loop.reactor import Reactor
from partition.web.connection import Connection
from tests.support.wait import LIMIT_S

ASK = b"GET /events?token=t HTTP/1.1\r\nHost: h\r\n\r\n"


class Ends:
    """A connection whose requests are answered by a stream, and its client."""

    def __init__(self, **limits):
        self.client, ours = socket.socketpair()
        ours.setblocking(False)
        self.client.settimeout(LIMIT_S)
        self.reactor = Reactor(takes_sigchld=False)
        self.ended = []
        self.asked = []
        limits = Limits(**limits)
        self.connection = Connection(ours, self.reactor, limits, self._ask, self.ended.append)

    def _ask(self, connection, request):
        self.asked.append(request)
        connection.stream(request.takes_gzip)

    def turn_until(self, is_so):
        late = self.reactor.monotonic() + LIMIT_S
        while not is_so():
            assert self.reactor.monotonic() < late
            due = self.reactor.deadline()
            left_s = LIMIT_S if due is None else max(0.0, due - self.reactor.monotonic())
            self.reactor.run_once(min(left_s, LIMIT_S))

    def close(self):
        self.connection.close()
        self.client.close()
        self.reactor.close()


@pytest.fixture
def make():
    made = []

    def make(**limits):
        made.append(Ends(**limits))
        return made[-1]

    yield make
    for ends in made:
        ends.close()


def begin(ends, ask=ASK):
    ends.client.sendall(ask)
    ends.turn_until(lambda: ends.asked)


def test_a_stream_goes_on_piece_by_piece(make):
    ends = make()
    begin(ends)
    ends.connection.send(b"data: 1\n\n")
    seen = b""
    while b"data: 1" not in seen:
        seen += ends.client.recv(65536)
    assert seen.startswith(b"HTTP/1.1 200 OK\r\n") and b"text/event-stream" in seen
    assert not ends.ended


def test_each_piece_can_be_read_before_the_next_when_it_is_compressed(make):
    ends = make()
    begin(ends, ASK.replace(b"Host", b"Accept-Encoding: gzip\r\nHost"))
    head = b""
    while b"\r\n\r\n" not in head:
        head += ends.client.recv(1)
    inflate = zlib.decompressobj(31)
    for piece in (b"data: 1\n\n", b"data: 2\n\n"):
        ends.connection.send(piece)
        size, _, data = ends.client.recv(65536).partition(b"\r\n")
        assert inflate.decompress(data[: int(size, 16)]) == piece


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_a_stream_that_is_finished_ends_as_whole_behind_its_last_piece(make, coding):
    ends = make()
    begin(ends, ASK.replace(b"Host", f"Accept-Encoding: {coding}\r\nHost".encode()))
    ends.connection.send(b"data: last\n\n")
    ends.connection.finish()
    answer = http.client.HTTPResponse(ends.client)
    answer.begin()
    body = answer.read()  # raises where the end is missing
    assert (zlib.decompress(body, 31) if coding else body) == b"data: last\n\n"
    assert ends.ended == [ends.connection]


def test_a_client_that_leaves_too_much_unread_is_given_up(make):
    ends = make(web_unread_bytes=100_000)
    begin(ends)
    for _ in range(50):
        ends.connection.send(bytes(100_000))
    assert ends.ended == [ends.connection]


def test_a_client_that_reads_nothing_is_given_up_in_time(make):
    ends = make(web_stall_s=0.05)
    begin(ends)
    ends.connection.send(bytes(1 << 20))
    ends.turn_until(lambda: ends.ended)


def test_a_client_that_reads_slowly_keeps_its_place(make):
    ends = make(web_unread_bytes=1 << 22)
    begin(ends)
    ends.connection.send(bytes(1 << 20))
    got = 0
    while got < 1 << 20:
        got += len(ends.client.recv(1 << 16))
        ends.reactor.run_once(0.0)
    assert not ends.ended


def test_a_client_that_is_gone_is_noticed(make):
    ends = make()
    begin(ends)
    ends.client.close()
    ends.turn_until(lambda: ends.ended)


def test_what_is_sent_behind_a_request_changes_nothing(make):
    ends = make()
    begin(ends, ASK + ASK)
    ends.client.sendall(ASK * 100)
    ends.reactor.run_once(0.0)
    assert len(ends.asked) == 1
