"""Worlds of 16 and 32 ranks on a machine that may have two processors.

Minutes long, so `make test-long` runs these and nothing else does.
"""

from __future__ import annotations

import pytest

from tests.support.mpi import Mpi, without_noise, world

pytestmark = [pytest.mark.mpi, pytest.mark.long, pytest.mark.timeout(600)]

LIMIT_S = 300.0


@pytest.fixture
def mpi(every_mpi: Mpi) -> Mpi:
    """All five: each has its own limits."""
    return every_mpi


@pytest.mark.parametrize("size", [16, 32])
def test_one_large_world_in_the_embedded_partition(embedded, mpi, size):
    words = ["-sz", str(size), *mpi.program, "life"]
    done = embedded.yod(*words, env=mpi.program_env, timeout=LIMIT_S)
    assert without_noise(done.err) == ""
    assert (done.status, sorted(done.out.splitlines())) == (0, world(size, mpi.on_node(size)))


@pytest.mark.hosts
@pytest.mark.parametrize("size", [16, 32])
def test_one_large_world_on_four_hosts(start_hosts, mpi, size):
    hosts = start_hosts(4, slots=size // 4, ram_bytes=1 << 30)
    words = ["-sz", str(size), *mpi.program, "life"]
    done = hosts.yod(*words, env=mpi.program_env, timeout=LIMIT_S)
    assert without_noise(done.err) == ""
    assert (done.status, sorted(done.out.splitlines())) == (0, world(size, mpi.on_node(size // 4)))
