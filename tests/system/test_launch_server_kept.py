"""A launch server's connections to the bebopd of a partition of daemons, between launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.daemons import Daemons
from tests.support.own_server import NEVER_COLD, OwnServer, own_server
from tests.support.wait import wait_until

__all__ = ["own_server"]

WORDS = ("--mpi=none", "-sz", "2", "sh", "-c", "echo $YOD_JOB_ID")
PORT_DESCRIPTORS = 5  # epoll set, timer, two eventfds, connection
Launches = Callable[[], list[str]]


@pytest.fixture
def local(start_local: Callable[..., Daemons]) -> Daemons:
    return start_local(2, slots=1)


@pytest.fixture
def launches(own_server: OwnServer, local: Daemons) -> Iterator[Launches]:
    """Runs a launch, and gives what its ranks have written: the id of the job."""
    env = {**NEVER_COLD, "YOD_PARTITION": f"unix:{local.socket}", "YOD_KEPT_PORT_S": "1000"}

    def run() -> list[str]:
        done = own_server.yod(*WORDS, env=env)
        assert (done.status, done.err) == (0, ""), done
        return done.out.split()

    yield run
    own_server.daemon.stop()  # before bebopd is looked at, which has no connection left then


def test_launches_in_turn_have_one_and_each_its_own_job(
    own_server: OwnServer, launches: Launches
) -> None:
    before = own_server.descriptors()
    jobs = [launches()]
    wait_until(
        lambda: own_server.descriptors() == before + PORT_DESCRIPTORS, what="a port that waits"
    )
    for _ in range(5):
        jobs.append(launches())
        wait_until(
            lambda: own_server.descriptors() == before + PORT_DESCRIPTORS,
            what="one port that waits",
        )
    assert all(first == second for first, second in jobs)
    assert len({first for first, _ in jobs}) == len(jobs)


def test_a_launch_finds_a_bebopd_that_was_started_anew(
    own_server: OwnServer, local: Daemons, launches: Launches
) -> None:
    launches()
    local.bebopd.kill()
    local.replace_bebopd()
    assert len(launches()) == 2


def test_a_launch_finds_a_pct_that_was_started_anew(local: Daemons, launches: Launches) -> None:
    launches()
    for node in (0, 1):
        local.pcts[node].kill()
        local.replace_pct(node)
    assert len(launches()) == 2
