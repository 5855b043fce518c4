"""pingd --web: one loop with bebopd on one side and browsers on the other."""

from __future__ import annotations

import secrets
import signal
import socket
from collections.abc import Callable
from functools import partial

from native.limits import Limits
from native.loop.reactor import Reactor
from partition.find.discover import Where
from partition.status import why
from partition.status.follow import Follower
from partition.web import address, page
from partition.web.gate import Gate
from partition.web.server import Server, listen
from partition.web.view import View

TOKEN_BYTES = 24


def serve(where: Where, limits: Limits, at: address.Address, say: Callable[[str], None]) -> None:
    """Serve the page until SIGINT or SIGTERM.

    Args:
        say: takes the address that a user opens, when there is something to see.

    Raises:
        UsageError: nothing can listen there.
        PartitionError: there is no partition.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    gate = Gate(token, {at.host, socket.gethostname(), socket.getfqdn()})
    view = View(where.name, partial(why.stale_s, limits))
    reactor = Reactor()
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            reactor.on_signal(number, reactor.stop)
        listener = listen(at)

        def tell() -> None:
            host = _reachable(server.address.host)
            say(address.url(host, server.address.port, token))

        server = Server(listener, reactor, limits, gate, page.load(), view, tell)
        follower = Follower(where, limits, reactor, server, asks=True)
        try:
            follower.connect()
            reactor.run()
        finally:
            follower.close()
            server.close()
    finally:
        reactor.close()


def _reachable(host: str) -> str:
    """A name for the address of a listener: one for all addresses has none."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host
