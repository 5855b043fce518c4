"""A plan: what a launch needs to know, with programs found and measured."""

import os

import pytest

from native.errors import UsageError
from native.limits import Limits
from native.wire.base import ARGUMENTS_MAX, ENVIRONMENT_MAX
from native.wire.load import Protocol
from tests.support.invocations import invocation
from yod.plan.plan import Options, from_command_line
from yod.program.planning import make_plan


def plan(size=1, *, is_shipped=False, words=(), environment=None, limits=None, **options):
    members = from_command_line(size, None, ("/bin/sh", *words))
    return make_plan(
        members, Options(**options), limits or Limits(), invocation(environment), is_shipped
    )[0]


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


def test_arguments_and_environment_up_to_the_limits_are_taken():
    many = {b"V%d" % number: b"1" * 500 for number in range(ENVIRONMENT_MAX)}
    assert not plan(words=["w" * 12] * (ARGUMENTS_MAX - 1), environment=many).are_arguments_inline


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"words": ["w"] * ARGUMENTS_MAX},
            "the programs have 262145 arguments in all, at most 262144",
        ),
        (
            {"environment": {b"%d" % number: b"" for number in range(ENVIRONMENT_MAX + 1)}},
            "the environment has 8193 variables, at most 8192",
        ),
        ({"words": ["w" * 100_000] * 84}, r"8400\d+ bytes in all, at most 8388608; .*"),
        (
            {"words": ["w" * 300_000], "limits": Limits(arguments_max_bytes=262144)},
            "bytes in all, at most 262144; unset .* or raise arguments_max_bytes here and on all",
        ),
    ],
)
def test_arguments_and_environment_beyond_a_limit_are_refused_and_the_limit_is_named(given, text):
    with pytest.raises(UsageError, match=text):
        plan(**given)
