"""A launch server that was told to end when it is idle, by ``--idle-s``, serves what runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.own_server import OwnServer
from tests.support.place import Place
from tests.support.wait import wait_for_exit
from tests.support.warm import COMMAND


@pytest.fixture
def server(place: Place) -> Iterator[OwnServer]:
    with OwnServer(place, command=(*COMMAND, "--idle-s", "1")) as server:
        yield server


def test_a_launch_that_takes_longer_than_the_idle_time_is_not_ended(server: OwnServer) -> None:
    done = server.yod("-sz", "2", "sh", "-c", "sleep 2; echo done")
    assert (done.status, done.out, done.err) == (0, "done\ndone\n", "")
    wait_for_exit(server.unix_pid)
