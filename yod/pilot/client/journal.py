"""What a session has to know again when its client has ended: a file that is only added to.

Records are what came in (pilots, tasks), who got what, and how all ended. They are written at the
end of each turn of the loop, so a client that is killed loses nothing that an agent has heard of.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any

from msgspec import MsgspecError, Struct, msgpack

from native.errors import PeerProtocolError, UsageError, YodError
from native.frames import Frames, framed
from native.loop.reactor import Reactor
from yod.pilot.model import states
from yod.pilot.wire.messages import MESSAGE_BYTES_MAX, NodeTold, Order, Over

NAME = "journal"


class PilotBegun(Struct, tag="pilot", array_like=True):
    """A pilot was submitted."""

    uid: str
    pmgr: str
    description: dict[str, Any]


class PilotProcess(Struct, tag="pilot process", array_like=True):
    """The process of a pilot's agent, or of what starts it, is there.

    Attributes:
        beginning: tells it from others of its number.
        is_script: it is a script, and leads a process group.
    """

    uid: str
    unix_pid: int
    beginning: str
    is_script: bool


class PilotJob(Struct, tag="pilot job", array_like=True):
    """A pilot is a job of a batch system."""

    uid: str
    system: str
    job_id: str


class PilotUp(Struct, tag="pilot up", array_like=True):
    """A pilot is active, on these nodes."""

    uid: str
    nodes: list[NodeTold]


class PilotEnded(Struct, tag="pilot ended", array_like=True):
    """A pilot is over."""

    uid: str
    state: str
    reason: str


class Taken(Struct, tag="tasks", array_like=True):
    """Tasks were submitted."""

    tmgr: str
    orders: list[Order]


class Given(Struct, tag="given", array_like=True):
    """Tasks have a pilot; empty: they have none again."""

    pilot: str
    uids: list[str]


class Brought(Struct, tag="brought", array_like=True):
    """The client has brought the input of a task, which goes to its pilot now."""

    uid: str


class Ended(Struct, tag="ended", array_like=True):
    """Tasks are over."""

    tasks: list[Over]


class Others(Struct, tag="others", array_like=True):
    """Tasks of a pilot are over that a master of a raptor has submitted, or the pilot itself."""

    pilot: str
    tasks: list[Over]


_OfPilots = PilotBegun | PilotProcess | PilotJob | PilotUp | PilotEnded
Record = _OfPilots | Taken | Given | Brought | Ended | Others

_encoder = msgpack.Encoder()
_decoder: msgpack.Decoder[Record] = msgpack.Decoder(Record)


class Past:
    """What a journal says, put together.

    Attributes:
        pilots: all, by their uids; ended: those that are over; nodes: those of each, once active;
            jobs: of batch systems; processes: that clients have started for them.
        managers: task -> its manager.
        given: task -> its pilot; empty: it has none.
        brought: tasks whose input the client has brought.
        others: tasks that are over and were not the application's, and their pilots.
    """

    def __init__(self) -> None:
        self.pilots: dict[str, PilotBegun] = {}
        self.jobs: dict[str, PilotJob] = {}
        self.processes: dict[str, PilotProcess] = {}
        self.nodes: dict[str, list[NodeTold]] = {}
        self.ended: dict[str, PilotEnded] = {}
        self.orders: dict[str, Order] = {}
        self.managers: dict[str, str] = {}
        self.given: dict[str, str] = {}
        self.brought: set[str] = set()
        self.over: dict[str, Over] = {}
        self.others: dict[str, tuple[str, Over]] = {}

    def add(self, record: Record) -> None:
        """The next record."""
        match record:
            case PilotBegun(uid):
                self.pilots[uid] = record
            case PilotProcess(uid):
                self.processes[uid] = record
            case PilotJob(uid):
                self.jobs[uid] = record
            case PilotUp(uid, nodes):
                self.nodes[uid] = nodes
            case PilotEnded(uid):
                self.ended[uid] = record
            case Taken(tmgr, orders):
                for order in orders:
                    self.orders[order.uid] = order
                    self.managers[order.uid] = tmgr
                    self.over.pop(order.uid, None)
            case Given(pilot, uids):
                self.given |= dict.fromkeys(uids, pilot)
                self.brought.difference_update(uids)
            case Brought(uid):
                self.brought.add(uid)
            case Ended(tasks):
                for over in tasks:
                    self.over[over.uid] = over
            case Others(pilot, tasks):
                # Who has no manager of its tasks yet hears of them as of others.
                strange = [over for over in tasks if over.uid not in self.orders]
                self.others |= {over.uid: (pilot, over) for over in strange}

    def state_of(self, uid: str) -> str:
        """How a task stood."""
        over = self.over.get(uid)
        if over is not None:
            return over.state
        return states.TMGR_STAGING_INPUT if self.given.get(uid) else states.TMGR_SCHEDULING


def read(directory: str) -> Past:
    """What the journal of a session says. A record that was being written is left out.

    Raises:
        YodError: there is none, or it is no journal.
    """
    path = os.path.join(directory, NAME)
    past, frames = Past(), Frames(MESSAGE_BYTES_MAX)
    try:
        with open(path, "rb") as file:
            while data := file.read(1 << 20):
                for body in frames.add(data):
                    past.add(_decoder.decode(body))
    except (FileNotFoundError, NotADirectoryError):
        raise YodError(f"there is no session {directory}") from None
    except OSError as error:
        raise YodError(f"{path}: {error.strerror}") from None
    except (MsgspecError, PeerProtocolError) as error:
        raise YodError(f"{path}: it is damaged: {error}") from None
    return past


class Journal:
    """The journal of a session that is open. Nobody else can open it meanwhile.

    Raises:
        UsageError: another client has the session.
        YodError: it cannot be written.
    """

    def __init__(self, directory: str, reactor: Reactor) -> None:
        self._path = os.path.join(directory, NAME)
        self._reactor = reactor
        self._bytes = bytearray()
        self._is_asked = False
        self.failure = ""
        try:
            self._fd = os.open(
                self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise YodError(f"{self._path}: {error.strerror}") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UsageError(f"{directory}: another client has this session") from None

    def add(self, record: Record) -> None:
        """Write a record, at the end of this turn of the loop."""
        self._bytes += framed(_encoder.encode(record))
        if not self._is_asked:
            self._is_asked = True
            self._reactor.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is kept. When the disk is full the session goes on without its past."""
        self._is_asked = False
        try:
            while self._bytes and not self.failure:
                del self._bytes[: os.write(self._fd, self._bytes)]
        except OSError as error:
            self.failure = f"{self._path}: {error.strerror}"
            self._bytes.clear()

    def close(self) -> None:
        """Let others open it."""
        self.flush()
        os.close(self._fd)
