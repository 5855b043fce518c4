"""The broker's side: those who have attached get the output from the spool, one has the input."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

from native import auth
from native.ids import PortalId, PrincipalKind
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import PeerLost, Received
from native.port.portals import PortalsPort
from native.wire.attach import (
    INPUT_WINDOW_BYTES,
    WINDOW_BYTES,
    Attach,
    Attached,
    Interrupt,
    OutputEnded,
    SpooledCredit,
    SpooledOutput,
    TypedCredit,
    TypedInput,
)
from native.wire.base import Message
from partition.attach.spool import Cursor, Spool
from pct.host.streams import InputPipe


class AttachHost:
    """Listens for the owner's terminals.

    Args:
        host: the address of this host that others reach.
        stdin_fd: writes the job's standard input.
        on_interrupt: called with the number of a signal for the job.
        on_idle: called when the job has ended and each terminal has all of its output.

    Attributes:
        key: of the owner, for this job.
    """

    def __init__(
        self,
        job_id: int,
        host: str,
        spool: Spool,
        stdin_fd: int,
        reactor: Reactor,
        limits: Limits,
        *,
        on_interrupt: Callable[[int], None],
        on_idle: Callable[[], None],
    ) -> None:
        self._job_id = job_id
        self._spool = spool
        self._on_interrupt = on_interrupt
        self._on_idle = on_idle
        self._reactor = reactor
        self._terminals: dict[PortalId, _Terminal] = {}
        self._typist: PortalId | None = None
        self._wait_status: int | None = None
        secret = os.urandom(auth.KEY_BYTES)
        self.key = auth.derive_user_key(secret, os.geteuid())
        self._stack = ExitStack()
        self._port = PortalsPort(
            listen=f"{host}:0",
            advertise=host,
            partition_key=secret,
            connect_timeout_s=limits.connect_s,
            liveness_s=limits.liveness_s,
            max_unproven=limits.unproven_count,
            max_unproven_each=limits.unproven_each_count,
        )
        self._stack.callback(self._port.close)
        self._watch = self._port.listen(reactor, self._ready)
        self._stack.callback(self._watch.close)
        self._input = InputPipe(reactor, stdin_fd, self._input_taken)
        self._stack.callback(self._input.close)

    @property
    def address(self) -> str:
        """``host:port`` for terminals."""
        return str(self._port.id)

    def close(self) -> None:
        """Hang up on all."""
        self._stack.close()

    def grown(self) -> None:
        """The spool has more."""
        for peer in list(self._terminals):
            self._feed(peer)

    def ended(self, wait_status: int) -> None:
        """The job has ended, and the spool has all of its output."""
        self._wait_status = wait_status
        self.grown()
        self._look_at_end()

    def _ready(self) -> None:
        for event in self._port.events():
            match event:
                case Received(source, principal, message):
                    if principal.kind is PrincipalKind.USER and principal.uid == os.geteuid():
                        self._received(source, message)
                case PeerLost(peer):
                    self._lost(peer)

    def _received(self, source: PortalId, message: Message) -> None:
        terminal = self._terminals.get(source)
        match message:
            case Attach() if terminal is None:
                has_input = self._typist is None
                self._terminals[source] = _Terminal(self._spool.cursor())
                self._port.send(source, Attached(self._job_id, has_input))
                if has_input:
                    self._typist = source
                    self._port.send(source, TypedCredit(self._job_id, INPUT_WINDOW_BYTES))
                self._feed(source)
                self._look_at_end()
            case SpooledCredit(_, count) if terminal is not None:
                terminal.credit = min(WINDOW_BYTES, terminal.credit + count)
                self._feed(source)
                self._look_at_end()
            case TypedInput(_, data) if source == self._typist:
                self._input.write(data)
            case Interrupt(_, number) if terminal is not None:
                self._on_interrupt(number)

    def _lost(self, peer: PortalId) -> None:
        if self._terminals.pop(peer, None) is None:
            return
        if peer == self._typist:
            self._typist = None  # the next that attaches has the input
        self._look_at_end()

    def _input_taken(self, count_bytes: int) -> None:
        if self._typist is not None:
            self._port.send(self._typist, TypedCredit(self._job_id, count_bytes))

    def _feed(self, peer: PortalId) -> None:
        """Send what the terminal has room for."""
        terminal = self._terminals[peer]
        while terminal.credit > 0 and (piece := terminal.cursor.read()) is not None:
            terminal.credit -= len(piece.data)
            self._port.send(peer, SpooledOutput(self._job_id, *piece))
        at_end = terminal.cursor.offset >= self._spool.size
        if self._wait_status is not None and at_end and not terminal.has_all:
            terminal.has_all = True
            self._port.send(peer, OutputEnded(self._job_id, self._wait_status))

    def _look_at_end(self) -> None:
        """Terminals hang up when they have shown all; those that are slow are not waited for."""
        if self._wait_status is None:
            return
        if all(terminal.has_all for terminal in self._terminals.values()):
            self._reactor.call_soon(self._on_idle)


class _Terminal:
    """Who has attached.

    Attributes:
        credit: bytes that it takes; the last piece may exceed it.
        has_all: it has been told of the end.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.credit = WINDOW_BYTES
        self.has_all = False
