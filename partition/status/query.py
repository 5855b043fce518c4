"""Asks bebopd for its table, and waits for the answer."""

from __future__ import annotations

from native.errors import PartitionError
from native.ids import PortalId
from native.loop.reactor import Reactor
from native.port.port import PeerLost, Port, Received
from native.wire.status import NodeRow, Query, Table


def ask(port: Port, bebopd: PortalId, reactor: Reactor, name: str, wait_s: float) -> list[NodeRow]:
    """All rows of the table, nodes ascending.

    Args:
        name: the user's name of the partition, for the errors.
        wait_s: how long to wait for the last row.

    Raises:
        PartitionError: no bebopd there, or no answer in time.
    """
    rows: list[NodeRow] = []
    until = reactor.monotonic() + wait_s
    failure = f"bebopd at {name} has not answered for {wait_s:g} s: is it stopped?"
    is_done = False

    def ready() -> None:
        nonlocal failure, is_done
        for event in port.events():
            match event:
                case Received(source, _, Table(piece, is_last)) if source == bebopd:
                    rows.extend(piece)
                    is_done = is_done or is_last
                case PeerLost(peer, _, text) if peer == bebopd and not is_done:
                    failure = f"bebopd at {name} {text}"
                    reactor.stop()
        if is_done:
            reactor.stop()

    watch = reactor.watch(port.fileno(), ready)
    stop_timer = reactor.add_timer(lambda: until, reactor.stop)
    try:
        port.send(bebopd, Query())
        reactor.run()
    finally:
        watch.close()
        stop_timer()
    if not is_done:
        raise PartitionError(failure)
    return rows
