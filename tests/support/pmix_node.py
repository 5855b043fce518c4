"""A node of the stand-in for PCTs: a PMIx server and the socket to it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from native.wire.pmix import (
    Begin,
    PmixMessage,
    Ready,
    Unavailable,
    decode_from_server,
    encode,
    take,
)
from pct.host.pmix_command import command


class Node:
    """One server and its socket.

    Attributes:
        answer: Ready or Unavailable, when it has come.
    """

    def __init__(self, name: str, begin: Begin, errors: Path, settings: Mapping[str, str]) -> None:
        self.name = name
        ours, its = socket.socketpair()
        with its, errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                command(),
                env={"PMI_FD": str(its.fileno()), "PATH": os.environ["PATH"], **settings},
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                stderr=stderr,
            )
        self.socket = ours
        self._buffer = bytearray()
        self.answer: Ready | Unavailable | None = None
        self.send(begin)

    def send(self, message: PmixMessage) -> None:
        self.socket.sendall(encode(message))

    def _received(self) -> bytes:
        """Some bytes; none when the server has ended, be it with ours unread."""
        try:
            return self.socket.recv(1 << 20)
        except ConnectionResetError:
            return b""

    def receive(self) -> list[Any]:
        """Some whole messages; none when the server has ended."""
        messages: list[Any] = []
        while not messages and (data := self._received()):
            self._buffer += data
            while (message := take(self._buffer)) is not None:
                messages.append(decode_from_server(message))
        return messages
