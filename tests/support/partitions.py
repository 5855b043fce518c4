"""Partitions for tests: embedded, daemons on this host, daemons on several hosts.

All have one interface, so a promise that holds everywhere is tested everywhere: the
fixture ``anywhere`` gives each in turn.

yod runs cold, in a process of its own. In the tests that are marked ``warm`` the fixtures give the
partitions of this host once more, for a yod that runs its launches in a launch server.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.daemons import SLOTS, Daemons, HostDaemons
from tests.support.hosts import RAM_BYTES, Hosts
from tests.support.leaks import Watch
from tests.support.partition import Partition
from tests.support.place import Place
from tests.support.standing import Key, Lent, Standing, Stays
from tests.support.warm import LaunchServer, Warm

_HOSTS = pytest.param("hosts", marks=pytest.mark.hosts)
_WARM_LOCAL = pytest.param("warm-local", marks=pytest.mark.long)
_KINDS = {
    "embedded": ("embedded",),
    "here": ("embedded", "local"),
    "anywhere": ("embedded", "local", _HOSTS),
}
_WARM_KINDS = {
    "embedded": ("warm",),
    "here": ("warm", _WARM_LOCAL),
    "anywhere": ("warm", "warm-local"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test in each kind of partition; one that is marked ``warm``, warm as well."""
    is_warm = metafunc.definition.get_closest_marker("warm") is not None
    is_cold = metafunc.definition.get_closest_marker("cold") is not None
    for name, kinds in _KINDS.items():
        if name in metafunc.fixturenames:
            chosen = (*kinds, *(_WARM_KINDS[name] if is_warm and not is_cold else ()))
            if len(chosen) > 1:
                metafunc.parametrize(name, chosen, indirect=True)


class _Up:
    """What is up for one test: brought up for it, or standing since an earlier one."""

    def __init__(self, standing: Standing, watch: Watch) -> None:
        self._standing = standing
        self._watch = watch
        self._own: list[Daemons] = []
        self._lent: list[Stays] = []

    def lend(self, key: Key, make: Callable[[Place], Lent]) -> Lent:
        """One that other tests use as well."""
        partition = self._standing.take(key, make)
        self._lent.append(partition)
        partition.begin_test(self._watch)
        return partition

    def add(self, partition: Daemons) -> Daemons:
        """One for this test alone."""
        partition.start()
        self._own.append(partition)
        partition.begin_test(self._watch)
        return partition

    def end(self) -> None:
        is_clean = False
        every = (*self._lent, *self._own)
        try:
            if every:
                self._watch.check()
            is_clean = True
        except AssertionError as error:
            logs = "".join(partition.log() for partition in every)
            raise AssertionError(f"{error}\n{logs}") from None
        finally:
            for partition in self._lent:
                self._standing.give_back(partition, is_clean)
            for partition in self._own:
                partition.stop()


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """Partitions that stay up from test to test."""
    place = Place(tmp_path_factory.mktemp("standing"), uuid.uuid4().hex)
    standing = Standing(place)
    yield standing
    try:
        standing.close()
    finally:
        place.remove()


@pytest.fixture
def launch_server(
    standing: Standing, place: Place, nothing_left_behind: Watch
) -> Iterator[LaunchServer]:
    """A launch server, which may have served other tests before."""
    up = _Up(standing, nothing_left_behind)
    yield up.lend(Key("launch server"), LaunchServer)
    up.end()


@pytest.fixture
def embedded(request: pytest.FixtureRequest, place: Place) -> Partition:
    """Inside yod."""
    return _get(request, getattr(request, "param", "embedded"), nodes_count=1)


@pytest.fixture
def start_local(
    standing: Standing, place: Place, nothing_left_behind: Watch
) -> Iterator[Callable[..., Daemons]]:
    """A function that gives a partition of daemons on this host: see :class:`Daemons`.

    One with no other options than its size may have served other tests before.
    """
    up = _Up(standing, nothing_left_behind)

    def start(count: int, *, slots: int = SLOTS, **options: Any) -> Daemons:
        if options:
            return up.add(Daemons(place, count, slots=slots, **options))
        return up.lend(
            Key("local", count, slots),
            lambda place: Daemons(place, count, slots=slots, base=place.environment()),
        )

    yield start
    up.end()


@pytest.fixture
def start_hosts(
    standing: Standing, place: Place, nothing_left_behind: Watch, needs_root: None
) -> Iterator[Callable[..., HostDaemons]]:
    """A function that gives a partition on hosts of its own: see :class:`HostDaemons`.

    One with no other options than its size may have served other tests before.
    """
    up = _Up(standing, nothing_left_behind)

    def start(
        count: int, *, slots: int = SLOTS, ram_bytes: int = RAM_BYTES, **options: Any
    ) -> Daemons:
        def make(place: Place, **more: Any) -> HostDaemons:
            hosts = Hosts(count + 1, ram_bytes=ram_bytes)
            try:
                return HostDaemons(place, hosts, slots=slots, **more)
            except BaseException:
                hosts.close()
                raise

        if options:
            return up.add(make(place, **options))
        key = Key("hosts", count, slots, ram_bytes)
        return up.lend(key, lambda place: make(place, base=place.environment()))

    yield start  # type: ignore[misc]
    up.end()


@pytest.fixture
def local(start_local: Callable[..., Daemons]) -> Daemons:
    """Four nodes of four slots on this host."""
    return start_local(4)


@pytest.fixture
def anywhere(request: pytest.FixtureRequest, place: Place) -> Partition:
    """Each kind of partition in turn, with room for 12 ranks at least."""
    return _get(request, request.param, nodes_count=3)


@pytest.fixture
def here(request: pytest.FixtureRequest, place: Place) -> Partition:
    """The partitions of this host in turn, with room for 8 ranks at least."""
    return _get(request, request.param, nodes_count=2)


def _get(request: pytest.FixtureRequest, kind: str, nodes_count: int) -> Partition:
    partition: Partition
    match kind:
        case "embedded":
            partition = Partition()
        case "warm":
            partition = Warm(request.getfixturevalue("launch_server"))
        case "local" | "warm-local":
            partition = request.getfixturevalue("start_local")(nodes_count)
        case _:
            partition = request.getfixturevalue("start_hosts")(nodes_count)
    if kind == "warm-local":
        partition.launch_server = request.getfixturevalue("launch_server")
    return partition
