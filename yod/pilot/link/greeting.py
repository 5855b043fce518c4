"""A connection from another host: each end shows that it has read the key, which does not travel.

    the one that calls      32 bytes, at random
    the one that is called  32 bytes, at random; its proof of both
    the one that calls      its proof of both

The key lies beside the address in a file of the user's, which both can read, or is in the script of
a batch job. Who comes again finds the file of the one before, and has its port and its key: jobs
that wait know these.
"""

from __future__ import annotations

import _socket
import os
from _blake2 import blake2b
from _operator import _compare_digest
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from native.errors import YodError
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor

SUFFIX = ".tcp"  # behind the path of the Unix socket
HOST_VARIABLE = "YOD_PILOT_HOST"
SOCKET_VARIABLE = "YOD_PILOT_SOCKET"  # of a task: one outside of its sandbox that it connects to
_BYTES = 32
_BACKLOG = 16
_ACCEPTS_A_TURN = 16
_PATIENCE_S = 5.0  # for each step of a greeting
STRANGERS_MAX = 256  # at a time; one more takes the place of the first
_ELSEWHERE = "192.0.2.1"  # of an example; nothing is sent there
_ALIVE_S = (10, 5, 3)  # of a silent connection: until the first question, between two, how many


class Nobody(YodError):
    """Nobody listens at an address, or there is no way to it."""


class Address(Struct, frozen=True):
    """Where somebody can be called, and the key that both have."""

    host: str
    port: int
    key: bytes

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Door:
    """Lets in whoever has the key, from any host.

    Args:
        path: of the file with the address and the key.
        host: the address at which others reach this one; empty: it is found out.
        on_connected: takes the socket of one that has been let in.

    Attributes:
        address: of this one.
    """

    def __init__(
        self,
        path: str,
        host: str,
        reactor: Reactor,
        on_connected: Callable[[_socket.socket], None],
    ) -> None:
        self._path = path
        self._reactor = reactor
        self._on_connected = on_connected
        self._strangers: dict[_Stranger, None] = {}
        host = host or os.environ.get(HOST_VARIABLE) or own_address()
        earlier = _earlier(path)
        self._key = earlier.key if earlier is not None else os.urandom(_BYTES)
        self._end = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            self._end.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
            own = host if host.startswith("127.") else ""  # else it may be that of a tunnel
            try:
                self._end.bind((own, earlier.port if earlier is not None else 0))
            except (OSError, OverflowError):  # somebody has that port now, or it is none
                self._end.bind((own, 0))
            self._end.listen(_BACKLOG)
            self._end.setblocking(False)
            self.address = Address(host, self._end.getsockname()[1], self._key)
            whole = f"{host} {self.address.port} {self._key.hex()}\n"
            fresh = f"{path}.new"
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                file.write(whole)
            os.rename(fresh, path)
        except OSError as error:
            self._end.close()
            raise YodError(f"{path}: {error.strerror}") from None
        self._acceptor = Acceptor(reactor, self._end, _ACCEPTS_A_TURN, self._came)

    def close(self, *, comes_again: bool = False) -> None:
        """Let nobody in any more.

        Args:
            comes_again: a later one of the same path is to have the same port and key.
        """
        self._acceptor.close()
        self._end.close()
        for stranger in list(self._strangers):
            stranger.close()
        if not comes_again:
            with suppress(OSError):
                os.unlink(self._path)

    def _came(self, fd: int, peer: object) -> None:
        end = _socket.socket(fileno=fd)
        keep_alive(end)

        def done(is_known: bool) -> None:
            self._strangers.pop(stranger, None)
            if is_known:
                self._on_connected(end)
            else:
                end.close()

        if len(self._strangers) >= STRANGERS_MAX:
            next(iter(self._strangers)).close()
        stranger = _Stranger(end, self._key, self._reactor, done)
        self._strangers[stranger] = None


class _Stranger:
    """One that has called, until it has shown that it has the key."""

    def __init__(
        self, end: _socket.socket, key: bytes, reactor: Reactor, done: Callable[[bool], None]
    ) -> None:
        end.setblocking(False)
        self._end = end
        self._key = key
        self._done = done
        self._bytes = b""
        self._both = b""
        self._watch = reactor.watch(end.fileno(), self._receive)
        self._timer = reactor.timer(self.close)
        self._timer.set(reactor.monotonic() + _PATIENCE_S)

    def close(self) -> None:
        """It is not known."""
        self._over(is_known=False)

    def _receive(self) -> None:
        try:
            data = self._end.recv(_BYTES - len(self._bytes))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._bytes += data
        if not data:
            self.close()
        elif len(self._bytes) == _BYTES:
            said, self._bytes = self._bytes, b""
            self._take(said)

    def _take(self, said: bytes) -> None:
        if self._both:
            self._over(is_known=_compare_digest(said, _proof(self._key, b"caller", self._both)))
            return
        own = os.urandom(_BYTES)
        self._both = said + own
        try:
            sent = self._end.send(own + _proof(self._key, b"called", self._both))
        except OSError:
            sent = 0
        if sent != 2 * _BYTES:  # a connection that has had nothing takes so much
            self.close()

    def _over(self, *, is_known: bool) -> None:
        self._watch.close()
        self._timer.close()
        self._done(is_known)


def call(path: str) -> _socket.socket:
    """A connection to the one whose address is in a file. It may wait for it, some seconds.

    Raises:
        YodError: there is none, or it is somebody else.
    """
    return call_at(read(path), path)


def read(path: str) -> Address:
    """The address and the key in a file.

    Raises:
        YodError: there are none.
    """
    try:
        with open(path, encoding="ascii") as file:
            host, port, word = file.read().split()
        return Address(host, int(port), bytes.fromhex(word))
    except OSError as error:
        raise YodError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise YodError(f"{path}: it has no address and key") from None


def _earlier(path: str) -> Address | None:
    try:
        return read(path)
    except YodError:
        return None


def call_at(address: Address, source: str, patience_s: float = _PATIENCE_S) -> _socket.socket:
    """A connection to the one at an address.

    Args:
        source: where the key is from, for errors.
        patience_s: that it waits at most for each answer.

    Raises:
        Nobody: there is none.
        YodError: it is somebody else.
    """
    key = address.key
    end = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        end.settimeout(patience_s)
        end.connect((address.host, address.port))
    except (OSError, OverflowError) as error:
        end.close()
        text = getattr(error, "strerror", None) or str(error)
        raise Nobody(f"{address}: {text}") from None
    try:
        own = os.urandom(_BYTES)
        end.sendall(own)
        answer = b""
        while len(answer) < 2 * _BYTES:
            data = end.recv(2 * _BYTES - len(answer))
            if not data:
                raise YodError(f"{address} has closed the connection")
            answer += data
        both = own + answer[:_BYTES]
        if not _compare_digest(answer[_BYTES:], _proof(key, b"called", both)):
            raise YodError(f"{address} does not have the key in {source}")
        end.sendall(_proof(key, b"caller", both))
        keep_alive(end)
    except OSError as error:
        end.close()
        raise YodError(f"{address}: {error.strerror or error}") from None
    except YodError:
        end.close()
        raise
    return end


def keep_alive(end: _socket.socket) -> None:
    """Have the kernel find out when the other host has gone."""
    end.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
    end.setsockopt(_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1)
    names = (_socket.TCP_KEEPIDLE, _socket.TCP_KEEPINTVL, _socket.TCP_KEEPCNT)
    for name, value in zip(names, _ALIVE_S, strict=True):
        end.setsockopt(_socket.IPPROTO_TCP, name, value)


def own_address() -> str:
    """The address by which other hosts reach this one.

    That is where its packets to the partition leave, or else those to elsewhere, or else what its
    name has.
    """
    partition = os.environ.get("YOD_PARTITION", "").rpartition(":")[0]
    for host in (partition, _ELSEWHERE, os.uname().nodename):
        own = _address_towards(host) if host else ""
        if own and not own.startswith("127."):
            return own
    return "127.0.0.1"


def _address_towards(host: str) -> str:
    end = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        end.connect((host, 9))
        own: str = end.getsockname()[0]
    except (OSError, UnicodeError):  # there is no way there
        return ""
    finally:
        end.close()
    return own


def sealed(key: bytes, salt: bytes, data: bytes) -> bytes:
    """Data that only who has a key can read, or that again as it was.

    Args:
        salt: at random, and never twice for one key.
        data: at least one byte, at most ``SEALED_BYTES_MAX``.
    """
    pad = blake2b(salt, key=key, digest_size=len(data), person=b"yod sealed").digest()
    return bytes(one ^ other for one, other in zip(data, pad, strict=True))


def _proof(key: bytes, who: bytes, both: bytes) -> bytes:
    return blake2b(who + both, key=key, digest_size=_BYTES).digest()
