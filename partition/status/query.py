"""Asks bebopd, and waits for the answer."""

from __future__ import annotations

from typing import TypeVar

from native.errors import PartitionError
from native.ids import PortalId
from native.loop.reactor import Reactor
from native.port.port import Port
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
from partition.find.talking import talk

A = TypeVar("A", bound=Message)


class OrderRefused(PartitionError):
    """bebopd does not carry an order out; the text says why.

    Attributes:
        code: the kind of reason.
    """

    def __init__(self, refused: Refused) -> None:
        self.code = refused.code
        super().__init__(refused.text)


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
