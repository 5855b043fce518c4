"""A client gives the server what it may write to: behind all that came before, and nothing else."""

from __future__ import annotations

import errno
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from native.wire import client as wire
from native.wire.client import Gift
from tests.support.launch_server import (
    Conversation,
    Installed,
    Server,
    client,
    ended,
    lost_line,
    server,
)

__all__ = ["client", "server"]

WINDOW = wire.OUTPUT_WINDOW_BYTES


@pytest.fixture(autouse=True)
def is_waited_for(monkeypatch: pytest.MonkeyPatch, place: None) -> None:
    """A server that is slow to say HELLO is waited for."""
    monkeypatch.setenv("YOD_COLD", "never")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe; its ends are files of Python, which close once."""
    ours, theirs = os.pipe()
    with open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0):
        yield ours, theirs


def inode(fd: int) -> int:
    return os.fstat(fd).st_ino


def given(conversation: Conversation, stream: int = 1) -> Gift:
    """What the client answers when it is asked for a stream."""
    conversation.send(wire.Give(stream))
    answer = conversation.expect(wire.Given)
    assert answer.stream == stream
    return answer.gift


def finish(conversation: Conversation, process: subprocess.Popen[bytes]) -> None:
    conversation.send(wire.Exit(0))
    process.communicate()
    assert process.returncode == 0


def test_a_pipe_is_given_and_its_description_stays_as_it_was(
    client: Installed, server: Server, pipe: tuple[int, int]
) -> None:
    ours, theirs = pipe
    process = client.start("x", stdout=theirs)
    conversation = server.begin()
    conversation.send(wire.Output(1, b"first "))
    assert given(conversation) is Gift.PIPE
    (fd,) = conversation.gifts
    assert inode(fd) == inode(theirs)
    assert os.get_blocking(theirs)
    os.write(fd, b"second ")
    conversation.send(wire.Output(1, b"third"))
    conversation.wait_written(1, 11)
    assert os.read(ours, 100) == b"first second third"
    finish(conversation, process)


def test_both_streams_are_given_apart(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin()
    assert [given(conversation, stream) for stream in (2, 1)] == [Gift.PIPE] * 2
    for fd in conversation.gifts:
        os.write(fd, b"%d" % conversation.gifts.index(fd))
        os.close(fd)
    conversation.gifts.clear()
    conversation.send(wire.Exit(0))
    assert process.communicate() == (b"1", b"0")


def test_it_is_given_behind_what_its_reader_has_not_taken(
    client: Installed, server: Server, pipe: tuple[int, int]
) -> None:
    ours, theirs = pipe
    process = client.start("x", stdout=theirs)
    conversation = server.begin()
    for _ in range(WINDOW // wire.DATA_MAX):
        conversation.send(wire.Output(1, b"x" * wire.DATA_MAX))
    conversation.send(wire.Give(1))
    conversation.wait_taken()
    got = 0
    while got < WINDOW:
        got += len(os.read(ours, WINDOW))
    assert conversation.expect(wire.Given) == wire.Given(1, Gift.PIPE)
    assert conversation.written[1] == WINDOW
    finish(conversation, process)


def test_the_null_device_is_told_by_a_word(client: Installed, server: Server) -> None:
    process = client.start("x", stdout=subprocess.DEVNULL)
    conversation = server.begin()
    assert given(conversation) is Gift.NULL
    assert conversation.gifts == []
    finish(conversation, process)


@pytest.mark.parametrize("kind", ["file", "terminal", "socket", "fifo", "full", "closed"])
def test_all_else_stays_with_the_client(
    client: Installed, server: Server, kind: str, tmp_path: Path
) -> None:
    ends: list[int] = []
    match kind:
        case "file":
            ends = [os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)]
        case "terminal":
            ends = [*reversed(pty.openpty())]
        case "socket":
            ends = [each.detach() for each in socket.socketpair()]
        case "fifo":
            os.mkfifo(tmp_path / "fifo")
            ends = [os.open(tmp_path / "fifo", os.O_RDWR)]
        case "full":
            ends = [os.open("/dev/full", os.O_WRONLY)]
    if kind == "closed":
        process = client.start_command("sh", "-c", 'exec "$0" x >&-', client.yod)
    else:
        process = client.start("x", stdout=ends[0])
    conversation = server.begin()
    assert given(conversation) is Gift.NOTHING
    assert conversation.gifts == []
    conversation.send(wire.Output(1, b"data"))
    conversation.wait_written(1, 4) if kind not in ("full", "closed") else conversation.expect(
        wire.OutputFailed
    )
    conversation.send(wire.Exit(3))
    assert ended(process) == 3
    for fd in ends:
        os.close(fd)


def test_a_stream_that_is_broken_is_not_given(client: Installed, server: Server) -> None:
    ours, theirs = os.pipe()
    process = client.start("x", stdout=theirs)
    os.close(theirs)
    os.close(ours)
    conversation = server.begin()
    conversation.send(wire.Output(1, b"data"))
    assert conversation.expect(wire.OutputFailed) == wire.OutputFailed(1, errno.EPIPE)
    assert given(conversation) is Gift.NOTHING
    finish(conversation, process)


def test_a_stream_whose_reader_leaves_meanwhile_is_not_given(
    client: Installed, server: Server
) -> None:
    ours, theirs = os.pipe()
    process = client.start("x", stdout=theirs)
    os.close(theirs)
    conversation = server.begin()
    for _ in range(WINDOW // wire.DATA_MAX):
        conversation.send(wire.Output(1, b"x" * wire.DATA_MAX))
    conversation.send(wire.Give(1))
    conversation.wait_taken()
    os.close(ours)
    assert conversation.expect(wire.OutputFailed) == wire.OutputFailed(1, errno.EPIPE)
    assert conversation.expect(wire.Given) == wire.Given(1, Gift.NOTHING)
    finish(conversation, process)


def test_a_stream_that_its_user_leaves_is_not_given(
    client: Installed, server: Server, pipe: tuple[int, int]
) -> None:
    """Whether the client has still to write, or its answer has not been sent."""
    for is_full in (True, False):
        process = client.start("x", stdout=pipe[1], start_new_session=True)
        conversation = server.begin()
        for _ in range(WINDOW // wire.DATA_MAX * is_full):
            conversation.send(wire.Output(1, b"x" * wire.DATA_MAX))
        conversation.wait_taken()
        process.send_signal(signal.SIGSTOP)
        conversation.send(wire.Give(1))
        conversation.send(wire.Leave(""))
        process.send_signal(signal.SIGCONT)
        answers: list[wire.FromClient] = []
        while not isinstance(answers[-1:] and answers[-1], wire.Left):
            message = conversation.receive()
            assert message is not None
            if not isinstance(message, wire.Signal):
                answers.append(message)
        gifts = [each.gift for each in answers if isinstance(each, wire.Given)]
        assert gifts == ([] if is_full else [Gift.NOTHING])
        assert answers[-1] == wire.Left((1, 2))
        finish(conversation, process)


def test_to_be_asked_twice_breaks_the_protocol(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin()
    assert given(conversation) is Gift.PIPE
    conversation.send(wire.Give(1))
    os.close(conversation.gifts.pop())  # else its reader waits for us
    err = process.communicate()[1]
    assert (process.returncode, err) == (125, lost_line("broke the protocol"))
