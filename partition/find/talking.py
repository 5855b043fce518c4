"""A conversation with the bebopd of a partition, by a command that waits for its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from native.errors import PartitionError
from native.ids import PortalId
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Loss, PeerLost, Port, Received
from native.wire.base import Message
from partition.find import remote
from partition.find.discover import Where


class LostError(PartitionError):
    """bebopd was lost before it has answered.

    Attributes:
        is_unreachable: no connection could be made.
    """

    def __init__(self, text: str, is_unreachable: bool) -> None:
        super().__init__(text)
        self.is_unreachable = is_unreachable


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
        name: the user's name of the partition, for the errors.
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
