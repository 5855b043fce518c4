"""A small partition for tests: bebopd's machine, and what PCTs and yods say to it."""

from msgspec.structs import replace

from allocator.batch.job import RecordEvent
from allocator.bebopd import Bebopd
from allocator.jobs.accounting import RecordPast
from allocator.jobs.grants import Owner
from allocator.nodes.orders import RecordNodeEvent
from allocator.nodes.placement_list import ListPlacement
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import DeadlineReached, Log, MessageReceived, PeerGone, Send
from native.wire.alloc import Grant, NodeRequest, NodeSpec, Release
from native.wire.status import Announce

DAEMON = Principal(PrincipalKind.PARTITION, 0)
ALICE = Principal(PrincipalKind.USER, 1000)
BOB = Principal(PrincipalKind.USER, 1001)
HISTORY = (RecordPast, RecordEvent, RecordNodeEvent)
NAMES = {0: "root", 1000: "alice", 1001: "bob"}
YOD = PortalId(1, 70000)
EPOCH = 77


def pct(number, restarts=0):
    """The address of a node's PCT."""
    return PortalId(2, 1000 + number + 100 * restarts)


def spec(size, *nodes, **fields):
    return NodeSpec(size, nodes, **fields)


class Partition:
    """A machine with nodes 0 to ``count - 1``; checks its invariants at each event.

    It looks at its line at each event, unless the limits say otherwise.

    Attributes:
        history: what it has recorded of jobs and nodes.
    """

    def __init__(self, count=4, slots=1, *, placement=None, limits=None, **options):
        self.now = 1000.0
        self.history = []
        self.checks = False  # until all nodes are there: it looks at each of them
        self.limits = limits or Limits(silent_s=1e6)  # nobody repeats announcements
        if self.limits.pass_s == Limits().pass_s:
            self.limits = replace(self.limits, pass_s=0.0)
        self.machine = Bebopd(
            placement or ListPlacement(),
            **{
                "epoch": EPOCH,
                "next_job_id": 1,
                "sign": lambda data: b"mac of " + data[:8],
                "job_key": lambda job_id, uid, expires: f"{job_id} {uid} {expires}".encode(),
                "owner_of": lambda uid: Owner(uid, NAMES[uid], uid) if uid in NAMES else None,
                "wall_clock": lambda: self.now + 5000.5,
                "limits": self.limits,
                **options,
            },
        )
        for number in range(count):
            self.announce(number, slots)
        self.checks = True

    def handle(self, event):
        actions = self.machine.handle(event, self.now)
        if self.checks:
            self.machine.check()
        self.history += [action for action in actions if isinstance(action, HISTORY)]
        return [action for action in actions if not isinstance(action, (Log, *HISTORY))]

    def receive(self, source, message, principal=DAEMON):
        return self.handle(MessageReceived(source, principal, message))

    def announce(self, number, slots=1, jobs=(), *, incarnation=1, source=None, name=None):
        source = source or pct(number)
        name = name or f"node{number}"
        return self.receive(
            source, Announce(number, name, slots, source.nid, source.pid, incarnation, jobs)
        )

    def request(self, *specs, source=YOD, principal=ALICE, **fields):
        """The answer to a request."""
        answer = self.receive(source, NodeRequest(specs, **fields), principal)[0]
        assert isinstance(answer, Send) and answer.target == source
        return answer.message

    def grant(self, *specs, **fields) -> Grant:
        answer = self.request(*specs, **fields)
        assert isinstance(answer, Grant), answer
        return answer

    def release(self, job_id, source=YOD, principal=ALICE, end=None):
        return self.receive(source, Release(job_id, end), principal)

    @property
    def past(self):
        """The final rows that it has recorded."""
        return [action.row for action in self.history if isinstance(action, RecordPast)]

    def lose(self, peer, text="connection reset"):
        return self.handle(PeerGone(peer, text))

    def wait(self, seconds):
        """Let time pass; what was done at the deadlines in between."""
        until, actions = self.now + seconds, []
        while (due := self.machine.deadline()) is not None and due <= until:
            self.now = due
            actions += self.handle(DeadlineReached())
        self.now = until
        return actions

    def free(self):
        """Free slots by node."""
        return {node.number: node.free() for node in self.machine.nodes}


def ranks_by_node(grant):
    """Rank by rank the node it is on."""
    return [grant.nodes[run.place].node for run in grant.runs for _ in range(run.count)]
