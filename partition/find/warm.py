"""The launch server of this user on this host: where it is, and whether launches are warm.

Its socket and its lock are in the user's run directory, or in the directory that
``YOD_LAUNCH_SERVER`` names by its absolute path. The host's name is part of their names, because
hosts may share a home. The client (``native/client/place.c``) has the same rules.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
from collections.abc import Mapping

from msgspec import Struct

from native.errors import PeerProtocolError
from native.host import userdirs
from native.host.release import own_release
from native.host.unixsockets import peer_of
from native.wire import client, client_codec
from native.wire.client import NAMESPACES

HELLO_S = 0.25  # a connect succeeds on a stopped server
VARIABLE = "YOD_LAUNCH_SERVER"  # a directory's absolute path, or:
COLD = "cold"  # yod looks for no server
FULL_TEXT = "takes no more launches now: launches_count is reached, or no descriptor is left"
_WHERE = ("mount", "process id", "user", "network", "IPC", "UTS")  # as in NAMESPACES


class Warmth(Struct, frozen=True):
    """Whether a yod that is started here runs in the launch server.

    Attributes:
        reason: why it does not; empty: it does.
        unix_pid: of the server; 0: there is none that answers.
    """

    reason: str = ""
    unix_pid: int = 0


def directory(environment: Mapping[str, str]) -> str:
    """The directory of the socket. It need not be there."""
    chosen = environment.get(VARIABLE, "")
    return chosen if chosen.startswith("/") else userdirs.runtime(environment)


def make_directory(environment: Mapping[str, str]) -> str:
    """The directory of the socket; made if it is missing, unless the user has named it.

    Raises:
        OSError: it cannot be made; names the directory at fault.
    """
    chosen = directory(environment)
    if chosen == userdirs.runtime(environment):
        return userdirs.make_runtime(environment)
    if not os.path.isdir(chosen):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), chosen)
    return chosen


def socket_name() -> str:
    """The name of the socket in its directory."""
    return f"launch.{os.uname().nodename}"


def lock_name() -> str:
    """The name of the file that a server has locked while it lives; its process id is in it."""
    return f"{socket_name()}.lock"


def greeting(press_s: float, liveness_s: float) -> client.Hello:
    """What a server of this process says first."""
    times = client.Times.of_seconds(press_s, liveness_s)
    return client.Hello(
        unix_pid=os.getpid(),
        press_ms=times.press_ms,
        liveness_ms=times.liveness_ms,
        namespaces=tuple(os.stat(f"/proc/self/ns/{name}").st_ino for name in NAMESPACES),
        root=_root(),
        release=own_release(),
    )


def look(environment: Mapping[str, str]) -> Warmth:
    """Ask the server, as the client of a launch does."""
    if environment.get(VARIABLE) == COLD:
        return Warmth(f"{VARIABLE}={COLD} is set")
    if os.getresuid() != (os.getuid(),) * 3 or os.getresgid() != (os.getgid(),) * 3:
        return Warmth("this process has rights of another user")
    end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        directory_fd = os.open(directory(environment), os.O_PATH | os.O_DIRECTORY)
        try:
            end.connect(f"/proc/self/fd/{directory_fd}/{socket_name()}")
        finally:
            os.close(directory_fd)
        unix_pid, uid = peer_of(end)
        if uid != os.getuid():
            return Warmth("the socket is another user's")
        if not select.select([end], [], [], HELLO_S)[0]:
            return Warmth(f"the launch server (process {unix_pid}) does not answer", unix_pid)
        packet = end.recv(client.PACKET_MAX_BYTES)
        if not packet:
            return Warmth(f"the launch server (process {unix_pid}) {FULL_TEXT}", unix_pid)
        hello = client_codec.decode_from_server(packet)
    except PeerProtocolError:
        return Warmth("the launch server is of another release")
    except OSError:
        return Warmth("no launch server; `yodctl up` starts one")
    finally:
        end.close()
    if not isinstance(hello, client.Hello):
        return Warmth("the launch server is of another release", unix_pid)
    return Warmth(_difference(hello), unix_pid)


def _difference(hello: client.Hello) -> str:
    """In what this process and a server differ; empty: in nothing that matters."""
    own = greeting(1.0, 1.0)
    if hello.release != own.release:
        return "the launch server is of another release"
    if hello.root != own.root:
        return "the launch server has another root directory"
    for what, ours, theirs in zip(_WHERE, own.namespaces, hello.namespaces, strict=True):
        if ours != theirs:
            return f"the launch server has another {what} namespace"
    return ""


def _root() -> tuple[int, int]:
    status = os.stat("/")
    return status.st_dev, status.st_ino
