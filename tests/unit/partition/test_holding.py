"""The commands that hold PCTs on the hosts of a batch job: what ends what."""

from __future__ import annotations

from partition.hosts.holding import KILL_S, End, Holding, Kill, Phase, Say


def up(*hosts):
    machine = Holding(hosts)
    machine.up()
    return machine


def test_until_all_are_up_the_end_of_one_ends_all():
    machine = Holding(["n0", "n1"])
    assert machine.ended("n1", "x", 5.0) == [Say("n1: x"), End(("n0",))]
    assert machine.has_failed
    assert machine.ended("n0", "x", 6.0) == []
    assert not machine.left


def test_until_all_are_up_the_end_of_the_starter_ends_all():
    machine = Holding(["n0", "n1"])
    assert machine.starter_gone(5.0) == [End(("n0", "n1"))]


def test_a_pct_that_is_lost_later_leaves_the_others_alone():
    machine = up("n0", "n1")
    assert machine.starter_gone(5.0) == []
    assert machine.ended("n1", "x", 5.0) == [Say("n1: x")]
    assert machine.phase is Phase.UP and machine.left == {"n0"}


def test_what_does_not_end_is_killed():
    machine = up("n0", "n1")
    assert machine.told_to_end(5.0) == [End(("n0", "n1"))]
    assert machine.told_to_end(6.0) == []
    assert machine.deadline() == 5.0 + KILL_S
    machine.ended("n0", "x", 6.0)
    assert machine.due(14.0) == []
    assert machine.due(15.0) == [Kill(("n1",))]
    assert machine.deadline() is None
    assert not machine.has_failed
