"""A launch server of a test's own, which the test may harm, and the yods that it serves.

It is a real one (:mod:`partition.server`); the made-up one of client tests is
:mod:`tests.support.launch_server`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from native.wire import client as wire
from native.wire import client_codec as codec
from partition.find.warm import lock_name, socket_name
from tests.support.daemons import FAULT, Daemon
from tests.support.leaks import descendants, is_a_stores, open_descriptors
from tests.support.partition import Done, Word
from tests.support.place import Place
from tests.support.wait import LIMIT_S, wait_until
from tests.support.warm import COMMAND, LOG, LaunchServer, Warm

LOST_STATUS = 125
NEVER_COLD = {"YOD_COLD": "never"}
STATE_LINE = " clients"


class HasEndedError(Exception):
    """The server has ended, and says nothing any more."""


class OwnServer(Warm):
    """A launch server for the time of a block, and the partition inside it.

    Args:
        env: limits and the like for the server and its yods.
        command: starts it.
    """

    def __init__(
        self,
        place: Place,
        env: Mapping[str, str] | None = None,
        command: Sequence[Word] = COMMAND,
    ) -> None:
        self._server = LaunchServer(place, env, command)
        super().__init__(self._server)
        self._env = dict(env or {})

    def __enter__(self) -> OwnServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it; nothing of it may be left, and it may not have failed at anything.

        Raises:
            AssertionError: that is not so.
        """
        try:
            if self.daemon.is_alive:
                self.signal(signal.SIGCONT)
                self.daemon.stop()
            said = self.daemon.text()
            assert FAULT not in said and "Traceback" not in said, said
            assert not self.left(), self.left()
        finally:
            self._server.stop()

    def start(self) -> None:
        """Start it, or another one after it has ended; returns when it takes clients."""
        self._server.start()

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Of its yods, which may run cold: tests say which do."""
        return super().environment({"YOD_COLD": None, **self._env, **(more or {})})

    def left(self) -> list[str]:
        """Files in its directory that are neither its own nor kept for the next server."""
        own = {str(self.directory / name) for name in (LOG, socket_name(), lock_name())}
        return [path for path in self._server.files() - own if not is_a_stores(path)]

    @property
    def directory(self) -> Path:
        """Of its socket, and its run-time directory."""
        return self._server.directory

    @property
    def daemon(self) -> Daemon:
        """Its process and its log."""
        return self._server.daemon

    @property
    def unix_pid(self) -> int:
        """Its process."""
        return self.daemon.unix_pid

    @property
    def helpers(self) -> set[int]:
        """Its helpers that have not ended."""
        return self._server.helpers()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.unix_pid, number)

    def start_warm(self, *words: Word, **options: Any) -> subprocess.Popen[bytes]:
        """Start a yod whose launch is in the server: on a busy machine one may run cold."""
        while True:
            yod = self.start_yod(*words, **options)
            if wait_until(lambda yod=yod: self._how(yod), what="a client that has asked") == "warm":  # type: ignore[misc]
                return yod
            yod.kill()
            yod.communicate()

    def _how(self, yod: subprocess.Popen[bytes]) -> str:
        """How a yod runs its launch; empty: that is not known yet."""
        try:
            if "python" in os.readlink(f"/proc/{yod.pid}/exe"):
                return "cold"
        except FileNotFoundError:  # it has ended
            return "warm"
        return "warm" if f"client {yod.pid}: " in "".join(self._clients()) else ""

    def states(self) -> list[str]:
        """What its clients are in, as it says itself."""
        return [line.split()[-1] for line in self._clients()]

    def _clients(self) -> list[str]:
        size = self.daemon.log.stat().st_size
        self.signal(signal.SIGUSR1)

        def said() -> list[str]:
            if not self.daemon.is_alive:
                raise HasEndedError
            lines = self.daemon.log.read_bytes()[size:].decode().splitlines(keepends=True)
            while lines and STATE_LINE not in lines[0]:
                del lines[0]
            count = int(lines[0].split()[-2]) if lines else -1
            is_whole = lines and len(lines) > count and lines[count].endswith("\n")
            return lines[: count + 1] if is_whole else []

        return wait_until(said, what="the state of the server")[1:]

    def wait_idle(self) -> None:
        """Wait until no client and nothing of a launch is left."""
        wait_until(lambda: not self.states(), what="a server without clients")
        helpers = self.helpers
        wait_until(
            lambda: descendants(self.unix_pid) <= helpers | self.helpers,
            what="a server without other children than helpers",
        )

    def descriptors(self) -> int:
        """How many it has open."""
        return len(open_descriptors(self.unix_pid))

    def works(self) -> None:
        """A launch runs in it, as ever.

        Raises:
            AssertionError: it does not.
        """
        done = self.yod("-sz", "2", "sh", "-c", "echo $PPID", env=NEVER_COLD)
        assert (done.status, done.err) == (0, ""), done
        assert len(set(done.out.split())) == 1, done
        assert self.daemon.is_alive

    def connect(self) -> Raw:
        """A connection of a client that the test speaks for."""
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end.settimeout(LIMIT_S)
        here = os.open(self.directory, os.O_PATH)
        try:
            end.connect(f"/proc/self/fd/{here}/{socket_name()}")
        finally:
            os.close(here)
        return Raw(end)


class Raw:
    """The client's end of a connection, for packets that the client would not send."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def send(self, message: wire.FromClient | bytes, *fds: int) -> None:
        """A packet, with descriptors that stay the caller's."""
        packet = message if isinstance(message, bytes) else codec.encode(message)
        if fds:
            socket.send_fds(self.socket, [packet], fds)
        else:
            self.socket.send(packet)

    def receive(self) -> tuple[wire.FromServer, list[int]] | None:
        """The next packet, and its descriptors; None: the server has hung up."""
        try:
            packet, fds, _, _ = socket.recv_fds(self.socket, wire.PACKET_MAX_BYTES, 4)
        except ConnectionResetError:
            return None
        return (codec.decode_from_server(packet), fds) if packet else None

    def expect(self, kind: type[wire.FromServer]) -> Any:
        """The next packet, which must be of this kind. Its descriptors are closed."""
        received = self.receive()
        assert received is not None, f"the server has hung up before {kind.__name__}"
        for fd in received[1]:
            os.close(fd)
        assert isinstance(received[0], kind), received[0]
        return received[0]

    def wait_end(self) -> None:
        """Read what there is, until the server has hung up."""
        while (received := self.receive()) is not None:
            for fd in received[1]:
                os.close(fd)

    def ask(self, *words: str, **fields: Any) -> None:
        """Take HELLO and send an honest REQUEST, but for these fields."""
        self.expect(wire.Hello)
        request, strings = request_of(*words, **fields)
        with memfd(strings) as fd:
            here = os.open("/", os.O_PATH)
            try:
                self.send(request, fd, here)
            finally:
                os.close(here)


def request_of(*words: str, **fields: Any) -> tuple[wire.Request, bytes]:
    """An honest request, and the contents of its memory file."""
    arguments = tuple(map(os.fsencode, ("yod", *words)))
    variables = tuple(name + b"=" + value for name, value in os.environb.items())
    honest: dict[str, Any] = {
        "umask": 0o22,
        "stdio": wire.Stdio(0),
        "ignored_signals": (),
        "arguments": len(arguments),
        "variables": len(variables),
        "limits": (),
    }
    return wire.Request(**{**honest, **fields}), codec.encode_strings(arguments, variables, b"/")


@contextmanager
def memfd(data: bytes) -> Iterator[int]:
    """A memory file for the time of a block."""
    fd = os.memfd_create("test")
    try:
        os.write(fd, data)
        yield fd
    finally:
        os.close(fd)


class Counted:
    """A program that leaves a line in a file each time that it runs.

    Attributes:
        words: of the command; more are added behind.
    """

    def __init__(self, directory: Path, name: str = "ran") -> None:
        self._file = directory / name

    def words(self, then: str) -> tuple[str, ...]:
        """A command that leaves its line and then does what these words of a shell say."""
        return ("sh", "-c", f"echo $YOD_RANK >> '{self._file}'; {then}")

    @property
    def ranks(self) -> list[str]:
        """Those that have run, sorted."""
        return sorted(self._file.read_text().split()) if self._file.exists() else []


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    """A program whose runs are counted."""
    return Counted(tmp_path)


@pytest.fixture
def own_server(place: Place) -> Iterator[OwnServer]:
    """A launch server for this test alone."""
    with OwnServer(place) as server:
        yield server


def finish_lost(server: OwnServer, done: Done, why: str) -> None:
    """A client that has lost its server has said so in one line, and nothing else."""
    line = f"yod: the launch server (process {server.unix_pid}) {why}; the job has been ended\n"
    assert (done.status, done.err) == (LOST_STATUS, line)
