"""A launch for tests: its plan, its grant, and what bebopd and PCTs say to it."""

from __future__ import annotations

import signal

from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Action, DeadlineReached, MessageReceived, PeerGone, Send
from native.wire import alloc, io, load, pmi
from native.wire.base import JobEnd, Message
from native.wire.placed import GrantedNode, JobNodes
from native.wire.runs import JobRuns, RunRange
from yod.launch.events import FindPrograms, Finish, ProgramsFound, Tell
from yod.launch.machine import Launch
from yod.launch.phases import Phase
from yod.plan.checkpoint import Checkpointing
from yod.plan.plan import Options, Plan

JOB_ID = 7
BEBOPD = PortalId(1, 1)
DAEMON = Principal(PrincipalKind.PARTITION, 0)
LIMITS = Limits(notice_s=1e6, progress_told_s=1e6)  # nobody waits for so long
PROGRAM = load.ShippedObject(b"/bin/a.out", 2_000_000, b"d" * 32, 0o755)


def pct(place: int) -> PortalId:
    return PortalId(2, 1000 + place)


def node(place: int) -> GrantedNode:
    return GrantedNode(20 + place, f"n{20 + place}", *pct(place))


ROOT = pct(0)


def grant(size: int) -> alloc.Grant:
    """One rank on each of ``size`` nodes."""
    return alloc.Grant(
        job_id=JOB_ID,
        uid=1000,
        nodes=JobNodes.of(map(node, range(size))),
        runs=JobRuns((RunRange(0, 1, size),)),
        job_key=b"key",
        expires=5060,
        credential=b"credential",
        credential_mac=b"mac",
        pending_s=60.0,
    )


NO_MPI = load.Mpi(())


def plan(
    size: int,
    mpi: load.Mpi = NO_MPI,
    warnings: tuple[str, ...] = (),
    checkpointing: Checkpointing | None = None,
    **options,
) -> Plan:
    member = load.MemberLoad(size, 0, (b"a.out",), b"/home")
    return Plan(
        specs=(alloc.NodeSpec(size),),
        origins=("",),
        names=("a.out",),
        arguments=load.Arguments((member,), (b"A=1",)),
        objects=(PROGRAM,),
        are_arguments_inline=True,
        umask=0o22,
        limits=(),
        options=Options(**{"input_ranks": (), **options}),
        mpi=mpi,
        warnings=warnings,
        checkpointing=checkpointing,
    )


def slowest(place: int = 0) -> load.Slowest:
    return load.Slowest(node(place).node, node(place).name, 0.5)


def held(*ranks: int, is_last: bool = True, before_exec=()) -> load.Held:
    unix_pids = tuple(3000 + rank for rank in ranks)
    return load.Held(JOB_ID, ranks, unix_pids, before_exec, slowest(), is_last)


def outcome(
    *ranks: int, wait_status: int = 0, was_released: bool = True, was_signalled: bool = False
) -> load.Outcome:
    zeros = (0,) * len(ranks)
    return load.Outcome(
        wait_status,
        was_released,
        ranks,
        tuple(node(rank).node for rank in ranks),
        tuple(3000 + rank for rank in ranks),
        tuple(1000 for _ in ranks),
        zeros,
        zeros,
        zeros,
        was_signalled,
    )


def completions(*ranks: int, wait_status: int = 0, **fields) -> load.Completions:
    return load.Completions(JOB_ID, (outcome(*ranks, wait_status=wait_status, **fields),))


def failure(kind=load.FailureKind.OBJECT, place=1, rank=-1, text="broken", exit_code=0, **fields):
    here = node(place)
    phase = fields.get("phase", "loading")
    return load.Failure(JOB_ID, kind, phase, here.node, here.name, rank, text, exit_code)


def output(rank: int, data: bytes, offset: int = 0, stream: int = 1) -> io.Output:
    return io.Output(JOB_ID, rank, stream, offset, data)


def released(*places: int) -> load.Released:
    return load.Released.of(JOB_ID, tuple(node(place).node for place in places))


def command(count: int = 1, *hosts: bytes, **fields) -> pmi.SpawnCommand:
    return pmi.SpawnCommand(
        **{
            "program": b"./worker",
            "arguments": (b"-w",),
            "count": count,
            "hosts": hosts,
            **fields,
        }
    )


def ask(*commands: pmi.SpawnCommand, serial: int = 1, is_tool: bool = False) -> pmi.Ask:
    """Rank 1 asks its node for more ranks, and that yod."""
    question = pmi.Spawn(pmi.Process(0, 1), commands, (pmi.KeyValue(b"k", b"v"),), is_tool)
    return pmi.Ask(JOB_ID, 1, 0, serial, question)


class Yod:
    """A launch machine; checks its invariants at each event.

    Attributes:
        ends: how bebopd was told that jobs have ended; the releases in actions are without.
    """

    def __init__(self, size: int = 2, *, limits: Limits = LIMITS, **options) -> None:
        self.now = 100.0
        self.size = size
        self.ends: list[JobEnd | None] = []
        self.machine = Launch(plan(size, **options), limits, BEBOPD, "host:1")
        self.first = self.machine.begin(self.now)
        self._how = {"limits": limits, **options}

    @property
    def phase(self) -> Phase:
        return self.machine.phase

    @property
    def report(self):
        return self.machine.report

    @property
    def status(self) -> int | None:
        return self.machine.report.exit_status

    def handle(self, event) -> list[Action]:
        actions = self.machine.handle(event, self.now)
        self.machine.check()
        return [self._without_end(action) for action in actions]

    def _without_end(self, action: Action) -> Action:
        match action:
            case Send(_, alloc.Release(job_id, end, _, lost)):
                self.ends.append(end)
                return to_bebopd(alloc.Release(job_id, lost=lost))
        return action

    def receive(self, message: Message, source: PortalId = ROOT) -> list[Action]:
        return self.handle(MessageReceived(source, DAEMON, message))

    def spawn(self, *commands: pmi.SpawnCommand, **fields) -> list[Action]:
        """A rank asks for more, and every program is found; what comes of it."""
        wanted = ask(*commands, **fields)
        assert self.receive(wanted) == [FindPrograms(wanted)]
        paths = tuple(b"/bin/worker%d" % number for number in range(len(commands)))
        return self.handle(ProgramsFound(wanted, paths))

    def from_bebopd(self, message: Message) -> list[Action]:
        return self.receive(message, BEBOPD)

    def lose(self, peer: PortalId, text: str = "connection reset") -> list[Action]:
        return self.handle(PeerGone(peer, text))

    def wait(self, seconds: float) -> list[Action]:
        """Let time pass; what was done at the deadlines in between."""
        until, actions = self.now + seconds, []
        while (due := self.machine.deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            actions += self.handle(DeadlineReached())
        self.now = until
        return actions

    def to(self, phase: Phase) -> Yod:
        """Bring it there by the ordinary way."""
        ranks = range(self.size)
        if phase is Phase.HELD:  # only then it is not the ordinary way
            self.__init__(self.size, **self._how | {"awaits_user": True})
        if phase is Phase.ALLOCATING:
            return self
        self.from_bebopd(grant(self.size))
        if phase is Phase.FORMING:
            return self
        lacking = (0,) if phase is Phase.LOADING else ()
        self.receive(load.Vote(JOB_ID, self.size, lacking, (), slowest()))
        if phase in (Phase.LOADING, Phase.STARTING):
            return self
        self.receive(held(*ranks))
        if phase in (Phase.HELD, Phase.RUNNING):
            return self
        self.receive(completions(*ranks))
        if phase is Phase.ENDING:
            return self
        if phase is Phase.RESETTING:
            self.wait(LIMITS.end_s)
            return self
        self.receive(released(*ranks))
        if phase is Phase.RELEASING:
            return self
        self.from_bebopd(alloc.Released(JOB_ID))
        return self


def to_root(message: Message) -> Send:
    return Send(ROOT, message)


def to_bebopd(message: Message) -> Send:
    return Send(BEBOPD, message)


def told(actions: list[Action]) -> list[str]:
    return [action.text for action in actions if isinstance(action, Tell)]


def sent(actions: list[Action]) -> list[Message]:
    return [action.message for action in actions if isinstance(action, Send)]


def signal_all(number: int) -> Send:
    return to_root(load.Signal(JOB_ID, number))


def resets(*places: int) -> list[Send]:
    return [Send(pct(place), load.Reset(JOB_ID)) for place in places]


def leave(yod: Yod) -> int | None:
    """The tree confirms its end, then bebopd; the exit status."""
    if yod.phase is Phase.ENDING:
        yod.receive(released(*range(yod.size)))
    assert yod.phase is Phase.RELEASING
    assert yod.from_bebopd(alloc.Released(JOB_ID)) == [Finish()]
    assert yod.phase is Phase.DONE
    return yod.status


GO = to_root(load.Go(JOB_ID))
LINES = [to_root(io.OutputCredit(JOB_ID, each, LIMITS.line_room_bytes)) for each in io.STREAMS]
ALL_DONE = to_root(load.AllDone(JOB_ID))
RELEASE = to_bebopd(alloc.Release(JOB_ID))
INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
AFTER_GO = (Phase.RUNNING, Phase.ENDING, Phase.RESETTING, Phase.RELEASING)
