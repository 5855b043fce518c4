"""The cores of a host, as its files of /sys say: trees of several machines."""

import os

import pytest

from native.errors import UsageError
from native.wire.runs import CoreGroup
from pct.cores import Core, CoreTable
from pct.host import capacity
from tests.support.topology import write_tree

EVERY = range(1024)


def cores_of(root, said=None, allowed=EVERY):
    return capacity.cores(said, str(root), allowed)


def groups_of(root, **options):
    return CoreTable(cores_of(root, **options)).groups


def test_a_laptop_of_one_socket_has_cores_of_two_kinds(tmp_path):
    # i7-1365U: two cores of two threads each, eight cores of one
    siblings = {0: "0-1", 2: "2-3", **{cpu: str(cpu) for cpu in range(4, 12)}}
    rows = [(cpu, 0, siblings[cpu - cpu % 2 if cpu < 4 else cpu]) for cpu in range(12)]
    root = write_tree(tmp_path, rows, online="0-11", numa={0: "0-11"})
    assert groups_of(root) == (CoreGroup(0, 0, 2, 2), CoreGroup(0, 0, 1, 8))
    assert cores_of(root)[0] == Core(0, 0, (0, 1))


def server(tmp_path):
    """Two sockets of 8 cores, 2 threads each, 2 NUMA nodes in each; threads count up last."""
    rows = [(cpu, cpu % 16 // 8, f"{cpu % 16},{cpu % 16 + 16}") for cpu in range(32)]
    numa = {node: f"{4 * node}-{4 * node + 3},{4 * node + 16}-{4 * node + 19}" for node in range(4)}
    return write_tree(tmp_path, rows, online="0-31", numa=numa)


def test_a_server_has_sockets_numa_nodes_and_threads(tmp_path):
    root = server(tmp_path)
    assert groups_of(root) == tuple(CoreGroup(node // 2, node, 2, 4) for node in range(4))
    assert cores_of(root)[4] == Core(0, 1, (4, 20))


def test_a_cpuset_leaves_some_cores_and_of_some_one_thread(tmp_path):
    root = server(tmp_path)
    allowed = {0, 16, 1, 2, 12, 28, 40}
    assert groups_of(root, allowed=allowed) == (
        CoreGroup(0, 0, 2, 1),
        CoreGroup(0, 0, 1, 2),
        CoreGroup(1, 3, 2, 1),
    )


def test_the_site_says_which_processors_ranks_may_be_bound_to(tmp_path):
    root = server(tmp_path)
    assert groups_of(root, said="0-1,16") == (CoreGroup(0, 0, 2, 1), CoreGroup(0, 0, 1, 1))
    assert groups_of(root, said="") == groups_of(root, said="none") == ()
    for text in ("x", "1-", "-1", "1..3", "0-999999", "1,,2"):
        with pytest.raises(UsageError, match="processors as 0-3,8"):
            cores_of(root, said=text)


def test_an_arm64_host_has_sockets_of_any_number(tmp_path):
    rows = [(cpu, (36, 3180)[cpu // 4], str(cpu)) for cpu in range(8)]
    root = write_tree(tmp_path, rows, online="0-7", numa={0: "0-3", 1: "4-7"})
    assert groups_of(root) == (CoreGroup(0, 0, 1, 4), CoreGroup(1, 1, 1, 4))


def test_an_arm64_host_that_tells_no_socket_has_one(tmp_path):
    root = write_tree(tmp_path, [(cpu, -1, str(cpu)) for cpu in range(4)], online="0-3")
    assert groups_of(root) == (CoreGroup(0, 0, 1, 4),)


def test_a_numa_node_over_two_sockets_counts_in_each(tmp_path):
    rows = [(cpu, cpu // 2, str(cpu)) for cpu in range(4)]
    root = write_tree(tmp_path, rows, online="0-3", numa={0: "0-3"})
    assert groups_of(root) == (CoreGroup(0, 0, 1, 2), CoreGroup(1, 0, 1, 2))


def test_where_nothing_is_told_each_processor_is_a_core(tmp_path):
    assert groups_of(tmp_path, allowed={1, 5}) == (CoreGroup(0, 0, 1, 2),)


def test_files_that_make_no_sense_are_passed_over(tmp_path):
    rows = [(0, "socket", "nonsense"), (1, 0, "1")]
    root = write_tree(tmp_path, rows, online="all", numa={0: "none"})
    assert sum(group.cores for group in groups_of(root, allowed={0, 1})) == 2


def test_this_host_has_the_processors_that_this_process_may_use():
    cpus = {cpu for core in capacity.cores(None) for cpu in core.cpus}
    assert cpus == os.sched_getaffinity(0)
