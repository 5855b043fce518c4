"""What is raised on behalf of one job ends that job, by name, and nothing else."""

import pytest
from msgspec.structs import replace

from native.ids import Principal, PrincipalKind
from native.loop.reactor import Reactor
from native.loop.slices import Slices
from native.machine import DeadlineReached, Send
from native.port.port import Hub
from native.wire import alloc, load, status
from native.wire.placed import GrantedNode
from native.wire.runs import Run
from pct.driver import Driver
from pct.events import DropJob, ObjectsChecked
from pct.host.store import Checked
from pct.job.machine import Job
from pct.node import Node
from tests.unit.pct.job_of import BEGIN, load_message
from tests.unit.pct.node_of import (
    BEBOPD,
    LIMITS,
    a_node,
    accepted,
    credential_for,
    granted,
    node_at,
    received,
)

TEXT = "internal error, please report: ValueError: broken"


class Contained:
    """Faults that nothing else has heard of."""

    def __init__(self):
        self.seen = []

    def __call__(self, whose, error):
        self.seen.append((whose, str(error)))


@pytest.fixture
def contained():
    return Contained()


def broken(*_arguments):
    raise ValueError("broken")


def told(actions):
    """What a fault's actions say, to whom."""
    return [
        (action.message.kind.value, action.message.text)
        for action in actions
        if isinstance(action, Send) and isinstance(action.message, load.Failure)
    ]


def hosting(contained, *job_ids) -> Node:
    machine = a_node(slots=4)
    machine._contain = contained
    machine.begin(0.0)
    machine.handle(accepted(), 0.0)
    for job_id in job_ids:
        owner = Principal(PrincipalKind.JOB, 1000, job_id)
        machine.handle(received(granted(job_id=job_id, of_job_id=job_id), owner), BEGIN)
    return machine


def test_a_job_whose_handling_raises_fails_by_name_and_ends(contained, monkeypatch):
    machine = hosting(contained, 7, 8)
    monkeypatch.setattr(machine.jobs[7], "handle", broken)
    actions = machine.handle(ObjectsChecked(7, (), (), ()), BEGIN)
    assert told(actions) == [("fault", TEXT)]
    assert contained.seen == [("job 7", "broken")]
    assert actions[-1] == DropJob(7) and list(machine.jobs) == [8]
    assert machine.reservation.slots_used == 1


def test_a_job_that_raises_at_a_deadline_keeps_no_other_from_its_own(contained, monkeypatch):
    machine = hosting(contained, 7, 8)
    monkeypatch.setattr(machine.jobs[7], "handle", broken)
    actions = machine.handle(DeadlineReached(), BEGIN + 1000)
    assert [kind for kind, _ in told(actions)] == ["fault", "timed out"]


def test_a_job_that_cannot_even_end_is_dropped(contained, monkeypatch):
    machine = hosting(contained, 7)
    monkeypatch.setattr(machine.jobs[7], "handle", broken)
    monkeypatch.setattr(machine.jobs[7]._release, "end", broken)
    actions = machine.handle(ObjectsChecked(7, (), (), ()), BEGIN)
    assert told(actions) == [("fault", TEXT)]
    assert Send(BEBOPD, alloc.Freed.of(7, (20,))) in actions
    assert actions[-1] == DropJob(7) and not machine.jobs


def test_a_job_that_does_not_end_after_a_fault_is_dropped_in_time(contained):
    machine = hosting(contained, 7)
    machine.handle(ObjectsChecked(7, ((0, b"/a"),), (), ()), BEGIN)
    job = machine.jobs[7]
    job._output.open.add((0, 1))  # as if its end were never heard of
    machine.fault(7, ValueError("broken"), BEGIN)
    assert 7 in machine.jobs and machine.deadline() <= BEGIN + LIMITS.end_s
    actions = machine.handle(DeadlineReached(), BEGIN + LIMITS.end_s)
    assert DropJob(7) in actions and not machine.jobs


def test_a_load_that_raises_is_refused_and_holds_no_slot(contained, monkeypatch):
    machine = hosting(contained)
    monkeypatch.setattr(Job, "__init__", broken)
    actions = machine.handle(received(granted()), BEGIN)
    assert told(actions) == [("refused", TEXT)]
    assert not machine.jobs and not machine.reservation.slots_used


def test_without_somebody_to_contain_it_a_fault_is_raised(monkeypatch):
    machine = a_node(slots=4)
    machine.begin(0.0)
    machine.handle(accepted(), 0.0)
    machine.handle(received(granted()), BEGIN)
    monkeypatch.setattr(machine.jobs[7], "handle", broken)
    with pytest.raises(ValueError, match="broken"):
        machine.handle(ObjectsChecked(7, (), (), ()), BEGIN)


# -- the driver ------------------------------------------------------------


class BrokenStore:
    """A store that fails at one job's objects, at once or from the loop."""

    def __init__(self, reactor):
        self._reactor = reactor
        self.slices = Slices(reactor)
        self.dropped = []

    def check(self, job_id, objects, arguments_first, owner, done, unused=()):
        if job_id == 7:
            broken()
        if job_id == 8:
            self._reactor.call_soon(broken)
        if job_id == 9:
            done(Checked((), (0,), ()))

    def drop_job(self, job_id):
        self.dropped.append(job_id)

    def reserved(self, job_id, number):
        broken()

    def drop(self, job_id, number):
        pass

    def close(self):
        pass


class Host:
    """A driver and its node, with a yod and a bebopd that the test plays."""

    def __init__(self, contain):
        hub = Hub()
        daemon = Principal(PrincipalKind.PARTITION, 0)
        self.bebopd, self.port, self.yod = hub.port(daemon), hub.port(daemon), hub.port(daemon)
        self.reactor = Reactor()
        self.store = BrokenStore(self.reactor)
        self.node = node_at(self.port, self.bebopd, 4, LIMITS, contain=contain)
        self.driver = Driver(self.node, self.port, self.reactor, self.store, contain=contain)
        self.driver.start()
        self.bebopd.send(self.port.id, status.Accepted(20, 77, 10.0))

    def load(self, job_id):
        here = GrantedNode(20, "n20", *self.port.id)
        message = load_message(job_id=job_id, nodes=(here,), runs=(Run(0, 1),))
        message = replace(message, credential=credential_for(job_id, here))
        self.yod.send(self.port.id, message)

    def run(self):
        for _ in range(8):
            self.reactor.run_once(0)
            assert self.driver._timer.at == self.node.deadline()

    def said(self):
        """Failures and ends, as the yod hears them."""
        messages = [event.message for event in self.yod.events()]
        return [
            (message.job_id, message.text if isinstance(message, load.Failure) else "released")
            for message in messages
            if isinstance(message, (load.Failure, load.Released))
        ]

    def close(self):
        self.driver.close()
        for port in (self.bebopd, self.port, self.yod):
            port.close()
        self.reactor.close()


@pytest.fixture
def host(contained):
    made = Host(contained)
    yield made
    made.close()


@pytest.mark.parametrize("job_id", [7, 8], ids=["at once", "from the loop"])
def test_an_action_that_raises_ends_its_job_only(host, contained, job_id):
    host.load(job_id)
    host.load(6)
    host.run()
    assert host.said() == [(job_id, TEXT), (job_id, "released")]
    assert contained.seen == [(f"job {job_id}", "broken")]
    assert list(host.node.jobs) == [6] and host.store.dropped == [job_id]


def test_an_object_that_cannot_be_received_ends_its_job_only(host, contained):
    host.load(6)
    host.load(9)  # its object has no room: the store has lost it
    host.run()
    assert contained.seen == [("job 9", "broken")]
    assert host.said() == [(9, TEXT), (9, "released")]
    assert list(host.node.jobs) == [6]


def test_a_message_of_no_job_that_raises_ends_its_connection(host, contained, monkeypatch):
    monkeypatch.setattr(host.node._admission, "why_not", broken)
    host.load(5)
    host.run()
    assert contained.seen == [(f"Load from {host.yod.id}", "broken")]
    assert "closed" in host.yod.events()[-1].text


def test_what_cannot_be_sent_for_no_job_is_told_and_the_node_goes_on(host, contained, monkeypatch):
    host.load(6)
    host.run()
    monkeypatch.setattr(host.port, "send", broken)
    host.driver._perform(host.node.begin(BEGIN))
    assert contained.seen == [(f"Announce to {host.bebopd.id}", "broken")]
    assert list(host.node.jobs) == [6]


def test_a_job_whose_end_cannot_be_told_leaves_nothing_here(host, contained, monkeypatch):
    host.load(6)
    host.run()
    monkeypatch.setattr(host.port, "send", broken)
    daemon = Principal(PrincipalKind.PARTITION, 0)
    host.driver.handle(received(load.Reset(6), daemon, host.yod.id))
    assert not host.node.jobs and not host.driver._jobs and host.store.dropped == [6]
