"""Follows a partition: its table, its jobs and what happens to nodes, as they change.

bebopd answers a watch when there is something new. Then what it tells only on request is asked:
batch jobs, past jobs, events of nodes. There is one question at a time, since an answer
that is a refusal does not say to which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from native.errors import PartitionError, Refusal, YodError
from native.limits import Limits
from native.loop.reactor import Reactor, Watch
from native.port.port import PeerLost, Received
from native.wire import batch, nodes, status
from native.wire.alloc import Refused
from native.wire.base import Message
from partition.find import remote
from partition.find.discover import Where

PAST_COUNT = 256  # jobs that are shown, of those that have ended and those that run alone
EVENTS_COUNT = 256
ASK_EVERY_S = 0.4  # at most
REST_SHARE = 5  # of the time that all answers took: long lists are asked for less often

_QUESTIONS = (
    batch.Ask(),
    batch.History(PAST_COUNT),
    nodes.AskNodeEvents((), EVENTS_COUNT),
)


class Display(Protocol):
    """Whoever shows what is followed."""

    def changed(self, rows: Sequence[status.NodeRow], is_whole: bool) -> None:
        """These rows are new; with ``is_whole`` all others are gone."""

    def asked(self, jobs: Sequence[batch.Row], events: Sequence[nodes.NodeEvent]) -> None:
        """All jobs that bebopd tells of, and the last events of nodes, the oldest first."""

    def lost(self, text: str) -> None:
        """bebopd is out of reach; it is tried again."""


class Follower:
    """One connection to bebopd at a time, which is made again when it is lost.

    Args:
        asks: jobs and events are wanted, and not the table alone.
    """

    def __init__(
        self, where: Where, limits: Limits, reactor: Reactor, display: Display, *, asks: bool
    ) -> None:
        self._where = where
        self._limits = limits
        self._reactor = reactor
        self._display = display
        self._asks = asks
        self._retry = reactor.timer(self._connect_again)
        self._ask_timer = reactor.timer(self._ask)
        self._opened: remote.RemotePartition | None = None
        self._watch: Watch | None = None
        self._forget()

    def connect(self) -> None:
        """Connect to bebopd.

        Raises:
            PartitionError: there is none that could be connected to, or no key is known.
        """
        if self._where.is_embedded:
            raise PartitionError("no partition is up here; yod runs jobs on this host by itself")
        self._forget()
        self._opened = remote.RemotePartition(remote.reach(self._where), self._limits)
        self._watch = self._reactor.watch(self._opened.port.fileno(), self._ready)
        self._send(status.Watch(0))

    def close(self) -> None:
        """End the connection."""
        self._retry.close()
        self._ask_timer.close()
        self._disconnect()

    def _forget(self) -> None:
        self._rows: list[status.NodeRow] = []
        self._jobs: dict[tuple[int, int], batch.Row] = {}
        self._events: list[nodes.NodeEvent] = []
        self._questions: list[Message] = []  # that are left; the first has been asked
        self._asked_at = 0.0
        self._asks_again = False

    def _disconnect(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._opened is not None:
            self._opened.port.close(0.0)
            self._opened = None

    def _connect_again(self) -> None:
        try:
            self.connect()
        except YodError as error:
            self._lost(str(error))

    def _lost(self, text: str) -> None:
        self._disconnect()
        self._ask_timer.set(None)
        self._retry.set(self._reactor.monotonic() + self._limits.announce_retry_s)
        self._display.lost(text)

    def _send(self, message: Message) -> None:
        assert self._opened is not None
        self._opened.port.send(self._opened.bebopd, message)

    def _ready(self) -> None:
        opened = self._opened
        assert opened is not None
        for event in opened.port.events():
            if self._opened is not opened:  # lost by an earlier event
                return
            match event:
                case Received(source, _, message) if source == opened.bebopd:
                    self._received(message)
                case PeerLost(peer, _, text) if peer == opened.bebopd:
                    self._lost(f"bebopd at {self._where.name} {text}")

    def _received(self, message: Message) -> None:
        match message:
            case status.Changes(rows, version, is_whole, is_last):
                self._rows.extend(rows)
                if is_last:
                    taken, self._rows = self._rows, []
                    self._send(status.Watch(version))
                    self._display.changed(taken, is_whole)
                    self._ask_soon()
            case batch.Rows(jobs, is_last, is_cut):
                self._jobs.update({(row.job_id, row.step): row for row in jobs})
                if is_cut:
                    self._send(batch.Ask(after=jobs[-1].job_id))
                elif is_last:
                    self._answered()
            case nodes.NodeEvents(events, is_last):
                self._events.extend(events)
                if is_last:
                    self._answered()
            case Refused(Refusal.BUSY, text):
                self._lost(text)
            case Refused():  # a partition that has no batch jobs, or no history
                self._answered()

    def _ask_soon(self) -> None:
        if not self._asks:
            return
        if self._questions or self._ask_timer.at is not None:
            self._asks_again = bool(self._questions)
            return
        self._ask()

    def _ask(self) -> None:
        self._jobs, self._events = {}, []
        self._asked_at = self._reactor.monotonic()
        self._questions = list(_QUESTIONS)
        self._asks_again = False
        self._send(self._questions[0])

    def _answered(self) -> None:
        if not self._questions:
            return
        del self._questions[0]
        if self._questions:
            self._send(self._questions[0])
            return
        self._display.asked(tuple(self._jobs.values()), tuple(self._events))
        if self._asks_again:
            now = self._reactor.monotonic()
            rest_s = max(ASK_EVERY_S, REST_SHARE * (now - self._asked_at))
            self._ask_timer.set(now + rest_s)
