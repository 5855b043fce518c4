"""A real keeper that is the child of another process than its PCT: of a user's client."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from native.loop.reactor import Reactor
from native.wire.keeper import KeeperEmpty, KeeperLost, KeeperSpec
from pct.host.keeper import Keeper
from pct.host.spawn.client import ClientSpawner
from tests.support.keeper_client import ClientProcess
from tests.support.keeper_job import Job, make_spec
from tests.support.wait import LIMIT_S, wait_for_exit

Build = Callable[..., str]
Start = Callable[[KeeperSpec], "tuple[Job, ClientProcess]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a job under a client; ends the client after it."""
    clients: list[ClientProcess] = []

    def make(reactor: Reactor) -> ClientSpawner:
        clients.append(ClientProcess(reactor))
        return clients[-1].spawner

    def start(spec: KeeperSpec) -> tuple[Job, ClientProcess]:
        job = Job(spec, make_spawner=make)
        return job, clients[-1]

    yield start
    for client in clients:
        client.process.kill()
        client.process.wait()
        client._socket.close()


def test_a_keeper_of_a_client_runs_ranks_below_it(start: Start) -> None:
    code = "import os; print(os.getppid(), open(f'/proc/{os.getppid()}/stat').read().split()[3])"
    job, client = start(make_spec((sys.executable, "-S", "-c", code), ranks=2))
    with job:
        job.wait_held()
        keeper = job.keeper.unix_pid  # until it has ended
        job.run()
        for rank in range(2):
            assert job.text(rank).split() == [str(keeper), str(client.process.pid)]
        job.run_until(lambda: not client.spawner.has_keepers, "the keeper's end")
    assert client.process.poll() is None


def test_a_keeper_that_the_client_cannot_start_is_told_of_later() -> None:
    reactor = Reactor()
    client = ClientProcess(reactor, "/no/keeper")
    told: list[str] = []
    try:
        spec = make_spec(("/bin/true",))
        take = (told.append, lambda *streams: None)
        keeper = Keeper.start(spec, client.spawner, reactor, *take, on_not_started=told.append)
        assert told == []
        while not told:
            reactor.run_once(LIMIT_S)
        keeper.close()
    finally:
        client.close()
        reactor.close()
    assert told == ["No such file or directory"]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_killed_client_takes_the_ranks_and_all_below_them_along(
    start: Start, build: Build, is_stopped: bool
) -> None:
    job, client = start(make_spec((build("daemon"),), ranks=2))
    with job:
        job.wait_held()
        job.keeper.go()
        for rank in range(2):
            job.wait_output(b"ready", rank)
        unix_pids = [int(line) for rank in range(2) for line in job.text(rank).split()[:3]]
        if is_stopped:
            os.kill(job.keeper.unix_pid, signal.SIGSTOP)
        client.process.kill()
        job.wait_empty()  # the keeper has lived to see that nothing is left
        for unix_pid in (*unix_pids, job.keeper.unix_pid):
            wait_for_exit(unix_pid)


def test_a_client_that_is_killed_with_its_keeper_leaves_no_rank(start: Start) -> None:
    job, client = start(make_spec(("/bin/sleep", "1000"), ranks=3))
    with job:
        job.wait_held()
        job.keeper.go()
        os.kill(client.process.pid, signal.SIGSTOP)  # it shall not tell of its keeper's end
        os.kill(job.keeper.unix_pid, signal.SIGKILL)
        client.process.kill()
        job.run_until(lambda: bool(job.of(KeeperLost)), "lost")
        assert not job.of(KeeperEmpty)
        for rank in range(3):
            wait_for_exit(job.unix_pid(rank))


def test_a_client_kills_what_its_lost_keeper_has_left(start: Start, build: Build) -> None:
    job, client = start(make_spec((build("daemon"),)))
    with job:
        job.wait_held()
        job.keeper.go()
        left = [int(line) for line in job.wait_output(b"ready").split()[:3]]
        os.kill(job.keeper.unix_pid, signal.SIGKILL)
        job.run_until(lambda: bool(job.of(KeeperLost)), "lost")
        told: list[str] = []
        client.spawner.kill_orphans(lambda: told.append("killed"))
        job.run_until(lambda: bool(told), "the end of the orphans")
        for unix_pid in left:
            assert not os.path.exists(f"/proc/{unix_pid}")
