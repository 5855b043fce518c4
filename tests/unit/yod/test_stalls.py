"""yod tells when all nodes of a job stand still, once, and where their ranks are."""

from __future__ import annotations

from native.limits import Limits
from native.wire.group import STILL_CHECKS, Look, Seen, StackRules, Still
from tests.unit.yod import launch_of
from yod.launch.events import Looked, Tell
from yod.launch.loading import load_message
from yod.launch.looks import LINES_MAX
from yod.launch.phases import Phase

STALL_S = 60.0
CHECK_S = STALL_S / STILL_CHECKS
STANDS = "the job stands still: for {} no rank has written or used processor time"


def a_yod(size: int = 2) -> launch_of.Yod:
    return launch_of.Yod(size, stall_s=STALL_S).to(Phase.RUNNING)


def still(node: int, still_s: float = STALL_S) -> Still:
    return Still(launch_of.JOB_ID, node, still_s)


def told(actions) -> list[str]:
    return [action.text for action in actions if isinstance(action, Tell)]


def looks(actions) -> list[Look]:
    messages = [getattr(action, "message", None) for action in actions]
    return [message for message in messages if isinstance(message, Look)]


def test_a_job_stands_still_when_all_nodes_have_for_a_common_time_and_then_all_look():
    yod = a_yod()
    assert yod.receive(still(20)) == []
    assert yod.wait(STALL_S) == []
    assert yod.receive(still(21, STALL_S + 1)) == []
    assert told(yod.wait(CHECK_S - 1)) == []
    actions = yod.wait(1)
    assert told(actions) == [STANDS.format("1 min 8 s")]
    assert looks(actions) == [Look(launch_of.JOB_ID, 1)]
    assert yod.wait(10 * STALL_S) and told(yod.wait(10 * STALL_S)) == []


def test_a_node_that_lives_again_meanwhile_keeps_yod_silent():
    yod = a_yod()
    yod.receive(still(20))
    yod.receive(still(21))
    yod.receive(still(20, 0.0))
    assert yod.wait(10 * STALL_S) == []


def test_the_stacks_of_all_nodes_are_shown_as_one_tree_the_odd_rank_last():
    yod = a_yod()
    yod.receive(still(20))
    yod.receive(still(21))
    yod.wait(CHECK_S)
    first = Seen(launch_of.JOB_ID, 1, 20, b"0 0..2 a.out\n1 0..2 barrier\n", "install gdb")
    assert yod.receive(first) == [Looked("n20", first.stacks, "install gdb", 1)]
    second = Seen(launch_of.JOB_ID, 1, 21, b"0 3 a.out\n1 3 read\n", "install gdb")
    _, *lines = yod.receive(second)
    assert told(lines) == [
        "[0..3] a.out",
        "[0..2] barrier",
        "[3] read",
        "n20: install gdb (and 1 nodes more)",
    ]


def test_a_node_that_does_not_answer_does_not_keep_the_others_stacks():
    yod = a_yod()
    yod.receive(still(20))
    yod.receive(still(21))
    yod.wait(CHECK_S)
    yod.receive(Seen(launch_of.JOB_ID, 1, 20, b"0 0 a.out\n"))
    assert told(yod.wait(100)) == ["[0] a.out", "n21: has not answered"]


def test_a_tree_that_is_long_is_cut():
    yod = a_yod(1)
    yod.receive(still(20))
    yod.wait(0)
    stacks = b"0 0 a.out\n" + b"".join(b"1 0 f%d\n" % number for number in range(LINES_MAX))
    lines = told(yod.receive(Seen(launch_of.JOB_ID, 1, 20, stacks)))
    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == "... 1 lines more: yodjob stack shows all"


def test_each_stall_is_told_once_and_its_end():
    yod = a_yod(1)
    yod.receive(still(20))
    assert told(yod.wait(0)) == [STANDS.format("1 min 0 s")]
    yod.receive(Seen(launch_of.JOB_ID, 1, 20, b""))
    yod.now += 30
    assert told(yod.receive(still(20, 0.0))) == ["the ranks go on, after 1 min 30 s"]
    yod.receive(still(20))
    assert told(yod.wait(0)) == [STANDS.format("1 min 0 s")]


def test_a_job_that_ends_does_not_stand_still():
    yod = a_yod(1)
    yod.receive(still(20))
    yod.receive(launch_of.completions(0))
    assert told(yod.wait(5)) == []


def test_nodes_that_are_not_of_the_job_and_messages_that_nobody_asked_for_mean_nothing():
    yod = a_yod()
    assert yod.receive(still(99)) == []
    other = launch_of.Yod(1).to(Phase.RUNNING)
    assert other.receive(still(20)) == []
    assert other.machine.deadline() is None


def test_the_load_says_what_options_and_limits_ask_for_and_nothing_where_they_do_not():
    def stacks(limits: Limits, **options) -> StackRules | None:
        return load_message(launch_of.plan(1, **options), launch_of.grant(1), limits).stacks

    assert stacks(Limits()) is None
    chosen = Limits(look_s=3.0, dying_count=5, stacks_bytes=2048)
    assert stacks(chosen) == StackRules(False, 0.0, 3.0, 5, 2048)
    assert stacks(Limits(), stall_s=9.0, wants_stacks=True) == StackRules(True, 9.0)
