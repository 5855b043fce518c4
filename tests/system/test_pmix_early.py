"""A PMIx server whose process has been started before its job is known."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from native.host.files import Owner
from native.limits import Limits
from native.loop.reactor import Reactor
from native.loop.slices import Slices
from native.wire import keeper as wire
from native.wire import pmix
from pct.account import Account
from pct.host.pmix_process import PmixServer
from pct.host.spawn.orphans import children_of
from pct.host.spawn.spawner import OwnSpawner
from tests.support.wait import wait_for_exit, wait_until

OWNER = Owner(os.getuid(), os.getgid(), ())
BEGIN = pmix.Begin(  # it says that it cannot load this, and ends
    libraries=(b"/no/libpmix.so",),
    is_only=True,
    server="early_at0",
    host="n0",
    uid=OWNER.uid,
    gid=OWNER.gid,
)


class Told:
    """What a server's owner is told."""

    def __init__(self) -> None:
        self.messages: list[pmix.FromServer] = []
        self.ends: list[tuple[wire.Report, str]] = []
        self.lines: list[str] = []

    def end(self, report: wire.Report, text: str) -> None:
        self.ends.append((report, text))


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    made = Reactor()
    yield made
    made.close()


@pytest.fixture
def server(reactor: Reactor) -> Iterator[PmixServer]:
    started = PmixServer(
        os.getpid(), OWNER, reactor, OwnSpawner(reactor), Limits().pmix_server_bytes
    )
    unix_pid = started.keeper.unix_pid
    yield started
    started.close()
    wait_for_exit(unix_pid)


def run_until(reactor: Reactor, condition: Callable[[], object]) -> None:
    def turn() -> bool:
        reactor.run_once(0.01)
        return bool(condition())

    wait_until(turn)


def begin(server: PmixServer, parent: object) -> Told:
    told = Told()
    takers = (told.messages.append, told.end, told.lines.append)
    server.begin(BEGIN, str(parent), *takers, Slices(server._reactor), Account())
    return told


@pytest.mark.parametrize("is_up", [False, True])
def test_it_serves_whoever_comes_before_or_after_it_is_up(reactor, server, tmp_path, is_up):
    if is_up:
        run_until(reactor, lambda: children_of(server.keeper.unix_pid))
    told = begin(server, tmp_path)
    run_until(reactor, lambda: told.ends)
    (message,) = told.messages
    assert isinstance(message, pmix.Unavailable)
    assert isinstance(told.ends[0][0], wire.KeeperEmpty)
    assert not list(tmp_path.glob("pmix-*"))


def test_one_that_has_ended_before_is_told_of_once_and_later(reactor, server, tmp_path):
    run_until(reactor, lambda: children_of(server.keeper.unix_pid))
    os.kill(children_of(server.keeper.unix_pid)[0], signal.SIGKILL)
    run_until(reactor, lambda: not os.path.exists(f"/proc/{server.keeper.unix_pid}"))
    told = begin(server, tmp_path)
    assert not told.ends
    run_until(reactor, lambda: told.ends)
    assert told.ends == [(wire.KeeperEmpty(), "its process failed: killed by SIGKILL")]
    assert not told.messages
    assert not list(tmp_path.glob("pmix-*"))


def test_one_that_nobody_needs_is_gone_when_it_is_hung_up(reactor, server):
    run_until(reactor, lambda: children_of(server.keeper.unix_pid))
    (process,) = children_of(server.keeper.unix_pid)
    server.close()
    wait_for_exit(process)
    wait_for_exit(server.keeper.unix_pid)
