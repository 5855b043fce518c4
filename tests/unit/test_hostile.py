"""Real machines and a real driver under well-formed hostile messages, in any order.

Nothing contains what they raise here: an exception other than the word for a violation
fails the test, with the seed in its name.
"""

from __future__ import annotations

import os
from typing import get_args

import pytest
from msgspec import inspect, msgpack
from msgspec.structs import replace

from allocator.bebopd import Bebopd
from allocator.jobs.grants import Owner
from allocator.nodes.placement_list import ListPlacement
from native.errors import PeerProtocolError
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.loop.reactor import Reactor
from native.machine import DeadlineReached, MessageReceived, PeerGone, Send
from native.port.port import Hub, Received
from native.wire import codec, load, pmix, status
from native.wire import keeper as wire
from native.wire.alloc import NodeRequest, NodeSpec
from native.wire.placed import GrantedNode
from native.wire.runs import Run
from pct.driver import Driver
from pct.events import KeeperReported
from pct.host.reports import Reports
from pct.host.store import Store
from pct.pmi_events import PmixReceived, PmixServerEnded
from tests.support.hostile import TEXTS, Maker, decoded
from tests.support.wait import LIMIT_S
from tests.unit.pct.job_of import JOB_ID, OPENED, PMIX, PRESENT, load_message
from tests.unit.pct.node_of import credential_for, granted, node_at, ready, received
from tests.unit.yod import launch_of
from yod.launch.phases import Phase

MESSAGES = 120
DAEMON = Principal(PrincipalKind.PARTITION, 0)
SEEDS = range(25)


def sent(actions):
    """Every message must be one that its receiver can read."""
    for action in actions:
        if isinstance(action, Send):
            assert codec.why_refused(action.message) == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_bebopd_goes_on(seed):
    maker = Maker(seed, (0, 1, 2, 3, 1000))
    machine = Bebopd(
        ListPlacement(),
        epoch=1,
        next_job_id=1,
        sign=lambda data: b"mac",
        job_key=lambda *ids: b"key",
        owner_of=lambda uid: Owner(uid, "alice", uid) if uid else None,
        wall_clock=lambda: 5000.0,
        limits=Limits(),
    )
    now = 100.0
    peers = [PortalId(1, number) for number in range(1, 5)]
    for number, peer in enumerate(peers[:2]):
        announce = status.Announce(number, f"n{number}", 4, 1, peer.pid, 7)
        machine.handle(MessageReceived(peer, DAEMON, announce), now)
    for _ in range(MESSAGES):
        now += maker.rng.choice((0.0, 1.0, 20.0))
        peer = maker.rng.choice(peers)
        principals = [DAEMON, Principal(PrincipalKind.USER, maker.rng.choice((0, 1000)))]
        principal = maker.rng.choice([*principals, Principal(PrincipalKind.JOB, 1000, 1)])
        event = DeadlineReached() if maker.rng.random() < 0.05 else PeerGone(peer, "gone")
        if maker.rng.random() < 0.9:
            honest = NodeRequest((NodeSpec(2),), "a.out")
            data = maker.twisted(honest) if maker.rng.random() < 0.3 else None
            message = decoded(data or maker.made_up(maker.rng.choice((1, 2, 3, 77))))
            if message is None:
                continue
            event = MessageReceived(peer, principal, message)
        sent(machine.handle(event, now))
        machine.check()


@pytest.mark.parametrize("phase", [p for p in Phase if p is not Phase.DONE])
@pytest.mark.parametrize("seed", range(6))
def test_a_launch_goes_on_or_ends(phase, seed):
    maker = Maker(seed, (0, 1, 20, 21))
    yod = launch_of.Yod(2).to(phase)
    for _ in range(MESSAGES):
        source = maker.rng.choice([launch_of.BEBOPD, launch_of.ROOT, launch_of.pct(1)])
        message = decoded(maker.made_up(launch_of.JOB_ID))
        try:
            if message is not None:
                sent(yod.receive(message, source))
        except PeerProtocolError:
            continue


# -- a PCT -----------------------------------------------------------------


class Host:
    """A node with its real driver, store and keepers; yods and other nodes are the test's."""

    def __init__(self, directory):
        hub = Hub()
        self.uid = os.geteuid()
        self.hub = hub
        self.ports = [hub.port(DAEMON) for _ in range(4)]
        self.bebopd, self.port, self.parent, self.child = self.ports
        self.reactor = Reactor()
        self.node = node_at(self.port, self.bebopd, 8, Limits(end_s=0.5, orphan_s=0.2))
        store = Store([str(directory)], self.reactor)
        self.driver = Driver(self.node, self.port, self.reactor, store)
        self.driver.start()
        self.bebopd.send(self.port.id, status.Accepted(20, 77, 10.0))
        self.run()

    def yod(self, job_id):
        """The port of a yod with a grant."""
        port = self.hub.port(Principal(PrincipalKind.JOB, self.uid, job_id))
        self.ports.append(port)
        return port

    def load(self, job_id, **fields):
        """An honest load of /bin/true on this node, and of one below it."""
        here = GrantedNode(20, "n20", *self.port.id)
        below = GrantedNode(21, "n21", *self.child.id)
        nodes = fields.pop("nodes", (here, below))
        members = (load.MemberLoad(len(nodes), 0, (b"true",), b"/"),)
        return load_message(
            job_id=job_id,
            credential=credential_for(job_id, *nodes, uid=self.uid, gid=os.getegid()),
            nodes=nodes,
            runs=tuple(Run(place, 1) for place in range(len(nodes))),
            objects=(load.ShippedObject(b"/bin/true", 1, b"", 0o755),),
            arguments=load.Arguments(members, ()),
            **fields,
        )

    def run(self, turns=3):
        for _ in range(turns):
            self.reactor.run_once(0)

    def wait_until(self, is_so):
        until = self.reactor.monotonic() + LIMIT_S
        while not is_so():
            assert self.reactor.monotonic() < until, self.node.state(0.0)
            self.reactor.run_once(0.05)

    def heard(self, port):
        return [event.message for event in port.events() if isinstance(event, Received)]

    def close(self):
        self.driver.close()
        for port in self.ports:
            port.close()
        self.reactor.close()


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_goes_on_and_is_free_afterwards(host, seed):
    """Yods with a grant, a parent, a child and a stranger say what they like."""
    maker = Maker(seed, (0, 1, 20, 21, 7))
    rng = maker.rng
    stranger = host.hub.port(Principal(PrincipalKind.USER, 1000))
    host.ports.append(stranger)
    yods = {job_id: host.yod(job_id) for job_id in (1, 2, 3)}
    for _ in range(MESSAGES):
        job_id = rng.choice(list(yods))
        source = rng.choice([yods[job_id], yods[job_id], host.parent, host.child, stranger])
        honest = [
            host.load(job_id),
            replace(host.load(job_id), arguments=None),
            load.Vote(job_id, 1, (0,), (), load.Slowest(21, "n21", 0.0)),
            load.Held(job_id, (1,), (77,), (), load.Slowest(21, "n21", 0.0), True),
            load.Go(job_id),
        ]
        chosen = rng.random()
        data = maker.made_up(job_id) if chosen < 0.6 else maker.twisted(rng.choice(honest))
        message = rng.choice(honest) if chosen > 0.9 else decoded(data)
        if message is None or isinstance(message, status.Rejected):
            continue
        source.send(host.port.id, message)
        host.run()
    for job_id, port in yods.items():
        port.send(host.port.id, load.Reset(job_id))
    host.wait_until(lambda: not host.node.jobs)
    assert host.node.reservation.slots_used == 0
    host.node.check()

    innocent = host.yod(9)
    host.bebopd.send(host.port.id, status.Accepted(20, 77, 10.0))
    here = (GrantedNode(20, "n20", *host.port.id),)
    innocent.send(host.port.id, host.load(9, nodes=here))
    said = []

    def hears(kind):
        said.extend(host.heard(innocent))
        return any(isinstance(message, kind) for message in said)

    host.wait_until(lambda: hears(load.Held))
    innocent.send(host.port.id, load.Go(9))
    host.wait_until(lambda: hears(load.Completions))
    (ended,) = [message for message in said if isinstance(message, load.Completions)]
    assert ended.outcomes[0].wait_status == 0


# -- what is the user's on a node: keepers and PMIx servers -----------------

FROM_SERVER = [inspect.type_info(kind) for kind in get_args(pmix.FromServer)]


def report_of(rng):
    """A report of a keeper, well-formed and perhaps a lie."""
    rank = rng.choice((0, 1, 2, 77))
    match rng.randrange(5):
        case 0:
            return wire.RankStarted(rank, rng.choice((1, 4000)), rng.choice((0, 4000)))
        case 1:
            return wire.RankHeld(rank, rng.choice(list(wire.HowHeld)))
        case 2:
            step = rng.choice(list(wire.ExecStep))
            return wire.ExecFailed(rank, rng.choice((2, 13, 9999)), step, rng.choice(TEXTS))
        case 3:
            status = rng.choice((0, 9, 256, 0xFFFF, (1 << 32) - 1))
            times = (rng.choice((0.0, 1e9)), 0.0, rng.choice((0, 1 << 50)), 0.0)
            return wire.RankEnded(rank, status, rng.random() < 0.5, *times, rng.choice(LIBRARIES))
    return rng.choice([wire.KeeperEmpty(), wire.KeeperLost("x" * 5000)])


LIBRARIES = ("", "/lib/libmpi.so", "/" * 5000, "\\xff" * 4096)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_keeper_and_a_server_that_lie_harm_their_job_only(seed):
    """They run as the job's user; what they say is checked as it is for real ones."""
    maker = Maker(seed, (0, 1, 2))
    rng = maker.rng
    node = ready(slots=4)
    node.handle(received(granted(2, 2, mpi=PMIX)), 0.0)
    job = node.jobs[JOB_ID]
    for event in (PRESENT, OPENED):
        sent(node.handle(event, 0.0))
    reports = Reports((0, 1))
    for _ in range(MESSAGES):
        event = None
        if rng.random() < 0.5:
            raw = maker.value(rng.choice(FROM_SERVER))
            event = server_says(msgpack.encode(raw), job)
        elif rng.random() < 0.02:
            event = PmixServerEnded(JOB_ID, "gone")
        else:
            report = report_of(rng)
            try:
                reports.check(report)
            except PeerProtocolError:
                continue
            event = KeeperReported(JOB_ID, report)
        try:
            if event is not None:
                sent(node.handle(event, 1.0))
        except PeerProtocolError:
            continue
        node.check()


def server_says(data, job):
    """An event, if the codec lets it in; names of worlds are often real ones."""
    for world in job._wiring.wireup._worlds:
        data = data.replace(b"\xa5node0", bytes([0xA0 + len(world.name)]) + world.name.encode())
    try:
        return PmixReceived(JOB_ID, pmix.decode_from_server(data))
    except PeerProtocolError:
        return None
