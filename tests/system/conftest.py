"""Partitions and programs for every system test."""

from tests.support.c_programs import staged  # noqa: F401
from tests.support.mpi import mpi, mpi_directory, mpis, spawning_mpi  # noqa: F401
from tests.support.partitions import (  # noqa: F401
    anywhere,
    embedded,
    here,
    local,
    standing,
    start_hosts,
    start_local,
)
from tests.support.programs import programs  # noqa: F401
