"""What a user is told of the launch server: partition/find/warm.py."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from native.wire import client_codec
from partition.find import warm


@contextmanager
def listening(where: Path, answer: Callable[[socket.socket], None]) -> Iterator[dict[str, str]]:
    """A server of one client; gives the environment in which it is found."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(warm.socket_name())  # in the current directory: a short address
        listener.listen(1)

        def serve() -> None:
            with listener.accept()[0] as end:
                answer(end)

        thread = threading.Thread(target=serve)
        thread.start()
        yield {warm.VARIABLE: str(where)}
        thread.join()


def test_launches_are_warm_where_the_server_is_what_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hello = client_codec.encode(warm.greeting(1.0, 1.0))
    with listening(tmp_path, lambda end: end.sendall(hello)) as environment:
        assert warm.look(environment) == warm.Warmth(unix_pid=os.getpid())


def test_a_server_that_hangs_up_is_full_and_not_of_another_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with listening(tmp_path, lambda end: None) as environment:
        found = warm.look(environment)
    assert found.unix_pid == os.getpid()
    assert found.reason == f"the launch server (process {os.getpid()}) {warm.FULL_TEXT}"


def test_a_server_that_says_something_else_is_of_another_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with listening(tmp_path, lambda end: end.sendall(b"hello")) as environment:
        assert warm.look(environment).reason == "the launch server is of another release"


def test_without_a_server_the_user_is_told_what_starts_one(tmp_path: Path) -> None:
    found = warm.look({warm.VARIABLE: str(tmp_path)})
    assert found == warm.Warmth("no launch server; `yodctl up` starts one")


def test_a_user_who_wants_no_server_is_reminded(tmp_path: Path) -> None:
    assert warm.look({warm.VARIABLE: "cold"}).reason == "YOD_LAUNCH_SERVER=cold is set"
