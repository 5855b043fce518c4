"""Jobs for tests: the load message of a small job, and one job machine a place."""

from __future__ import annotations

from collections import deque

import msgspec

from native.ids import PortalId, Principal, PrincipalKind
from native.limits import JOB_STORE_BYTES
from native.machine import Action, DeadlineReached, Event, MessageReceived, PeerGone, Send
from native.wire import codec, keeper, load, pmi, pmix
from native.wire.alloc import Credential
from native.wire.base import Message
from native.wire.load import Mpi, Protocol
from native.wire.placed import GrantedNode, JobNodes
from native.wire.pmi import FenceKind, Participants
from native.wire.runs import JobRuns, Run
from pct.events import (
    KeeperReported,
    KillOrphans,
    LeftoversRemoved,
    ObjectsChecked,
    OrphansKilled,
    RemoveLeftovers,
    StartKeeper,
    TellBebopd,
)
from pct.job.machine import Job
from pct.job.progress import JobState
from pct.pmi_events import (
    OpenPmi,
    PmiClosed,
    PmiConnected,
    PmiOpened,
    PmiReceived,
    PmiReply,
    PmixReceived,
    PmixSend,
    PmixServerEnded,
    StartPmixServer,
)

JOB_ID = 7
YOD = PortalId(1, 70000)
STRANGER = PortalId(9, 9)
DAEMON = Principal(PrincipalKind.PARTITION, 0)
OWNER = Principal(PrincipalKind.JOB, 1000, JOB_ID)
PROGRAM = load.ShippedObject(b"/bin/a.out", 100, b"d" * 32, 0o755)
CARRIER = load.ShippedObject(b"", 50, b"a" * 32, 0)  # of arguments
BEGIN = 100.0
NOW = BEGIN + 1
PMI1 = Mpi((Protocol.PMI1,))
PMIX = Mpi((Protocol.PMIX,))
SPACE = "yod_7_" + b"mac-of-c".hex()  # of world 0: its key-value space and namespace
NID = 0x0A000002  # of every node
PORTALS = Mpi((Protocol.PMI1,), has_portals=True)
PORT = b"127.0.0.1:4000"  # of every node's listener


def pct(place: int) -> PortalId:
    return PortalId(NID, 1000 + place)


def node(place: int) -> GrantedNode:
    return GrantedNode(20 + place, f"n{20 + place}", *pct(place))


def job_nodes(size: int, slots: int = 1) -> JobNodes:
    """The nodes of a job with as many slots on each."""
    return JobNodes.of(msgspec.structs.replace(node(place), slots=slots) for place in range(size))


def placed(fields: dict) -> dict:
    """Fields of a load message, in which nodes and runs may be sequences."""
    for name, cls in (("nodes", JobNodes), ("runs", JobRuns)):
        if isinstance(fields.get(name), tuple):
            fields = fields | {name: cls.of(fields[name])}
    return fields


def arguments(ranks: int, object_index: int = 0) -> load.Arguments:
    member = load.MemberLoad(ranks, object_index, (b"a.out", b"-x"), b"/home")
    return load.Arguments((member,), (b"A=1",))


def load_message(size: int = 1, place: int = 0, ranks_each: int = 1, **fields) -> load.Load:
    """The load of a job with ``size`` nodes and as many ranks on each."""
    return load.Load(
        **{
            "job_id": JOB_ID,
            "credential": b"credential",
            "credential_mac": b"mac-of-credential",
            "place": place,
            "nodes": job_nodes(size, ranks_each),
            "runs": JobRuns.of(Run(place, ranks_each) for place in range(size)),
            "arity": 2,
            "objects": (PROGRAM,),
            "arguments": arguments(size * ranks_each),
            "umask": 0o22,
            "limits": ((7, 1024),),
            "mpi": PMI1,
            "input_ranks": (),
            "chunk_bytes": 4096,
            "deadline_s": 30.0,
            "orphan_s": 10.0,
            "output_window_bytes": 64 * 1024,
            **placed(fields),
        }
    )


def credential(size: int = 1, ranks_each: int = 1, **fields) -> Credential:
    return Credential(
        **{
            "job_id": JOB_ID,
            "uid": 1000,
            "gid": 100,
            "groups": (100, 27),
            "epoch": 77,
            "expires": 5060,
            "nodes_digest": codec.nodes_digest(job_nodes(size, ranks_each)),
            **fields,
        }
    )


def received(source: PortalId, message: Message) -> MessageReceived:
    return MessageReceived(source, OWNER if source == YOD else DAEMON, message)


def slowest(place: int = 0, seconds: float = 0.0) -> load.Slowest:
    return load.Slowest(node(place).node, node(place).name, seconds)


def vote(place: int, *lacking: int, count: int = 1) -> load.Vote:
    return load.Vote(JOB_ID, count, lacking, (), slowest(place))


def started(rank: int, world: int = 0, port: int = 0) -> KeeperReported:
    return KeeperReported(JOB_ID, keeper.RankStarted(rank, 3000 + rank, port), world)


def held(rank: int, how: keeper.HowHeld = keeper.HowHeld.PRELOAD, world: int = 0) -> KeeperReported:
    return KeeperReported(JOB_ID, keeper.RankHeld(rank, how), world)


def ended(
    rank: int,
    wait_status: int = 0,
    was_released: bool = True,
    world: int = 0,
    mpi_library: str = "",
) -> KeeperReported:
    report = keeper.RankEnded(rank, wait_status, was_released, 1.5, 0.25, 8192, 999.0, mpi_library)
    return KeeperReported(JOB_ID, report, world)


def failure(kind, phase, text, place=0, rank=-1, exit_code=0) -> load.Failure:
    """What a place says of a failure."""
    here = node(place)
    return load.Failure(JOB_ID, kind, phase, here.node, here.name, rank, text, exit_code)


def fence(kind: FenceKind = FenceKind.PMI, *ranks: int, number: int = 0) -> pmi.Fence:
    """A fence of ranks of world 0; without ranks: of all."""
    return pmi.Fence(kind, (Participants(0, ranks),), number)


def spawn(world: int, *places: int, first_rank: int = 7, **fields) -> load.StartWorld:
    """yod's answer to a spawn: one more rank on each of these places, in this order."""
    return load.StartWorld(
        **{
            "job_id": JOB_ID,
            "world": world,
            "first_rank": first_rank,
            "runs": tuple(Run(place, 1) for place in places),
            "paths": (b"/bin/worker",),
            "members": (load.MemberLoad(len(places), 0, (b"worker", b"-w"), b"/tmp"),),
            "environments": ((b"MODE=fast",),),
            "parent": pmi.Process(0, 0),
            "pairs": (),
            "is_tool": False,
            "source": 0,
            "serial": 1,
            **fields,
        }
    )


def says(rank: int, *lines: bytes) -> PmiReceived:
    """Lines of the client on the connection that has the rank's number."""
    return PmiReceived(JOB_ID, rank, b"".join(line + b"\n" for line in lines))


def joins(rank: int) -> tuple[PmiConnected, PmiReceived]:
    """A rank connects and initialises; its connection has its number."""
    init = b"cmd=init pmi_version=1 pmi_subversion=1"
    return PmiConnected(JOB_ID, rank, None), says(rank, b"cmd=initack pmiid=%d" % rank, init)


def hangs_up(connection: int) -> PmiClosed:
    return PmiClosed(JOB_ID, connection)


def server(message: pmix.FromServer) -> PmixReceived:
    """What a PMIx server says."""
    return PmixReceived(JOB_ID, message)


def added(message: pmix.AddWorld) -> PmixReceived:
    """A PMIx server has taken a world."""
    environments = tuple((b"PMIX_RANK=%d" % rank,) for rank in message.local_ranks)
    return server(pmix.Added(message.serial, 0, environments))


READY = server(pmix.Ready(b"/lib/libpmix.so.2", "5.0.11"))
OPENED = PmiOpened(JOB_ID, PORT)
EMPTY = LeftoversRemoved(JOB_ID, 0)  # nothing is left of the ranks
SERVER_ENDED = PmixServerEnded(JOB_ID, "killed by SIGKILL")
PRESENT = ObjectsChecked(JOB_ID, ((0, b"/bin/a.out"),), (), ())
LACKING = ObjectsChecked(JOB_ID, (), (0,), ())
GO = received(YOD, load.Go(JOB_ID))
ALL_DONE = received(YOD, load.AllDone(JOB_ID))
RESET = received(YOD, load.Reset(JOB_ID))
RUNNING = (PRESENT, started(0), held(0), GO)


def a_job(
    *events, size=1, place=0, ranks_each=1, parent=YOD, unkillable_s=float("inf"), **fields
) -> Job:
    """A job that has begun, listens for its clients, and has had these events."""
    message = load_message(size, place, ranks_each, **fields)
    job = Job(message, credential(size, ranks_each), parent, BEGIN, unkillable_s=unkillable_s)
    job.begin(BEGIN)
    if message.arguments is not None:
        job.handle(OPENED, BEGIN)
    for event in events:
        job.handle(event, BEGIN)
        job.check()
    return job


def to_yod(message: Message) -> Send:
    return Send(YOD, message)


class Tree:
    """The jobs of one load at all their places. What they send one another arrives.

    Listeners open at once, and PMIx servers take what they are told.

    Args:
        has_servers: PMIx servers answer; else the test does.
        notice_s: who is late for longer is told.

    Attributes:
        to_yod, to_bebopd: messages that have gone there, in order.
        actions: by place, everything else that was asked for.
    """

    def __init__(
        self,
        size: int = 3,
        ranks_each: int = 1,
        has_servers: bool = True,
        notice_s: float = float("inf"),
        store_bytes: int = JOB_STORE_BYTES,
        **fields,
    ) -> None:
        self.store_bytes = store_bytes
        self.now = BEGIN
        self.size = size
        self.jobs: dict[int, Job] = {}
        self.to_yod: list[Message] = []
        self.to_bebopd: list[Message] = []
        self.actions: dict[int, list[Action]] = {place: [] for place in range(size)}
        self.gone: set[int] = set()
        self.credential = credential(size, ranks_each)
        self.has_servers = has_servers
        self.notice_s = notice_s
        self._places = {pct(place): place for place in range(size)}
        self._waiting: deque[tuple[PortalId, PortalId, Message]] = deque()
        self._send(YOD, pct(0), load_message(size, 0, ranks_each, **fields))

    def at(self, place: int, *events) -> None:
        """Events at one place, and what follows from them everywhere."""
        for event in events:
            self._do(place, self.jobs[place].handle(event, self.now))
        self._run()

    def everywhere(self, *events) -> None:
        for place in self.alive():
            self.at(place, *events)

    def from_yod(self, message: Message, place: int = 0) -> None:
        self._send(YOD, pct(place), message)

    def lose(self, place: int, *noticed_by: int) -> None:
        """A node dies; those who had a connection to it are told in this order."""
        self.gone.add(place)
        for other in noticed_by:
            self.at(other, PeerGone(pct(place), "connection reset"))

    def wait(self, seconds: float) -> None:
        """Let time pass, place by place."""
        self.now += seconds
        for place in self.alive():
            due = self.jobs[place].deadline()
            if due is not None and due <= self.now:
                self.at(place, DeadlineReached())

    def start(self) -> None:
        """Everywhere the object is here, and every rank comes to its entry."""
        self.everywhere(PRESENT)
        for place in self.alive():
            for rank in self.jobs[place].ranks:
                self.at(place, started(rank), held(rank))

    def run(self) -> None:
        self.start()
        self.from_yod(load.Go(JOB_ID))

    def alive(self) -> list[int]:
        return [place for place in self.jobs if place not in self.gone]

    def states(self) -> list[JobState]:
        return [self.jobs[place].state for place in sorted(self.alive())]

    def take_to_yod(self) -> list[Message]:
        taken, self.to_yod = self.to_yod, []
        return taken

    def said(self, place: int, connection: int) -> bytes:
        """All that a client has been answered."""
        replies = self.took(place, PmiReply)
        return b"".join(each.data for each in replies if each.connection == connection)

    def told(self, place: int, kind: type[pmix.PmixMessage]) -> list[pmix.PmixMessage]:
        """What the PMIx server of a place has been told, of one kind."""
        messages = [action.message for action in self.took(place, PmixSend)]
        return [message for message in messages if isinstance(message, kind)]

    def took(self, place: int, kind: type[Action]) -> list[Action]:
        """What a place asked for, of one kind."""
        return [action for action in self.actions[place] if isinstance(action, kind)]

    def _send(self, source: PortalId, target: PortalId, message: Message) -> None:
        self._waiting.append((source, target, message))
        self._run()

    def _run(self) -> None:
        while self._waiting:
            source, target, message = self._waiting.popleft()
            place = self._places.get(target)
            if target == YOD:
                self.to_yod.append(message)
            elif place is None or place in self.gone:
                continue
            elif isinstance(message, load.Load):
                limits = (self.notice_s, self.store_bytes)
                job = Job(message, self.credential, source, self.now, *limits)
                self.jobs[place] = job
                self._do(place, job.begin(self.now))
            elif self.jobs[place].state is JobState.RELEASED:  # as a node answers
                if isinstance(message, (load.AllDone, load.Reset)):
                    freed = load.Released.of(JOB_ID, (node(place).node,))
                    self._waiting.append((target, source, freed))
            else:
                self._do(place, self.jobs[place].handle(received(source, message), self.now))

    def _do(self, place: int, actions: list[Action]) -> None:
        self.jobs[place].check()
        answers: list[Event] = []
        for action in actions:
            match action:
                case Send(target, message):
                    self._waiting.append((pct(place), target, message))
                case TellBebopd(message):
                    self.to_bebopd.append(message)
                case _:
                    self.actions[place].append(action)
                    answers += self._answers(action)
        for event in answers:
            self._do(place, self.jobs[place].handle(event, self.now))

    def _answers(self, action: Action) -> list[Event]:
        match action:
            case OpenPmi():
                return [OPENED]
            case KillOrphans(job_id, world):
                return [OrphansKilled(job_id, world)]
            case RemoveLeftovers(job_id, world):
                return [LeftoversRemoved(job_id, world)]
            case StartPmixServer() if self.has_servers:
                return [READY]
            case PmixSend(_, pmix.AddWorld() as message) if self.has_servers:
                return [added(message)]
        return []


def running(size: int = 3, mpi: Mpi = PMI1, **fields) -> Tree:
    """A running job, of which yod has taken what there was."""
    tree = Tree(size, mpi=mpi, **fields)
    tree.run()
    tree.take_to_yod()
    return tree


def keeper_spec(actions: list[Action]) -> keeper.KeeperSpec:
    """What the only keeper started by these actions is to do."""
    (spec,) = (action.spec for action in actions if isinstance(action, StartKeeper))
    return spec


def replaced(message: Message, **fields) -> Message:
    return msgspec.structs.replace(message, **fields)
