"""Partitions and programs for every system test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.batch import jobs  # noqa: F401
from tests.support.c_programs import staged  # noqa: F401
from tests.support.keeper_programs import build  # noqa: F401
from tests.support.mpi import (  # noqa: F401
    every_mpi,
    mpi,
    mpi_directory,
    mpi_or_intel,
    mpis,
    spawning_mpi,
)
from tests.support.nobody import theirs  # noqa: F401
from tests.support.partitions import (  # noqa: F401
    anywhere,
    embedded,
    here,
    launch_server,
    local,
    pytest_generate_tests,
    standing,
    start_hosts,
    start_local,
)
from tests.support.pilots import check_profiles, session  # noqa: F401
from tests.support.programs import programs  # noqa: F401


@pytest.fixture(autouse=True)
def right_profiles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the profiles of all sessions of pilots that a test makes to the checker."""
    path = None
    if request.node.path.name.startswith("test_pilot") and "tmp_path" in request.fixturenames:
        path = request.getfixturevalue("tmp_path")  # now: it is removed after this fixture's end
    yield
    if path is not None:
        check_profiles(path)
