"""Which host is reached from which, whatever hosts and relays do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition.hosts.ssh.spreading import Lost, Relay, Result, Spreading, Start, grouped

HOSTS = [f"n{number}" for number in range(7)]
CUT = "Connection refused"


def come(host):
    return Result(host, True)


def fail(host, reason="no yod: x"):
    return Result(host, True, False, reason)


def cut(host):
    return Result(host, False, True, CUT)


def begun(width=2, is_first=True, again=()):
    machine = Spreading(HOSTS, width, is_first, again)
    assert machine.begin() == [Start("n0", "n0" in again), Start("n4", False)]
    return machine


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 4096, 5000])
@pytest.mark.parametrize("width", [1, 2, 64])
def test_groups_are_alike_in_size_and_have_each_host_once(count, width):
    groups = grouped(list(range(count)), width)
    assert [host for group in groups for host in group] == list(range(count))
    assert len(groups) == min(count, width)
    assert max(map(len, groups)) - min(map(len, groups)) <= 1


def test_where_there_are_no_more_hosts_than_one_reaches_there_are_no_relays():
    machine = Spreading(HOSTS, 7, True)
    assert machine.begin() == [Start(host, False) for host in HOSTS]
    assert [machine.finished(come(host)) for host in HOSTS] == [[]] * 7
    assert machine.is_over


def test_a_host_that_has_come_reaches_the_others_of_its_group():
    machine = begun(again=("n2",))
    relay = Relay("n0", ("n1", "n2", "n3"), frozenset({"n2"}))
    assert machine.finished(come("n0")) == [relay]
    assert machine.finished(come("n4")) == [Relay("n4", ("n5", "n6"), frozenset())]
    for host in ("n1", "n2", "n3", "n5", "n6"):
        assert machine.told("n0" if host < "n4" else "n4", come(host)) == []
    assert not machine.is_over
    assert machine.relay_ended("n0", "") == machine.relay_ended("n4", "") == []
    assert machine.is_over and machine.lost == []
    assert {said.host for said in machine.news()} == set(HOSTS) and machine.news() == []


def test_those_behind_a_host_that_does_not_come_are_reached_from_here():
    machine = begun()
    assert machine.finished(fail("n0")) == [Start(host, False) for host in ("n1", "n2", "n3")]


def test_those_behind_a_relay_that_ends_are_reached_from_here_and_it_is_named():
    machine = begun()
    machine.finished(come("n0"))
    machine.told("n0", come("n2"))
    assert machine.relay_ended("n0", "gone") == [Start("n1", True), Start("n3", True)]
    assert machine.lost == [Lost("n0", ("n1", "n3"), "gone")]
    machine.told("n0", come("n1"))  # too late
    assert "n1" not in machine.results


def test_whom_a_host_cannot_reach_the_first_process_tries_itself():
    first, later = begun(), begun(is_first=False)
    first.finished(come("n0"))
    later.finished(come("n0"))
    assert first.told("n0", cut("n1")) == [Start("n1", True)]
    assert later.told("n0", cut("n1")) == []
    assert later.results["n1"].reason == CUT
    first.finished(cut("n1"))
    assert first.results["n1"].reason == CUT


def test_a_relay_says_nothing_of_hosts_that_are_not_its_own():
    machine = begun()
    machine.finished(come("n0"))
    assert machine.told("n0", come("n5")) == machine.told("n6", come("n1")) == []
    assert machine.results.keys() == {"n0"}


@given(st.data(), st.integers(1, 40), st.integers(1, 6))
def test_every_host_has_a_result_whatever_fails(data, count, width):
    hosts = [f"h{number}" for number in range(count)]
    machine = Spreading(hosts, width, True)
    todo = machine.begin()
    tries = dict.fromkeys(hosts, 0)
    relays = 0
    while todo:
        action = todo.pop(data.draw(st.integers(0, len(todo) - 1)))
        if isinstance(action, Start):
            tries[action.host] += 1
            kind = data.draw(st.sampled_from([come, fail, cut]))
            todo += machine.finished(kind(action.host))
            continue
        relays += 1
        for host in data.draw(st.permutations(action.hosts)):
            if data.draw(st.booleans()):
                kind = data.draw(st.sampled_from([come, fail, cut]))
                todo += machine.told(action.host, kind(host))
        todo += machine.relay_ended(action.host, "gone")
    assert machine.is_over and machine.results.keys() == set(hosts)
    assert max(tries.values()) <= 1 and relays <= width
