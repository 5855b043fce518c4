"""What the doctor makes of what the nodes say of themselves."""

from __future__ import annotations

from msgspec import json
from msgspec.structs import replace

from partition.doctor import nodes
from partition.doctor.finding import Level, ok
from partition.doctor.node import Said

HERE = Said(-1, "head", "b1", "3.11.7", 1000.0, ("/usr/bin/srun",), ("/usr/lib/libpmix.so.2",))
N0 = replace(HERE, node=0, name="n0")
N1 = replace(HERE, node=1, name="n1")
ASKED = (999.0, 1001.0)


def compared(*said: Said) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for each in nodes.compared(said, HERE, ASKED):
        found.setdefault(each.subject, []).append((each.level, each.text))
    return found


def test_nodes_that_are_alike_are_one_line_for_each_thing():
    assert [*nodes.compared([N0, N1], HERE, ASKED)] == [
        ok("builds", "the same on 2 nodes and here"),
        ok("clocks", "within 1 s of this host's on 2 nodes"),
        ok("Python", "nodes 0..1: 3.11.7"),
        ok("MPI", "nodes 0..1: /usr/bin/srun"),
        ok("PMIx", "nodes 0..1: /usr/lib/libpmix.so.2"),
    ]


def test_another_build_is_a_problem_and_names_its_nodes():
    found = compared(N0, replace(N1, build="b2"))
    text = "node 1: another build of yod than on this host"
    assert found["builds"] == [(Level.PROBLEM, text)]


def test_a_clock_that_is_off_is_told_with_its_distance_and_direction():
    found = compared(replace(N0, unix_time=1001.5), replace(N1, unix_time=1061.0))
    assert found["clocks"] == [(Level.WARNING, "node 1: 60 s ahead of this host's")]
    found = compared(replace(N0, unix_time=399.0))
    assert found["clocks"] == [(Level.WARNING, "node 0: 600 s behind this host's")]


def test_what_differs_between_nodes_has_a_line_for_each_kind_of_node():
    found = compared(N0, replace(N1, mpi=(), pmix=()))
    assert [text for _, text in found["MPI"]] == [
        "node 0: /usr/bin/srun",
        "node 1: no mpiexec in PATH",
    ]
    assert len(found["PMIx"]) == 2


def test_lines_of_others_are_passed_over():
    written = [b"a banner", json.encode(N1), b"{}", json.encode(N0)]
    assert nodes.read(written) == [N0, N1]
