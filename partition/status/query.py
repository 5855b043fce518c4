"""Asks bebopd, and waits for the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from native.errors import PartitionError
from native.ids import PortalId
from native.loop.reactor import Reactor
from native.port.port import Loss, PeerLost, Port, Received
from native.wire.alloc import Refused
from native.wire.base import Message
from native.wire.nodes import (
    AskNodeEvents,
    Changed,
    EndJobs,
    JobsEnding,
    NodeEvent,
    NodeEvents,
    Order,
)
from native.wire.status import NodeRow, Query, Table

A = TypeVar("A", bound=Message)


class OrderRefused(PartitionError):
    """bebopd does not carry an order out; the text says why.

    Attributes:
        code: the kind of reason.
    """

    def __init__(self, refused: Refused) -> None:
        self.code = refused.code
        super().__init__(refused.text)


class LostError(PartitionError):
    """bebopd was lost before it has answered.

    Attributes:
        is_unreachable: no connection could be made.
    """

    def __init__(self, text: str, is_unreachable: bool) -> None:
        super().__init__(text)
        self.is_unreachable = is_unreachable


def ask(
    port: Port, bebopd: PortalId, reactor: Reactor, name: str, wait_s: float
) -> tuple[list[NodeRow], float]:
    """All rows of the table, nodes ascending; bebopd's unix time.

    Args:
        name: the user's name of the partition, for the errors.
        wait_s: how long to wait for the last row.

    Raises:
        PartitionError: no bebopd there, or no answer in time.
    """
    rows: list[NodeRow] = []
    clocks: list[float] = []

    def take(message: Message) -> bool:
        match message:
            case Table(piece, is_last, at):
                rows.extend(piece)
                clocks.append(at)
                return is_last
        return False

    talk(port, bebopd, reactor, name, wait_s, Query(), take)
    return rows, clocks[0]


def give(
    port: Port, bebopd: PortalId, reactor: Reactor, name: str, wait_s: float, order: Order
) -> Changed:
    """Give an operator's order for nodes; it is on bebopd's disk when this returns.

    Args:
        name, wait_s: as for :func:`ask`.

    Raises:
        OrderRefused: bebopd refuses.
        PartitionError: no bebopd there, or no answer in time: it may or may not go by the order.
    """
    return _told(port, bebopd, reactor, name, wait_s, order, Changed)


def end_jobs(
    port: Port, bebopd: PortalId, reactor: Reactor, name: str, wait_s: float, asked: EndJobs
) -> JobsEnding:
    """Have jobs ended.

    Args:
        name, wait_s: as for :func:`ask`.

    Raises:
        OrderRefused: bebopd refuses.
        PartitionError: no bebopd there, or no answer in time: jobs may end or may not.
    """
    return _told(port, bebopd, reactor, name, wait_s, asked, JobsEnding)


def events(
    port: Port, bebopd: PortalId, reactor: Reactor, name: str, wait_s: float, asked: AskNodeEvents
) -> list[NodeEvent]:
    """What has happened to nodes, the oldest first.

    Args:
        name, wait_s: as for :func:`ask`.

    Raises:
        PartitionError: as :func:`ask`, or bebopd has no history.
    """
    found: list[NodeEvent] = []
    refused: list[Refused] = []

    def take(message: Message) -> bool:
        match message:
            case NodeEvents(piece, is_last):
                found.extend(piece)
                return is_last
            case Refused():
                refused.append(message)
        return bool(refused)

    talk(port, bebopd, reactor, name, wait_s, asked, take)
    if refused:
        raise OrderRefused(refused[0])
    return found


def _told(
    port: Port,
    bebopd: PortalId,
    reactor: Reactor,
    name: str,
    wait_s: float,
    request: Message,
    kind: type[A],
) -> A:
    """The one message of this kind that answers a request.

    Raises:
        OrderRefused: bebopd refuses.
        PartitionError: as :func:`ask`.
    """
    answers: list[A | Refused] = []

    def take(message: Message) -> bool:
        if isinstance(message, (kind, Refused)):
            answers.append(message)
        return bool(answers)

    talk(port, bebopd, reactor, name, wait_s, request, take)
    if isinstance(answer := answers[0], Refused):
        raise OrderRefused(answer)
    return answer


def talk(
    port: Port,
    bebopd: PortalId,
    reactor: Reactor,
    name: str,
    wait_s: float | None,
    request: Message | None,
    take: Callable[[Message], bool],
) -> None:
    """Send a request, and give bebopd's messages to ``take`` until it says that it has all.

    Args:
        name: as for :func:`ask`.
        request: None: it has been sent before.
        wait_s: how long to wait for the last one; None: any time.

    Raises:
        LostError: it was lost.
        PartitionError: no answer in time.
    """
    late = f"bebopd at {name} has not answered for {wait_s or 0:g} s: is it stopped?"
    failure = PartitionError(late)
    is_done = False

    def ready() -> None:
        nonlocal failure, is_done
        for event in port.events():
            match event:
                case Received(source, _, message) if source == bebopd and not is_done:
                    is_done = take(message)
                case PeerLost(peer, loss, text) if peer == bebopd and not is_done:
                    is_unreachable = loss is Loss.UNREACHABLE
                    failure = LostError(f"bebopd at {name} {text}", is_unreachable)
                    reactor.stop()
        if is_done:
            reactor.stop()

    watch = reactor.watch(port.fileno(), ready)
    timer = reactor.timer(reactor.stop)
    timer.set(None if wait_s is None else reactor.monotonic() + wait_s)
    try:
        if request is not None:
            port.send(bebopd, request)
        reactor.run()
    finally:
        watch.close()
        timer.close()
    if not is_done:
        raise failure
