"""Carries out what bebopd's machine decides: messages, records, log lines.

The same driver runs the daemon and the embedded partition: port and ledger differ. Nothing is
decided in this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allocator.batch.hooks import RunHook, TakeJob
from allocator.batch.job import (
    BatchRecorded,
    ForgetSteps,
    RecordBatchJob,
    RecordEvent,
    RecordSteps,
    SendEvents,
    SendHistory,
    SendRows,
    StartBroker,
)
from allocator.bebopd import Bebopd
from allocator.gate import AskBatchSystem, BatchSystemSaid
from allocator.jobs.accounting import RecordGrant, RecordPast
from allocator.jobs.batch import Word
from allocator.jobs.charges import RecordCharge
from allocator.jobs.table import RecordEnd
from allocator.nodes.orders import (
    OrdersRecorded,
    RecordNode,
    RecordNodeEvent,
    RecordOrders,
    SendNodeEvents,
)
from allocator.records import FLUSH_AFTER_S, FLUSH_AGAIN_S, Ledger, LedgerError
from allocator.requests import ReserveJobIds
from native.errors import Refusal
from native.ids import PortalId, Principal
from native.loop.reactor import Reactor
from native.machine import (
    Action,
    Contain,
    DeadlineReached,
    Event,
    Log,
    MessageReceived,
    PeerGone,
    Send,
    propagate,
)
from native.port.port import PeerLost, Port, Received, Refused
from native.wire import alloc
from native.wire.base import Message, clipped
from native.wire.batch import Start, Submit
from native.wire.nodes import NodeEvent

if TYPE_CHECKING:
    from allocator.batch.hooked import Hooked
    from allocator.questions import Questions


class Driver:
    """Runs one :class:`allocator.bebopd.Bebopd` on a port and a reactor.

    Args:
        ledger: where records go.
        questions_each_count: the limit.
        say: takes a line for the log, and the job that it is about; 0: none.
        warn: takes a line about what went wrong.
        on_event: called after each event, when its actions have been carried out.
        contain: takes what was raised on behalf of a peer, whose connection ends.
        whose: told who causes the lines that follow; None: nobody else.
        ask: asks the batch system about a job, and calls with what it says.
        hooked, run_hook: which batch jobs pass the site's submit hooks; runs one of these for a
            request, and calls with how it has failed and what it has said. None: there are none.
    """

    def __init__(
        self,
        machine: Bebopd,
        port: Port,
        reactor: Reactor,
        ledger: Ledger,
        *,
        questions_each_count: int = 32,
        say: Callable[[str, int], None] = lambda text, job_id: None,
        warn: Callable[[str], None] = lambda text: None,
        on_event: Callable[[], None] = lambda: None,
        wall_clock: Callable[[], float] = time.time,
        contain: Contain = propagate,
        whose: Callable[[Principal | None], None] = lambda principal: None,
        ask: Callable[[str, Callable[[Word | None, str], None]], None] = lambda job, then: None,
        hooked: Hooked | None = None,
        run_hook: Callable[[str, bytes, Callable[[str, bytes], None]], None] | None = None,
    ) -> None:
        self._hooked = hooked
        self._run_hook = run_hook
        self._ask = ask
        self._machine = machine
        self._port = port
        self._reactor = reactor
        self._ledger = ledger
        self._say = say
        self._warn = warn
        self._on_event = on_event
        self._wall_clock = wall_clock
        self._contain = contain
        self._whose = whose
        self._asker: Principal | None = None
        self._questions_each_count = questions_each_count
        self._questions: Questions | None = None  # nobody has asked
        self._watch = port.listen(reactor, self._ready)
        self._timer = reactor.timer(self._due)
        self._timer.set(machine.deadline())
        self._flush_timer = reactor.timer(self._flush)
        self._unkept: list[RecordBatchJob] = []
        ledger.on_waiting = self._waits

    def close(self) -> None:
        """Stop listening to the port; jobs go on without a bebopd."""
        self._watch.close()
        self._timer.close()
        self._flush_timer.close()

    def hold(self, text: str) -> None:
        """Give nobody nodes for this reason; empty: give them again."""
        self._machine.hold(text)
        self._due()

    def rules_changed(self) -> None:
        """Go by other rules of the queues."""
        self._machine.rules_changed()
        self._due()

    def _ready(self) -> None:
        for event in self._port.events():
            self._is_of(event.principal if isinstance(event, (Received, Refused)) else None)
            match event:
                case Received(source, principal, Submit() as message) if self._hooked:
                    self._pass_on(self._hooked.submitted(source, principal, message))
                case Received(source, principal, message):
                    received = MessageReceived(source, principal, message)
                    self._handle_of_peer(source, received)
                case PeerLost(peer, _, text):
                    self._handle_of_peer(peer, PeerGone(peer, text))
                case Refused(source, _, reason):
                    self._warn(f"from {source}: {reason}")
                case _:
                    raise AssertionError(f"bebopd handles no objects: {event!r}")
        self._is_of(None)

    def _pass_on(self, actions: Sequence[Action]) -> None:
        """Carry out what is decided of a batch job on its way in."""
        for action in actions:
            match action:
                case TakeJob(source, principal, message):
                    received = MessageReceived(source, principal, message)
                    self._handle_of_peer(source, received)
                case RunHook(number, hook, request):
                    assert self._run_hook is not None
                    self._run_hook(hook, request, partial(self._hook_ended, number, hook))
                case _:
                    self._perform(action)

    def _hook_ended(self, number: int, hook: str, error: str, output: bytes) -> None:
        assert self._hooked is not None
        self._pass_on(self._hooked.ended(number, hook, error, output))

    def _is_of(self, principal: Principal | None) -> None:
        """What is done from now on is done for this one; None: for nobody else."""
        self._asker = principal
        self._whose(principal)

    def _due(self) -> None:
        self._handle(DeadlineReached())

    def _handle_of_peer(self, peer: PortalId, event: Event) -> None:
        """Handle a peer's event; an exception ends this peer's connection and nothing else."""
        try:
            self._handle(event)
        except LedgerError:
            raise  # a job id may be given only after it is on the disk
        except Exception as error:
            self._contain(f"{type(event).__name__} of {peer}", error)
            self._port.disconnect(peer)
            if isinstance(event, MessageReceived):
                self._handle_of_peer(peer, PeerGone(peer, "was cut off"))

    def _handle(self, event: Event) -> None:
        try:
            actions = self._machine.handle(event, self._reactor.monotonic())
        finally:  # it may have changed before it raised
            self._timer.set(self._machine.deadline())
        for action in actions:
            self._perform(action)
        self._on_event()

    def _perform(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        match action:
            case Send(target, message):
                self._send(target, message)
            case Log(text, job_id):
                self._say(text, job_id)
            case ReserveJobIds() | RecordNode() | RecordGrant() | RecordEnd() | RecordEvent():
                self._record(action)
            case RecordPast() | RecordSteps() | ForgetSteps() | RecordNodeEvent() | RecordCharge():
                self._record(action)
            case RecordBatchJob():
                # With all others of this turn: the disk is waited for once.
                if not self._unkept:
                    self._reactor.call_soon(self._keep_batch)
                self._unkept.append(action)
            case StartBroker():
                self._start_broker(action)
            case SendRows() | SendHistory() | SendEvents() | SendNodeEvents():
                self._answer_from_history(action)
            case RecordOrders():
                self._keep_orders(action)
            case AskBatchSystem(batch_job):
                self._ask(batch_job, lambda *said: self._handle(BatchSystemSaid(batch_job, *said)))
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _send(self, target: PortalId, message: Message) -> None:
        """Send a message; a failure concerns only its target."""
        try:
            self._port.send(target, message)
        except Exception as error:
            self._contain(f"{type(message).__name__} to {target}", error)

    def _keep_orders(self, action: RecordOrders) -> None:
        error = ""
        try:
            self._ledger.keep_orders(action.changes)
        except LedgerError as raised:
            error = str(raised)
        self._handle(OrdersRecorded(action.changes, action.asker, error, action.by))

    def _keep_batch(self) -> None:
        records, self._unkept = self._unkept, []
        assert self._ledger.batch is not None
        error = ""
        try:
            self._ledger.batch.keep(records)
        except LedgerError as raised:
            error = str(raised)
        else:
            for job in {id(record.job): record.job for record in records}.values():
                if job.ended:
                    self._ledger.batch_ended(job.row())
            self._waits()
        job_ids = dict.fromkeys(record.job.job_id for record in records)
        try:
            self._handle(BatchRecorded(tuple(job_ids), error))
        except LedgerError:
            raise
        except Exception as raised:
            self._contain("batch jobs", raised)

    def _start_broker(self, action: StartBroker) -> None:
        """What is on the disk alone goes with the message; without the disk it waits."""
        records, job = self._ledger.batch, action.job
        assert records is not None and job.grant is not None
        try:
            task = records.task(job.job_id)
        except LedgerError as error:
            self._warn(str(error))
            return
        owner = job.uid, action.gid, action.groups
        start = Start(
            job.job_id, *owner, job.name, job.time_s, task, attempt=job.attempt, element=job.element
        )
        self._send(action.target, start)
        self._send(action.target, job.grant)

    def _answer_from_history(
        self, action: SendRows | SendHistory | SendEvents | SendNodeEvents
    ) -> None:
        """Answer when the history has answered; nothing else waits for that."""
        from allocator.past import answers  # few launches are asked about

        target, asker = action.target, self._asker
        if self._questions is None:
            from allocator.questions import Questions

            self._questions = Questions(self._questions_each_count)
        questions = self._questions
        if not questions.begin(asker):
            text = f"you have {questions.most} questions to the history that wait"
            self._send(target, alloc.Refused(Refusal.BUSY, text))
            return

        def send(found: Sequence[Message] | LedgerError) -> None:
            questions.end(asker)
            if isinstance(found, LedgerError):
                self._warn(str(found))
                text = clipped(str(found))
                self._send(target, alloc.Refused(Refusal.NOT_RECORDED, text))
                return
            for message in found:
                self._send(target, message)

        if isinstance(action, SendRows):
            try:
                action = self._with_fresh(action)
            except LedgerError as error:
                send(error)
                return
            if not action.others:
                send(answers(action, None))
                return
        ledger = self._ledger
        ledger.past(lambda history: answers(action, history), send)

    def _with_fresh(self, action: SendRows) -> SendRows:
        """With the rows of jobs that the history may not have yet."""
        records = self._ledger.batch
        if records is None or not action.others:
            return action
        fresh = records.rows(action.others)
        left = set(action.others) - {row.job_id for row in fresh}
        return replace(action, rows=(*action.rows, *fresh), others=tuple(left))

    def _record(self, action: Action) -> None:
        ledger = self._ledger
        match action:
            case ReserveJobIds(end):
                ledger.reserve(end)
            case RecordNode(number, name):
                ledger.remember_node(name, number)
            case RecordGrant(row):
                ledger.job_granted(row)
            case RecordPast(row):
                ledger.job_ended(row)
                said = f"{row.state.value}: {row.reason}" if row.reason else row.state.value
                ledger.happened(row.job_id, clipped(said), self._wall_clock())
            case ForgetSteps(job_id):
                self._ledger.steps_forgotten(job_id)
            case RecordSteps(rows):
                ledger.steps_ended(rows)
            case RecordCharge(charge):
                ledger.charged(charge)
            case RecordEnd(job_id, outcome, slot_s):
                now = self._wall_clock()
                ledger.slots_held(job_id, slot_s, now)
                ledger.happened(job_id, f"its slots are free: {outcome}", now)
            case RecordEvent(job_id, text):
                ledger.happened(job_id, text, self._wall_clock())
            case RecordNodeEvent(node, name, kind, text, by):
                now = self._wall_clock()
                ledger.node_happened(NodeEvent(node, name, max(0.0, now), kind, by, text))
        self._waits()

    def _waits(self, error: str = "") -> None:
        """Something is to be written, or could not be, and is tried again."""
        if error:
            self._warn(f"the history waits: {error}")
        if self._ledger.has_waiting and self._flush_timer.at is None:
            after_s = FLUSH_AGAIN_S if error else FLUSH_AFTER_S
            self._flush_timer.set(self._reactor.monotonic() + after_s)

    def _flush(self) -> None:
        try:
            self._ledger.flush()
        except LedgerError as error:
            # History is not worth stopping for; job ids are, see Ledger.reserve.
            self._warn(f"records wait: {error}")
            self._flush_timer.set(self._reactor.monotonic() + FLUSH_AGAIN_S)
