"""A process that is the parent of keepers, as a user's client is, and the PCT's end of it.

As a program (``python -m tests.support.keeper_client FD KEEPER``) it starts the keepers that
it is asked for over a Unix socket, until that ends.
"""

from __future__ import annotations

import array
import os
import socket
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

from native.host.process import become_subreaper
from native.loop.reactor import Reactor
from pct.host.spawn.client import ClientSpawner
from pct.host.spawn.spawner import KEEPER, OwnSpawner

HERE = Path(__file__).parents[2]
_PACKET = struct.Struct("<IIi")  # kind, number, value
_START, _CONTINUE, _KILL_ORPHANS = 5, 6, 7
_STARTED, _ENDED, _ORPHANS_KILLED = 6, 7, 8


class ClientProcess:
    """A client of its own process, and the spawner that stands for it here.

    Attributes:
        spawner: to be given to what starts keepers.
    """

    def __init__(self, reactor: Reactor, program: str = KEEPER) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), program],
                cwd=HERE,
                pass_fds=(theirs.fileno(),),
            )
        self.spawner = ClientSpawner(self.process.pid, reactor, self)
        self._watch = reactor.watch(self._socket.fileno(), self._ready)

    def send_start(self, number: int, fds: tuple[int, ...]) -> None:
        self._send(_START, number, fds)
        for fd in fds:
            os.close(fd)

    def send_continue(self, number: int) -> None:
        self._send(_CONTINUE, number)

    def send_kill_orphans(self, token: int) -> None:
        self._send(_KILL_ORPHANS, token)

    def close(self) -> None:
        """End the client, if it lives."""
        self._watch.close()
        self._socket.close()
        self.process.kill()
        self.process.wait()

    def _send(self, kind: int, number: int, fds: tuple[int, ...] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._socket.sendmsg([_PACKET.pack(kind, number, 0)], rights)
        except BrokenPipeError:  # it has died; the loop will tell
            pass

    def _ready(self) -> None:
        try:
            packet = self._socket.recv(_PACKET.size)
        except ConnectionResetError:
            packet = b""
        if not packet:
            self._watch.close()
            self.spawner.gone()
            return
        kind, number, value = _PACKET.unpack(packet)
        if kind == _STARTED:
            self.spawner.started(number, value)
        elif kind == _ENDED:
            self.spawner.ended(number, value)
        else:
            self.spawner.orphans_killed(number)


class _Remote:
    """A keeper, in the client's process."""

    def __init__(self, end: socket.socket, number: int) -> None:
        self._end = end
        self._number = number

    def started(self, unix_pid: int) -> None:
        self._end.send(_PACKET.pack(_STARTED, self._number, unix_pid))

    def not_started(self, error: OSError) -> None:
        self._end.send(_PACKET.pack(_STARTED, self._number, -(error.errno or 1)))

    def ended(self, wait_status: int) -> None:
        self._end.send(_PACKET.pack(_ENDED, self._number, wait_status))

    def orphaned(self, reason: str) -> None:
        raise AssertionError(reason)


def main() -> None:
    end = socket.socket(fileno=int(sys.argv[1]))
    become_subreaper()
    reactor = Reactor()
    spawner = OwnSpawner(reactor, program=sys.argv[2])
    numbers: dict[int, int] = {}

    def ready() -> None:
        packet, fds, _, _ = socket.recv_fds(end, _PACKET.size, 3)
        if not packet:
            reactor.stop()
            return
        kind, number, _ = _PACKET.unpack(packet)
        if kind == _START:
            remote = _Remote(end, number)
            try:
                numbers[number] = spawner.start(tuple(fds), remote)
            except OSError as error:
                remote.not_started(error)
        elif kind == _CONTINUE:
            spawner.resume(numbers[number])
        else:
            killed = _PACKET.pack(_ORPHANS_KILLED, number, 0)
            spawner.kill_orphans(partial(end.send, killed))

    reactor.watch(end.fileno(), ready)
    reactor.run()


if __name__ == "__main__":
    main()
