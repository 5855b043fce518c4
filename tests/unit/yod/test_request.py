"""What a program asks for, before anything is looked up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from native.errors import LoadFileError, UsageError
from native.wire.alloc import Needs, NodeSpec
from native.wire.base import SIZE_MAX
from native.wire.group import Dialect, RankFiles
from native.wire.runs import Binding, Reach
from yod.guest.choices import Member
from yod.guest.request import read_load_file, request
from yod.plan.input import ALL
from yod.plan.plan import Style, TimeLimit


def asked(command, **choices):
    return request(command, has_input=False, **choices)


@pytest.mark.parametrize(
    "command",
    ["a b", b"a b", Path("a b"), ["a b"], [Path("a b")], Member("a b"), [Member(["a b"])]],
)
def test_a_program_may_be_named_in_many_ways(command):
    (member,) = asked(command).members
    assert (member.words, member.spec) == (("a b",), NodeSpec(1))


@pytest.mark.parametrize(
    ("choices", "spec"),
    [
        ({"size": 3}, NodeSpec(3)),
        ({"nodes": "5,1..3"}, NodeSpec(4, (5, 1, 2, 3), True)),
        ({"nodes": [5, 1]}, NodeSpec(2, (5, 1), True)),
        ({"size": 3, "nodes": (5, 1)}, NodeSpec(3, (5, 1))),
        ({"node_count": 2, "ranks_per_node": 3}, NodeSpec(6, node_count=2, per_node=3)),
        ({"size": 2, "cores_per_rank": 4}, NodeSpec(2, cores=4)),
        ({"size": 2, "distribution": "cyclic"}, NodeSpec(2, plane=1)),
        (
            {"ranks_per_socket": 2, "sockets_per_node": 2, "threads_per_core": 1},
            NodeSpec(4, node_count=1, needs=Needs(binding=Binding(2, 2, 0, 1))),
        ),
        ({"size": 2, "ranks_per_core": 1}, NodeSpec(2, needs=Needs(binding=Binding()))),
        ({"size": 2, "bind": "core"}, NodeSpec(2, needs=Needs(binding=Binding(reach=Reach.CORE)))),
        ({"size": 2, "bind": "numa"}, NodeSpec(2, needs=Needs(binding=Binding(reach=Reach.NUMA)))),
        ({"size": 2, "ranks_per_numa": 1}, NodeSpec(2, needs=Needs(binding=Binding(0, 0, 1)))),
    ],
)
def test_size_and_nodes_are_those_of_the_command(choices, spec):
    assert asked(["a"], **choices).members[0].spec == spec
    assert asked(Member(["a"], **choices)).members[0].spec == spec


@pytest.mark.parametrize(
    ("command", "choices", "text"),
    [
        ([], {}, "no program"),
        (Member([]), {}, "no program"),
        (["a"], {"size": 0}, "must be from 1"),
        (["a"], {"nodes": [-1]}, "not allowed"),
        (["a\0b"], {}, "NUL"),
        ([Member("a")], {"size": 2}, "those of each member"),
        ([Member("a"), Member("b")], {"node_count": 2}, "that of each member"),
        (["a"], {"node_count": 0}, "node_count 0: at least 1 node"),
        (["a"], {"size": 1, "node_count": 2}, "1 rank on 2 nodes: these contradict"),
        ([Member("a", SIZE_MAX), Member("b")], {}, "ranks in all, at most"),
        (["a"], {"label": True, "raw": True}, "exclude each other"),
        (["a"], {"keep_going": True, "kill": True}, "exclude each other"),
        (["a"], {"exclusive": True, "overlap": True}, "exclude each other"),
        (["a"], {"wait_s": -1}, "0 or more seconds"),
        (["a"], {"arity": 0}, "arity=0: must be from 1 to 64"),
        (["a"], {"arity": 65}, "arity=65: must be from 1 to 64"),
        (["a"], {"cwd": "/no/such"}, "no such directory"),
        (["a"], {"env": {"A=B": "1"}}, "no name and value"),
        (["a"], {"env": {"A": "1\0"}}, "no name and value"),
        (["a"], {"timestamp": True, "raw": True}, "timestamp and raw exclude each other"),
        (["a"], {"output": "out"}, "-o out: %t .rank., %n or %N .node. must be in it"),
        (["a"], {"time_s": 0}, "time_s=0: seconds above 0"),
        (["a"], {"time_s": 5, "warning": "USR1@9"}, "-signal USR1@9: the limit is 5 s"),
        (["a"], {"warning": "USR1@9"}, "warning='USR1@9': only with time_s"),
        (["a"], {"rank_variables": "lsf"}, "--as lsf: slurm, "),
    ],
)
def test_what_cannot_be_asked_for_is_refused(command, choices, text):
    with pytest.raises(UsageError, match=text):
        asked(command, **choices)


def test_the_environment_of_the_ranks_sets_nothing_of_the_launch(monkeypatch):
    monkeypatch.setenv("YOD_KILL_DELAY_S", "7")
    made = asked(["a"], env={"A": "1", "YOD_KILL_DELAY_S": "8"}, cwd="/")
    assert made.invocation.environment == {b"A": b"1", b"YOD_KILL_DELAY_S": b"8"}
    assert made.limits.kill_delay_s == 7.0
    assert made.invocation.directory == "/"
    assert asked(["a"]).invocation.environment == dict(os.environb)


def test_choices_are_those_of_the_command():
    made = asked(["a"], label=True, kill=True, quiet=True, mpi="none", libpmix="lib/x.so")
    options = made.options
    assert (options.style, options.kills_at_once, options.is_quiet) == (Style.LABELLED, True, True)
    assert (options.mpi, options.libpmix) == ("none", os.path.abspath("lib/x.so"))
    assert options.input_ranks == ()
    assert asked(["a"], raw=True).options.style is Style.RAW


def test_rare_choices_are_those_of_the_command():
    made = asked(["a"], stop_ranks=True, signal_tree=True, nice=True, constraint="a&b", stacks=True)
    options = made.options
    assert (options.stops_ranks, options.signals_group, options.gives_way) == (True, True, True)
    assert (options.constraint, options.wants_stacks) == ("a&b", True)
    made = asked(["a"], time_s=9, warning="USR1@4", rank_variables="pals", output="o.%t", trace="t")
    assert made.options.time_limit == TimeLimit(9.0, 10, 4.0)
    assert made.options.grace_s is None
    assert asked(["a"], grace_s=0).options.grace_s == 0.0
    with pytest.raises(UsageError, match="grace_s=-1: seconds, 0 or more"):
        asked(["a"], grace_s=-1)
    assert made.options.dialects == (Dialect.PALS,)
    assert made.options.files == RankFiles(b"o.%t", b"o.%t")
    assert made.records.trace_file == os.path.abspath("t")
    assert made.options.tells_times and not asked(["a"]).options.tells_times


def test_nodes_to_exclude_are_a_text_or_numbers():
    assert asked(["a"]).options.exclude == ""
    assert asked(["a"], exclude="3,n9").options.exclude == "3,n9"
    assert asked(["a"], exclude=[3, 9]).options.exclude == "3,9"
    with pytest.raises(UsageError, match="--exclude `a b`: write nodes by number or name"):
        asked(["a"], exclude="a b")


def test_who_reads_the_input_may_be_named():
    def readers(ranks, has_input=True):
        options = request(["a"], has_input=has_input, size=9, stdin_ranks=ranks).options
        return options.input_ranks, options.shares_input

    assert readers("0,4..7") == readers([0, 4, 5, 6, 7]) == (((0, 0), (4, 7)), False)
    assert readers("all") == (ALL, False)
    assert readers("shared") == (ALL, True)
    assert readers("none") == readers("all", has_input=False) == ((), False)
    with pytest.raises(UsageError, match="--stdin some: all, shared, none"):
        readers("some")


def test_a_choice_that_there_is_not_is_named():
    with pytest.raises(TypeError, match="no choice of a launch: 'sise'"):
        asked(["a"], sise=2)


def test_a_load_file_gives_members(tmp_path):
    file = tmp_path / "load"
    file.write_text("# two\nmaster 'a b'\n-sz 3 -list 4..6 worker\n-list 1,2 other\n")
    members = read_load_file(file)
    assert [each.words for each in asked(members).members] == [
        ("master", "a b"),
        ("worker",),
        ("other",),
    ]
    specs = [each.spec for each in asked(members).members]
    assert specs == [NodeSpec(1), NodeSpec(3, (4, 5, 6)), NodeSpec(2, (1, 2), True)]
    assert members[1].origin == f"{file}:3"
    file.write_text("-N 2 --ranks-per-node 3 --dist plane=2 a\n")
    (member,) = asked(read_load_file(file)).members
    assert member.spec == NodeSpec(6, node_count=2, per_node=3, plane=2)
    file.write_text("-sz 3 --mem 1G --ranks-per-socket 2 --threads-per-core 1 a\n")
    (member,) = asked(read_load_file(file)).members
    needs = Needs(memory=1 << 30, binding=Binding(per_socket=2, threads=1))
    assert member.spec == NodeSpec(3, needs=needs)
    file.write_text("-sz none master\n")
    with pytest.raises(LoadFileError, match="load:1: "):
        read_load_file(file)
