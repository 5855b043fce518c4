"""The brokers of a node: each is started once, and its end is told until it is heard."""

from native.ids import PortalId
from native.machine import Log, Send
from native.wire import batch, codec
from pct.brokers import (
    BeginBroker,
    BrokerGone,
    Brokers,
    BrokerStarted,
    KillBroker,
    TellBroker,
)
from tests.wire.examples import VECTORS

BEBOPD = PortalId(1, 7000)
START = codec.decode(VECTORS["batch.start"])
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
    assert brokers.happened(BrokerStarted(ID), BEBOPD) == [Send(BEBOPD, batch.Started(ID))]
    actions = brokers.happened(BrokerGone(ID, 0, b"said"), BEBOPD)
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
    orders = (batch.SignalScript(ID, 10), batch.Suspend(ID, True))
    assert brokers.end(end) == [TellBroker(ID, end)]
    for order in orders:
        assert brokers.pass_on(order) == [TellBroker(ID, order)]
    assert brokers.end(batch.EndBroker(ID, is_forced=True)) == [KillBroker(ID)]
    for none in (Brokers(), over()):
        assert none.end(end) == none.pass_on(orders[0]) == []


def test_what_happens_behind_the_end_is_late():
    brokers = over()
    assert brokers.happened(BrokerGone(ID, 9, b""), BEBOPD) == []
    assert brokers.happened(BrokerStarted(ID), BEBOPD) == []
