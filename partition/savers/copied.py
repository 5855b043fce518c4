"""Drains the share of a checkpoint that this node keeps, and holds the share of another node.

One thread takes what the PCT says: room at the other node, data of the share that is held here,
what has become of these nodes. Another sends this node's share, and drains it then.
"""

from __future__ import annotations

import os
import select
import shutil
import threading
from contextlib import suppress

from native.errors import YodError
from native.host import stdio
from native.text import shown
from native.wire.base import DATA_MAX
from partition.checkpoint import files
from partition.checkpoint.collecting import NotSavedError, given
from partition.savers import keeping
from partition.savers.draining import drain
from partition.savers.sending import Credit, Taken, stream

_NICE = 19  # of what goes on behind the ranks
_STDIN, _STDOUT = 0, 1


class Node(threading.Thread):
    """This node's own share: sent, then drained.

    Attributes:
        done: a descriptor that can be read when that is over.
        trouble: why it is not drained; empty: it is.
        size: bytes that have been drained.
    """

    def __init__(self, place: int, local: str, kept: str, directory: str, collecting: str) -> None:
        super().__init__(daemon=True)
        self._lock = -1
        self.credit = Credit()
        self.done, self._over = os.pipe2(os.O_CLOEXEC)
        self.trouble = ""
        self.size = 0
        self._where = (place, local, kept, directory, collecting)

    def begin(self) -> None:
        """Begin, in a thread of its own.

        Raises:
            NotSavedError: another process works on the share.
            OSError: there is none.
        """
        _, local, kept, _, _ = self._where
        path = os.path.join(local, kept)
        try:
            self._lock = keeping.locked(path)
        except BlockingIOError:
            raise NotSavedError(f"{shown(path)}: another process works on it") from None
        self.start()

    def run(self) -> None:
        """Send and drain."""
        try:
            self._send()
            os.close(self._lock)  # the drain has it
            os.nice(_NICE)  # of this thread
            self.size = drain(*self._where)
        except (NotSavedError, YodError) as error:
            self.trouble = str(error)
        except OSError as error:
            self.trouble = stdio.blame(error)
        finally:
            os.close(self._over)

    def _send(self) -> None:
        place, local, kept, _, _ = self._where
        for piece in stream(os.path.join(local, kept), place):
            while piece:
                count = self.credit.take(min(len(piece), DATA_MAX))
                if not count:
                    return
                _write(b"data %d\n" % count + piece[:count])
                piece = piece[count:]


class Ward:
    """The share that is held here of another node.

    Attributes:
        is_over: nothing is to be done for it any more.
        size: bytes that have been drained of it.
    """

    def __init__(
        self, place: int, local: str, name: str, most_bytes: int, directory: str, collecting: str
    ) -> None:
        self.is_over = False
        self.size = 0
        self._path = os.path.join(local, name)
        self._rescues = (place, local, name, os.path.join(directory, collecting))
        self._share: keeping.Share | None = None
        self._taken: Taken | None = None
        with suppress(NotSavedError, OSError):  # without room there is no copy
            self._share = keeping.Share(local, name, most_bytes)
            self._taken = Taken(self._path, place)

    def feed(self, data: bytes) -> None:
        """More of it."""
        if self._taken is None or self._share is None:
            return
        try:
            before = self._taken.size
            self._taken.feed(data)
            if self._taken.size != before:
                self._share.demand_room(self._taken.size)
        except (NotSavedError, YodError, OSError, ValueError):
            self._forget()

    def forget(self) -> None:
        """It is drained by its own node, or of no use."""
        self._forget()
        self.is_over = True

    def rescue(self) -> None:
        """Its node is lost: drain it, if all of it is here.

        Raises:
            NotSavedError, YodError, OSError: it cannot be drained.
        """
        if self._taken is not None and self._share is not None and self._taken.is_whole:
            self._share.close()
            self._share = None
            place, local, name, target = self._rescues
            os.makedirs(target, exist_ok=True)
            self.size = drain(place, local, name, target, files.rescued_directory(place))
        self.forget()

    def _forget(self) -> None:
        if self._taken is not None:
            self._taken.close()
            self._taken = None
        if self._share is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._share.close()
            self._share = None


def drain_copied(
    place: int,
    local: str,
    kept: str,
    directory: str,
    collecting: str,
    *,
    has_kept: bool,
    ward_place: int,
    held: str,
    most_bytes: int,
) -> int:
    """Drain this node's share, and that of another node if it is lost meanwhile.

    Args:
        has_kept: this node has one; else it only holds that of another.
        held: the directory of what is held here, in the owner's.
        most_bytes: of all that the owner keeps here.

    Returns:
        The bytes that have been drained.

    Raises:
        NotSavedError: this node's share is not drained.
        YodError, OSError: the other one cannot be drained.
    """
    given()
    node = Node(place, local, kept, directory, collecting)
    if has_kept:
        node.begin()
    else:
        _write(b"drained\n")
    ward = Ward(ward_place, local, held, most_bytes, directory, collecting)
    awaited = has_kept
    poll = select.poll()
    poll.register(_STDIN, select.POLLIN)
    if has_kept:
        poll.register(node.done, select.POLLIN)
    said = bytearray()
    while awaited or not ward.is_over:
        for fd, _ in poll.poll():
            if fd == node.done:
                poll.unregister(fd)
                awaited = False
                if node.trouble:
                    raise NotSavedError(node.trouble)
                _write(b"drained\n")
                continue
            data = os.read(_STDIN, DATA_MAX)
            if not data:
                raise NotSavedError("the pct of its node has gone")
            said += data
            _hear(said, node, ward)
    return node.size + ward.size


def _hear(said: bytearray, node: Node, ward: Ward) -> None:
    """Take the lines that are there, with their data."""
    while (end := said.find(b"\n")) >= 0:
        what, _, number = bytes(said[:end]).partition(b" ")
        count = int(number or b"0")
        length = end + 1 + (count if what == b"data" else 0)
        if len(said) < length:
            return
        data = bytes(said[end + 1 : length])
        del said[:length]
        match what:
            case b"data":
                ward.feed(data)
            case b"credit":
                node.credit.give(count)
            case b"alone":
                node.credit.close()
            case b"forget":
                ward.forget()
            case b"lost":
                ward.rescue()


_writing = threading.Lock()


def _write(data: bytes) -> None:
    """A line to the PCT, and the data that it names."""
    with _writing:
        while data:
            data = data[os.write(_STDOUT, data) :]
