"""One question to the bebopd of a partition, from the port's opening to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from native.errors import PartitionError
from native.ids import PortalId
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Port
from native.wire.nodes import AskNodeEvents, Changed, EndJobs, JobsEnding, NodeEvent, Order
from native.wire.status import NodeRow
from partition.find import remote
from partition.find.discover import Where
from partition.status import query


def rows(where: Where, limits: Limits) -> list[NodeRow]:
    """All rows of bebopd's table.

    Raises:
        PartitionError: the partition is the embedded one, or does not answer.
    """
    return rows_and_clock(where, limits)[0]


def rows_and_clock(where: Where, limits: Limits) -> tuple[list[NodeRow], float]:
    """All rows of bebopd's table, and its unix time.

    Raises:
        PartitionError: as :func:`rows`.
    """
    with reached(where, limits) as (port, bebopd, reactor):
        return query.ask(port, bebopd, reactor, where.name, limits.allocate_s)


def give(where: Where, limits: Limits, order: Order) -> Changed:
    """Give an operator's order; it is on bebopd's disk when this returns.

    Raises:
        OrderRefused: bebopd refuses.
        PartitionError: as :func:`rows`.
    """
    with reached(where, limits) as (port, bebopd, reactor):
        return query.give(port, bebopd, reactor, where.name, limits.allocate_s, order)


def end_jobs(where: Where, limits: Limits, asked: EndJobs) -> JobsEnding:
    """Have jobs ended.

    Raises:
        OrderRefused: bebopd refuses.
        PartitionError: as :func:`rows`.
    """
    with reached(where, limits) as (port, bebopd, reactor):
        return query.end_jobs(port, bebopd, reactor, where.name, limits.allocate_s, asked)


def events(where: Where, limits: Limits, asked: AskNodeEvents) -> list[NodeEvent]:
    """What has happened to nodes, the oldest first.

    Raises:
        PartitionError: as :func:`rows`, or bebopd keeps no history.
    """
    with reached(where, limits) as (port, bebopd, reactor):
        return query.events(port, bebopd, reactor, where.name, limits.allocate_s, asked)


@contextmanager
def reached(where: Where, limits: Limits) -> Iterator[tuple[Port, PortalId, Reactor]]:
    """A port to a partition's bebopd, and a loop.

    Raises:
        PartitionError: the partition is the embedded one, or no key of it is known.
    """
    if where.is_embedded:
        raise PartitionError("no partition is up here; yod runs jobs on this host by itself")
    reactor = Reactor()
    try:
        opened = remote.RemotePartition(remote.reach(where), limits)
        try:
            yield opened.port, opened.bebopd, reactor
        finally:
            opened.close()
    finally:
        reactor.close()
