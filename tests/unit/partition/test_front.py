"""The front of a launch in the launch server: what it does without its client."""

from __future__ import annotations

from typing import Any

from native.wire import client
from native.wire.base import PATH_MAX
from partition.server.errands import Given
from partition.server.front import ClientFront
from yod.launch.closing import Append


class Channel:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[client.FromServer] = []

    def send(self, message: client.FromServer, fds: tuple[int, ...] = ()) -> None:
        self.sent.append(message)


def test_a_file_whose_path_no_kernel_takes_is_not_asked_of_the_client():
    channel: Any = Channel()
    nothing: Any = None
    given = Given(0o22, (), 1, 0, (), 1)
    front = ClientFront(nothing, channel, nothing, client.Stdio(0), given, (-1, -1), "")
    faults: list[str] = []
    for length in (PATH_MAX - 1, PATH_MAX, 100_000):
        path = "/" * length
        front.append(Append(path, b"a line\n", is_log=False, is_awaited=True), faults.append)
    assert [len(message.path) for message in channel.sent] == [PATH_MAX - 1]
    assert faults == ["file name too long"] * 2
