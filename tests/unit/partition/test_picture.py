"""Which cores ranks would have, drawn: each core in brackets, a rank for each of its processors."""

from __future__ import annotations

import pytest

from partition.up.picture import lines
from pct.cores import Core
from yod.plan.shape import ANY, spec_of, with_option

# Two sockets, a NUMA node each, of two cores with two hardware threads.
HOST = tuple(Core(at // 2, at // 2, (at, at + 4)) for at in range(4))


def spec(size: int, **options: str):
    shape = ANY
    for name, value in options.items():
        shape = with_option(shape, f"--{name.replace('_', '-')}", value)
    return spec_of(size, None, "", shape)


def test_each_rank_has_a_core_of_its_own_and_the_others_are_free():
    assert lines([spec(3, bind="core")], HOST) == [
        "binding, if nobody else has cores here:",
        "  socket 0, NUMA node 0: [0 0] [1 1]",
        "  socket 1, NUMA node 1: [2 2] [. .]",
        "  rank 0: processors 0,4",
        "  rank 1: processors 1,5",
        "  rank 2: processors 2,6",
    ]


def test_sockets_threads_and_ranks_that_are_not_bound_are_drawn_as_they_will_be():
    members = [spec(1), spec(2, ranks_per_socket="1", threads_per_core="1"), spec(1)]
    assert lines(members, HOST)[1:] == [
        "  socket 0, NUMA node 0: [1 .] [. .]",
        "  socket 1, NUMA node 1: [2 .] [. .]",
        "  rank 1: processors 0",
        "  rank 2: processors 2",
    ]


def test_ranks_that_share_a_socket_or_a_numa_node_are_drawn_in_all_of_it():
    assert lines([spec(3, bind="socket")], HOST)[1:] == [
        "  socket 0, NUMA node 0: [0-1 0-1] [0-1 0-1]",
        "  socket 1, NUMA node 1: [  2   2] [  2   2]",
        "  rank 0: socket 0, processors 0-1,4-5",
        "  rank 1: socket 0, processors 0-1,4-5",
        "  rank 2: socket 1, processors 2-3,6-7",
    ]
    assert lines([spec(1, bind="numa", threads_per_core="1")], HOST)[1:] == [
        "  socket 0, NUMA node 0: [0 .] [0 .]",
        "  socket 1, NUMA node 1: [. .] [. .]",
        "  rank 0: NUMA node 0, processors 0-1",
    ]


@pytest.mark.parametrize("bind", ["socket", "numa"])
def test_a_host_of_one_socket_has_each_rank_on_all_of_it(bind):
    host = tuple(Core(0, 0, (cpu,)) for cpu in range(2))
    assert lines([spec(2, bind=bind)], host)[1] == "  socket 0, NUMA node 0: [0-1] [0-1]"


def test_a_rank_with_several_cores_has_them_all():
    assert lines([spec(1, cores_per_rank="2", bind="core")], HOST)[-1] == (
        "  rank 0: processors 0-1,4-5"
    )


@pytest.mark.parametrize("size", [5, 500])
def test_what_finds_no_room_is_said_with_the_numbers(size):
    assert lines([spec(size, bind="core")], HOST) == [
        f"binding: no room for {size} ranks with 1 core each: this host has 4 cores"
    ]
