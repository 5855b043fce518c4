"""Fixtures that several modules of tests share: ports, and ends of Portals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from native.port.portals import PortalsPort
from tests.support.portals_ends import KINDS, Pair, name_of, pair
from tests.support.ports import TEST_KEY
from tests.unit.native.parts_of import Parts
from tests.unit.native.port_of import Open


@pytest.fixture
def port() -> Iterator[Open]:
    """Opens ports: listening on the loopback with the partition's key, unless told."""
    ports: list[PortalsPort] = []

    def open_port(**options: Any) -> PortalsPort:
        options.setdefault("listen", "127.0.0.1:0")
        options.setdefault("partition_key", TEST_KEY)
        ports.append(PortalsPort(**options))
        return ports[-1]

    yield open_port
    for one in ports:
        one.close(flush_s=0.1)


@pytest.fixture(params=KINDS, ids=name_of)
def ends(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with pair(request.param) as made:
        yield made


@pytest.fixture
def matching() -> Iterator[Pair]:
    with pair() as made:
        yield made


@pytest.fixture
def parts() -> Iterator[Parts]:
    made = Parts()
    yield made
    made.ni.close()
