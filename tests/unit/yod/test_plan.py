"""Sizes and lists of the command line and of a load file, combined."""

from math import inf

import pytest
from msgspec.structs import replace

from native.errors import UsageError
from native.wire.alloc import Needs, NodeSpec
from native.wire.base import SIZE_MAX
from native.wire.runs import Binding, Reach
from tests.unit.yod.launch_of import plan
from yod.plan.loadfile import Line, parse
from yod.plan.plan import Member, Options, from_command_line, from_load_file
from yod.plan.shape import ANY, Shape, parse_distribution, with_option


def specs(text, size=None, nodes=None):
    members, warnings = from_load_file(parse(text, "f.load"), size, nodes)
    return [member.spec for member in members], warnings


@pytest.mark.parametrize(
    ("size", "nodes", "spec"),
    [
        (None, None, NodeSpec(1)),
        (4, None, NodeSpec(4)),
        (None, (5, 1, 2), NodeSpec(3, (5, 1, 2), one_per_node=True)),
        (4, (5, 1), NodeSpec(4, (5, 1))),
        (2, (5, 1, 2), NodeSpec(2, (5, 1, 2))),
    ],
    ids=["neither", "size", "list", "more than the list", "part of the list"],
)
def test_the_command_lines_size_and_list_are_what_a_program_asks_for(size, nodes, spec):
    assert from_command_line(size, nodes, ("a.out", "x")) == [Member(spec, ("a.out", "x"))]


def test_a_line_has_its_own_size_and_list_first():
    assert specs("-sz 2 -l 500,501 a\n-sz 64 a", nodes=tuple(range(100, 201))) == (
        [NodeSpec(2, (500, 501)), NodeSpec(64, tuple(range(100, 201)))],
        [],
    )


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("a", NodeSpec(1)),
        ("-l 5,6 a", NodeSpec(2, (5, 6), one_per_node=True)),
        ("-sz 3 a", NodeSpec(3)),
    ],
)
def test_a_line_of_several_without_a_size_has_its_own_lists_or_1(line, spec):
    assert specs(line + "\na")[0] == [spec, NodeSpec(1)]


def test_a_line_of_several_without_a_list_takes_the_command_lines():
    assert specs("a\n-sz 2 b", nodes=(7, 8, 9))[0] == [
        NodeSpec(1, (7, 8, 9)),
        NodeSpec(2, (7, 8, 9)),
    ]


def test_the_command_lines_size_is_ignored_with_a_warning_where_there_are_several_lines():
    found, warnings = specs("a\nb", size=9)
    assert found == [NodeSpec(1), NodeSpec(1)]
    assert warnings == ["-sz is ignored: the load file has several lines, each with its own size"]


@pytest.mark.parametrize(
    ("line", "size", "nodes", "spec"),
    [
        ("a", None, None, NodeSpec(1)),
        ("a", 4, None, NodeSpec(4)),
        ("a", None, (5, 6), NodeSpec(2, (5, 6), one_per_node=True)),
        ("a", 4, (5, 6), NodeSpec(4, (5, 6))),
        ("-sz 2 a", 4, None, NodeSpec(2)),
        ("-sz 2 a", 4, (5, 6, 7), NodeSpec(2, (5, 6, 7))),
        ("-l 1,2 a", None, (5, 6, 7), NodeSpec(2, (1, 2), one_per_node=True)),
        ("-l 1,2 a", 1, None, NodeSpec(1, (1, 2))),
        ("-l 1,2 -sz 1 a", 9, (5, 6, 7), NodeSpec(1, (1, 2))),
    ],
)
def test_in_a_file_of_one_line_the_command_lines_size_and_list_stand_in(line, size, nodes, spec):
    assert specs(line, size, nodes) == ([spec], [])


@pytest.mark.parametrize(
    ("size", "nodes", "shape", "spec"),
    [
        (None, None, Shape(3), NodeSpec(3, node_count=3)),
        (None, None, Shape(3, 4), NodeSpec(12, node_count=3, per_node=4)),
        (None, None, Shape(per_node=4), NodeSpec(4, node_count=1, per_node=4)),
        (None, (5, 6, 7), Shape(2), NodeSpec(2, (5, 6, 7), node_count=2)),
        (None, (5, 6), Shape(per_node=3), NodeSpec(6, (5, 6), node_count=2, per_node=3)),
        (7, None, Shape(3), NodeSpec(7, node_count=3)),
        (7, None, Shape(per_node=3), NodeSpec(7, per_node=3)),
        (7, None, Shape(3, 3), NodeSpec(7, node_count=3, per_node=3)),
        (4, None, Shape(plane=1), NodeSpec(4, plane=1)),
        (4, None, Shape(plane=0), NodeSpec(4)),
        (None, None, Shape(cores=2), NodeSpec(1, cores=2)),
        (None, (5, 6), Shape(cores=2), NodeSpec(2, (5, 6), True, cores=2)),
        (None, None, Shape(2, 2, 2), NodeSpec(4, node_count=2, per_node=2, cores=2)),
    ],
)
def test_ranks_follow_from_nodes_and_ranks_per_node(size, nodes, shape, spec):
    assert from_command_line(size, nodes, ("a",), shape)[0].spec == spec


@pytest.mark.parametrize(
    ("size", "nodes", "shape", "text"),
    [
        (2, None, Shape(3), "2 ranks on 3 nodes"),
        (7, None, Shape(2, 3), "7 ranks on 2 nodes, at most 3 on each"),
        (3, (1, 2), Shape(per_node=1), "3 ranks on 2 nodes, at most 1 on each"),
        (4, None, Shape(2, plane=4), "4 ranks on 2 nodes in turn, 4 ranks at a time"),
        (None, (1, 2), Shape(3), "3 nodes of a list of 2"),
        (None, None, Shape(1 << 20, 2), "-sz 2097152: must be from 1 to 1048576"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anybody_is_asked(size, nodes, shape, text):
    with pytest.raises(UsageError, match=text):
        from_command_line(size, nodes, ("a",), shape)


def bound_shape(*words):
    shape = ANY
    for option, value in zip(words[::2], words[1::2], strict=True):
        shape = with_option(shape, option, value)
    return shape


def bound(size, node_count=0, **fields):
    return NodeSpec(size, node_count=node_count, needs=Needs(binding=Binding(**fields)))


@pytest.mark.parametrize(
    ("size", "words", "spec"),
    [
        (None, ("--ranks-per-socket", "4"), bound(4, 1, per_socket=4)),
        (
            None,
            ("-N", "3", "--ranks-per-socket", "4", "--sockets-per-node", "2"),
            bound(24, 3, per_socket=4, sockets=2),
        ),
        (None, ("--sockets-per-node", "2"), bound(2, 1, sockets=2)),
        (None, ("--ranks-per-numa", "2"), bound(2, 1, per_numa=2)),
        (5, ("--ranks-per-socket", "4"), bound(5, per_socket=4)),
        (5, ("--threads-per-core", "1"), bound(5, threads=1)),
        (None, ("--threads-per-core", "1"), bound(1, threads=1)),
        (5, ("--ranks-per-core", "1"), bound(5)),
        (5, ("--bind", "rank"), bound(5, reach=Reach.CORE)),
        (5, ("--bind", "socket"), bound(5, reach=Reach.SOCKET)),
        (
            5,
            ("--bind", "numa", "--ranks-per-socket", "2"),
            bound(5, per_socket=2, reach=Reach.NUMA),
        ),
    ],
)
def test_ranks_follow_from_sockets_and_numa_nodes(size, words, spec):
    shape = bound_shape(*words)
    assert from_command_line(size, None, ("a",), shape)[0].spec == spec


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--ranks-per-socket", "0", "--ranks-per-socket 0: at least 1 rank"),
        ("--sockets-per-node", "257", "--sockets-per-node 257: at most 256 sockets"),
        ("--threads-per-core", "many", "--threads-per-core many: not a number of threads"),
        (
            "--ranks-per-core",
            "2",
            "--ranks-per-core 2: 1 rank; each has whole cores of its own",
        ),
        ("--bind", "sockets", "--bind sockets: core (or rank), socket, numa or none"),
    ],
)
def test_a_count_of_sockets_or_threads_that_cannot_be_is_refused(option, value, text):
    with pytest.raises(UsageError) as raised:
        with_option(ANY, option, value)
    assert str(raised.value) == text


def test_more_ranks_than_the_sockets_of_all_nodes_take_are_refused_at_once():
    shape = bound_shape("-N", "2", "--ranks-per-socket", "2", "--sockets-per-node", "2")
    with pytest.raises(UsageError, match="9 ranks on 2 nodes, at most 4 on each"):
        from_command_line(9, None, ("a",), shape)


def test_a_line_is_bound_as_it_says_and_else_as_the_command_line_says():
    lines = parse("--ranks-per-socket 1 --bind core a\n--threads-per-core 2 --mem 1G b", "f")
    shape = bound_shape("--ranks-per-socket", "3", "--threads-per-core", "1", "--bind", "numa")
    members, _ = from_load_file(lines, None, None, shape)
    assert [member.spec.needs for member in members] == [
        Needs(binding=Binding(per_socket=1, threads=1, reach=Reach.CORE)),
        Needs(memory=1 << 30, binding=Binding(per_socket=3, threads=2, reach=Reach.NUMA)),
    ]


@pytest.mark.parametrize(
    ("text", "plane"), [("block", 0), ("cyclic", 1), ("plane=1", 1), ("plane=4", 4)]
)
def test_a_distribution_is_how_many_ranks_are_dealt_at_a_time(text, plane):
    assert parse_distribution("--distribution", text) == plane


@pytest.mark.parametrize("text", ["", "plane", "plane=", "plane=0", "cyclic=2", "block:cyclic"])
def test_a_distribution_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="--distribution"):
        parse_distribution("--distribution", text)


def test_a_line_has_its_own_shape_before_that_of_the_command_line():
    lines = parse("a\n-N 2 b\n-sz 5 --ranks-per-node 1 c", "f")
    members, _ = from_load_file(lines, None, None, Shape(per_node=2))
    assert [member.spec for member in members] == [
        NodeSpec(1, per_node=2),
        NodeSpec(4, node_count=2, per_node=2),
        NodeSpec(5, per_node=1),
    ]


def test_a_count_of_nodes_is_one_lines():
    with pytest.raises(UsageError, match="-N 2: the load file has several lines"):
        from_load_file(parse("a\nb", "f"), None, None, Shape(2))
    ((member,), _) = from_load_file(parse("a", "f"), None, None, Shape(2))
    assert member.spec == NodeSpec(2, node_count=2)


def test_members_keep_their_words_and_say_where_they_come_from():
    members, _ = from_load_file(parse("\na 1\nb", "f.load"), None, None)
    assert [(each.words, each.origin) for each in members] == [
        (("a", "1"), "f.load:2"),
        (("b",), "f.load:3"),
    ]


def test_a_size_beyond_any_job_is_refused():
    with pytest.raises(UsageError, match=r"^-sz 1048577: must be from 1 to 1048576$"):
        from_command_line(SIZE_MAX + 1, None, ("a",))
    with pytest.raises(UsageError, match=r"^f:3: -sz 1048577: must be from 1 to 1048576$"):
        from_load_file([Line("f:3", SIZE_MAX + 1, None, ("a",))], None, None)


def test_members_together_are_no_more_ranks_than_a_job_has():
    half = Line("f:1", SIZE_MAX // 2 + 1, None, ("a",))
    with pytest.raises(UsageError, match="1048578 ranks in all, at most 1048576"):
        from_load_file([half, half], None, None)


@pytest.mark.parametrize(
    ("wait_s", "allocation", "waits_s"),
    [(None, "", 0.0), (None, "17", inf), (0.0, "17", 0.0), (5.0, "", 5.0)],
)
def test_a_step_waits_for_its_turn_unless_it_is_told_otherwise(wait_s, allocation, waits_s):
    made = replace(plan(2), options=Options(wait_s=wait_s), allocation=allocation)
    assert made.wait_s == waits_s
