"""The agent's rules: each task ends once, its slots come back, nothing waits for nothing."""

from __future__ import annotations

import random
import signal

import pytest

from yod.pilot.model import states
from yod.pilot.model.sizes import Need, NodeSize
from yod.pilot.scheduler import agent as rules
from yod.pilot.scheduler.agent import AgentMachine, Came
from yod.pilot.scheduler.slots import Slots
from yod.pilot.scheduler.stages import Stage

DELAY_S = 2.0


def machine(cores: int = 2) -> AgentMachine:
    return AgentMachine(Slots([NodeSize("n", cores)]), DELAY_S)


def run(one: AgentMachine, *events: rules.Event, now: float = 0.0) -> list[rules.Action]:
    actions = [action for event in events for action in one.handle(event, now)]
    actions += one.start(now)
    one.check()
    return actions


def test_a_task_is_staged_run_collected_and_done():
    one = machine()
    assert run(one, Came("t", Need(), has_input=True, has_output=True)) == [rules.StageIn("t")]
    (begun,) = run(one, rules.Staged("t"))
    assert isinstance(begun, rules.Begin)
    assert run(one, rules.Ended("t")) == [rules.StageOut("t")]
    assert one.slots.free_cores == 2
    assert run(one, rules.Staged("t")) == [rules.Finish("t", states.DONE, "")]
    assert len(one) == 0


def test_a_source_that_is_missing_fails_the_task_before_it_runs():
    one = machine()
    run(one, Came("t", Need(), has_input=True))
    (finish,) = run(one, rules.Staged("t", "no a"))
    assert finish == rules.Finish("t", states.FAILED, "no a")


def test_the_output_of_a_failed_task_is_left_unless_it_is_wanted():
    one = machine()
    run(one, Came("a", Need(), has_output=True))
    assert run(one, rules.Ended("a", "x")) == [rules.Finish("a", states.FAILED, "x")]
    run(one, Came("b", Need(), has_output=True, keeps_output=True))
    assert run(one, rules.Ended("b", "x")) == [rules.StageOut("b")]
    assert run(one, rules.Staged("b")) == [rules.Finish("b", states.FAILED, "x")]


def test_a_task_that_runs_is_canceled_when_it_has_ended():
    one = machine()
    run(one, Came("t", Need()))
    assert run(one, rules.Cancel(("t", "nobody"))) == [rules.Signal("t", signal.SIGTERM)]
    assert run(one, rules.Cancel(("t",))) == []
    assert one.deadline() == DELAY_S
    kill = run(one, rules.DeadlineReached(), now=DELAY_S)
    assert kill == [rules.Signal("t", signal.SIGKILL)]
    assert run(one, rules.Ended("t", "killed")) == [rules.Finish("t", states.CANCELED, "")]


def test_a_task_out_of_time_is_canceled_and_one_that_does_not_start_fails():
    one = machine()
    run(one, Came("t", Need(), timeout_s=5.0))
    run(one, rules.DeadlineReached(), now=5.0)
    (finish,) = run(one, rules.Ended("t", "killed"))
    assert finish == rules.Finish("t", states.CANCELED, "its time of 5 s is over")
    run(one, Came("u", Need(), startup_s=1.0))
    run(one, rules.DeadlineReached(), now=1.0)
    (finish,) = run(one, rules.Ended("u", "killed"))
    assert finish == rules.Finish("u", states.FAILED, "it did not start in 1 s")


def test_a_task_that_has_started_in_time_has_the_rest_of_its_time():
    one = machine()
    run(one, Came("t", Need(), timeout_s=5.0, startup_s=1.0))
    run(one, rules.Ready("t"), now=0.5)
    assert one.deadline() == 5.0


def test_a_task_waits_for_its_service_and_fails_with_it():
    one = machine()
    run(one, Came("s", Need(), is_service=True), Came("t", Need(), services=("s",)))
    assert one.stage_of("t") is Stage.HELD
    assert "the service s" in one.why("t")
    (begun,) = run(one, rules.Ready("s"))
    assert begun.uid == "t"
    run(one, Came("r", Need(), is_service=True), Came("u", Need(), services=("r",)))
    run(one, rules.Ended("t"), rules.Ended("s"))
    actions = run(one, rules.Ended("r", "exit code 1"))
    assert [(each.uid, each.state) for each in actions] == [
        ("r", states.FAILED),
        ("u", states.FAILED),
    ]


def test_tasks_that_have_not_begun_are_handed_back():
    one = machine(1)
    run(one, Came("a", Need()), Came("b", Need()), Came("c", Need()))
    assert run(one, rules.HandBack()) == [rules.Returned(["b", "c"])]
    assert run(one, rules.Ended("a")) == [rules.Finish("a", states.DONE, "")]


def test_a_task_too_large_fails_with_the_numbers_and_one_without_ranks_takes_no_slot():
    one = machine()
    (finish,) = run(one, Came("t", Need(cores=3)))
    assert "the largest node has 2 cores" in finish.reason
    (begun,) = run(one, Came("call", Need(ranks=0)))
    assert begun == rules.Begin("call", [])
    assert one.slots.free_cores == 2
    assert run(one, rules.Ended("call")) == [rules.Finish("call", states.DONE, "")]


def test_a_task_whose_node_is_lost_runs_again_where_it_may_and_only_so_often():
    one = AgentMachine(Slots([NodeSize("a", 1), NodeSize("b", 1)]), DELAY_S)
    (begun,) = run(one, Came("t", Need()))
    run(one, rules.NodeLost(begun.slots[0].node))
    (again,) = run(one, rules.Ended("t", "lost", may_restart=True))
    assert again.slots[0].node != begun.slots[0].node
    for _ in range(rules.RESTARTS_MAX - 1):
        (again,) = run(one, rules.Ended("t", "lost", may_restart=True))
    (finish,) = run(one, rules.Ended("t", "lost", may_restart=True))
    assert finish == rules.Finish("t", states.FAILED, "lost")


def test_a_task_that_no_node_is_left_for_fails():
    one = machine()
    run(one, Came("t", Need()))
    run(one, Came("waits", Need(cores=2)))
    (finish,) = run(one, rules.NodeLost(0))
    assert (finish.uid, finish.state) == ("waits", states.FAILED)
    (finish,) = run(one, rules.Ended("t", "lost", may_restart=True))
    assert finish == rules.Finish("t", states.FAILED, "lost")


@pytest.mark.parametrize("seed", range(30))
def test_every_task_ends_once_and_every_slot_is_free_then(seed):
    """Events in any order that is possible, with cancels, deadlines and lost nodes between."""
    dice = random.Random(seed)
    nodes = set(range(dice.randint(1, 4)))
    one = AgentMachine(Slots([NodeSize(f"n{n}", dice.randint(1, 3)) for n in nodes]), DELAY_S)
    now = 0.0
    left = [f"t{n}" for n in range(80)]
    asked, finished = set(left), []
    staging, running = [], []
    for _ in range(4000):
        now += dice.random()
        event: rules.Event | None = None
        match dice.randrange(7):
            case 0 if left:
                event = Came(
                    left.pop(),
                    Need(ranks=dice.choice([0, 1, 2]), cores=dice.choice([1, 1, 3])),
                    priority=dice.choice([0, 1]),
                    timeout_s=dice.choice([0.0, 3.0]),
                    startup_s=dice.choice([0.0, 1.0]),
                    has_input=dice.random() < 0.3,
                    has_output=dice.random() < 0.3,
                    keeps_output=dice.random() < 0.5,
                )
            case 1 if staging:
                uid = staging.pop(dice.randrange(len(staging)))
                event = rules.Staged(uid, dice.choice(["", "", "missing"]))
            case 2 if running:
                uid = running.pop(dice.randrange(len(running)))
                event = rules.Ended(uid, dice.choice(["", "exit code 1"]), dice.random() < 0.2)
            case 3 if dice.random() < 0.1:
                event = rules.Cancel(tuple(dice.sample(sorted(asked), 3)))
            case 4 if dice.random() < 0.1:
                event = rules.Ready(dice.choice(sorted(asked)))
            case 5 if one.deadline() is not None and one.deadline() <= now:
                event = rules.DeadlineReached()
            case 6 if nodes and dice.random() < 0.01:  # in some runs all, in some none
                lost = dice.choice(sorted(nodes))
                nodes.discard(lost)
                event = rules.NodeLost(lost)
        actions = one.handle(event, now) if event else []
        actions += one.start(now)
        one.check()
        for action in actions:
            match action:
                case rules.Begin(uid, slots):
                    assert {slot.node for slot in slots} <= nodes
                    running.append(uid)
                case rules.StageIn(uid) | rules.StageOut(uid):
                    staging.append(uid)
                case rules.Finish(uid):
                    finished.append(uid)
    assert sorted(finished) == sorted(asked)
    assert len(one) == 0
    assert one.slots.free_cores == one.slots.cores
    assert one.deadline() is None


def test_a_service_that_two_keys_name_holds_a_task_once_and_one_that_failed_fails_later_tasks():
    one = machine()
    run(one, Came("s", Need(), is_service=True))
    assert run(one, Came("t", Need(), services=("s", "s"))) == []
    (begun,) = run(one, rules.Ready("s"))
    assert isinstance(begun, rules.Begin)
    run(one, Came("bad", Need(), is_service=True), rules.Cancel(("bad",)))
    (finish,) = run(one, Came("late", Need(), services=("bad",)))
    told = "its service bad ended before it was ready"
    assert finish == rules.Finish("late", states.FAILED, told)


def test_tasks_wait_for_a_service_that_runs_elsewhere():
    one = machine()
    one.handle(Came("t", Need(), services=("db",)), 0.0)
    assert one.start(0.0) == [] and "service db" in one.why("t")
    one.handle(rules.Registered("db"), 0.0)
    one.handle(rules.Registered("db"), 0.0)
    assert [action.uid for action in one.start(0.0)] == ["t"]
    one.handle(Came("later", Need(), services=("db",)), 0.0)
    assert [action.uid for action in one.start(0.0)] == ["later"]
    one.check()


def test_a_backup_node_runs_what_a_lost_one_had_and_what_waits():
    sizes = [NodeSize("a", 1), NodeSize("b", 1)]
    one = AgentMachine(Slots(sizes, backups=1), DELAY_S)
    (begun,) = run(one, Came("t", Need()))
    assert run(one, Came("waits", Need())) == []
    assert begun.slots[0].node == 0
    (other,) = run(one, rules.NodeLost(0))
    assert (other.uid, other.slots[0].node) == ("waits", 1)
    assert run(one, rules.Ended("t", "lost", may_restart=True)) == []
    (*_, again) = run(one, rules.Ended("waits"))
    assert (again.uid, again.slots[0].node) == ("t", 1)


def test_a_task_that_cannot_run_as_the_pilot_has_it_fails_with_the_reason():
    (finish,) = run(machine(), Came("t", Need(), failure="'reconfig_src': no"))
    assert finish == rules.Finish("t", states.FAILED, "'reconfig_src': no")
