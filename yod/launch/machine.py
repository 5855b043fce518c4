"""One launch, from the request for nodes to the last word about it.

yod talks to bebopd, and to the root PCT, which stands for the whole tree. The
exception is a reset: when the tree is broken or the user has pressed three times,
each PCT is told by itself.

    ALLOCATING  asked bebopd for nodes
    FORMING     load message sent to the root; waiting for the vote
    LOADING     objects go down the tree
    STARTING    ranks are being brought to their entry
    RUNNING     go was sent
    ENDING      all done was sent, or the end is being forced
    RESETTING   every PCT has been told to reset
    RELEASING   bebopd has been asked to confirm that the slots are free
    DONE        nothing more will come
"""

from __future__ import annotations

import signal
from enum import Enum

from native.errors import IllegalTransition, PeerProtocolError, Refusal, UsageError
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, DeadlineReached, Event, MessageReceived, PeerGone, Send
from native.text import shown
from native.wire import alloc, codec, io, load, pmi
from native.wire.base import MESSAGE_MAX_BYTES, Message
from yod.launch.events import (
    Continued,
    CopyToShared,
    FindPrograms,
    Finish,
    InputRead,
    Interrupted,
    Leave,
    NotShared,
    ObjectDelivered,
    ObjectUndelivered,
    OutputClosed,
    OutputFailed,
    OutputWritten,
    ProgramsFound,
    ReadInput,
    SendObject,
    Shared,
    SignalToPass,
    StopAsked,
    Suspend,
    Tell,
    UseGrant,
    Write,
)
from yod.launch.output import OutputLedger
from yod.launch.report import NEVER_STARTED, SIGNAL_BASE, Report
from yod.launch.signals import Interrupts, Press, Stage
from yod.launch.spawn import Placement
from yod.launch.waiting import Waiting, files
from yod.plan.plan import Plan, Style


class Phase(Enum):
    """Where a launch is."""

    ALLOCATING = "allocate"
    FORMING = "form"
    LOADING = "load"
    STARTING = "start"
    RUNNING = "run"
    ENDING = "end"
    RESETTING = "reset"
    RELEASING = "release"
    DONE = "done"


ADVICE = "is the partition up (yodctl status)? --partition or YOD_PARTITION chooses one"
BEFORE_GO = (Phase.ALLOCATING, Phase.FORMING, Phase.LOADING, Phase.STARTING)
OPEN = (*BEFORE_GO, Phase.RUNNING)  # the end has not been asked for yet
STAGES = {
    Phase.RUNNING: Stage.RUNNING,
    Phase.ENDING: Stage.ENDING,
    Phase.RESETTING: Stage.LEAVING,
    Phase.RELEASING: Stage.LEAVING,
}


class Launch:
    """State machine of one yod.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Attributes:
        report: what became of the ranks; complete in phase DONE.
        began: phase -> when it began.
        slowest: phase -> the node that took longest.
    """

    def __init__(self, plan: Plan, limits: Limits, bebopd: PortalId, bebopd_name: str) -> None:
        self.phase = Phase.ALLOCATING
        self.report = Report(plan.names, tuple(spec.size for spec in plan.specs))
        self.began: dict[Phase, float] = {}
        self.slowest: dict[Phase, load.Slowest] = {}
        self.grant: alloc.Grant | None = None
        self._plan = plan
        self._limits = limits
        self._bebopd = bebopd
        self._bebopd_name = bebopd_name
        self._until: float | None = None
        self._kill_at: float | None = None
        self._waiting = Waiting(limits.notice_s)
        self._has_sent_term = False
        self._are_stopped = False  # the ranks, with yod
        self._interrupts = Interrupts(limits.press_s)
        self._outputs = {stream: OutputLedger(limits.output_window_bytes) for stream in io.STREAMS}
        self._sent_signals: set[int] = set()
        self._to_confirm: dict[PortalId, int] = {}  # PCT -> node, not yet released
        self._to_share: set[int] = set()
        self._voted = False
        self._before_exec_count = 0
        self._placement: Placement | None = None
        self._world_count = 1
        self._has_told_of_lonely_ranks = False
        self._has_told_of_limit = False

    # -- the machine's face -----------------------------------------------

    def begin(self, now: float) -> list[Action]:
        """Ask for nodes."""
        self._enter(Phase.ALLOCATING, now, self._limits.allocate_s)
        request = alloc.NodeRequest(
            self._plan.specs, " ".join(self._plan.names)[:4096], self._plan.batch_job
        )
        return [Send(self._bebopd, request)]

    def deadline(self) -> float | None:
        """Time of the next ``DeadlineReached``, or None when nothing is timed."""
        times = (self._until, self._kill_at, self._waiting.due)
        return min((due for due in times if due is not None), default=None)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            PeerProtocolError: a message about what is not there; nothing has changed.
            IllegalTransition: no such event here; a bug.
        """
        if self.phase is Phase.DONE and not isinstance(event, (Interrupted, StopAsked)):
            return []
        match event:
            case MessageReceived(source, _, message):
                return self._message(source, message, now)
            case PeerGone(peer, text):
                return self._peer_gone(peer, text, now)
            case DeadlineReached():
                return self._deadline_reached(now)
            case Interrupted(number):
                return self._interrupted(number, now)
            case SignalToPass(number):
                return self._pass_signal(number)
            case StopAsked():
                return [*self._stop_ranks(), Suspend()]
            case Continued():
                return self._continue_ranks()
            case OutputWritten(stream, count_bytes):
                if count_bytes:  # else these were yod's own words
                    self._output_flows(now)
                return self._output_credit(stream, self._outputs[stream].written(count_bytes))
            case OutputFailed(text):
                return self._output_failed(NEVER_STARTED, text, now)
            case OutputClosed():
                return self._output_failed(SIGNAL_BASE + signal.SIGPIPE, "", now)
            case InputRead(data):
                return self._to_root(io.Input(self._job_id, data))
            case ObjectDelivered():
                return []
            case ObjectUndelivered(number, text):
                name = shown(self._plan.objects[number].path)
                return self._give_up(f"{name} could not be sent: {text}", now)
            case Shared(number, path):
                return self._shared(number, path)
            case NotShared(_, text):
                return self._give_up(text, now)
            case ProgramsFound(ask, paths, text):
                return self._spawn(ask, paths, text)
        raise IllegalTransition(self.phase, event)

    def check(self) -> None:
        """Assert the invariants."""
        assert (self.grant is None) <= (self.phase in (Phase.ALLOCATING, Phase.DONE))
        assert self.phase is not Phase.DONE or self.report.exit_status is not None

    # -- messages ---------------------------------------------------------

    def _message(self, source: PortalId, message: Message, now: float) -> list[Action]:
        if self.grant is None and not isinstance(message, (alloc.Grant, alloc.Refused)):
            return []  # bebopd's nonsense: nobody else can be heard yet
        match message:
            case alloc.Grant() if self.phase is Phase.ALLOCATING:
                return self._granted(message, now)
            case alloc.Grant(job_id):  # asked, and left in the meantime
                return [Send(self._bebopd, alloc.Release(job_id))]
            case alloc.Refused(code, text, spec):
                return self._refused(code, text, spec, now)
            case alloc.Released(_, unreachable) if self.phase is Phase.RELEASING:
                self.report.lose(*unreachable)
                return self._done()
            case io.Output():
                self._output_flows(now)
                return self._output_arrived(message)
            case io.InputCredit(_, count_bytes):
                return [ReadInput(count_bytes)] if self.phase is Phase.RUNNING else []
            case load.Vote():
                return self._voted_by_all(message, now)
            case load.Loaded(_, slowest):
                self.slowest[Phase.LOADING] = slowest
                if self.phase is Phase.LOADING:
                    self._enter(Phase.STARTING, now, self._patience())
                return []
            case load.Held():
                return self._held(message, now)
            case load.Late():
                self._waiting.late = message
                return []
            case load.Failure():
                return self._failure(message, now)
            case load.Completions(_, outcomes):
                return self._completions(outcomes, now)
            case load.Released(_, nodes):
                return self._released(source, nodes, now)
            case pmi.Ask(question=pmi.Spawn()) if self.phase is Phase.RUNNING:
                return [FindPrograms(message)]
            case pmi.Alone(_, rank, _, text) if self.phase in (Phase.RUNNING, Phase.ENDING):
                return self._ranks_are_alone(rank, text)
            case pmi.Excess(_, name, text) if self.phase in (Phase.RUNNING, Phase.ENDING):
                return self._limit_reached(name, text)
        return []

    # -- allocate to go ---------------------------------------------------

    def _granted(self, grant: alloc.Grant, now: float) -> list[Action]:
        self.grant = grant
        self.report.place(grant)
        self._placement = Placement(grant)
        self._to_confirm = {PortalId(node.nid, node.pid): node.node for node in grant.nodes}
        self._enter(Phase.FORMING, now, self._patience())
        plan, limits = self._plan, self._limits
        message = load.Load(
            job_id=grant.job_id,
            credential=grant.credential,
            credential_mac=grant.credential_mac,
            place=0,
            nodes=grant.nodes,
            runs=grant.runs,
            arity=self._arity(),
            objects=plan.objects,
            arguments=plan.arguments if plan.are_arguments_inline else None,
            umask=plan.umask,
            limits=plan.limits,
            mpi=plan.mpi,
            has_input=plan.options.has_input,
            chunk_bytes=limits.chunk_bytes,
            deadline_s=limits.phase_s,
            orphan_s=limits.orphan_s,
            output_window_bytes=limits.output_window_bytes,
            addresses=grant.addresses,
            ignored=plan.ignored_signals,
        )
        size = len(codec.encode_part(message))
        if size > MESSAGE_MAX_BYTES:
            self._to_confirm.clear()  # nobody has heard of it
            text = (
                f"the load message of {len(grant.nodes)} nodes has {size} bytes,"
                f" at most {MESSAGE_MAX_BYTES}; lower YOD_ARGUMENTS_INLINE_BYTES may help"
            )
            self.report.fail(NEVER_STARTED, text)
            return [Tell(text), *self._release(now)]
        return [UseGrant(grant), Send(self._root, message)]

    def _refused(self, code: Refusal, text: str, spec: int, now: float) -> list[Action]:
        if self.phase is Phase.RELEASING:
            return self._done()
        if self.phase is not Phase.ALLOCATING:
            return []
        origin = self._plan.origins[spec] if 0 <= spec < len(self._plan.origins) else ""
        self.report.fail(NEVER_STARTED, f"{origin}: {text}" if origin else text)
        return [Tell(self.report.reason), *self._done()]

    def _voted_by_all(self, vote: load.Vote, now: float) -> list[Action]:
        named = {*vote.lacking, *(room.object_index for room in vote.no_room)}
        if named and max(named) >= len(self._plan.objects):
            raise PeerProtocolError(f"a vote about object {max(named)}")
        self.slowest[Phase.FORMING] = vote.slowest
        if self.phase is not Phase.FORMING or self._voted:
            return []
        self._voted = True
        sizes = sum(shipped.size for shipped in self._plan.objects)
        self._enter(Phase.LOADING, now, self._patience() + sizes / 1e6)
        # Where some node has no room, nobody is sent the object: all read the copy.
        self._to_share = {room.object_index for room in vote.no_room}
        actions: list[Action] = [
            SendObject(number, self._root, self._job_id)
            for number in vote.lacking
            if number not in self._to_share
        ]
        for room in vote.no_room:
            name = shown(self._plan.objects[room.object_index].path)
            text = f"no room for {name} on {room.name} ({room.text}): using the shared file system"
            actions += [Tell(text), CopyToShared(room.object_index, self._job_id)]
        if not vote.lacking and not vote.no_room:
            # Nodes below may lack what the root has.
            self._enter(Phase.STARTING, now, self._patience() + sizes / 1e6)
        return actions

    def _shared(self, number: int, path: bytes) -> list[Action]:
        if self.phase is not Phase.LOADING:
            return []
        return self._to_root(load.UseShared(self._job_id, number, path))

    def _held(self, held: load.Held, now: float) -> list[Action]:
        self.report.map(held)
        self._before_exec_count += len(held.before_exec)
        if not held.is_last or self.phase not in (Phase.LOADING, Phase.STARTING):
            return []
        self.slowest[Phase.STARTING] = held.slowest
        actions: list[Action] = []
        if count := self._before_exec_count:
            text = f"{count} ranks were held before exec: tracing is forbidden on their nodes"
            actions.append(Tell(text, is_error=False))
        actions += map(Tell, self._plan.warnings)
        self._enter(Phase.RUNNING, now, None)
        actions += self._to_root(load.Go(self._job_id))
        if self._plan.options.style is not Style.RAW:
            # What lines hold back comes out of no window: with many ranks it would fill one.
            for stream in self._outputs:
                actions += self._output_credit(stream, self._limits.line_room_bytes)
        return actions

    # -- run --------------------------------------------------------------

    def _output_flows(self, now: float) -> None:
        """An end waits for output as long as there is any, however slow its reader."""
        if self.phase is Phase.ENDING:
            self._until = now + self._limits.end_s
            self._waiting.begin(now)

    def _has_output_waiting(self) -> bool:
        """Its reader has not taken it yet."""
        return any(each.waiting_bytes for each in self._outputs.values())

    def _output_arrived(self, message: io.Output) -> list[Action]:
        ledger = self._outputs[message.stream]
        data, gap = ledger.arrived(message)
        actions = self._output_credit(message.stream, ledger.credit())
        if gap:
            actions.append(Tell(f"{gap} bytes of rank {message.rank}'s output are lost"))
            self.report.note(f"{gap} bytes of output lost")
        actions.append(Write(message.stream, message.rank, data))
        return actions

    def _output_credit(self, stream: int, due_bytes: int) -> list[Action]:
        if not due_bytes:
            return []
        return self._to_root(io.OutputCredit(self._job_id, stream, due_bytes))

    def _completions(self, outcomes: tuple[load.Outcome, ...], now: float) -> list[Action]:
        actions: list[Action] = []
        for outcome in sorted(outcomes, key=lambda each: min(each.ranks, default=0)):
            was_clean = self.report.has_succeeded_so_far
            for rank in self.report.complete(outcome, self._sent_signals):
                if self._placement is not None:
                    self._placement.ended(rank)
            if was_clean and not self.report.has_succeeded_so_far and self.phase is Phase.RUNNING:
                actions += self._abnormal_end(now)
        if self.report.is_complete and self.phase is Phase.RUNNING:
            actions += self._all_done(now)
        return actions

    def _abnormal_end(self, now: float) -> list[Action]:
        """The first failure of a rank: the others end too, after a delay."""
        options = self._plan.options
        if self.report.is_complete:
            return []
        if options.keeps_going:
            return [Tell(f"{self.report.first_failure}; the others go on", is_error=False)]
        self._kill_at = now if options.kills_at_once else now + self._limits.kill_delay_s
        return []

    def _kill_due(self, now: float) -> list[Action]:
        """The delay after an abnormal end is over: SIGTERM, the same delay, SIGKILL."""
        failure = self.report.first_failure
        if self._has_sent_term or self._plan.options.kills_at_once:
            return [Tell(f"{failure}; the others are being killed"), *self._all_done(now)]
        self._has_sent_term = True
        self._kill_at = now + self._limits.kill_delay_s
        advice = "SIGTERM sent to the others (--keep-going lets them run)"
        return [Tell(f"{failure}; {advice}"), *self._signal(signal.SIGTERM)]

    def _signal(self, number: int) -> list[Action]:
        self._sent_signals.add(number)
        return self._to_root(load.Signal(self._job_id, number))

    def _pass_signal(self, number: int) -> list[Action]:
        name = signal.Signals(number).name
        if self.phase is Phase.RUNNING:
            return self._to_root(load.Signal(self._job_id, number))
        return [Tell(f"{name} ignored: the application is not running")]

    def _stop_ranks(self) -> list[Action]:
        """SIGSTOP: SIGTSTP stops nobody who is alone in a session."""
        if self.phase is not Phase.RUNNING:
            return []
        self._are_stopped = True
        return self._to_root(load.Signal(self._job_id, signal.SIGSTOP))

    def _continue_ranks(self) -> list[Action]:
        if not self._are_stopped or self.phase is not Phase.RUNNING:
            return []
        self._are_stopped = False
        return self._to_root(load.Signal(self._job_id, signal.SIGCONT))

    # -- spawn ------------------------------------------------------------

    def _spawn(self, ask: pmi.Ask, paths: tuple[bytes, ...], text: str) -> list[Action]:
        """More ranks, asked for by one of them."""
        question = ask.question
        if self.phase is not Phase.RUNNING or self._placement is None:
            return []
        assert isinstance(question, pmi.Spawn)
        if text:
            return self._not_spawned(ask, text)
        first_rank = self._placement.size
        try:
            runs = self._placement.choose(question.commands)
        except UsageError as error:
            return self._not_spawned(ask, str(error))
        world = self._world_count
        members = tuple(
            load.MemberLoad(
                command.count,
                number,
                (command.program, *command.arguments),
                self._directory_of(command),
            )
            for number, command in enumerate(question.commands)
        )
        message = load.Spawn(
            job_id=self._job_id,
            world=world,
            first_rank=first_rank,
            runs=runs,
            paths=paths,
            members=members,
            environments=tuple(command.environment for command in question.commands),
            parent=question.parent,
            pairs=question.pairs,
            is_tool=question.is_tool,
            source=ask.source,
            serial=ask.serial,
        )
        if text := codec.why_refused(message):
            return self._not_spawned(ask, text)
        self._placement.add(runs)
        self._world_count += 1
        names = tuple(shown(command.program) for command in question.commands)
        sizes = tuple(command.count for command in question.commands)
        self.report.spawn(names, sizes, runs, is_tool=question.is_tool)
        return self._to_root(message)

    def _directory_of(self, command: pmi.SpawnCommand) -> bytes:
        """Where a spawned program starts: a relative directory is below the load's."""
        here = self._plan.arguments.members[0].directory
        if not command.directory or command.directory.startswith(b"/"):
            return command.directory or here
        return here + b"/" + command.directory

    def _not_spawned(self, ask: pmi.Ask, text: str) -> list[Action]:
        reply = pmi.Reply(self._job_id, ask.source, ask.serial, -1, (), text[:4000])
        return [Tell(f"spawn: {text}"), *self._to_root(reply)]

    def _ranks_are_alone(self, rank: int, text: str) -> list[Action]:
        """Ranks that should be one world are each their own; said once."""
        if self._has_told_of_lonely_ranks:
            return []
        self._has_told_of_lonely_ranks = True
        return [Tell(f"rank {rank}: {text}")]

    def _limit_reached(self, name: str, text: str) -> list[Action]:
        """A node has refused its ranks something; said once."""
        if self._has_told_of_limit:
            return []
        self._has_told_of_limit = True
        return [Tell(f"{name}: the application's request was refused: {text}")]

    # -- trouble ----------------------------------------------------------

    def _failure(self, failure: load.Failure, now: float) -> list[Action]:
        if self.phase is Phase.ENDING:
            return self._failed_at_the_end(failure)
        if self.phase not in OPEN:
            return []
        status = self.report.blame(failure, has_gone=self.phase is Phase.RUNNING)
        actions: list[Action] = [Tell(status)]
        is_root = self.grant is not None and failure.node == self.grant.nodes[0].node
        if failure.kind is load.FailureKind.REFUSED and is_root:
            self._to_confirm.pop(self._root, None)  # it hosts nothing of ours
            return [*actions, *self._release(now)]
        return [*actions, *self._all_done(now)]

    def _give_up(self, text: str, now: float) -> list[Action]:
        if self.phase not in OPEN:
            return []
        self.report.fail(NEVER_STARTED, text)
        return [Tell(text), *self._all_done(now)]

    def _output_failed(self, status: int, text: str, now: float) -> list[Action]:
        """The job ends; a closed pipe is how a reader says that it has enough.

        One that ends already keeps its time: a terminal that closes takes the output along.
        """
        if self.phase not in OPEN or self._interrupts.press is not Press.NONE:
            return []
        self.report.fail(status, text)
        if self.phase is Phase.ALLOCATING:
            return self._done()
        return [*([Tell(text)] if text else []), *self._all_done(now)]

    def _interrupted(self, number: int, now: float) -> list[Action]:
        if not self._interrupts.take(now):
            return []
        if self.phase is Phase.DONE:
            self.report.leave(number, "interrupted while its output was written")
            return [Leave()]
        press = self._interrupts.press
        if self.phase in OPEN:
            self.report.interrupt(number, self._plan.options.keeps_going)
        if self.phase is Phase.ALLOCATING:
            self.report.fail(SIGNAL_BASE + number, "interrupted")
            return [Tell("interrupted before nodes were granted"), *self._done()]
        actions: list[Action] = [Tell(self._interrupts.said(STAGES.get(self.phase, Stage.LOADING)))]
        if press is Press.LEAVE:
            return [*actions, *self._leave(number)]
        if self.phase in BEFORE_GO:
            self.report.fail(SIGNAL_BASE + number, "interrupted before the application began")
            return [*actions, *self._all_done(now)]
        if self.phase is Phase.RUNNING:
            self._kill_at = None
            wanted = signal.SIGTERM if press is Press.TERMINATE else signal.SIGKILL
            return [*actions, *self._signal(wanted)]
        if press is Press.KILL and self.phase is Phase.ENDING:
            return [*actions, *self._reset(now)]
        return actions

    def _leave(self, number: int) -> list[Action]:
        """Tell everybody and wait for nobody."""
        self.report.note("left before the end of the job was confirmed")
        self._sent_signals.add(signal.SIGKILL)
        resets = [Send(peer, load.Reset(self._job_id)) for peer in self._to_confirm]
        actions = [*resets, Send(self._bebopd, alloc.Release(self._job_id)), *self._done()]
        self.report.leave(number, "interrupted before its end was confirmed")
        return [*actions, Leave()]

    def _peer_gone(self, peer: PortalId, text: str, now: float) -> list[Action]:
        if peer == self._bebopd:
            return self._bebopd_gone(text)
        if self.grant is None:
            return []
        actions: list[Action] = []
        if peer == self._root and self.phase in OPEN:
            root = self.grant.nodes[0]
            kind = load.FailureKind.NODE_LOST
            phase = self.phase.value
            failure = load.Failure(self._job_id, kind, phase, root.node, root.name, -1, text[:4000])
            actions.append(Tell(self.report.blame(failure, self.phase is Phase.RUNNING)))
        elif peer == self._root and self.phase is Phase.ENDING and peer in self._to_confirm:
            root = self.grant.nodes[0]
            actions += self._lost_at_the_end(f"node {root.node} ({root.name}) was lost", "output")
        node = self._to_confirm.pop(peer, None)
        if node is not None:
            self.report.lose(node)
        if node is not None and self.phase is Phase.RESETTING:
            return [*actions, *self._after_reset(now)]
        if peer == self._root and self.phase in (*OPEN, Phase.ENDING):
            return [*actions, *self._reset(now)]
        return actions

    def _failed_at_the_end(self, failure: load.Failure) -> list[Action]:
        """It ends nothing any more, but what it takes away is missed."""
        where = f"node {failure.node} ({failure.name})"
        match failure.kind:
            case load.FailureKind.NODE_LOST:
                self.report.lose(failure.node)
                return self._lost_at_the_end(f"{where} was lost", "output")
            case load.FailureKind.KEEPER_LOST | load.FailureKind.FAULT:
                return self._lost_at_the_end(f"{where}: {failure.text}", "completions")
        return []

    def _lost_at_the_end(self, what: str, missing: str) -> list[Action]:
        text = f"{what} at the end: its last {missing} may be missing"
        self.report.note(text)
        return [] if self.report.reason else [Tell(text)]

    def _bebopd_gone(self, text: str) -> list[Action]:
        """Running jobs go on without it."""
        if self.phase is Phase.ALLOCATING:
            reason = f"bebopd at {self._bebopd_name} {text}"
            self.report.fail(NEVER_STARTED, reason)
            return [Tell(f"{reason}; {ADVICE}"), *self._done()]
        if self.phase is Phase.RELEASING:
            self.report.note("bebopd was lost before it confirmed that the nodes are free")
            return self._done()
        return []

    def _deadline_reached(self, now: float) -> list[Action]:
        if self._kill_at is not None and now >= self._kill_at:
            return self._kill_due(now)
        if self._until is None or now < self._until:
            return self._tell_what_is_awaited(now)
        self._until = None
        match self.phase:
            case Phase.ALLOCATING:
                waited = self._limits.allocate_s
                reason = f"bebopd at {self._bebopd_name} did not answer in {waited:g} s"
                self.report.fail(NEVER_STARTED, reason)
                return [Tell(f"{reason}; {ADVICE}"), *self._done()]
            case Phase.ENDING if self._has_output_waiting():
                self._output_flows(now)  # its reader has stopped
                return []
            case Phase.ENDING:
                names = ", ".join(self._unconfirmed()[:6])
                self.report.note(f"reset, as no end was confirmed by {names}")
                return [Tell(f"no end confirmed by {names}: resetting"), *self._reset(now)]
            case Phase.RESETTING:
                return self._release(now)
            case Phase.RELEASING:
                self.report.note("bebopd did not confirm that the nodes are free")
                return self._done()
        return self._give_up(f"timed out in phase {self.phase.value}: no answer from the root", now)

    def _tell_what_is_awaited(self, now: float) -> list[Action]:
        """A line for who wonders why nothing happens."""
        if not self._waiting.is_due(now):
            return []
        if self.phase is Phase.ENDING and self._has_output_waiting():
            self._waiting.begin(now)  # for the user: the output's reader has stopped
            return []
        return [Tell(self._waiting.say(self._awaited(), now), is_error=False)]

    def _awaited(self) -> str:
        """What of whom."""
        bebopd = f"bebopd at {self._bebopd_name}"
        if self.phase is Phase.ALLOCATING:
            return f"a grant from {bebopd}"
        if self.phase is Phase.RELEASING:
            return f"{bebopd} to confirm that the nodes are free"
        if self.phase is Phase.RESETTING:
            return f"the reset of {', '.join(self._unconfirmed()[:6])}"
        assert self.grant is not None
        who = self._waiting.who(self.grant.nodes[0].name)
        match self.phase:
            case Phase.FORMING:
                return f"votes from {who}"
            case Phase.LOADING:
                return f"{files(self._plan.objects)} to be sent to {who}"
            case Phase.STARTING:
                return f"ranks to be at their entry on {who}"
        return f"the end of the job on {who}"

    # -- end --------------------------------------------------------------

    def _all_done(self, now: float) -> list[Action]:
        """End the job through the tree."""
        if self.phase not in OPEN:
            return []
        self._kill_at = None
        if not self.report.is_complete:
            self._sent_signals.add(signal.SIGKILL)  # to who is left
        self._enter(Phase.ENDING, now, self._limits.end_s)
        return self._to_root(load.AllDone(self._job_id))

    def _released(self, source: PortalId, nodes: tuple[int, ...], now: float) -> list[Action]:
        freed = set(nodes)
        self._to_confirm = {
            peer: node for peer, node in self._to_confirm.items() if node not in freed
        }
        if self.phase is Phase.RESETTING:
            return self._after_reset(now)
        if source != self._root or self.phase is Phase.RELEASING:
            return []
        if self._to_confirm:  # lost, or cut off from the tree: tell each
            return self._reset(now)
        return self._release(now)

    def _reset(self, now: float) -> list[Action]:
        """Tell every PCT that has not confirmed its end."""
        self._kill_at = None
        self._enter(Phase.RESETTING, now, self._limits.end_s)
        self._sent_signals.add(signal.SIGKILL)
        if not self._to_confirm:
            return self._release(now)
        return [Send(peer, load.Reset(self._job_id)) for peer in self._to_confirm]

    def _after_reset(self, now: float) -> list[Action]:
        return self._release(now) if not self._to_confirm else []

    def _release(self, now: float) -> list[Action]:
        self._enter(Phase.RELEASING, now, self._limits.end_s + self._limits.allocate_s)
        return [Send(self._bebopd, alloc.Release(self._job_id))]

    def _done(self) -> list[Action]:
        self.phase = Phase.DONE
        self._until = self._kill_at = None
        self._waiting.end()
        self.report.close()
        return [Finish()]

    # -- small things -----------------------------------------------------

    @property
    def _job_id(self) -> int:
        assert self.grant is not None
        return self.grant.job_id

    @property
    def _root(self) -> PortalId:
        assert self.grant is not None
        return PortalId(self.grant.nodes[0].nid, self.grant.nodes[0].pid)

    def _arity(self) -> int:
        """A wide tree has fewer hops; in a narrow one fewer children share a link."""
        may_ship = sum(shipped.size for shipped in self._plan.objects if shipped.digest)
        limits = self._limits
        is_bulky = may_ship > limits.bulk_bytes
        return limits.bulk_arity_count if is_bulky else limits.arity_count

    def _unconfirmed(self) -> list[str]:
        assert self.grant is not None
        missing = set(self._to_confirm.values())
        return [node.name for node in self.grant.nodes if node.node in missing]

    def _patience(self) -> float:
        """Longer than any PCT's: the one nearest to the fault tells of it."""
        levels = len(self.grant.nodes).bit_length() if self.grant else 0
        return self._limits.phase_s * (1.2 + 0.1 * levels)

    def _enter(self, phase: Phase, now: float, within_s: float | None) -> None:
        self.phase = phase
        self.began.setdefault(phase, now)
        if phase is Phase.RUNNING:
            self._waiting.end()
        else:
            self._waiting.begin(now)
        self._until = None if within_s is None else now + within_s

    def _to_root(self, message: Message) -> list[Action]:
        return [Send(self._root, message)] if self.grant is not None else []
