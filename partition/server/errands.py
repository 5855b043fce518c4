"""Errands: what a launch server asks of a helper, and what the helper answers.

A helper is a process that does all that touches the user's files, because an access to them may
take long. Messages are MessagePack in packets of a socket pair; what does not fit a packet
travels in a memfd. A name may have bytes that are no UTF-8, which Python's text has as surrogates
and MessagePack's text cannot have: then all text of that message is escaped.
"""

from __future__ import annotations

import _socket
import errno
import os
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from native.host import unixsockets
from native.host.rlimits import write_whole
from yod.plan.prepared import Prepared


class Given(Struct, frozen=True):
    """What a client's request says of its process, without the strings.

    Attributes:
        arguments, variables: how many there are among the strings.
        limits: resource -> soft limit; -1 is unlimited.
        processors: how many it may run on.
    """

    umask: int
    ignored_signals: tuple[int, ...]
    arguments: int
    variables: int
    limits: tuple[tuple[int, int], ...]
    processors: int


class Prepare(Struct, frozen=True, tag=True):
    """Prepare a launch. Descriptors: the strings of the request, the directory."""

    given: Given


class Submit(Struct, frozen=True, tag=True):
    """Do what a line of ``yodjob`` says. Descriptors as for :class:`Prepare`.

    Attributes:
        streams: :class:`native.wire.client.Stdio`.
    """

    given: Given
    streams: int


class Find(Struct, frozen=True, tag=True):
    """Look for programs, each a name and a directory. Descriptors as for :class:`Prepare`."""

    given: Given
    programs: tuple[tuple[str, str], ...]


class Read(Struct, frozen=True, tag=True):
    """Give the first bytes of a file as a memfd."""

    path: bytes
    size: int


class Share(Struct, frozen=True, tag=True):
    """Copy a file."""

    source: bytes
    size: int
    mode: int
    target: str


class Remove(Struct, frozen=True, tag=True):
    """Remove files."""

    paths: tuple[str, ...]


Errand = Prepare | Submit | Find | Read | Share | Remove


class Launch(Struct, frozen=True, tag=True):
    """The launch is prepared. The server measures how long that took: here it is zero, so that
    the same command has the same answer again."""

    prepared: Prepared


class NoLaunch(Struct, frozen=True, tag=True):
    """The launch cannot begin: the line for the user, and yod's exit status."""

    text: str
    exit_status: int


class Said(Struct, frozen=True, tag=True):
    """It is done, or has failed: what the user is told, and the exit status."""

    errors: bytes
    output: bytes
    exit_status: int


class Nothing(Struct, frozen=True, tag=True):
    """Nothing has been done: the client is to do what the command line says itself."""


class Replaced(Struct, frozen=True, tag=True):
    """Files of this release have been replaced: the launch server is to take nothing new."""


class Found(Struct, frozen=True, tag=True):
    """The paths of the programs."""

    paths: tuple[bytes, ...]


class Done(Struct, frozen=True, tag=True):
    """It is done. For :class:`Read` a descriptor comes with it."""


class Failed(Struct, frozen=True, tag=True):
    """It cannot be done; the text says why."""

    text: str


Answer = Launch | NoLaunch | Said | Nothing | Replaced | Found | Done | Failed

INLINE_BYTES = 64 * 1024  # of a message in its packet; a longer one is the last descriptor
FDS_MAX = 3
_encoder = msgspec.msgpack.Encoder()
_errands = msgspec.msgpack.Decoder(Errand)
_answers = msgspec.msgpack.Decoder(Answer)
_PLAIN = (b"i", b"m")
_BEHIND = {b"i": b"m", b"I": b"M"}  # in the packet, or in the last descriptor
_builtins = msgspec.msgpack.Decoder()
_UNSENDABLE = re.compile("[\0\udc80-\udcff]")  # NUL begins an escape
_ESCAPE = re.compile("\0(.)", re.DOTALL)


class Line:
    """One end of the socket pair between a launch server and a helper."""

    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        self._last = b"", b""  # an answer; in a loop of a shell it comes again
        self._last_answer: Answer = Nothing()

    def send(self, message: Errand | Answer, fds: tuple[int, ...] = ()) -> None:
        """Send a message with descriptors, which stay the caller's.

        Raises:
            OSError: the other end is gone, or there is no memory.
        """
        flag = b"i"
        try:
            data = _encoder.encode(message)
        except UnicodeEncodeError:
            raw = msgspec.to_builtins(message, builtin_types=(bytes,))
            flag, data = b"I", _encoder.encode(_each_text(raw, _escaped))
        body_fd = -1
        try:
            if len(data) > INLINE_BYTES:
                body_fd = os.memfd_create("yod-errand", os.MFD_CLOEXEC)
                write_whole(body_fd, data)
                flag, data, fds = _BEHIND[flag], b"", (*fds, body_fd)
            unixsockets.send(self.connection, flag + data, fds)
        finally:
            if body_fd >= 0:
                os.close(body_fd)

    def receive_errand(self) -> tuple[Errand, tuple[int, ...]] | None:
        """What a helper is asked; None: nobody asks any more."""
        received = self._receive()
        return received and (_decoded(received[0], received[1], _errands), received[2])

    def receive_answer(self) -> tuple[Answer, tuple[int, ...]] | None:
        """What a helper has answered; None: it has ended."""
        received = self._receive()
        if received is None:
            return None
        flag, data, fds = received
        if len(data) > INLINE_BYTES:  # too much to be kept
            return _decoded(flag, data, _answers), fds
        if (flag, data) != self._last:
            self._last_answer = _decoded(flag, data, _answers)
            self._last = flag, data
        return self._last_answer, fds

    def _receive(self) -> tuple[bytes, bytes, tuple[int, ...]] | None:
        packet, fds, is_cut = unixsockets.receive(self.connection, INLINE_BYTES + 1, FDS_MAX)
        if is_cut:
            unixsockets.close_all(fds)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if not packet:
            return None
        flag = packet[:1]
        if flag in _BEHIND:
            return flag, packet[1:], fds
        *fds_before, body_fd = fds
        try:
            return flag, os.pread(body_fd, os.fstat(body_fd).st_size, 0), tuple(fds_before)
        finally:
            os.close(body_fd)


def _decoded(flag: bytes, data: bytes, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
    if flag in _PLAIN:
        return decoder.decode(data)
    return msgspec.convert(_each_text(_builtins.decode(data), _unescaped), decoder.type)


def _each_text(raw: Any, change: Callable[[str], str]) -> Any:
    """A message as builtins, with all its text changed."""
    match raw:
        case str():
            return change(raw)
        case dict():
            return {key: _each_text(value, change) for key, value in raw.items()}
        case list() | tuple():
            return [_each_text(item, change) for item in raw]
    return raw


def _escaped(text: str) -> str:
    return _UNSENDABLE.sub(lambda found: "\0" + chr(ord(found[0]) & 0xFF), text)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda found: chr(0xDC00 + ord(found[1])) if found[1] != "\0" else "\0", text
    )
