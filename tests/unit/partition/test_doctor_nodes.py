"""What the doctor makes of what the nodes say of themselves."""

from __future__ import annotations

import os
import socket

from msgspec import json
from msgspec.structs import replace

from partition.doctor import namespaces, node, nodes
from partition.doctor import partition as of_partition
from partition.doctor.finding import Level, ok, warning
from partition.doctor.node import CutOff, Place, Said

HERE = Said(
    -1,
    "head",
    "b1",
    "3.11.7",
    1000.0,
    ("/usr/bin/srun",),
    ("/usr/lib/libpmix.so.2",),
    {"libc.so.6": "aa"},
    65536,
)
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
        ok("libraries", "libc.so.6: the same on 2 nodes"),
        ok("names", "2 nodes find their own name"),
        ok("open files", "enough for a process on 2 nodes"),
        ok("namespaces of nodes", "none hides users or processes of this host"),
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


def test_a_library_that_differs_names_the_nodes_that_are_not_as_this_host():
    found = compared(N0, replace(N1, digests={"libc.so.6": "bb"}))
    text = "node 1: another libc.so.6 than on this host"
    assert found["libraries"] == [(Level.WARNING, text)]
    found = compared(replace(N0, digests={}), N1)
    text = "node 0: no libc.so.6, and there is one on this host"
    assert found["libraries"] == [(Level.WARNING, text)]


def test_a_library_that_this_host_lacks_is_compared_between_the_nodes():
    said = [replace(N0, node=number, digests={"libpmix.so.2": "aa"}) for number in range(3)]
    said[2] = replace(said[2], digests={"libpmix.so.2": "bb"})
    found = compared(*said)
    text = "node 2: another libpmix.so.2 than on the other nodes"
    assert found["libraries"] == [(Level.WARNING, text)]


def test_a_name_that_is_not_found_and_few_open_files_are_warnings():
    found = compared(replace(N0, name_trouble="its own name n0 is not known there"), N1)
    assert found["names"] == [(Level.WARNING, "node 0: its own name n0 is not known there")]
    found = compared(N0, replace(N1, open_files=1024))
    assert found["open files"] == [(Level.WARNING, "node 1: 1024 for a process")]


def test_a_cut_edge_is_a_problem_and_names_both_its_ends():
    off = CutOff(0, "Connection refused")
    said = [replace(N0, node=number, cut_off=(off,) if number else ()) for number in range(3)]
    (found,) = nodes.connections(said, 3)
    text = "nodes 1..2 cannot reach the pct of node 0: Connection refused"
    assert (found.level, found.subject, found.text) == (Level.PROBLEM, "tree", text)
    assert found.remedy


def test_a_tree_without_cuts_is_one_line():
    assert [*nodes.connections([N0, N1], 2)] == [
        ok("tree", "all connections of a job over 2 nodes, both ways")
    ]


def test_every_edge_of_the_tree_is_tried_from_both_ends():
    places = [Place(number, 1 << 24, 7000 + number) for number in (4, 9, 2, 7, 5, 6)]
    edges = {
        (each.node, other.node)
        for each in places
        for other in node.neighbours(each.node, places, 2)
    }
    assert edges == {(b, a) for a, b in edges}
    assert len(edges) == 2 * (len(places) - 1)
    assert node.neighbours(77, places, 2) == []
    assert node.unpacked(node.packed(places)) == places


def test_a_node_tells_what_it_reaches_from_what_it_does_not():
    localhost = 0x7F000001
    with socket.socket() as listening, socket.socket() as silent:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        silent.bind(("127.0.0.1", 0))
        there = Place(1, localhost, listening.getsockname()[1])
        gone = Place(2, localhost, silent.getsockname()[1])
        assert node.unreachable([there, gone], 5.0) == [CutOff(2, os.strerror(111))]
        assert node.unreachable([there], 0.0) == [CutOff(1, "no answer for 0 s")]


def test_libraries_have_digests_of_their_bytes(tmp_path):
    (tmp_path / "libc.so.6").write_bytes(b"a")
    first = node.digests([str(tmp_path)])
    assert first.keys() == {"libc.so.6"}
    (tmp_path / "libc.so.6").write_bytes(b"b")
    assert node.digests([str(tmp_path)]) != first


def test_a_node_names_the_pmix_that_its_system_has(monkeypatch, tmp_path):
    assert tmp_path.name not in str(node.said().pmix)
    (tmp_path / "libpmix.so.2").touch()
    monkeypatch.setattr(node, "LIBRARIES", (f"{tmp_path}/libpmix.so.2", f"{tmp_path}/no*"))
    assert node.said().pmix == (f"{tmp_path}/libpmix.so.2",)


def test_bebopds_clock_is_compared_with_this_hosts():
    assert of_partition.clock(1000.0, 999.9, 1000.1).level is Level.OK
    ahead = of_partition.clock(1000.0, 1063.0, 1063.1)
    assert (ahead.level, ahead.text) == (Level.PROBLEM, "this host's is 63 s ahead of bebopd's")
    assert of_partition.clock(1000.0, 900.0, 900.5).text == "this host's is 100 s behind bebopd's"


def test_a_node_of_this_host_in_other_namespaces_is_told_with_what_differs():
    here = replace(HERE, host="boot", namespaces={"user": "u1", "net": "n1"}, users=1 << 32)
    alike = replace(here, node=0)
    inside = replace(here, node=1, namespaces={"user": "u2", "net": "n1"})
    elsewhere = replace(here, node=2, host="another", namespaces={"user": "u3", "net": "n3"})
    found = [
        (each.level, each.text, each.remedy)
        for each in nodes.compared([alike, inside, elsewhere], here, ASKED)
        if each.subject == "namespaces of nodes"
    ]
    text = "node 1: on this host, in another user namespace: users have other uids there"
    assert found == [(Level.WARNING, text, namespaces.OUTSIDE)]


def test_a_node_with_fewer_users_than_this_host_is_told():
    here = replace(HERE, host="boot", users=1 << 32)
    found = [*nodes.compared([replace(here, node=4, host="other", users=65536)], here, ASKED)]
    text = "node 4: fewer uids there than here: jobs of other users fail"
    remedy = "map all uids into the container of its pct"
    assert warning("namespaces of nodes", text, remedy) in found


def test_a_node_says_in_which_namespaces_it_is():
    said = node.said()
    assert said.host == namespaces.host() and said.users == namespaces.users() > 0
    assert said.namespaces["user"] == os.readlink("/proc/self/ns/user")
