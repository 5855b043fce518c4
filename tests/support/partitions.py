"""Partitions for tests: embedded, daemons on this host, daemons on several hosts.

All have one interface, so a promise that holds everywhere is tested everywhere: the
fixture ``anywhere`` gives each in turn.
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
from tests.support.standing import Key, Standing


class _Up:
    """The partitions of one test: brought up for it, or standing since an earlier one."""

    def __init__(self, standing: Standing, watch: Watch) -> None:
        self._standing = standing
        self._watch = watch
        self._own: list[Daemons] = []
        self._lent: list[Daemons] = []

    def lend(self, key: Key, make: Callable[[Place], Daemons]) -> Daemons:
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
def embedded(place: Place) -> Partition:
    """Inside yod."""
    return Partition()


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


@pytest.fixture(
    params=["embedded", "local", pytest.param("hosts", marks=pytest.mark.hosts)],
)
def anywhere(request: pytest.FixtureRequest) -> Partition:
    """Each kind of partition in turn, with room for 12 ranks at least."""
    match request.param:
        case "embedded":
            return request.getfixturevalue("embedded")  # type: ignore[no-any-return]
        case "local":
            return request.getfixturevalue("start_local")(3)  # type: ignore[no-any-return]
    return request.getfixturevalue("start_hosts")(3)  # type: ignore[no-any-return]


@pytest.fixture(params=["embedded", "local"])
def here(request: pytest.FixtureRequest) -> Partition:
    """The partitions of this host in turn, with room for 8 ranks at least."""
    if request.param == "embedded":
        return request.getfixturevalue("embedded")  # type: ignore[no-any-return]
    return request.getfixturevalue("start_local")(2)  # type: ignore[no-any-return]
