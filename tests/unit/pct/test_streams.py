"""The pipes and sockets of a rank: bounded, never blocking, closed once."""

import fcntl
import os
import socket

import pytest

from native.loop.reactor import Reactor
from pct.account import Account, Charge, OverLimit
from pct.host.connections import ClientSocket
from pct.host.streams import InputPipe, OutputPipe, own_pipe


@pytest.fixture
def reactor():
    loop = Reactor()
    yield loop
    loop.close()


@pytest.fixture
def pipe():
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            pass


@pytest.fixture
def ends():
    """(ours, the rank's): ours is given away as a descriptor."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield ours.detach(), theirs
    theirs.close()


def drain(reactor, times=8):
    for _ in range(times):
        reactor.run_once(0)


# -- PMI -------------------------------------------------------------------


def test_bytes_come_as_they_are_sent_and_the_end_is_told_once(reactor, ends):
    ours, theirs = ends
    seen = []
    ClientSocket(reactor, ours, seen.append, Charge(Account()))
    for piece in (b"cmd=in", b"it\n"):
        theirs.send(piece)
        drain(reactor)
    theirs.close()
    drain(reactor)
    assert seen == [b"cmd=in", b"it\n", b""]
    with pytest.raises(OSError):
        os.fstat(ours)


@pytest.mark.parametrize("is_patient", [True, False])
def test_a_client_that_does_not_listen_is_heard_only_where_that_costs_nothing(
    reactor, ends, is_patient
):
    ours, theirs = ends
    theirs.setblocking(False)
    seen = []
    client = ClientSocket(reactor, ours, seen.append, Charge(Account()), is_patient=is_patient)
    client.send(bytes(1 << 22))
    theirs.send(b"more")
    drain(reactor)
    assert seen == ([] if is_patient else [b"more"])
    while client._unsent:  # it listens again
        theirs.recv(1 << 20)
        drain(reactor, 1)
    drain(reactor)
    assert seen == [b"more"]
    client.close()


def test_what_is_to_be_written_goes_out_before_the_hang_up(reactor, ends):
    ours, theirs = ends
    seen = []
    client = ClientSocket(reactor, ours, seen.append, Charge(Account()))
    client.send(bytes(1 << 20))
    client.hang_up()
    theirs.setblocking(True)
    received = 0
    while data := theirs.recv(1 << 16):
        received += len(data)
        drain(reactor, 1)
    assert received == 1 << 20
    assert seen == []
    with pytest.raises(OSError):
        os.fstat(ours)


def test_a_client_that_is_gone_is_closed(reactor, ends):
    ours, theirs = ends
    client = ClientSocket(reactor, ours, lambda data: None, Charge(Account()))
    theirs.close()
    drain(reactor)
    client.send(b"late")
    client.hang_up()
    client.close()
    with pytest.raises(OSError):
        os.fstat(ours)


def test_a_client_that_is_gone_with_answers_unread_is_told_of(reactor, ends):
    ours, theirs = ends
    seen = []
    client = ClientSocket(reactor, ours, seen.append, Charge(Account()))
    client.send(bytes(1 << 22))
    theirs.close()
    drain(reactor)
    assert seen == [b""]


# -- output and input ------------------------------------------------------


def test_output_is_read_until_its_end_which_is_told_once(reactor, pipe):
    read, write = pipe
    seen = []
    OutputPipe(reactor, read, seen.append)
    os.write(write, b"one")
    drain(reactor)
    os.close(write)
    drain(reactor)
    assert seen == [b"one", b""]


def test_a_paused_output_is_not_read(reactor, pipe):
    read, write = pipe
    seen = []
    output = OutputPipe(reactor, read, seen.append)
    output.pause(True)
    os.write(write, b"one")
    drain(reactor)
    assert seen == []
    output.pause(False)
    drain(reactor)
    assert seen == [b"one"]
    output.close()
    output.pause(False)  # too late is harmless


@pytest.mark.parametrize("size", [0, 5, 65536, 200_000])
@pytest.mark.parametrize("is_paused", [False, True])
def test_an_output_that_others_keep_open_ends_with_what_is_in_it(reactor, pipe, size, is_paused):
    read, write = pipe
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1 << 18)
    seen = []
    output = OutputPipe(reactor, read, seen.append)
    output.pause(is_paused)
    if size:
        os.write(write, bytes(size))
    output.finish()
    os.write(write, b"of others")
    if is_paused:
        drain(reactor)
        assert seen == []
        output.pause(False)
    drain(reactor)
    assert seen[-1] == b"" and b"" not in seen[:-1]
    assert b"".join(seen) == bytes(size)
    with pytest.raises(OSError):
        os.fstat(read)


def test_who_takes_from_an_output_that_ends_does_not_hold_up_its_end(reactor, pipe):
    read, write = pipe
    stolen = os.dup(read)
    seen = []
    output = OutputPipe(reactor, read, seen.append)
    os.write(write, b"bytes")
    output.pause(True)
    output.finish()
    os.read(stolen, 100)
    output.pause(False)
    drain(reactor)
    assert seen == [b""]
    os.close(stolen)


def test_a_pipe_that_nobody_reads_any_more_is_taken_as_broken(pipe):
    read, write = pipe
    os.close(read)
    own = own_pipe(os.dup(write), os.O_WRONLY)
    with pytest.raises(BrokenPipeError):
        os.write(own, b"x")
    os.close(own)


def test_input_goes_as_far_as_the_rank_takes_it_and_is_acknowledged(reactor, pipe):
    read, write = pipe
    taken = []
    stdin = InputPipe(reactor, write, taken.append)
    data = os.urandom(200_000)
    stdin.write(data)
    stdin.write(b"")  # the end, behind what waits
    assert 0 < sum(taken) < len(data)
    got = b""
    while part := _read(read):
        got += part
        drain(reactor, 1)
    assert got == data and sum(taken) == len(data)
    with pytest.raises(OSError):
        os.fstat(write)


def _read(fd):
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return b""


def test_input_for_a_rank_that_reads_no_more_is_dropped(reactor, pipe):
    read, write = pipe
    taken = []
    stdin = InputPipe(reactor, write, taken.append)
    os.close(read)
    stdin.write(b"x")
    stdin.write(b"y")
    drain(reactor)
    stdin.close()
    assert taken == []


def test_what_a_client_does_not_take_is_charged_and_given_back_when_it_does(reactor, ends):
    ours, theirs = ends
    account = Account(1 << 20)
    client = ClientSocket(reactor, ours, lambda data: None, Charge(account))
    client.send(bytes(1 << 20))
    assert 0 < account.used_bytes < 1 << 20
    with pytest.raises(OverLimit):
        client.send(bytes(1 << 20))
    theirs.setblocking(True)
    received = 0
    while received < 2 << 20:
        received += len(theirs.recv(1 << 16))
        drain(reactor, 1)
    assert account.used_bytes == 0
    client.send(bytes(1 << 20))
    client.close()
    assert account.used_bytes == 0


def test_a_pipe_that_is_full_when_it_is_read_gets_room_for_more(reactor, pipe):
    read, write = pipe
    before = fcntl.fcntl(read, fcntl.F_GETPIPE_SZ)
    seen = bytearray()
    output = OutputPipe(reactor, os.dup(read), seen.extend)
    os.write(write, b"x")
    drain(reactor)
    assert fcntl.fcntl(read, fcntl.F_GETPIPE_SZ) == before
    assert os.write(write, b"x" * before) == before
    drain(reactor)
    assert fcntl.fcntl(read, fcntl.F_GETPIPE_SZ) > before
    assert len(seen) == before + 1
    output.close()
