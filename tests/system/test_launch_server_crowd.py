"""Five thousand connections that say nothing: the server serves on, and names its limit."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from resource import RLIMIT_NOFILE, prlimit

import pytest

from native.wire import client as wire
from tests.support.own_server import OwnServer, Raw
from tests.support.partition import finish
from tests.support.place import Place
from tests.support.wait import read_until, wait_until

CONNECTIONS = 5000
CONNECT_S = 3  # a connection that says nothing has this long
LAUNCHES_COUNT = 200


@pytest.fixture
def room() -> Iterator[None]:
    """Descriptors for all the connections, in this process."""
    soft, hard = resource.getrlimit(RLIMIT_NOFILE)
    if hard < CONNECTIONS + 200:
        pytest.skip(f"the hard limit of open files is {hard}, this takes {CONNECTIONS + 200}")
    resource.setrlimit(RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def server(place: Place) -> Iterator[OwnServer]:
    limits = {"YOD_CONNECT_S": str(CONNECT_S), "YOD_LAUNCHES_COUNT": str(LAUNCHES_COUNT)}
    with OwnServer(place, env=limits) as server:
        yield server


@pytest.mark.parametrize("lacks", ["launches", "descriptors"])
def test_all_are_hung_up_on_and_launches_run_warm_or_cold(
    server: OwnServer, room: None, lacks: str
) -> None:
    server.works()
    yod = server.start_warm("-sz", "1", "sh", "-c", "echo up; read line; echo $line")
    assert yod.stdout is not None
    read_until(yod.stdout.fileno(), b"up\n")
    before = server.descriptors()
    if lacks == "descriptors":
        most = before + LAUNCHES_COUNT // 2
        prlimit(server.unix_pid, RLIMIT_NOFILE, (most, prlimit(server.unix_pid, RLIMIT_NOFILE)[1]))
    crowd = [server.connect() for _ in range(CONNECTIONS)]
    try:
        done = server.yod("-sz", "2", "echo", "ran")
        assert (done.status, done.out, done.err) == (0, "ran\nran\n", "")
        said = [greeting(raw) for raw in crowd]
        assert 0 < said.count(True) < LAUNCHES_COUNT
    finally:
        for raw in crowd:
            raw.close()
    limit = "no descriptor is left" if lacks == "descriptors" else f"{LAUNCHES_COUNT} launches run"
    assert server.daemon.text().count(f"clients run cold: {limit}") == 1
    wait_until(lambda: server.states() == ["running"], what="the end of the crowd")
    wait_until(lambda: server.descriptors() == before, what="as many descriptors as before")
    done = finish(yod, b"well\n")
    assert (done.status, done.out, done.err) == (0, "well\n", "")
    server.works()


def greeting(raw: Raw) -> bool:
    """Whether the server has said its word before it hung up."""
    received = raw.receive()
    if received is None:
        return False
    assert isinstance(received[0], wire.Hello)
    raw.wait_end()
    return True
