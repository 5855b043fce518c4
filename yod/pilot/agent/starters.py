"""The starters of a pilot: ``native/starter``, a process on each node that starts programs."""

from __future__ import annotations

import _socket  # see yod.pilot.link
import os
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

import native
from native.errors import PeerProtocolError, YodError
from native.loop.packets import PacketEnd
from native.loop.reactor import Reactor
from yod.pilot.wire import starter as wire

PROGRAM = os.path.join(
    os.path.dirname(os.path.abspath(native.__file__ or "")), "starter", "yod-starter"
)
_PACKETS_PER_TURN = 64
_CALLER_FD = 3  # native/starter/starter.c

OnReport = Callable[[wire.Report], None]
OnPacket = Callable[[bytes], None]
OnLost = Callable[[str], None]


class End(Protocol):
    """The connection to a starter: packets both ways."""

    def send(self, packet: bytes) -> None:
        """Send an order."""

    def close(self) -> None:
        """Hang up, by which all programs end. Calling twice is harmless."""


class LocalEnd:
    """A starter that is a child of this process."""

    def __init__(self, reactor: Reactor, on_packet: OnPacket, on_lost: OnLost) -> None:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            ours.setblocking(False)
            unix_pid = os.posix_spawn(
                PROGRAM,
                ["yod-starter"],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), _CALLER_FD)],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            ours.close()
            raise YodError(f"{PROGRAM}: {error.strerror}") from None
        finally:
            theirs.close()
        self._packets = PacketEnd(
            reactor, ours, wire.REPORT_BYTES_MAX, _PACKETS_PER_TURN, on_packet, on_lost
        )
        reactor.on_child(unix_pid, lambda wait_status: None)  # its connection tells

    def send(self, packet: bytes) -> None:
        """Send an order."""
        self._packets.send(packet)

    def close(self) -> None:
        """Hang up."""
        self._packets.close()


class Starter:
    """One starter, and the programs that it has started.

    Args:
        open_end: connects to it, given what takes its packets and what is told that it is lost.
        name: of its node, for messages.
        on_lost: called with a reason when it has ended by itself, with all its programs.
    """

    def __init__(
        self, open_end: Callable[[OnPacket, OnLost], End], name: str, on_lost: OnLost
    ) -> None:
        self._name = name
        self._on_lost = on_lost
        self._numbers = 0
        self._programs: dict[int, OnReport] = {}
        self._end = open_end(self._take, self._lose)

    def start(
        self,
        words: Sequence[str],
        variables: Sequence[str],
        directory: str,
        output: str,
        error: str,
        on_report: OnReport,
        *,
        ranks: int = 1,
        flags: int = wire.MAKE_DIRECTORY,
    ) -> int:
        """Start a program; its reports go to ``on_report``, the last one ends it.

        Returns:
            A number for :meth:`signal`.

        Raises:
            ValueError: the order is too long, or has a zero byte.
        """
        self._numbers += 1
        number = self._numbers
        order = wire.encode_start(
            number, words, variables, directory, output, error, ranks=ranks, flags=flags
        )
        self._programs[number] = on_report
        self._end.send(order)
        return number

    def signal(self, number: int, signo: int) -> None:
        """Send a program's processes a signal; SIGKILL goes to all that it has started."""
        if number in self._programs:
            is_kill = signo == signal.SIGKILL
            self._end.send(
                wire.encode_end(number) if is_kill else wire.encode_signal(number, signo)
            )

    def close(self) -> None:
        """End all programs, and the starter. No report comes any more."""
        self._programs.clear()
        self._end.close()

    def _take(self, packet: bytes) -> None:
        try:
            report = wire.decode_report(packet)
        except PeerProtocolError as error:
            self._end.close()
            self._lose(str(error))
            return
        if report.kind is wire.ReportKind.STARTED:
            on_report = self._programs.get(report.number)
        else:
            on_report = self._programs.pop(report.number, None)
        if on_report is not None:
            on_report(report)

    def _lose(self, reason: str) -> None:
        programs, self._programs = self._programs, {}
        self._on_lost(f"the starter of node {self._name} is lost: {reason}")
        for on_report in programs.values():
            on_report(wire.LOST)
