"""Starters on the nodes of an allocation: the ranks of one step, which connect to the agent.

The step shares the slots of others (``--overlap``), so it holds none. A starter proves itself by a
key that is in a file of the user's while starters come.
"""

from __future__ import annotations

import _socket
import os
import signal
from _operator import _compare_digest
from collections.abc import Callable
from contextlib import suppress

from native.errors import YodError
from native.frames import framed
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor, Timer
from yod.guest.front import Given
from yod.pilot.agent.starters import PROGRAM, End, OnLost, OnPacket
from yod.pilot.agent.steps import Steps
from yod.pilot.link.greeting import STRANGERS_MAX, keep_alive
from yod.pilot.link.link import Link
from yod.pilot.work.place import Outcome
from yod.ranks import RankResult

KEY_FILE = "starters.key"
_KEY_BYTES = 32
_BACKLOG = 4096
_ACCEPTS_A_TURN = 64
_HELLO_BYTES_MAX = 1 << 16
_HELLO_S = 30.0  # from a connection to the starter's first word
_STEP = "starters"
# Where the sandbox is not the same on a node it is made, with the key and a mark behind that.
_APART = "+"
_BEGIN = """\
[ -e "$2" ] || (umask 077; mkdir -p "${2%/*}" && { cat; printf +; } >"$2") || exit
exec "$0" "$1" "$2"
"""


class RemoteEnd:
    """A starter that has connected."""

    def __init__(self, link: Link, on_packet: OnPacket, on_lost: OnLost) -> None:
        self._link = link
        link.redirect(on_packet, on_lost)

    def send(self, packet: bytes) -> None:
        """Send an order."""
        self._link.send_frame(framed(packet))

    def close(self) -> None:
        """Hang up."""
        self._link.close()


class Arrivals:
    """Launches starters on all nodes and lets them in.

    Args:
        names: of the nodes.
        on_come: called for each that has come with the index of its node, the number that the
            partition gives it, and what opens its end.
        on_failed: called with a reason when the step has ended.
        on_absent: called with the index of a node whose starter could not begin, and a reason;
            False: the pilot cannot do without it.

    Attributes:
        apart: indices of the nodes that have come and do not see the pilot's sandbox.
        path: of the key's file, which a node of its own has, too.
    """

    def __init__(
        self,
        reactor: Reactor,
        steps: Steps,
        names: list[str],
        sandbox: str,
        on_come: Callable[[int, int, Callable[[OnPacket, OnLost], End]], None],
        on_failed: Callable[[str], None],
        on_absent: Callable[[int, str], bool] = lambda index, reason: False,
    ) -> None:
        self._on_absent = on_absent
        self._reactor = reactor
        self._steps = steps
        self._awaited = set(names)
        self._lacking = ""  # the first node whose starter could not begin
        self._indices = {name: n for n, name in enumerate(names)}
        self._on_come = on_come
        self._on_failed = on_failed
        self._key = os.urandom(_KEY_BYTES).hex()
        self.path = os.path.join(sandbox, KEY_FILE)
        self.apart: set[int] = set()
        self._strangers: dict[Link, Timer] = {}
        self._end = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self._end.bind((own_address(), 0))
        self._end.listen(_BACKLOG)
        self._end.setblocking(False)
        self._acceptor = Acceptor(reactor, self._end, _ACCEPTS_A_TURN, self._came)
        host, port = self._end.getsockname()
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            file.write(self._key)
        steps.start(
            _STEP,
            ["/bin/sh", "-c", _BEGIN, PROGRAM, f"{host}:{port}", self.path],
            len(names),
            {},
            "/",
            os.path.join(sandbox, "starters.out"),
            os.path.join(sandbox, "starters.err"),
            lambda at: None,
            self._over,
            more={"ranks_per_node": 1, "keep_going": True},
            source=Given(reactor, self._key.encode()),
            on_rank_ended=self._ended,
        )

    def close(self) -> None:
        """Let nobody in any more. Calling twice is harmless."""
        if self._end.fileno() >= 0:
            self._acceptor.close()
            self._end.close()
            for link in list(self._strangers):
                self._refuse(link)
            with suppress(OSError):
                os.unlink(self.path)

    def _came(self, fd: int, peer: object) -> None:
        end = _socket.socket(fileno=fd)
        keep_alive(end)

        def hello(body: bytes) -> None:
            self._forget(link)
            key, _, rest = body.partition(b" ")
            number, _, name = rest.decode(errors="replace").partition(" ")
            index = self._indices.get(name)
            is_apart = key.endswith(_APART.encode())
            key = key.removesuffix(_APART.encode())
            if not _compare_digest(key, self._key.encode()) or index is None:
                link.close()
                return
            self._awaited.discard(name)
            if is_apart:
                self.apart.add(index)
            self._on_come(index, int(number), lambda packet, lost: RemoteEnd(link, packet, lost))

        def late() -> None:
            self._refuse(link)

        if len(self._strangers) >= len(self._indices) + STRANGERS_MAX:
            self._refuse(next(iter(self._strangers)))
        link = Link(end, self._reactor, hello, lambda _: self._forget(link), _HELLO_BYTES_MAX)
        self._strangers[link] = self._reactor.timer(late)
        self._strangers[link].set(self._reactor.monotonic() + _HELLO_S)

    def _refuse(self, link: Link) -> None:
        """Hang up on one that has not said who it is."""
        self._forget(link)
        link.close()

    def _forget(self, link: Link) -> None:
        """It has said who it is, or has gone."""
        if (timer := self._strangers.pop(link, None)) is not None:
            timer.close()

    def _ended(self, rank: RankResult) -> None:
        if rank.node not in self._awaited or self._lacking:
            return
        reason = f"node {rank.node} is lost: its starter could not begin"
        if self._on_absent(self._indices[rank.node], reason):
            self._awaited.discard(rank.node)
        else:  # no pilot without it
            self._lacking = rank.node
            self._steps.signal(_STEP, signal.SIGTERM)

    def _over(self, outcome: Outcome) -> None:
        words = (outcome.stderr.strip() or outcome.failure or "it has ended").splitlines()[-1]
        where = f" on {self._lacking}" if self._lacking else ""
        self._on_failed(f"the starters have ended{where}: {words}")


def own_address() -> str:
    """The address at which the nodes of the allocation reach this host: that of its broker.

    Raises:
        YodError: it is not known.
    """
    where = os.environ.get("YOD_PARTITION", "")
    host, _, port = where.rpartition(":")
    if not host or not port.isdigit():
        raise YodError(f"YOD_PARTITION={where}: the nodes of the allocation cannot be reached")
    return host
