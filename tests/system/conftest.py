"""Partitions and programs for every system test."""

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
from tests.support.programs import programs  # noqa: F401
