"""Launches that fail before go: which are tried again, how often, and without which nodes."""

from types import SimpleNamespace

import pytest

from native.errors import UsageError
from native.wire.load import FailureKind
from tests.unit.yod.launch_of import INT, Yod, failure
from yod import launching, retrying
from yod.driver import Result
from yod.launch.events import Interrupted
from yod.launch.phases import Phase
from yod.launch.report import Report
from yod.retrying import chosen, may_help, without

ENVIRONMENT = {b"YODRETRYCOUNT": b"2"}
PARTITION = object()
OF_THE_PROGRAM = {
    FailureKind.NOT_FOUND,
    FailureKind.NOT_EXECUTABLE,
    FailureKind.EARLY_EXIT,
    FailureKind.OUT_OF_MEMORY,
    FailureKind.HOOK,
    FailureKind.ABORTED,
}


@pytest.mark.parametrize("kind", FailureKind)
def test_what_is_the_programs_or_the_sites_word_is_not_tried_again(kind):
    assert may_help(failure(kind), 2) == (kind not in OF_THE_PROGRAM)


def test_the_only_node_may_have_let_the_ranks_go_before_it_was_lost():
    assert not may_help(failure(FailureKind.NODE_LOST), 1)
    assert may_help(failure(FailureKind.REFUSED), 1)


def test_nodes_that_have_failed_join_those_that_the_user_excludes():
    assert without("", failure(place=1)) == str(failure(place=1).node)
    assert without("n[1-3],7", failure(place=1)) == f"n[1-3],7,{failure(place=1).node}"


@pytest.mark.parametrize(
    ("option", "environment", "count"),
    [(None, {}, 0), ("3", {}, 3), (None, ENVIRONMENT, 2), ("0", ENVIRONMENT, 0)],
)
def test_the_option_counts_before_the_variable_and_the_default_is_none(option, environment, count):
    assert chosen(option, environment) == count


@pytest.mark.parametrize("text", ["", "-1", "101", "x", "9" * 30, "1.5"])
def test_a_count_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match=r"--retries .*: a number from 0 to 100"):
        chosen(text, {})
    with pytest.raises(UsageError, match=r"YODRETRYCOUNT .*: a number from 0 to 100"):
        chosen(None, {b"YODRETRYCOUNT": text.encode()})


def test_a_launch_knows_the_first_failure_before_go():
    yod = Yod(2).to(Phase.LOADING)
    assert yod.machine.failure is None
    first = failure(FailureKind.NODE_LOST)
    yod.receive(first)
    yod.receive(failure(FailureKind.FAULT, place=0))
    assert yod.machine.failure == first


def test_a_failure_of_running_ranks_is_none_of_the_launch():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(failure(FailureKind.NODE_LOST))
    assert yod.machine.failure is None


def test_nothing_is_tried_again_for_a_user_who_has_interrupted_it():
    yod = Yod(2).to(Phase.STARTING)
    yod.handle(Interrupted(INT))
    yod.receive(failure(FailureKind.NODE_LOST))
    assert yod.machine.failure is None


def ended(found, status=125):
    """The result of a launch on two nodes, with this failure before go."""
    report = Report(("a.out",), (2,))
    report.nodes, report.reason = (0, 1), "why"
    return Result(status, report, (), status, found)


def prepared(exclude="", retries=2, reach=PARTITION, is_quiet=False):
    options = SimpleNamespace(exclude=exclude, retries=retries, is_quiet=is_quiet)
    return SimpleNamespace(plan=SimpleNamespace(options=options), reach=reach)


def tried(monkeypatch, outcomes, **fields):
    """The result of the last try, and the nodes that each was without."""
    left, without_nodes = iter(outcomes), []

    def prepare(exclude):
        without_nodes.append(exclude)
        return prepared(exclude, **fields)

    monkeypatch.setattr(launching, "run", lambda prepared, invocation: next(left))
    last = retrying.again(next(left), prepared(**fields), None, prepare)
    return last, without_nodes


def test_it_is_tried_until_it_works_each_time_without_one_node_more(monkeypatch, capsys):
    one, two = failure(FailureKind.TIMED_OUT, place=0), failure(FailureKind.NODE_LOST, place=1)
    good = ended(None, 0)
    last, nodes = tried(monkeypatch, [ended(one), ended(two), good])
    assert last is good
    assert nodes == [str(one.node), f"{one.node},{two.node}"]
    assert capsys.readouterr().err.splitlines() == [
        f"yod: try 2 of 3, without node {one.node} ({one.name}): why",
        f"yod: try 3 of 3, without node {two.node} ({two.name}): why",
    ]


def test_quiet_tries_say_nothing(monkeypatch, capsys):
    outcomes = [ended(failure(FailureKind.NODE_LOST)), ended(None, 0)]
    last, nodes = tried(monkeypatch, outcomes, is_quiet=True)
    assert (last.exit_status, len(nodes), capsys.readouterr().err) == (0, 1, "")


def test_it_is_not_tried_more_often_than_asked_for(monkeypatch):
    lost = [ended(failure(FailureKind.NODE_LOST)) for _ in range(3)]
    last, nodes = tried(monkeypatch, lost, retries=1)
    assert (last, len(nodes)) == (lost[1], 1)


def test_the_embedded_partition_has_no_other_node(monkeypatch):
    lost = ended(failure(FailureKind.REFUSED))
    assert tried(monkeypatch, [lost], reach=None) == (lost, [])
