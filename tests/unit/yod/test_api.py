"""A plan: what a launch needs to know, with programs found and measured."""

import os

import pytest

from native.errors import UsageError
from native.limits import Limits
from native.wire.load import Protocol
from yod import api
from yod.request import Options, from_command_line


def plan(size=1, *, is_shipped=False, **options):
    members = from_command_line(size, None, ("/bin/sh",))
    return api.make_plan(members, Options(**options), Limits(), {}, is_shipped)[0]


def test_a_plan_says_what_is_offered_and_why():
    found = plan(mpi="pmi2")
    assert found.mpi.offered == (Protocol.PMI2,)
    assert found.mpi_reason == "chosen by --mpi=pmi2"


def test_the_universe_has_room_for_as_many_ranks_again_and_for_every_processor_of_this_host():
    cpu_count = len(os.sched_getaffinity(0))
    assert plan(1).mpi.universe_size == max(2, cpu_count)
    assert plan(cpu_count + 3).mpi.universe_size == 2 * (cpu_count + 3)
    assert plan(1, is_shipped=True).mpi.universe_size == 2
    assert plan(1 << 20, is_shipped=True).mpi.universe_size == 1 << 20


def test_a_chosen_libpmix_is_missed_here_where_the_ranks_run_here():
    with pytest.raises(UsageError, match="--libpmix /nonexistent: no such file"):
        plan(libpmix="/nonexistent")
    assert plan(libpmix="/nonexistent", is_shipped=True).mpi.libpmix == (b"/nonexistent",)
