"""Clients that lie to a launch server: ``python -m tests.fuzz.hostile_clients SECONDS [SEED]``.

The clients are the server's own user, so what they ask for is done; in each round some of them
speak in turns, and another user tries the socket. Honest yods run beside them, and must succeed.
After each round the server must have ended what was theirs, hold as many descriptors as before, not
have grown, and have failed at nothing.
"""

from __future__ import annotations

import os
import random
import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.runs import own_place
from tests.support.daemons import FAULT
from tests.support.hostile_client import HostileClient
from tests.support.nobody import NOBODY
from tests.support.own_server import NEVER_COLD, OwnServer
from tests.support.partition import finish
from tests.support.place import Place
from tests.support.wait import LIMIT_S, wait_until

CLIENTS = 6  # that lie at the same time
STEPS = 400  # of them all in a round
HONEST_EVERY = 100  # steps
PAUSE_S = 0.005  # for the server to say something
SETTLED_ROUNDS = 5  # after these all that the server keeps is there
GROWTH_BYTES = 24 << 20  # that may come later
SHOWN = 6000  # characters of a log
LIMITS = {"YOD_CONNECT_S": "2", "YOD_NOTICE_S": "60"}


class Attack:
    """Rounds against one launch server."""

    def __init__(self, server: OwnServer, seed: int) -> None:
        self._server = server
        self._rng = random.Random(seed)
        self._rounds = 0
        self._most_bytes = 0

    def round(self) -> None:
        """So many steps of clients who lie, with honest ones beside them.

        Raises:
            AssertionError: a promise is broken.
        """
        server, rng = self._server, self._rng
        before = self._descriptors()
        known = [server.unix_pid, *server.helpers]
        clients: list[HostileClient] = []
        with odd_descriptors() as fds:
            lasting = server.start_yod("-sz", "2", "cat", env=NEVER_COLD)
            known.append(lasting.pid)
            try:
                for step in range(STEPS):
                    while sum(not client.is_over for client in clients) < CLIENTS:
                        clients.append(HostileClient(server.connect, rng, known, fds))
                    living = [client for client in clients if not client.is_over]
                    ready = select.select(living, [], [], PAUSE_S)[0]
                    rng.choice(ready if ready and rng.random() < 0.7 else living).step()
                    if step % HONEST_EVERY == 0:
                        done = server.yod("-sz", "2", "echo", "hi", env=NEVER_COLD)
                        assert (done.status, done.out, done.err) == (0, "hi\nhi\n", ""), done
                done = finish(lasting, b"still\n")
                assert (done.status, done.out, done.err) == (0, "still\n", ""), done
            finally:
                lasting.kill()
                for client in clients:
                    client.close()
        self._look(before)

    def _look(self, before: int) -> None:
        """The server is as it was."""
        server = self._server
        server.wait_idle()
        wait_until(lambda: self._descriptors() <= before, what="as few descriptors as before")
        server.works()
        self._rounds += 1
        now = resident_bytes(server.unix_pid)
        if self._rounds <= SETTLED_ROUNDS:
            self._most_bytes = max(self._most_bytes, now + GROWTH_BYTES)
        assert now <= self._most_bytes, f"{now} bytes after {self._rounds} rounds"
        said = server.daemon.text()
        assert FAULT not in said and "Traceback" not in said, said
        if os.geteuid() == 0:
            self._stranger_is_refused()

    def _descriptors(self) -> int:
        """Those of the server, but for the one to each helper."""
        return self._server.descriptors() - len(self._server.helpers)

    def _stranger_is_refused(self) -> None:
        """Another user is told nothing, where the directory lets them in."""
        directory = self._server.directory
        path = next(path for path in directory.iterdir() if path.is_socket())
        modes = {each: each.stat().st_mode for each in (directory, path)}
        for each in modes:
            each.chmod(0o777)
        try:
            assert as_stranger(path) == b""
        finally:
            for each, mode in modes.items():
                each.chmod(mode)


def as_stranger(path: Path) -> bytes:
    """What another user hears at a socket that they may connect to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            end.settimeout(LIMIT_S)
            end.connect(str(path))
            os.write(writing, end.recv(1000))
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


@contextmanager
def odd_descriptors() -> Iterator[list[int]]:
    """Descriptors that no request has, for the time of a block."""
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    files = [
        os.open(path, flags)
        for path, flags in (
            ("/", os.O_PATH),
            ("/dev/zero", os.O_RDONLY),
            ("/etc/passwd", os.O_RDONLY),
            ("/proc/self/mem", os.O_RDONLY),
        )
    ]
    found = [reading, writing, ours.detach(), theirs.detach(), *files]
    try:
        yield found
    finally:
        for fd in found:
            os.close(fd)


def resident_bytes(unix_pid: int) -> int:
    """Of a process's memory."""
    pages = int(Path(f"/proc/{unix_pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def attack(place: Place, seed: int, until: float, rounds: int) -> int:
    """Attack a launch server until a time, at most so many rounds; how many there were.

    Raises:
        AssertionError: a promise is broken.
    """
    with OwnServer(place, env=LIMITS) as server:
        server.works()
        server.wait_idle()
        attacker = Attack(server, seed)
        for number in range(rounds):
            try:
                attacker.round()
            except AssertionError as error:
                log = server.launch_server.log()[-SHOWN:]  # type: ignore[union-attr]
                text = f"with seed {seed}, round {number}: {error}\n{log}"
                raise AssertionError(text) from None
            if time.monotonic() > until:
                break
    return number + 1


def main() -> None:
    """Attack a launch server of our own for so many seconds; the seed is told first."""
    until = time.monotonic() + float(sys.argv[1])
    with own_place() as (place, seed):
        rounds = attack(place, seed, until, sys.maxsize)
        print(f"{rounds} rounds of {STEPS} steps, nothing found")


if __name__ == "__main__":
    main()
