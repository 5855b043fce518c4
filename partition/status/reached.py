"""One question about nodes to the bebopd of a partition, from the port's opening to its end."""

from __future__ import annotations

from native.limits import Limits
from native.wire.nodes import AskNodeEvents, Changed, EndJobs, JobsEnding, NodeEvent, Order
from native.wire.status import NodeRow
from partition.find.discover import Where
from partition.find.talking import reached
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
