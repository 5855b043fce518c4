"""bebopd's driver over a port in memory: events in, messages and records out."""

import pytest

from allocator.batch.job import Viewer
from allocator.bebopd import Bebopd
from allocator.driver import Driver
from allocator.host.ledger import Ledger, LedgerError
from allocator.jobs import ids
from allocator.jobs.grants import Owner
from allocator.nodes.placement_list import ListPlacement
from allocator.records import MemoryLedger
from native.errors import PartitionError, Refusal
from native.ids import Principal, PrincipalKind
from native.limits import Limits
from native.loop.reactor import Reactor
from native.machine import propagate
from native.port.port import Hub, PeerLost, Received, Refused
from native.wire.alloc import (
    Freed,
    Grant,
    Hosting,
    NodeRequest,
    NodeSpec,
    Release,
    Released,
    Revoke,
)
from native.wire.base import JobEnd, State
from native.wire.nodes import Drain, Resume
from native.wire.status import Accepted, Announce, NodeState
from partition.status.query import OrderRefused, ask, give
from tests.support.wait import LIMIT_S

DAEMON = Principal(PrincipalKind.PARTITION, 0)
ALICE = Principal(PrincipalKind.USER, 1000)


class Small:
    """bebopd, one PCT and one yod in this process."""

    def __init__(self, tmp_path, limits, contain=propagate):
        self.reactor = Reactor()
        self.ledger = Ledger(tmp_path)
        hub = Hub()
        self.ports = hub.port(DAEMON), hub.port(DAEMON), hub.port(ALICE)
        self.bebopd, self.pct, self.yod = self.ports
        machine = Bebopd(
            ListPlacement(),
            epoch=1,
            next_job_id=self.ledger.first_job_id(),
            sign=lambda data: b"",
            job_key=lambda *ids: b"",
            owner_of=lambda uid: Owner(uid, "alice", uid),
            wall_clock=lambda: 5000.0,
            limits=limits,
            only_uid=1000,
            contain=contain,
        )
        self.machine = machine
        self.said = []  # text, job
        self.warnings = []
        self.driver = Driver(
            machine,
            self.bebopd,
            self.reactor,
            self.ledger,
            say=lambda text, job_id: self.said.append((text, job_id)),
            warn=self.warnings.append,
            wall_clock=lambda: 5000.0,
            contain=contain,
        )

    def receive(self, port):
        """The next message at a port; the loop runs until it is there."""
        found = []

        def ready():
            found.extend(event.message for event in port.events() if isinstance(event, Received))
            self.reactor.stop()

        watch = self.reactor.watch(port.fileno(), ready)
        while not found:
            self.reactor.run()
        watch.close()
        assert len(found) == 1
        return found[0]

    def past(self):
        """The last jobs in the history."""
        found = []
        self.ledger.past(lambda history: history.last(10, Viewer(None)), found.extend)
        return found

    def announce(self):
        own = self.pct.id
        self.pct.send(self.bebopd.id, Announce(0, "node0", 1, own.nid, own.pid, 7))
        assert self.receive(self.pct) == Accepted(0, 1, 10.0)

    def request(self):
        self.yod.send(self.bebopd.id, NodeRequest((NodeSpec(1),), "a.out"))
        return self.receive(self.yod)

    def close(self):
        self.driver.close()
        for port in self.ports:
            port.close()
        self.ledger.close()
        self.reactor.close()


@pytest.fixture
def small(tmp_path):
    partition = Small(tmp_path, Limits())
    yield partition
    partition.close()


def test_a_job_goes_through_bebopd_and_into_its_records(small):
    small.announce()
    grant = small.request()
    assert isinstance(grant, Grant)
    small.pct.send(small.bebopd.id, Hosting(grant.job_id))
    end = JobEnd(State.FAILED, 3, 0, "rank 0 on node0: exit code 3")
    small.yod.send(small.bebopd.id, Release(grant.job_id, end))
    small.pct.send(small.bebopd.id, Freed.of(grant.job_id, (0,)))
    assert small.receive(small.yod) == Released(grant.job_id)
    (row,) = small.past()
    assert (row.job_id, row.name, row.state, row.exit_status) == (1, "a.out", State.FAILED, 3)
    assert row.reason == "rank 0 on node0: exit code 3"


def test_deadlines_come_without_messages(tmp_path):
    small = Small(tmp_path, Limits(pending_s=0.5))
    small.announce()
    grant = small.request()
    assert small.receive(small.pct) == Revoke(grant.job_id)
    small.close()


def test_a_yod_that_is_gone_is_noticed(tmp_path):
    small = Small(tmp_path, Limits())
    small.announce()
    grant = small.request()
    small.yod.close()
    assert small.receive(small.pct) == Revoke(grant.job_id)
    small.close()


def test_records_are_written_a_little_later(small):
    small.announce()
    assert small.ledger.has_waiting
    until = small.reactor.monotonic() + LIMIT_S
    while small.ledger.has_waiting and small.reactor.monotonic() < until:
        small.reactor.run_once(0.1)
    assert small.ledger.names() == {"node0": 0}


def test_what_is_no_message_is_logged_and_harms_nobody(small):
    small.bebopd._put(Refused(small.yod.id, ALICE, "not a message: nonsense"))
    small.announce()
    assert small.warnings == [f"from {small.yod.id}: not a message: nonsense"]


def test_log_records_carry_the_job(small):
    small.announce()
    small.said.clear()
    grant = small.request()
    assert small.said == [("granted to alice: ranks 1, nodes 0", grant.job_id)]


def test_a_ledger_that_keeps_nothing_is_as_good_for_a_partition_of_one_process(small):
    small.driver.close()
    small.driver = Driver(small.machine, small.bebopd, small.reactor, MemoryLedger())
    small.announce()
    grant = small.request()
    small.yod.send(small.bebopd.id, Release(grant.job_id))
    small.pct.send(small.bebopd.id, Freed.of(grant.job_id, (0,)))
    assert small.receive(small.yod) == Released(grant.job_id)
    assert small.past() == []


def test_pingd_gets_the_table(small):
    small.announce()
    rows, _ = ask(small.yod, small.bebopd.id, small.reactor, "here", LIMIT_S)
    assert [(row.node, row.state) for row in rows] == [(0, NodeState.FREE)]


def test_pingd_says_when_bebopd_is_gone(small):
    bebopd = small.bebopd.id
    small.driver.close()
    small.bebopd.close()
    with pytest.raises(PartitionError, match="bebopd at here cannot be reached: nothing listens"):
        ask(small.yod, bebopd, small.reactor, "here", LIMIT_S)


def test_pingd_does_not_wait_for_ever(small):
    small.driver.close()
    with pytest.raises(PartitionError, match=r"bebopd at here has not answered for 0\.01 s"):
        ask(small.yod, small.bebopd.id, small.reactor, "here", 0.01)


def test_bebopd_stops_before_an_id_could_be_given_twice(small, monkeypatch):
    def full(end):
        raise LedgerError("bebopd.sqlite: database or disk is full")

    monkeypatch.setattr(small.ledger, "reserve", full)
    small.announce()
    numbers = []
    with pytest.raises(LedgerError, match="disk is full"):
        while True:
            grant = small.request()
            numbers.append(grant.job_id)
            small.pct.send(small.bebopd.id, Freed.of(grant.job_id, (0,)))
    assert max(numbers) < ids.BLOCK


def test_an_order_is_answered_when_it_is_on_the_disk(small, monkeypatch):
    small.announce()
    drain = Drain((0,), "fan")
    assert give(small.yod, small.bebopd.id, small.reactor, "here", LIMIT_S, drain).nodes == (0,)
    (orders,) = small.ledger.orders().values()
    assert (orders.drain.reason, orders.drain.by, orders.drain.since) == ("fan", "alice", 5000.0)

    def full(changes):
        raise LedgerError("bebopd.sqlite: database or disk is full")

    monkeypatch.setattr(small.ledger, "keep_orders", full)
    with pytest.raises(OrderRefused, match=r"not recorded: .* disk is full") as caught:
        give(small.yod, small.bebopd.id, small.reactor, "here", LIMIT_S, Resume((0,)))
    assert caught.value.code is Refusal.NOT_RECORDED
    (row,), _ = ask(small.yod, small.bebopd.id, small.reactor, "here", LIMIT_S)
    assert row.state is NodeState.DRAINED


def broken(*_arguments):
    raise ValueError("broken")


def test_a_message_that_raises_ends_its_peers_connection_and_nothing_else(tmp_path, monkeypatch):
    contained = []
    small = Small(tmp_path, Limits(), lambda whose, error: contained.append((whose, str(error))))
    small.announce()
    with monkeypatch.context() as patch:
        patch.setattr(small.machine, "_received", broken)
        small.yod.send(small.bebopd.id, NodeRequest((NodeSpec(1),), "a.out"))
        small.reactor.run_once(0)
        assert small.driver._timer.at == small.machine.deadline() is not None
    (lost,) = small.yod.events()
    assert isinstance(lost, PeerLost)
    assert contained == [(f"MessageReceived of {small.yod.id}", "broken")]
    assert isinstance(small.request(), Grant)
    small.close()


def test_a_message_that_cannot_be_sent_keeps_no_other_from_its_peer(tmp_path, monkeypatch):
    contained = []
    small = Small(tmp_path, Limits(), lambda whose, error: contained.append((whose, str(error))))
    small.announce()
    with monkeypatch.context() as patch:
        patch.setattr(small.bebopd, "send", broken)
        small.yod.send(small.bebopd.id, Release(77))
        small.reactor.run_once(0)
    assert contained == [(f"Released to {small.yod.id}", "broken")]
    assert isinstance(small.request(), Grant)
    small.close()


def test_a_job_whose_deadline_raises_keeps_no_other_from_its_own(tmp_path, monkeypatch):
    contained = []
    small = Small(tmp_path, Limits(), lambda whose, error: contained.append((whose, str(error))))
    small.announce()
    grant = small.request()
    jobs = small.machine.jobs
    monkeypatch.setattr(jobs, "_due_of", broken)
    assert small.machine.jobs.due(float("inf")) == []
    assert contained == [(f"job {grant.job_id}", "broken")]
    assert jobs.deadline() is None
    small.close()
