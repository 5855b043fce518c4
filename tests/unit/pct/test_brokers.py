"""The brokers of a node: each is started once, and its end is told until it is heard."""

import pytest
from msgspec.structs import replace

from native.ids import PortalId
from native.machine import Log, Send
from native.wire import alloc, batch, codec
from native.wire.group import WriteDown
from pct.brokers import (
    BeginBroker,
    BrokerEnds,
    BrokerGone,
    BrokerLeft,
    Brokers,
    BrokerStarted,
    KillBroker,
    KillBrokerKeeper,
    NameLeft,
    TellBroker,
)
from tests.wire.examples import VECTORS

BEBOPD = PortalId(1, 7000)
NODE = 3
NOW = 100.0
LIMIT_S = 60.0
LEFT = "process 5 (dd, state D)"
START = replace(codec.decode(VECTORS["batch.start"]), attempt=0)
GRANT = codec.decode(VECTORS["alloc.grant"])
ID = START.job_id
ENDED = batch.BrokerEnded(ID, 0, b"said")


def begun():
    brokers = Brokers()
    brokers.told(START)
    assert brokers.granted(BEBOPD, GRANT) == [BeginBroker(ID, START, GRANT, BEBOPD)]
    return brokers


def over():
    brokers = begun()
    assert brokers.happened(BrokerStarted(ID), BEBOPD, NODE, NOW) == [
        Send(BEBOPD, batch.Started(ID))
    ]
    actions = brokers.happened(BrokerGone(ID, 0, b"said"), BEBOPD, NODE, NOW)
    assert actions == [Log("its broker has ended", ID), Send(BEBOPD, ENDED)]
    return brokers


def test_a_site_that_prepares_nodes_has_scripts_held():
    brokers = Brokers(holds_scripts=True)
    brokers.told(START)
    assert brokers.granted(BEBOPD, GRANT) == [BeginBroker(ID, START, GRANT, BEBOPD, True)]


def test_a_broker_is_started_when_its_grant_is_here_and_once():
    brokers = begun()
    brokers.told(START)
    assert brokers.granted(BEBOPD, GRANT) == []
    assert brokers.job_ids == (ID,)


def test_a_grant_without_a_start_starts_nothing():
    assert Brokers().granted(BEBOPD, GRANT) == []


def test_a_start_whose_grant_was_lost_is_not_announced_and_may_come_again():
    brokers = Brokers()
    brokers.told(START)
    assert brokers.job_ids == ()
    brokers.bebopd_lost()
    assert len(brokers) == 0
    assert brokers.granted(BEBOPD, GRANT) == []


def test_an_end_is_told_until_it_is_heard():
    brokers = over()
    assert brokers.unheard(BEBOPD) == [Send(BEBOPD, ENDED)]
    assert brokers.job_ids == (ID,)
    brokers.heard(batch.Heard(ID))
    assert brokers.unheard(BEBOPD) == []
    assert len(brokers) == 0


def test_a_broker_that_runs_is_not_forgotten():
    brokers = begun()
    brokers.heard(batch.Heard(ID))
    assert brokers.job_ids == (ID,)


def test_what_bebopd_wants_of_a_broker_goes_to_one_that_lives():
    brokers = begun()
    end = batch.EndBroker(ID)
    orders = (batch.SignalScript(ID, 10), batch.Suspend(ID, True), WriteDown(ID, "fan"))
    assert brokers.end(BEBOPD, end, NOW) == [TellBroker(ID, end)]
    for order in orders:
        assert brokers.pass_on(order) == [TellBroker(ID, order)]
    assert brokers.end(BEBOPD, batch.EndBroker(ID, is_forced=True), NOW) == [KillBroker(ID)]
    for none in (Brokers(), over()):
        assert none.end(BEBOPD, end, NOW) == none.pass_on(orders[0]) == []


def test_what_happens_behind_the_end_is_late():
    brokers = over()
    assert brokers.happened(BrokerGone(ID, 9, b""), BEBOPD, NODE, NOW) == []
    assert brokers.happened(BrokerStarted(ID), BEBOPD, NODE, NOW) == []


def ending(event=None):
    """A broker whose processes are killed."""
    brokers = Brokers(unkillable_s=LIMIT_S)
    brokers.told(START)
    brokers.granted(BEBOPD, GRANT)
    if event is None:
        brokers.end(BEBOPD, batch.EndBroker(ID, is_forced=True), NOW)
    else:
        assert brokers.happened(event, BEBOPD, NODE, NOW) == []
    brokers.check()
    return brokers


def told(actions):
    return [each for each in actions if not isinstance(each, Log)]


@pytest.mark.parametrize("event", [BrokerEnds(ID), None])
def test_a_keeper_that_does_not_end_its_broker_in_time_is_killed(event):
    brokers = ending(event)
    assert brokers.deadline() == NOW + LIMIT_S
    assert brokers.due(NOW + LIMIT_S - 1) == []
    assert told(brokers.due(NOW + LIMIT_S)) == [KillBrokerKeeper(ID)]
    brokers.check()


def test_a_second_order_to_kill_gives_no_more_time():
    brokers = ending()
    brokers.end(BEBOPD, batch.EndBroker(ID, is_forced=True), NOW + 50)
    assert brokers.deadline() == NOW + LIMIT_S


def test_bebopd_is_told_once_of_a_brokers_processes_that_outlive_its_keeper():
    brokers = ending()
    brokers.due(NOW + LIMIT_S)
    brokers.happened(BrokerEnds(ID), BEBOPD, NODE, NOW + LIMIT_S)  # the keeper is lost
    assert brokers.due(NOW + 2 * LIMIT_S) == [NameLeft(ID)]
    left = brokers.happened(BrokerLeft(ID, LEFT), BEBOPD, NODE, NOW + 2 * LIMIT_S)
    unfit = alloc.Unfit(ID, NODE, f"cannot be killed: {LEFT}")
    assert told(left) == [Send(BEBOPD, unfit)]
    assert brokers.deadline() is None
    assert brokers.job_ids == (ID,)  # its end is told when they have ended


def test_nobody_is_told_of_a_broker_that_has_ended_meanwhile():
    brokers = ending()
    brokers.due(NOW + LIMIT_S)
    assert brokers.happened(BrokerLeft(ID, ""), BEBOPD, NODE, NOW + LIMIT_S) == []
    brokers.happened(BrokerGone(ID, 0, b""), BEBOPD, NODE, NOW + LIMIT_S)
    brokers.check()
    assert brokers.deadline() is None
    assert brokers.happened(BrokerLeft(ID, LEFT), BEBOPD, NODE, NOW + LIMIT_S) == []


AGAIN = replace(START, attempt=1)


def test_a_later_attempt_begins_where_the_one_before_has_ended():
    brokers = over()
    brokers.told(START)
    assert brokers.granted(BEBOPD, GRANT) == []
    brokers.told(AGAIN)
    assert brokers.granted(BEBOPD, GRANT) == [BeginBroker(ID, AGAIN, GRANT, BEBOPD)]
    brokers.heard(batch.Heard(ID))  # late
    assert brokers.job_ids == (ID,)


def test_only_the_end_of_its_own_attempt_is_heard():
    brokers = Brokers()
    brokers.told(AGAIN)
    brokers.granted(BEBOPD, GRANT)
    brokers.happened(BrokerGone(ID, 0, b""), BEBOPD, NODE, NOW)
    brokers.heard(batch.Heard(ID))
    assert brokers.unheard(BEBOPD) == [Send(BEBOPD, batch.BrokerEnded(ID, 0, b"", 1))]
    brokers.heard(batch.Heard(ID, 1))
    assert len(brokers) == 0


def test_an_order_to_kill_the_broker_of_another_attempt_is_answered_and_does_it_no_harm():
    brokers = Brokers()
    brokers.told(replace(START, attempt=1))
    brokers.granted(BEBOPD, GRANT)
    gone = batch.BrokerEnded(ID, -1, b"", 0)
    assert brokers.end(BEBOPD, batch.EndBroker(ID, True, 0), NOW) == [Send(BEBOPD, gone)]
    assert brokers.end(BEBOPD, batch.EndBroker(ID, False, 0), NOW) == []
    assert brokers.end(BEBOPD, batch.EndBroker(ID, True, 1), NOW) == [KillBroker(ID)]


def test_a_broker_whose_grant_has_not_come_is_not_started_when_it_was_to_be_killed():
    brokers = Brokers()
    brokers.told(START)
    gone = batch.BrokerEnded(ID, -1, b"", 0)
    assert brokers.end(BEBOPD, batch.EndBroker(ID, True, 0), NOW) == [Send(BEBOPD, gone)]
    assert brokers.granted(BEBOPD, GRANT) == []


def test_attempts_are_told_where_one_is_not_the_first():
    brokers = begun()
    assert brokers.attempts == ()
    brokers.told(replace(START, job_id=ID + 1, attempt=2))
    brokers.granted(BEBOPD, replace(GRANT, job_id=ID + 1))
    assert (brokers.job_ids, brokers.attempts) == ((ID, ID + 1), (0, 2))
