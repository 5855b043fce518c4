"""Stacks of many ranks as one tree; what programs that look say; who answers whom."""

from __future__ import annotations

import pytest

from native.wire.group import DYING, Look, Seen, StackRules
from partition.stacks.looker import _EU_FRAME, _GDB_FRAME, Missing, _matched, _said, together
from pct.job.rules.looking import Looking
from pct.rare_events import KillLooker, LetDie, LookerEnded, RunLooker
from pct.tree.group import Group
from tests.unit.pct import job_of
from tests.unit.yod import launch_of
from yod.launch.events import LookAsked, Looked
from yod.launch.looks import LONGER
from yod.launch.phases import Phase
from yod.launch.stacks.tree import DEPTH_MAX, Tree


def tree(*given):
    made = Tree()
    for ranks, *frames in given:
        made.add(ranks, frames)
    return made


ODD = tree((range(3), "a.out", "main", "barrier"), ((3,), "a.out", "main", "read"))


def test_ranks_share_the_beginning_of_their_stacks_and_the_odd_one_comes_last():
    assert ODD.lines() == ["[0..3] a.out", "main", "[0..2] barrier", "[3] read"]


def test_a_rank_that_is_in_a_frame_that_others_have_left_is_told_there():
    made = tree(((0, 1), "a.out", "main", "step"), ((2,), "a.out", "main"))
    assert made.lines() == ["[0..2] a.out", "main", "[0..1] step", "[2] (here)"]


def test_trees_of_several_nodes_are_one():
    whole = Tree()
    whole.read(tree((range(2), "a.out", "main", "barrier")).text())
    whole.read(tree((range(2, 4), "a.out", "main", "barrier")).text())
    assert whole.lines() == ["[0..3] a.out", "main", "barrier"]
    again = Tree()
    again.read(whole.text())
    assert again.text() == whole.text()


@pytest.mark.parametrize("cut", range(len(ODD.text())))
def test_a_text_that_was_cut_is_read_as_far_as_its_lines_are_whole(cut):
    read = Tree()
    read.read(ODD.text()[:cut])
    assert ODD.text().startswith(read.text())


@pytest.mark.parametrize(
    "text",
    [
        "5 0 deep\n",
        "x 0 f\n",
        "0 a..b f\n",
        "0 0\n",
        "-1 0 f\n",
        "0 0..99999999999 f\n",
        "\x00\n",
        "²",
    ],
)
def test_nonsense_in_a_text_is_left_out(text):
    read = Tree()
    read.read(text)
    assert read.lines() == []


def test_a_stack_without_end_is_cut():
    deep = tree(((0,), *("f" for _ in range(5000))))
    assert len(deep.text().splitlines()) == DEPTH_MAX


GDB = """\
[Thread debugging using libthread_db enabled]
#0  0x00007f33c88ed545 in clock_nanosleep () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x0000560a7f5d9a59 in ?? ()
#2  main (argc=..., argv=...) at ring.c:44
"""
EU = """\
PID 4711 - process
TID 4711:
#0  0x00007f2b1c0ed545 clock_nanosleep - /usr/lib/x86_64-linux-gnu/libc.so.6
#1  0x000055d0c0a5da59 main
"""


def test_back_traces_of_gdb_and_eu_stack_are_read():
    expected = ["main (ring.c:44)", "clock_nanosleep (libc.so.6)"]
    assert _matched(_GDB_FRAME, GDB) == expected
    assert _matched(_EU_FRAME, EU) == ["main", "clock_nanosleep (libc.so.6)"]


NATIVE = ["main", "Py_Main", "_PyEval_EvalFrameDefault (ceval.c)", "_PyCall", "sort (sort.c)"]
NATIVE += ["PyObject_Call", "_PyEval_EvalFrameDefault (ceval.c)", "PyCall", "read (io.c)"]


def test_frames_of_python_stand_where_those_of_c_run_them():
    python = [("<module>", True), ("work", False), ("key", True)]
    assert together(python, NATIVE) == ["<module>", "work", "sort (sort.c)", "key", "read (io.c)"]


def test_a_python_that_does_not_tell_its_entries_is_whole_and_what_it_called_follows():
    python = [("<module>", True), ("work", True), ("key", True)]
    assert together(python, NATIVE) == ["<module>", "work", "key", "read (io.c)"]
    assert together(python, []) == ["<module>", "work", "key"]
    assert together([], NATIVE) == NATIVE


# -- on a node ---------------------------------------------------------------


LOOK_S = StackRules().look_s


def looking(unix_pids, ended=frozenset(), place=0, stacks=None):
    message = job_of.load_message(3, place, stacks=stacks)
    group = Group(message, job_of.YOD if place == 0 else job_of.pct(0))
    return Looking(message, job_of.credential(3), group, unix_pids, ended)


def test_a_node_looks_at_the_ranks_that_have_not_ended():
    one = looking({0: 11, 1: 12, 2: 13}, {1})
    down1, down2, run = one.look(Look(job_of.JOB_ID, 5), 0.0)
    assert down1.message == down2.message == Look(job_of.JOB_ID, 5)
    assert isinstance(run, RunLooker) and run.words == (b"20", b"0,2", b"11,13")
    assert run.most_bytes == 32 * 1024
    (answer,) = one.ended(LookerEnded(job_of.JOB_ID, b"0 0 a\n", ""), 1.0)
    assert answer.message == Seen(job_of.JOB_ID, 5, 20, b"0 0 a\n", "")
    assert one.is_over


def test_a_node_without_ranks_answers_at_once():
    *_, answer = looking({}).look(Look(job_of.JOB_ID, 1), 0.0)
    assert answer.message == Seen(job_of.JOB_ID, 1, 20, b"", "")


def test_who_asks_meanwhile_gets_what_the_first_look_finds():
    one = looking({0: 11}, place=1)
    one.look(Look(job_of.JOB_ID, 1), 0.0)
    assert one.look(Look(job_of.JOB_ID, 2), 0.5) == []
    (answer,) = one.ended(LookerEnded(job_of.JOB_ID, b"", "no"), 1.0)
    assert answer.message.number == 2


def test_what_takes_too_long_is_killed_and_so_it_is_when_the_job_ends():
    one = looking({0: 11})
    one.look(Look(job_of.JOB_ID, 1), 0.0)
    assert one.due(LOOK_S - 1) == []
    assert one.due(LOOK_S) == [KillLooker(job_of.JOB_ID)]
    assert (one.due(LOOK_S + 1), one.hurry(), one.is_over) == ([], [], False)
    other = looking({0: 11})
    other.look(Look(job_of.JOB_ID, 1), 0.0)
    assert other.hurry() == [KillLooker(job_of.JOB_ID)]


def test_time_and_bytes_of_a_look_are_as_the_load_says():
    one = looking({0: 11}, stacks=StackRules(look_s=3.0, most_bytes=2048))
    *_, run = one.look(Look(job_of.JOB_ID, 1), 0.0)
    assert (run.most_bytes, one.deadline()) == (2048, 3.0)


def test_a_dying_rank_waits_until_it_has_been_seen_and_yod_knows_first():
    one = looking({0: 11, 1: 12, 2: 13})
    (run,) = one.dying(1, 77, 0.0)
    assert isinstance(run, RunLooker) and run.words == (b"20", b"1", b"12", b"77")
    assert one.dying(2, 13, 0.1) == []  # for the next look
    seen, let_die, second = one.ended(LookerEnded(job_of.JOB_ID, b"0 1 a\n", ""), 1.0)
    assert seen.message == Seen(job_of.JOB_ID, DYING, 20, b"0 1 a\n", "")
    assert let_die == LetDie(job_of.JOB_ID, (1,))
    assert second.words == (b"20", b"2", b"13", b"13")
    assert LetDie(job_of.JOB_ID, (2,)) in one.ended(LookerEnded(job_of.JOB_ID, b"", "late"), 2.0)
    assert one.is_over


def test_who_asks_while_ranks_die_is_answered_by_a_look_of_its_own():
    one = looking({0: 11, 1: 12}, place=1)
    one.dying(1, 12, 0.0)
    assert one.look(Look(job_of.JOB_ID, 4), 0.1) == []
    *_, run = one.ended(LookerEnded(job_of.JOB_ID, b"", ""), 0.2)
    assert run.words == (b"20", b"0..1", b"11,12")
    (answer,) = one.ended(LookerEnded(job_of.JOB_ID, b"0 0 a\n", ""), 0.3)
    assert answer.message.number == 4


def test_ranks_beyond_the_limit_and_those_of_a_job_that_ends_die_at_once():
    unix_pids = {rank: 100 + rank for rank in range(6)}
    one = looking(unix_pids, stacks=StackRules(of_dying=True, dying_count=5))
    for rank in range(5):
        one.dying(rank, 100 + rank, 0.0)
    assert one.dying(5, 1, 0.0) == [LetDie(job_of.JOB_ID, (5,))]
    waiting, kill = one.hurry()
    assert waiting == LetDie(job_of.JOB_ID, (1, 2, 3, 4))
    assert kill == KillLooker(job_of.JOB_ID)
    assert one.dying(5, 105, 0.1) == [LetDie(job_of.JOB_ID, (5,))]


# -- at yod ------------------------------------------------------------------


def seen(node, number=1):
    return Seen(launch_of.JOB_ID, number, node, b"0 0 a\n")


def test_each_node_answers_once_and_the_last_one_is_named_as_such():
    yod = launch_of.Yod(2).to(Phase.RUNNING)
    (sent,) = yod.handle(LookAsked())
    assert sent.message == Look(launch_of.JOB_ID, 1)
    assert yod.handle(LookAsked()) == []  # one look at a time
    assert yod.receive(seen(21)) == [Looked("n21", b"0 0 a\n", "", 1)]
    assert yod.receive(seen(21)) == []
    assert yod.receive(seen(20, number=9)) == []
    assert yod.receive(seen(20)) == [Looked("n20", b"0 0 a\n", "", 0)]


def test_a_node_that_does_not_answer_is_named():
    yod = launch_of.Yod(2).to(Phase.RUNNING)
    yod.handle(LookAsked())
    yod.receive(seen(20))
    assert Looked("n21", b"", "has not answered", 0) in yod.wait(LOOK_S * LONGER)


def test_a_job_whose_ranks_do_not_run_says_so():
    (answer,) = launch_of.Yod(2).to(Phase.FORMING).handle(LookAsked())
    assert (answer.text, answer.left) == ("its ranks do not run: form", 0)


def test_stacks_of_dying_ranks_are_in_the_report_of_yod():
    yod = launch_of.Yod(2).to(Phase.RUNNING)
    stacks = b"0 0..1 a\n1 0..1 main\n2 1 fault\nnonsense\n"
    assert yod.receive(Seen(launch_of.JOB_ID, DYING, 20, stacks, "install gdb")) == []
    report = yod.machine.report
    assert report.stacks == {0: ["    a", "    main"], 1: ["    a", "    main", "    fault"]}
    assert report.notes == ["stacks on n20: install gdb"]


def test_a_tool_has_a_part_of_the_time_and_none_when_that_is_nearly_over():
    missing = Missing(1000.0)
    assert missing.left_s() == missing.each_s == 300.0
    assert _said(["echo", "frames"], missing) == "frames\n"
    late = Missing(0.0)
    assert late.left_s() == 0.0
    assert _said(["echo", "frames"], late) == ""
    assert list(late.texts) == ["there was no time to look at all of them (YOD_LOOK_S)"]
