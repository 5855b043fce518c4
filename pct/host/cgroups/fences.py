"""Has groups of steps deny the GPUs of others, where their own PCT may load no program for it.

The PCT of an allocation is a rank of a job, and its owner's. Its keepers ask the PCT of root's in
whose job they are (``native/keeper/devices/fence.h``, ``native/wire/KEEPER.md``). Whoever asks is
whom the kernel says, and has a group of their own job deny more: nothing can be asked for that
another user would notice, or that allows anything.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from native.errors import YodError
from native.host import files
from native.host.unixsockets import peer_of
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor, Watch
from pct.account import Gpu
from pct.host.cgroups.gpus import denied as denied_but
from pct.host.cgroups.job import DEPTH_MAX
from pct.host.cgroups.own import Cgroup

CLIENTS_MAX = 64  # at a time; one more takes the place of the first
CLIENTS_OF_USER_MAX = 8  # likewise
REQUEST_MAX_BYTES = 20480
_ACCEPTS_A_TURN = 16
_JOB = re.compile(rb"job-([0-9]{1,18})(?:\.[0-9]+)?")
_SLOTS = re.compile(rb"slots(?:\.[0-9]+)?")
_DONE = b"done"

OwnerOf = Callable[[int], int | None]


class RefusedError(YodError):
    """A group does not deny what was asked for."""


class Fences:
    """Listens for keepers, in the abstract name space, under the name of the PCT's group.

    Args:
        listener: has that name; it belongs to the group (:class:`pct.host.cgroups.own.Cgroup`).
        path: of the PCT's group.
        devices: of all GPUs of the node, as ``195:1``.
        owner_of: gives the uid of a job's owner; None: there is no such job.

    Raises:
        OSError: it cannot listen.
    """

    def __init__(
        self,
        reactor: Reactor,
        listener: _socket.socket,
        path: str,
        devices: frozenset[bytes],
        owner_of: OwnerOf,
    ) -> None:
        self._reactor = reactor
        self._path = path
        self._devices = devices
        self._owner_of = owner_of
        self._clients: dict[int, tuple[_socket.socket, Watch, int]] = {}
        self._of_user: Counter[int] = Counter()
        self._listener = listener
        listener.listen(CLIENTS_MAX)
        self._acceptor = Acceptor(reactor, self._listener, _ACCEPTS_A_TURN, self._take)

    def close(self) -> None:
        """Hear nobody any more. What groups deny they go on to deny."""
        self._acceptor.close()
        self._listener.close()
        for fd in list(self._clients):
            self._hang_up(fd)

    def _take(self, fd: int, peer: object) -> None:
        client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)
        _, uid = peer_of(client)
        # A keeper asks at once: those that came first and are still here say nothing.
        if self._of_user[uid] >= CLIENTS_OF_USER_MAX:
            self._give_up(next(fd for fd, (_, _, of) in self._clients.items() if of == uid))
        elif len(self._clients) >= CLIENTS_MAX:
            self._give_up(next(iter(self._clients)))
        client.setblocking(False)
        watch = self._reactor.watch(fd, partial(self._readable, fd))
        self._clients[fd] = client, watch, uid
        self._of_user[uid] += 1
        self._readable(fd)  # mostly the request has come by now

    def _give_up(self, fd: int) -> None:
        """Hang up on a client, unless it has asked: then it is answered first."""
        self._readable(fd)
        if fd in self._clients:
            self._hang_up(fd)

    def _readable(self, fd: int) -> None:
        client, _, uid = self._clients[fd]
        try:
            if request := client.recv(REQUEST_MAX_BYTES + 1):
                client.send(self._answer(request, uid), _socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        except OSError:  # it has gone
            pass
        self._hang_up(fd)

    def _answer(self, request: bytes, uid: int) -> bytes:
        try:
            group, denied = asked(request, uid, self._devices, self._owner_of)
            deny(os.path.join(self._path, os.fsdecode(group)), denied)
        except RefusedError as error:
            return str(error).encode()
        except OSError as error:
            return os.strerror(error.errno or 0).encode()
        return _DONE

    def _hang_up(self, fd: int) -> None:
        client, watch, uid = self._clients.pop(fd)
        self._of_user[uid] -= 1
        if not self._of_user[uid]:
            del self._of_user[uid]
        watch.close()
        client.close()


def opened(
    reactor: Reactor,
    group: Cgroup,
    gpus: Sequence[Gpu],
    owner_of: OwnerOf,
    say: Callable[[str], None],
) -> Fences | None:
    """As :class:`Fences`, for a node's GPUs; None: it could have no group deny any of them.

    Args:
        group: of the PCT.
        say: takes a line for the log.
    """
    if group.fences is None or not (devices := denied_but(gpus, ())):
        return None
    try:
        denied = frozenset(devices.split(b" "))
        return Fences(reactor, group.fences, group.path, denied, owner_of)
    except OSError as error:
        say(f"steps of other users are not kept from each other's GPUs: {error.strerror}")
        return None


def asked(
    request: bytes, uid: int, devices: frozenset[bytes], owner_of: OwnerOf
) -> tuple[bytes, bytes]:
    """The group that a request names, below the PCT's, and the devices it is to deny.

    Args:
        uid: who asks.

    Raises:
        RefusedError: it is no group that they may have deny these.
    """
    if len(request) > REQUEST_MAX_BYTES:
        raise RefusedError(f"the request is longer than {REQUEST_MAX_BYTES} bytes")
    word, *rest = request.split(b"\n")
    if word != b"deny" or len(rest) != 2:
        raise RefusedError("it is of another release")
    group, denied = rest
    job, *below = group.split(b"/")
    if not (found := _JOB.fullmatch(job)) or owner_of(int(found[1])) != uid:
        raise RefusedError(f"the group is in no job of user {uid}")
    if below and _SLOTS.fullmatch(below[0]):
        del below[0]
    is_clean = not {b"", b".", b".."}.intersection(below) and b"\0" not in group
    if not is_clean or below[:1] != [b"ranks"] or not 2 <= len(below) <= DEPTH_MAX:
        raise RefusedError("the group is not below the job's ranks")
    if not devices.issuperset(denied.split(b" ")):
        raise RefusedError("a device is none of the node's GPUs")
    return group, denied


def deny(path: str, denied: bytes) -> None:
    """Have a group deny devices that denies none itself yet.

    Raises:
        RefusedError: it does already.
        OSError: there is no such group, or it cannot.
    """
    # Each program takes a page of the kernel's memory, and there is room for 64 in a group.
    if files.device_programs(path):
        raise RefusedError("the group denies devices already")
    files.deny_devices(path, denied)
