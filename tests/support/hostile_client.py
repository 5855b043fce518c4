"""A client of a launch server that lies: packets of the right form, mutated ones, odd descriptors.

It tells enough of the truth that its launches get somewhere: it takes keepers' descriptors, and
reports in their place ranks that do not exist. It does one small thing a step, so that many
clients take turns in one process.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress

from native.errors import PeerProtocolError
from native.wire import client as wire
from native.wire import client_codec as codec
from tests.support.own_server import Raw, memfd, request_of

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("-sz", "2", "true"),
    ("-sz", "3", "sleep", "1000"),
    ("--mpi=none", "-sz", "1", "cat"),
    ("-sz", "2", "-file", "report", "echo", "hi"),
    ("--with-portals", "-sz", "2", "true"),
    ("--mpi=pmix", "-sz", "2", "true"),
    ("-sz", "300", "true"),
    ("--partition", "127.0.0.1:1", "true"),
    ("--version",),
    ("/nonexistent/program",),
    (),
)
NUMBERS = (0, 1, 2, 3, 4, 7, 13, 64, 255, 256, 4095, 65536, 1 << 18, 1 << 31, (1 << 32) - 1)
TOKENS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGTSTP)
BYTES = (b"", b"\0", b"x" * 100, bytes(4), b"\xff" * 8, bytes(65536), bytes(70_000))
PACKETS_A_STEP = 8
_REPORT = struct.Struct("<HHIiIQQQQII200s")
_HEAD = struct.Struct("<II")


class HostileClient:
    """One connection, and what it was given.

    Args:
        connect: makes a connection to the launch server.
        known: ids of processes and keepers that exist, for lies.
        fds: descriptors of any kind, for requests that bring the wrong ones.

    Attributes:
        is_over: it has hung up, or was hung up on.
    """

    def __init__(
        self,
        connect: Callable[[], Raw],
        rng: random.Random,
        known: Sequence[int],
        fds: Sequence[int],
    ) -> None:
        self._rng = rng
        self._known = known
        self._odd_fds = fds
        self._raw = connect()
        self._raw.socket.setblocking(False)
        self._lies = rng.choice((0.0, 0.05, 0.3, 0.8))  # how often
        self._reads = rng.random() < 0.9
        self._words = rng.choice(COMMANDS)
        self._keeper = 0
        self._control: socket.socket | None = None
        self._told = 0  # reports of the keeper that is none
        self._was_commanded = False
        self._has_asked = False
        self._kept: list[int] = []
        self._written: list[int] = []  # of these, the outputs of ranks
        self.is_over = False

    def fileno(self) -> int:
        """Of its connection, which is readable when the server has said something."""
        return self._raw.socket.fileno()

    def close(self) -> None:
        """Hang up, and close what the server has given."""
        self.is_over = True
        self._raw.close()
        if self._control is not None:
            self._control.close()
            self._control = None
        for fd in self._kept:
            os.close(fd)
        self._kept.clear()
        self._written.clear()

    def step(self) -> None:
        """Do one thing; the server may hang up on it at any time."""
        rng = self._rng
        try:
            if not self._has_asked:
                self._ask()
            elif self._reads:
                self._answer()
            if rng.random() < self._lies:
                self._send(self._lie(), rng.random() < 0.05)
            elif rng.random() < 0.1:
                self._say(wire.Ping() if rng.random() < 0.8 else wire.Signal(rng.choice(TOKENS)))
            if self._control is not None:
                self._report()
        except BlockingIOError:
            pass
        except OSError:
            self.hang_up()
        if rng.random() < 0.01:
            self.hang_up()

    def hang_up(self) -> None:
        """Leave; a keeper's socket may stay open for longer."""
        self.is_over = True
        self._raw.close()

    # -- the request --------------------------------------------------------

    def _ask(self) -> None:
        """A request, honest but for the lies."""
        rng = self._rng
        self._has_asked = rng.random() < 0.97  # a second one is hung up on
        twisted = {
            "umask": rng.choice((0, 0o777)),
            "stdio": wire.Stdio(rng.randrange(256)),
            "ignored_signals": tuple(rng.sample(range(1, 65), rng.randrange(64))),
            "arguments": rng.choice((1, 2, 1 << 20)),
            "variables": rng.choice((0, 1, 1 << 20)),
            "limits": tuple((rng.choice((0, 7, 99)), rng.choice((-1, 0, 5))) for _ in range(3)),
        }
        chosen = {name: twist for name, twist in twisted.items() if rng.random() < self._lies / 3}
        request, strings = request_of(*self._words, **chosen)
        if rng.random() < self._lies / 3:
            strings = self._mutated(strings)
        with memfd(strings) as fd:
            here = os.open("/", os.O_PATH)
            try:
                fds = [fd, here]
                if rng.random() < self._lies / 3:
                    fds = rng.choices([*fds, *self._odd_fds], k=rng.choice((0, 1, 2, 2, 2, 3, 9)))
                packet = codec.encode(request)
                self._raw.send(
                    self._mutated(packet) if rng.random() < self._lies / 9 else packet, *fds
                )
            finally:
                os.close(here)

    # -- answers ------------------------------------------------------------

    def _answer(self) -> None:
        """Take some packets, and answer them as a client would, but for the lies."""
        for _ in range(PACKETS_A_STEP):
            try:
                received = self._raw.receive()
            except BlockingIOError:
                return
            if received is None:
                self.hang_up()
                return
            message, fds = received
            self._kept += fds
            if self._rng.random() >= self._lies:
                self._answer_one(message, fds)

    def _answer_one(self, message: wire.FromServer, fds: list[int]) -> None:
        rng = self._rng
        match message:
            case wire.Output(stream, data):
                self._say(wire.Written(stream, len(data)))
                self._say_more()
            case wire.Give(stream):
                self._give(stream)
            case wire.Read(count_bytes):
                typed = rng.choice((b"", b"i", b"~d\n", b"i" * 65536))
                self._say(wire.Input(typed[:count_bytes]))
            case wire.Start(keeper):
                self._keeper = keeper
                unix_pid = rng.choice((os.getpid(), *self._known))
                self._say(wire.Started(keeper, unix_pid))
                if self._control is None:
                    self._kept.remove(fds[0])
                    self._control = socket.socket(fileno=fds[0])
                    self._control.setblocking(False)
            case wire.KillOrphans(token):
                self._say(wire.OrphansKilled(token))
            case wire.Leave():
                self._say(wire.Left(rng.choice(((), (1,), (1, 2)))))
            case wire.Suspend():
                self._say(wire.Signal(signal.SIGCONT))
            case wire.Append(token):
                self._say(wire.Appended(token, rng.choice((0, 13, 28))))
            case wire.Exit() | wire.Cold() if rng.random() < 0.5:
                self.hang_up()

    def _give(self, stream: int) -> None:
        """Give a stream: a pipe that somebody reads, or nobody, or what is no pipe."""
        gift = self._rng.choice((wire.Gift.PIPE, wire.Gift.PIPE, wire.Gift.NULL, wire.Gift.NOTHING))
        given = wire.Given(stream, gift)
        if gift is not wire.Gift.PIPE:
            self._say(given)
            return
        reading, writing = os.pipe2(os.O_CLOEXEC)  # whose description blocks
        self._kept += (reading, writing)
        if self._rng.random() < 0.3:
            self._kept.remove(reading)
            os.close(reading)
        odd = self._rng.random() < self._lies
        self._raw.send(given, self._rng.choice(self._odd_fds) if odd else writing)

    def _say_more(self) -> None:
        """The ranks that do not exist write on: so much that the server asks for the stream."""
        for fd in self._written:
            with suppress(BlockingIOError):
                os.write(fd, b"more\n" * 10_000)

    def _say(self, message: wire.FromClient) -> None:
        self._raw.send(message)

    def _send(self, packet: bytes, with_fds: bool) -> None:
        fds = self._rng.choices(self._odd_fds, k=self._rng.choice((1, 4, 5))) if with_fds else ()
        self._raw.send(packet, *fds)

    # -- lies ---------------------------------------------------------------

    def _lie(self) -> bytes:
        """A packet: of the right form mostly, and nothing that is so."""
        rng = self._rng
        kind = rng.choice([*wire.ClientKind, 0, 13])
        number = rng.choice((*NUMBERS, *self._known))
        value = rng.choice((0, 1, 2, self._keeper, number & 0xFFFFFFFF, *TOKENS))
        payload = rng.choice((b"", struct.pack("<I", number & 0xFFFFFFFF), rng.choice(BYTES)))
        packet = _HEAD.pack(kind, value) + payload
        for _ in range(20):  # most of what is drawn has no right form
            if rng.random() < self._lies / 10 or is_well_formed(packet):
                break
            kind = rng.choice(list(wire.ClientKind))
            value = rng.choice((0, 1, 2, self._keeper, *TOKENS))
            payload = rng.choice((b"", struct.pack("<I", rng.choice(NUMBERS))))
            packet = _HEAD.pack(kind, value) + payload
        return packet

    def _mutated(self, data: bytes) -> bytes:
        rng = self._rng
        changed = bytearray(data)
        match rng.randrange(4):
            case 0:
                del changed[rng.randrange(len(changed)) :]
            case 1:
                changed += rng.choice(BYTES)
            case 2:
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            case 3:
                start = rng.randrange(len(changed))
                changed[start : start + 4] = struct.pack("<I", rng.choice(NUMBERS))
        return bytes(changed)

    # -- the keeper that is none --------------------------------------------

    def _report(self) -> None:
        """The next report on ranks that do not exist: started, held, ended, and nothing left."""
        assert self._control is not None
        rng = self._rng
        ranks = int(self._words[self._words.index("-sz") + 1]) if "-sz" in self._words else 1
        step, rank = divmod(self._told, ranks)
        if step == 2 and not self._was_commanded and rng.random() >= self._lies / 5:
            self._wait_for_go()
            return
        self._told += 1
        kind, number = ((1, os.getpid()), (2, 1), (4, 0), (5, 0))[min(step, 3)]
        if rng.random() < self._lies / 5:
            kind, rank = rng.randrange(8), rng.choice((0, 1, 2, 1 << 31))
            number = rng.choice((-1, 0, 1, 9, *self._known))
        ends: list[int] = []
        mask = 6 | (rank == 0) if kind == 1 else 0
        text = rng.choice((b"", b"/bin/true", b"\xff" * 200))
        flags = rng.choice((0, 1, 3))
        record = _REPORT.pack(kind, flags, rank, number, 0, 1, 1, 1, 1, len(text), mask, text)
        try:
            if kind == 1:
                ends = self._streams(rank == 0)
            with suppress(BlockingIOError):
                socket.send_fds(self._control, [record * rng.choice((1, 1, 1, 2))], ends)
        except OSError:  # the server has hung up
            self._control.close()
            self._control = None
        finally:
            for fd in ends:
                os.close(fd)

    def _wait_for_go(self) -> None:
        """Look whether a command has come: ranks go on then."""
        assert self._control is not None
        with suppress(BlockingIOError):
            self._was_commanded = bool(self._control.recv(4096))

    def _streams(self, has_input: bool) -> list[int]:
        """Ends of pipes as a keeper gives them; the other ends say something, and stay."""
        ends = []
        for is_input in (True, False, False)[not has_input :]:
            reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            if not is_input:
                os.write(writing, self._rng.choice((b"said\n", b"no end", b"y\n" * 20_000)))
                self._written.append(writing)
            ends.append(writing if is_input else reading)
            self._kept.append(reading if is_input else writing)
        return ends


def is_well_formed(packet: bytes) -> bool:
    """Whether a client may send a packet at some time."""
    try:
        codec.decode_from_client(packet)
    except PeerProtocolError:
        return False
    return True
