"""Begins to serve the status of a study."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection

from ensemble.machine.state import Ensemble
from ensemble.status.server import Status
from ensemble.status.view import View
from native.limits import Limits
from native.loop.reactor import Reactor
from partition.web import address, page
from partition.web.gate import Gate


def serve(
    sock: socket.socket,
    reactor: Reactor,
    limits: Limits,
    token: str,
    host: str,
    names: Collection[str],
    study: str,
    machine: Ensemble,
) -> tuple[Status, str]:
    """What serves it, and the address to be opened.

    Args:
        host: in the address.
        names: of this host, by which it may be asked.
        study: its name.
    """
    gate = Gate(token, names, "yod-ensemble")
    view = View(study, machine, time.time())
    status = Status(sock, reactor, limits, gate, page.load("ensemble.status"), view)
    return status, address.url(host, sock.getsockname()[1], token)
