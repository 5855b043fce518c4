"""Which cores a node gives to which job, and how these are dealt to its ranks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.wire.runs import Binding, CoreGroup, Reach
from pct.cores import Core, CoreTable, dealt

TWO_SOCKETS = tuple(Core(n // 4, n // 4, (n, n + 8)) for n in range(8))

cores = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 2)), max_size=12
).map(
    lambda rows: tuple(
        Core(socket, 2 * socket + numa, tuple(range(2 * nth, 2 * nth + threads)))
        for nth, (socket, numa, threads) in enumerate(rows)
    )
)
row = st.tuples(st.integers(0, 3), st.integers(0, 11), st.integers(0, 4))
steps = st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.lists(row, max_size=4)))


@settings(max_examples=300, deadline=None)
@given(cores, steps)
def test_no_core_is_two_jobs_and_what_ends_gives_all_back(cores, steps):
    table = CoreTable(cores)
    total = set(cores)
    groups = table.groups
    assert sum(group.cores for group in groups) == len(cores)
    running = set()
    for job_id, begins, rows in steps:
        if begins and job_id not in running:
            wanted = [0] * 12
            for _, group, count in rows:
                wanted[group] += count
            left = [group.cores for group in groups] + [0] * (12 - len(groups))
            for other in running:
                for group, count in enumerate(table.counts(other)):
                    left[group] -= count
            rows = [each for each in rows if each[1] < len(groups)]
            wanted = wanted[: len(groups)]
            fits = all(want <= there for want, there in zip(wanted, left, strict=False))
            assert (table.take(job_id, rows) == "") == fits
            if fits:
                running.add(job_id)
                assert list(table.counts(job_id)) == wanted
        elif not begins:
            table.give_back(job_id)
            running.discard(job_id)
        table.check(running)
        own = [core for job_id in running for _, core in table.of(job_id).own]
        assert len(own) == len(set(own)) and total.issuperset(own)


def test_a_job_gets_the_lowest_free_cores_of_each_group_whole():
    table = CoreTable(TWO_SOCKETS)
    assert table.groups == (CoreGroup(0, 0, 2, 4), CoreGroup(1, 1, 2, 4))
    assert table.take(7, ((0, 0, 1), (0, 1, 2))) == ""
    assert [core.cpus for _, core in table.of(7).own] == [(0, 8), (4, 12), (5, 13)]
    assert table.take(8, ((0, 1, 3),)) == "3 cores of a group granted, 2 of 4 are free"
    assert table.take(8, ((0, 2, 1),)) == "cores of group 2 granted, there are 2 groups"
    assert table.of(8) is None
    table.give_back(7)
    assert table.take(8, ((0, 1, 4),)) == ""


def bound(ranks, member_of, cores_of, rows):
    table = CoreTable(TWO_SOCKETS)
    assert table.take(7, rows) == ""
    return dealt(ranks, member_of, cores_of, table.of(7))


def test_ranks_have_their_cores_in_order_with_all_threads_or_with_as_many_as_are_asked_for():
    rows = ((0, 0, 2), (0, 1, 2))
    assert bound((2, 5), [0] * 6, {0: (2, Binding())}, rows) == {
        2: (0, 1, 8, 9),
        5: (4, 5, 12, 13),
    }
    assert bound((2, 5), [0] * 6, {0: (2, Binding(threads=1))}, rows) == {2: (0, 1), 5: (4, 5)}


def test_each_member_has_its_own_cores_and_one_that_asked_for_none_is_not_bound():
    one = (1, Binding(threads=1))
    found = bound((0, 1, 2), [0, 1, 2], {0: one, 2: one}, ((0, 1, 1), (2, 0, 1)))
    assert found == {0: (4,), 2: (0,)}


def test_the_pct_of_an_allocation_has_all_cores_that_the_allocation_has():
    assert bound((3,), [0, 0, 1, 1], {1: (1, Binding(is_whole=True))}, ((0, 0, 1), (0, 1, 1))) == {
        3: (0, 4, 8, 12)
    }


def test_a_rank_that_claims_more_than_its_job_was_given_has_no_more():
    assert bound((0, 1), [0, 0], {0: (3, Binding(threads=1))}, ((0, 0, 2),)) == {0: (0, 1)}


@pytest.mark.parametrize("reach", [Reach.SOCKET, Reach.NUMA])
def test_ranks_may_reach_all_cores_of_their_socket_or_numa_node(reach):
    rows = ((0, 0, 1), (0, 1, 1))
    first, second = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)
    found = bound((0, 1), [0, 0], {0: (1, Binding(reach=reach))}, rows)
    assert found == {0: first, 1: second}
    thin = bound((0, 1), [0, 0], {0: (1, Binding(threads=1, reach=reach))}, rows)
    assert thin == {0: first[:4], 1: second[:4]}


def test_two_numa_nodes_of_one_socket_are_reached_apart_and_a_socket_whole():
    table = CoreTable(tuple(Core(0, cpu // 2, (cpu,)) for cpu in range(4)))
    assert table.take(7, ((0, 0, 1), (0, 1, 1))) == ""
    for reach, cpus in ((Reach.SOCKET, [(0, 1, 2, 3)] * 2), (Reach.NUMA, [(0, 1), (2, 3)])):
        found = dealt((0, 1), [0, 0], {0: (1, Binding(reach=reach))}, table.of(7))
        assert list(found.values()) == cpus
