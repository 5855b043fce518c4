"""Where the user forbids cold launches a client says why this one would be cold, and ends."""

from __future__ import annotations

import os
import resource
import signal
import time

import pytest
from msgspec.structs import replace

from native.wire import client as wire
from partition.find import warm
from tests.support.launch_server import Installed, Server, client, ended, own_hello, server
from tests.support.nobody import NOBODY
from tests.support.partition import Done, finish
from tests.support.wait import wait_until

__all__ = ["client", "server"]

WORDS = ("-sz", "2", "true")
HELLO_S = 0.25  # a client that may run cold does not wait longer


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch, place: None) -> None:
    """Cold launches are forbidden."""
    monkeypatch.setenv("YOD_COLD", "never")


def refused(why: str) -> Done:
    line = f"yod: this launch would be cold, which YOD_COLD=never forbids: {why}\n"
    return Done(125, "", line)


def test_without_a_server(client: Installed) -> None:
    assert client.run(*WORDS) == refused(warm.look(os.environ).reason)


def test_where_the_user_chose_both(client: Installed, server: Server) -> None:
    env = {**os.environ, "YOD_LAUNCH_SERVER": "cold"}
    assert client.run(*WORDS, env=env) == refused(warm.look(env).reason)


def test_with_rights_of_another_user(client: Installed, server: Server, needs_root: None) -> None:
    done = finish(client.start(*WORDS, preexec_fn=lambda: os.setegid(NOBODY)))
    assert done == refused("this process has rights of another user")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"release": b"x" * 32}, "is of another release"),
        ({"root": (1, 2)}, "has another root directory"),
        *(
            ({"namespace": number}, f"has another {what} namespace")
            for number, what in enumerate(
                ("mount", "process id", "user", "network", "IPC", "UTS"),
            )
        ),
    ],
    ids=str,
)
def test_with_a_server_of_another_world(
    client: Installed, server: Server, changed: dict[str, object], why: str
) -> None:
    process = client.start(*WORDS)
    hello = own_hello()
    if (number := changed.get("namespace")) is not None:
        theirs = [each + (at == number) for at, each in enumerate(hello.namespaces)]
        changed = {"namespaces": tuple(theirs)}
    server.accept().send(replace(hello, **changed))
    assert finish(process) == refused(f"the launch server {why}")


def test_with_a_server_that_takes_no_more(client: Installed, server: Server) -> None:
    process = client.start(*WORDS)
    server.accept().close()
    why = f"the launch server (process {os.getpid()}) {warm.FULL_TEXT}"
    assert finish(process) == refused(why)


def test_with_a_server_that_leaves_it_to_the_client(client: Installed, server: Server) -> None:
    process = client.start(*WORDS)
    server.begin().send(wire.Cold("it cannot"))
    why = f"the launch server (process {os.getpid()}) says: it cannot"
    assert finish(process) == refused(why)


def test_where_the_request_is_larger_than_a_file_may_be(client: Installed, server: Server) -> None:
    limit = (resource.RLIMIT_FSIZE, (0, 0))
    process = client.start(*WORDS, preexec_fn=lambda: resource.setrlimit(*limit))
    server.accept()  # it gives up before it is greeted
    why = f"no request can be sent to the launch server (process {os.getpid()}): File too large"
    assert finish(process) == refused(why)


def test_what_launches_nothing_is_run_as_ever(client: Installed, server: Server) -> None:
    process = client.start("--version")
    server.begin().send(wire.Cold("nothing is to be launched", is_launch=False))
    assert finish(process) == (7, "cold --version\n", "")


def test_a_signal_that_came_before_is_what_the_client_dies_of(
    client: Installed, server: Server
) -> None:
    process = client.start(*WORDS)
    conversation = server.begin()
    process.send_signal(signal.SIGTERM)
    assert conversation.expect(wire.Signal).number == signal.SIGTERM
    conversation.send(wire.Cold("too late"))
    assert finish(process) == (-signal.SIGTERM, "", "")


def test_a_server_that_is_slow_is_waited_for(client: Installed, server: Server) -> None:
    process = client.start(*WORDS)
    conversation = server.accept()
    until = time.monotonic() + 2 * HELLO_S
    wait_until(lambda: time.monotonic() > until)
    conversation.begin()
    conversation.send(wire.Exit(3))
    assert ended(process) == 3
