"""A description is refused with the key that is wrong."""

from __future__ import annotations

import subprocess

import pytest

import yod.pilot as rp
from native.errors import UsageError
from yod.pilot.client.sandboxes import place_of, sandbox_of
from yod.pilot.model.command import need_of, variables_of, words_of
from yod.pilot.model.description import PilotDescription, TaskDescription
from yod.pilot.model.keys import PILOT_KEYS, TASK_KEYS
from yod.pilot.model.sizes import GPU_PARTS, ChosenSlot, Need, RankSlot


@pytest.mark.parametrize(
    "entries, text",
    [
        ({"executabel": "a"}, "there is no key 'executabel'; did you mean 'executable'?"),
        ({"executable": "a", "qwertz": 1}, "there is no key 'qwertz'"),
        ({"executable": "a", "ranks": "2"}, "'ranks' is '2'; it is to be of type int"),
        ({"executable": "a", "ranks": True}, "'ranks' is True; it is to be of type int"),
        ({"executable": "a", "ranks": 0}, "'ranks' is 0, which is less than 1"),
        ({"executable": "a", "timeout": -1.0}, "'timeout' is -1.0, which is less than 0"),
        ({"executable": "a", "mode": "fast"}, "'mode' is 'fast', which is none of"),
        ({"executable": "a", "environment": {"A=": "1"}}, "has 'A=', which is no name"),
        ({"executable": "a", "arguments": [["b"]]}, "has ['b'], which is no text"),
        ({"executable": "a", "tags": {"color": 1}}, "has 'color'; known are colocate"),
        ({"executable": "a", "uid": "a/b"}, "'uid' is 'a/b', which cannot name a directory"),
        ({"executable": "a", "gpu_type": "cuda"}, "'gpu_type' is 'cuda', which is none of CUDA, "),
        ({"executable": "a", "cleanup": True, "sandbox": "/home"}, "'cleanup' would remove"),
        ({"executable": "a", "cleanup": True, "sandbox": "a/.."}, "'cleanup' would remove"),
        ({"slots": [1]}, "'slots' is [1], which has 1 for rank 0, which is no dictionary"),
        ({"slots": [{"cores": []}]}, "has no cores for rank 0"),
        ({"slots": [{"core": [1]}]}, "has 'core' for rank 0; known are cores, "),
        ({"slots": [{"cores": [-1]}]}, "has -1 among the cores for rank 0"),
        ({"slots": [{"cores": [True]}]}, "has True among the cores for rank 0"),
        ({"slots": [{"cores": [0, 0]}]}, "has one of the cores twice for rank 0"),
        ({"slots": [{"cores": [(0, 0.5)]}]}, "has a part of a core for rank 0"),
        ({"slots": [{"cores": [0], "gpus": [(0, 0.5), 1]}]}, "has parts of several GPUs"),
        ({"slots": [{"cores": [0], "node_index": "n"}]}, "has the node_index 'n' for rank 0"),
        ({"slots": [{"cores": [0], "mem": -1}]}, "has -1 as mem for rank 0"),
        ({"slots": [{"cores": [0]}, {"cores": [1, 2]}]}, "has other amounts for rank 1"),
        ({"slots": [{"cores": [0]}, {"cores": [0]}]}, "gives core 0 of 0 to two ranks"),
        ({"executable": "a", "slots": [{"cores": [0]}], "ranks": 2}, "for ranks 1, and 'ranks' is"),
        (
            {
                "executable": "a",
                "slots": [{"cores": [0]}, {"cores": [0], "node_index": 1}],
                "use_mpi": False,
            },
            "'slots' are on several nodes, and 'use_mpi' is False",
        ),
        ({"executable": "a", "pre_exec_sync": True, "use_mpi": False}, "'pre_exec_sync' is for"),
        ({"executable": "a", "partition": 1}, "'partition' is refused: a pilot is one partition"),
        ({}, "'executable' is missing, which the mode task.executable needs"),
        ({"mode": "shell"}, "'command' is missing, which the mode task.shell needs"),
    ],
)
def test_a_wrong_task_is_refused_with_its_key(entries, text):
    with pytest.raises(UsageError) as refused:
        TaskDescription(entries).verify()
    assert text in str(refused.value)


@pytest.mark.parametrize(
    "entries, text",
    [
        ({"runtim": 5}, "there is no key 'runtim'; did you mean 'runtime'?"),
        ({"runtime": 0}, "'runtime' is 0"),
        ({"backup_nodes": 1}, "'backup_nodes' are for a pilot that asks for 'nodes'"),
        ({"backup_nodes": 1, "nodes": 2, "cores": 4}, "'backup_nodes' are for a pilot"),
        ({"backup_nodes": -1}, "'backup_nodes' is -1, which is less than 0"),
        ({"sandbox": "here"}, "'sandbox' is 'here', which is no absolute path"),
        ({"sandbox": "/a/%(b)s"}, "'sandbox' is '/a/%(b)s', which has a %(...)"),
        ({"layout": "default"}, "'layout' is refused: an agent is one process"),
    ],
)
def test_a_wrong_pilot_is_refused_with_its_key(entries, text):
    with pytest.raises(UsageError) as refused:
        PilotDescription(entries).verify()
    assert text in str(refused.value)


@pytest.mark.parametrize(
    "kind, names",
    [
        ("", {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}),
        ("CUDA", {"CUDA_VISIBLE_DEVICES"}),
        ("ROCm", {"ROCR_VISIBLE_DEVICES"}),
    ],
)
def test_ranks_are_told_of_their_gpus_as_their_type_has_it(kind, names):
    description = TaskDescription({"executable": "a", "gpus_per_rank": 1, "gpu_type": kind})
    description.verify()
    found = variables_of("t", description, [RankSlot(0, (0,), (2,))], {})
    told = {name: text for name, text in found.items() if name.endswith("_VISIBLE_DEVICES")}
    assert told == dict.fromkeys(names, "2")


def test_every_key_has_a_default_that_is_accepted():
    for keys, kind in ((TASK_KEYS, TaskDescription), (PILOT_KEYS, PilotDescription)):
        for name in keys:
            description = kind({"executable": "a", name: getattr(kind(), name)})
            if kind is PilotDescription:
                del description["executable"]
            if name != "executable":
                description.verify()


def test_keys_are_attributes_and_lists_are_filled_in():
    description = TaskDescription()
    description.executable = "a"
    description.arguments.append("b")
    description.environment["C"] = "d"
    description.cpu_processes = 3
    assert description.as_dict() == {
        "executable": "a",
        "arguments": ["b"],
        "environment": {"C": "d"},
        "ranks": 3,
    }
    assert TaskDescription({"cpu_threads": 2}).cores_per_rank == 2
    with pytest.raises(AttributeError, match="has no key 'nothing'"):
        _ = description.nothing


def test_a_program_with_nothing_around_it_is_executed_as_it_is():
    assert words_of(TaskDescription(executable="a", arguments=["b", 1])) == ["a", "b", "1"]


def test_commands_around_a_program_are_of_one_shell():
    description = TaskDescription(executable="a", pre_exec=["x", {1: "y"}], post_exec=["z"])
    shell, option, script, _, *program = words_of(description)
    assert (shell, option, program) == ("/bin/bash", "-c", ["a"])
    order = [script.index(each) for each in ("x\n", "$RP_RANK", "y\n", '"$@"', "z\n", "exit $yod")]
    assert order == sorted(order)
    assert words_of(TaskDescription(executable="a", pre_exec="x"))[2].endswith('exec "$@"')


def test_what_a_task_needs_comes_from_its_description():
    need = need_of(TaskDescription(executable="a", ranks=3, cores_per_rank=2, gpus_per_rank=0.25))
    assert (need.ranks, need.cores, need.gpu_parts, need.is_spread) == (3, 2, GPU_PARTS // 4, True)
    assert not need_of(TaskDescription(executable="a", ranks=3, use_mpi=False)).is_spread
    assert need_of(TaskDescription(executable="a", gpus_per_rank=1.5)).gpu_parts == 2 * GPU_PARTS


def test_ranks_see_their_task_and_its_gpus():
    description = TaskDescription(executable="a", cores_per_rank=2, environment={"A": 1})
    variables = variables_of("task.7", description, [RankSlot(0, (0, 1), (3,))])
    assert variables["RP_TASK_ID"] == variables["RP_TASK_NAME"] == "task.7"
    assert variables["OMP_NUM_THREADS"] == "2"
    assert variables["CUDA_VISIBLE_DEVICES"] == "3"
    assert variables["A"] == "1"


def test_variables_that_words_name_are_filled_in_by_a_shell_and_nothing_else_is():
    asked = {"executable": "echo", "arguments": ["$A ${B}", 'x"`id` $1 $(id) \\']}
    words = words_of(TaskDescription(asked))
    done = subprocess.run(words, env={"A": "a $B`id`", "PATH": "/bin"}, capture_output=True)
    assert done.stdout == b'a $B`id` ${B} x"`id` $1 $(id) \\\n'
    assert words_of(TaskDescription({**asked, "literal": True})) == ["echo", *asked["arguments"]]
    script = TaskDescription(executable="/bin/sh", arguments=["-c", "echo $A"])
    assert words_of(script) == ["/bin/sh", "-c", "echo $A"]


def test_values_of_variables_may_name_others():
    description = TaskDescription(executable="a", environment={"P": "/x:$PATH", "Q": "$P $R"})
    variables = variables_of("t", description, [], {"PATH": "/bin"})
    assert (variables["P"], variables["Q"]) == ("/x:/bin", "/x:/bin $R")


def test_older_names_and_keys_that_were_not_given_have_their_values():
    description = TaskDescription(executable="a", cpu_processes=3, arguments="one")
    assert (description["cpu_processes"], description["cores_per_rank"]) == (3, 1)
    with pytest.raises(KeyError):
        _ = description["nothing"]
    description.verify()
    assert description.arguments == ["one"]


@pytest.mark.parametrize(
    "slot",
    [
        {"node": "n1", "cores": [2, 3], "gpus": [1]},
        {"node_name": "n1", "cores": [(2, 1.0), (3, 1)], "gpus": [[1, 1.0]]},
        {
            "node_name": "n1",
            "node_index": -1,
            "cores": [{"index": 2, "occupation": 1.0}, {"index": 3}],
            "gpus": [{"index": 1}],
            "lfs": 0,
            "mem": 0,
            "version": 1,
        },
    ],
)
def test_slots_are_taken_in_our_words_and_in_those_of_the_reference(slot):
    description = TaskDescription({"executable": "a", "slots": [slot]})
    description.verify()
    assert (description["ranks"], description["cores_per_rank"]) == (1, 2)
    chosen = (ChosenSlot(-1, "n1", (2, 3), (1,)),)
    assert type(description["slots"][0]) is dict
    wanted = Need(1, 2, GPU_PARTS, is_spread=True, chosen=chosen)
    assert need_of(description) == wanted


def test_a_slot_of_the_reference_is_a_dictionary_with_attributes():
    slot = rp.Slot(node_index=1, cores=[2, rp.RO(index=3)], gpus=[rp.RO(index=0, occupation=0.5)])
    assert (slot.node_index, slot.cores[1].occupation, slot.mem, slot.version) == (1, 1.0, 0, 1)
    slot.mem = 10
    task = TaskDescription({"executable": "a", "slots": [slot, rp.Slot({**slot, "cores": [0, 1]})]})
    task.verify()
    chosen = (ChosenSlot(1, "", (2, 3), (0,)), ChosenSlot(1, "", (0, 1), (0,)))
    need = need_of(task)
    assert (need.ranks, need.chosen, need.gpu_parts, need.mem_mb) == (2, chosen, GPU_PARTS // 2, 10)
    with pytest.raises(AttributeError, match="Slot has no key 'core'"):
        print(slot.core)


def test_an_index_of_a_node_counts_more_than_its_name():
    slots = [{"node_index": 1, "node_name": "n", "cores": [0], "gpus": [(0, 0.25)], "mem": 10}]
    need = need_of(TaskDescription({"executable": "a", "slots": slots}))
    assert (need.chosen, need.mem_mb) == ((ChosenSlot(1, "", (0,), (0,)),), 10)
    assert need.gpu_parts == GPU_PARTS // 4
    task = TaskDescription({"executable": "a", "slots": slots})
    task.verify()
    assert need_of(task) == need


def test_ranks_that_wait_for_nobody_have_no_commands_for_it():
    for entries in ({"ranks": 1, "pre_exec": ["true"]}, {"ranks": 2}):
        task = TaskDescription({"executable": "a", "pre_exec_sync": True, **entries})
        task.verify()
        assert "PMI" not in " ".join(words_of(task))


def test_a_pilots_own_sandbox_has_its_session_below_it(monkeypatch):
    monkeypatch.setenv("WORK", "/work")
    assert sandbox_of("", "/a/s.1", "p.0") == "/a/s.1/p.0"
    own = place_of("$WORK/b", "p.0")
    assert sandbox_of(own, "/a/s.1", "p.0") == "/work/b/radical.pilot.sandbox/s.1/p.0"
    with pytest.raises(UsageError, match=r"'sandbox' is '\$NO_SUCH_PLACE/a': nobody"):
        place_of("$NO_SUCH_PLACE/a", "p.0")
