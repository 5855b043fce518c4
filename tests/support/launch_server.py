"""A launch server that does what a test tells it, and clients that find it.

It has no launch machine: a test sends the packets of ``native/wire/CLIENT.md`` one by one and
looks at what the real client answers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from native.host.release import own_release
from native.wire import client as wire
from native.wire import client_codec as codec
from tests.support.partition import ROOT, Done, finish
from tests.support.place import Place
from tests.support.wait import LIMIT_S, wait_for_exit, wait_until

# Another build of the client.
UNDER_TEST = os.environ.get("CLIENT_UNDER_TEST", str(ROOT / "native" / "client" / "yod"))

# In place of the front end in Python.
COLD = """
import os, sys
print("cold", *sys.argv[1:])
sys.exit(7)
"""

Answer = TypeVar("Answer", bound=wire.FromClient)


def own_hello(press_ms: int = 1000, liveness_ms: int = 20_000) -> wire.Hello:
    """What a server says that is for the clients of this process's user."""
    root = os.stat("/")
    return wire.Hello(
        unix_pid=os.getpid(),
        press_ms=press_ms,
        liveness_ms=liveness_ms,
        namespaces=tuple(os.stat(f"/proc/self/ns/{name}").st_ino for name in wire.NAMESPACES),
        root=(root.st_dev, root.st_ino),
        release=own_release(),
    )


class Conversation:
    """The server's end of the socket of one client.

    Attributes:
        request, strings: what the client asked for, once :meth:`begin` has returned.
        directory: its current directory, a descriptor.
        written: bytes of each stream that the client has given credit for.
        gifts: descriptors that came with GIVEN.
    """

    request: wire.Request
    strings: codec.Strings

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.socket.settimeout(LIMIT_S)
        self.directory = -1
        self.written = {1: 0, 2: 0}
        self.gifts: list[int] = []

    def close(self) -> None:
        self.socket.close()
        if self.directory >= 0:
            os.close(self.directory)
            self.directory = -1
        for fd in self.gifts:
            os.close(fd)
        self.gifts.clear()

    def begin(self, hello: wire.Hello | None = None) -> Conversation:
        """Say HELLO and take the REQUEST.

        Raises:
            BrokenPipeError: the client has not waited for so long, and runs cold.
        """
        self.send(hello or own_hello())
        packet, fds, _, _ = socket.recv_fds(self.socket, wire.PACKET_MAX_BYTES, 4)
        if not packet:
            raise BrokenPipeError("the client has not waited for HELLO")
        request = codec.decode_from_client(packet)
        assert isinstance(request, wire.Request)
        assert len(fds) == codec.descriptors(request)
        self.request = request
        strings, self.directory = fds
        with open(strings, "rb") as file:
            file.seek(0)
            data = file.read()
        self.strings = codec.decode_strings(data, request.arguments, request.variables)
        return self

    def send(self, message: wire.FromServer, *fds: int) -> None:
        packet = codec.encode(message)
        assert codec.decode_from_server(packet) == message
        self.send_raw(packet, *fds)

    def send_raw(self, packet: bytes, *fds: int) -> None:
        if fds:
            socket.send_fds(self.socket, [packet], fds)
        else:
            self.socket.send(packet)

    def receive(self) -> wire.FromClient | None:
        """The next packet; ``None``: the client has gone. Credit is counted."""
        try:
            packet, fds, _, _ = socket.recv_fds(self.socket, wire.PACKET_MAX_BYTES + 1, 2)
        except ConnectionResetError:  # with packets that it has not read
            return None
        if not packet:
            return None
        message = codec.decode_from_client(packet)
        assert len(fds) == codec.descriptors(message)
        self.gifts += fds
        if isinstance(message, wire.Written):
            self.written[message.stream] += message.count_bytes
        return message

    def expect(self, kind: type[Answer]) -> Answer:
        """The next packet of a kind. Credit and PINGs may come before it, nothing else."""
        while not isinstance(message := self.receive(), kind):
            if isinstance(message, wire.Ping):
                self.send(wire.Pong())
            else:
                assert isinstance(message, wire.Written), message
        return message

    def wait_written(self, stream: int, count_bytes: int) -> None:
        """Wait until the client has given credit for so much in all."""
        while self.written[stream] < count_bytes:
            self.expect(wire.Written)
        assert self.written[stream] == count_bytes

    def wait_taken(self) -> None:
        """Wait until the client has received all packets."""

        def unread() -> int:
            answer = fcntl.ioctl(self.socket, termios.TIOCOUTQ, b"\0" * 4)
            return int.from_bytes(answer, sys.byteorder)

        wait_until(lambda: unread() == 0)

    def wait_end(self) -> None:
        """Wait until the client has hung up."""
        while self.receive() is not None:
            pass


class Server:
    """Listens where clients of this process's user look for a launch server."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"launch.{os.uname().nodename}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here = os.open(directory, os.O_PATH)
        self._listener.bind(f"/proc/self/fd/{here}/{self.path.name}")  # however long the path is
        os.close(here)
        self._listener.settimeout(LIMIT_S)
        self.listen()
        self._conversations: list[Conversation] = []

    def listen(self) -> None:
        """Take connections."""
        self._listener.listen(8)

    def accept(self) -> Conversation:
        """The next client's connection."""
        conversation = Conversation(self._listener.accept()[0])
        self._conversations.append(conversation)
        return conversation

    def begin(self, **times: int) -> Conversation:
        """The same, with HELLO said and REQUEST taken."""
        return self.accept().begin(own_hello(**times))

    def close(self) -> None:
        self._listener.close()
        for conversation in self._conversations:
            conversation.close()
        shutil.rmtree(self.path.parent)


class Installed:
    """The client in a directory of its own, beside a front end that only says so.

    Attributes:
        yod: the command.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.yod = directory / "yod"
        shutil.copy(UNDER_TEST, self.yod)
        (directory / "python3").symlink_to(sys.executable)
        (directory / "yod-cold").write_text(COLD)
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
        """Start the client; its streams are unbuffered pipes unless told."""
        return self.start_command(self.yod, *words, **options)

    def start_command(self, *words: Any, **options: Any) -> subprocess.Popen[bytes]:
        """Start any command in the same way."""
        for stream in ("stdin", "stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE)
        process = subprocess.Popen(words, bufsize=0, **options)
        self._started.append(process)
        return process

    def start_below_shell(self, shell: str, terminal: int) -> subprocess.Popen[bytes]:
        """Start a stand-in for a shell, which leads the session of a terminal and has the client.

        Args:
            shell: a program in Python, whose arguments are the client's line.
            terminal: all its streams; closed here.
        """
        python = self.yod.parent / "python3"
        process = self.start_command(
            *("setsid", "-c", "-w", python, "-c", shell, self.yod, "x"),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        return process

    def run(self, *words: str | bytes, **options: Any) -> Done:
        """Run the client to its end."""
        return finish(self.start(*words, **options))

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    """A launch server for the clients of this test."""
    server = Server(place.runtime / "yod")
    yield server
    server.close()


@pytest.fixture
def client(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """The client, which looks for a launch server."""
    monkeypatch.delenv("YOD_LAUNCH_SERVER", raising=False)  # most tests run cold
    installed = Installed(tmp_path / "bin")
    yield installed
    installed.close()


def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a client, once it has ended; minus the signal that killed it."""
    wait_for_exit(process.pid)
    return process.wait()


def lost_line(what: str) -> bytes:
    """The last line of a client that gives its server up. The server is this process.

    Args:
        what: why it gives it up.
    """
    return (
        f"yod: the launch server (process {os.getpid()}) {what}; the job has been ended\n".encode()
    )
