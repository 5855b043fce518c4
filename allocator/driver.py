"""Carries out what bebopd's machine decides: messages, records, log lines.

The same driver runs the daemon and the embedded partition: port and ledger differ. Nothing is
decided in this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from allocator.batch.job import (
    BatchRecorded,
    RecordBatchJob,
    RecordEvent,
    SendEvents,
    SendHistory,
    SendRows,
    StartBroker,
)
from allocator.bebopd import Bebopd, RecordNode
from allocator.jobs.table import RecordEnd
from allocator.nodes.orders import OrdersRecorded, RecordOrders
from allocator.records import FLUSH_AFTER_S, FLUSH_AGAIN_S, Ledger, LedgerError
from allocator.requests import RecordGrant, ReserveJobIds
from native.errors import Refusal
from native.ids import PortalId
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
from native.wire import alloc, codec
from native.wire.base import Message, clipped
from native.wire.batch import ROWS_MAX, Events, Row, Rows, Start


class Driver:
    """Runs one :class:`allocator.bebopd.Bebopd` on a port and a reactor.

    Args:
        ledger: where records go.
        say: takes a line for the log, and the job that it is about; 0: none.
        warn: takes a line about what went wrong.
        on_event: called after each event, when its actions have been carried out.
        contain: takes what was raised on behalf of a peer, whose connection ends.
    """

    def __init__(
        self,
        machine: Bebopd,
        port: Port,
        reactor: Reactor,
        ledger: Ledger,
        *,
        say: Callable[[str, int], None] = lambda text, job_id: None,
        warn: Callable[[str], None] = lambda text: None,
        on_event: Callable[[], None] = lambda: None,
        wall_clock: Callable[[], float] = time.time,
        contain: Contain = propagate,
    ) -> None:
        self._machine = machine
        self._port = port
        self._reactor = reactor
        self._ledger = ledger
        self._say = say
        self._warn = warn
        self._on_event = on_event
        self._wall_clock = wall_clock
        self._contain = contain
        self._watch = port.listen(reactor, self._ready)
        self._timer = reactor.timer(self._due)
        self._timer.set(machine.deadline())
        self._flush_timer = reactor.timer(self._flush)
        self._unkept: list[RecordBatchJob] = []

    def close(self) -> None:
        """Stop listening to the port; jobs go on without a bebopd."""
        self._watch.close()
        self._timer.close()
        self._flush_timer.close()

    def hold(self, text: str) -> None:
        """Give nobody nodes for this reason; empty: give them again."""
        self._machine.hold(text)
        self._due()

    def _ready(self) -> None:
        for event in self._port.events():
            match event:
                case Received(source, principal, message):
                    received = MessageReceived(source, principal, message)
                    self._handle_of_peer(source, received)
                case PeerLost(peer, _, text):
                    self._handle_of_peer(peer, PeerGone(peer, text))
                case Refused(source, _, reason):
                    self._warn(f"from {source}: {reason}")
                case _:
                    raise AssertionError(f"bebopd handles no objects: {event!r}")

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
            case RecordBatchJob():
                # With all others of this turn: the disk is waited for once.
                if not self._unkept:
                    self._reactor.call_soon(self._keep_batch)
                self._unkept.append(action)
            case StartBroker() | SendRows() | SendHistory() | SendEvents():
                self._answer_from_disk(action)
            case RecordOrders():
                self._keep_orders(action)
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
        self._handle(OrdersRecorded(action.changes, action.asker, error))

    def _keep_batch(self) -> None:
        records, self._unkept = self._unkept, []
        assert self._ledger.batch is not None
        error = ""
        try:
            self._ledger.batch.keep(records)
        except LedgerError as raised:
            error = str(raised)
        job_ids = dict.fromkeys(record.job.job_id for record in records)
        try:
            self._handle(BatchRecorded(tuple(job_ids), error))
        except LedgerError:
            raise
        except Exception as raised:
            self._contain("batch jobs", raised)

    def _answer_from_disk(self, action: StartBroker | SendRows | SendHistory | SendEvents) -> None:
        """What is on the disk alone goes with the answer; without the disk, without it."""
        records = self._ledger.batch
        assert records is not None
        try:
            match action:
                case StartBroker(target, job, gid, groups):
                    assert job.grant is not None
                    task = records.task(job.job_id)
                    start = Start(job.job_id, job.uid, gid, groups, job.name, job.time_s, task)
                    self._send(target, start)
                    self._send(target, job.grant)
                case SendRows(target, rows, others):
                    found = records.rows(others) if others else []
                    self._send_rows(target, sorted([*rows, *found], key=lambda row: row.job_id))
                case SendHistory(target, count):
                    self._ledger.flush()
                    self._send_rows(target, records.last(count))
                case SendEvents(target, job_id):
                    self._ledger.flush()
                    for part, is_last in codec.pieces(records.events(job_id), ROWS_MAX):
                        self._send(target, Events(job_id, part, is_last))
        except LedgerError as error:
            self._warn(str(error))
            if not isinstance(action, StartBroker):
                self._send(action.target, alloc.Refused(Refusal.NOT_RECORDED, clipped(str(error))))

    def _send_rows(self, target: PortalId, rows: Sequence[Row]) -> None:
        for part, is_last in codec.pieces(rows, ROWS_MAX):
            self._send(target, Rows(part, is_last))

    def _record(self, action: Action) -> None:
        ledger = self._ledger
        match action:
            case ReserveJobIds(end):
                ledger.reserve(end)
            case RecordNode(number, name):
                ledger.remember_node(name, number)
            case RecordGrant(job_id, uid, program, batch_job, size, nodes):
                now = self._wall_clock()
                numbers = tuple(nodes.numbers())
                ledger.job_granted(job_id, uid, program, batch_job, size, numbers, now)
            case RecordEnd(job_id, outcome):
                ledger.job_ended(job_id, outcome, self._wall_clock())
            case RecordEvent(job_id, text):
                ledger.happened(job_id, text, self._wall_clock())
        if ledger.has_waiting and self._flush_timer.at is None:
            self._flush_timer.set(self._reactor.monotonic() + FLUSH_AFTER_S)

    def _flush(self) -> None:
        try:
            self._ledger.flush()
        except LedgerError as error:
            # History is not worth stopping for; job ids are, see Ledger.reserve.
            self._warn(f"records wait: {error}")
            self._flush_timer.set(self._reactor.monotonic() + FLUSH_AGAIN_S)
