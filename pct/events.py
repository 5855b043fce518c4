"""What happens on a node, and what its machines ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.ids import PortalId
from native.machine import Action, Event
from native.wire import keeper
from native.wire.load import ShippedObject

if TYPE_CHECKING:
    from native.wire import pmix

PMIX_SERVER = -1  # in place of a world's number: the keeper of the job's PMIx server

# -- events ---------------------------------------------------------------


class NoPlace(Event, frozen=True):
    """An object for which no store has room; part of :class:`ObjectsChecked`."""

    number: int
    text: str


class ObjectsChecked(Event, frozen=True):
    """The answer to :class:`CheckObjects`.

    Attributes:
        present: (number, path to execute) of objects that are here already.
        lacking: numbers of objects for which room has been reserved.
        no_place: the others.
    """

    job_id: int
    present: tuple[tuple[int, bytes], ...]
    lacking: tuple[int, ...]
    no_place: tuple[NoPlace, ...]


class ObjectStored(Event, frozen=True):
    """An object is whole, checked and visible at ``path``."""

    job_id: int
    number: int
    path: bytes
    content: bytes = b""  # of object 0 when it carries the arguments


class ObjectLost(Event, frozen=True):
    """An object cannot be completed here."""

    job_id: int
    number: int
    text: str


class KeeperReported(Event, frozen=True):
    """Something that a keeper of the job says; see :mod:`native.wire.keeper`.

    Attributes:
        world: whose ranks it keeps.
    """

    job_id: int
    report: keeper.Report
    world: int = 0


class OutputRead(Event, frozen=True):
    """A rank has written. Empty data: it never will again."""

    job_id: int
    rank: int
    stream: int
    data: bytes


class InputTaken(Event, frozen=True):
    """Rank 0 has been given so many bytes; more fit."""

    job_id: int
    count_bytes: int


class PmiOpened(Event, frozen=True):
    """The answer to :class:`OpenPmi`.

    Attributes:
        address: of the listener, for PMI_PORT; empty: there can be none.
        variables: for every rank's environment: how a launcher inside starts its daemons.
        lacks_fabric: the node has none, and no file of the user's settings may ask for one.
        lacks_devices: the node has no device at all that an MPI library drives.
    """

    job_id: int
    address: bytes
    variables: tuple[bytes, ...] = ()
    lacks_fabric: bool = False
    lacks_devices: bool = False


class PmiConnected(Event, frozen=True):
    """A client of PMI, or a launcher's agent, has a connection.

    Attributes:
        connection: its number on this node.
        rank: of the job, whose PMI_FD it is; None: it came by PMI_PORT.
    """

    job_id: int
    connection: int
    rank: int | None


class PmiReceived(Event, frozen=True):
    """Bytes of such a connection."""

    job_id: int
    connection: int
    data: bytes


class PmiClosed(Event, frozen=True):
    """It has hung up."""

    job_id: int
    connection: int


class PmixReceived(Event, frozen=True):
    """Something that the job's PMIx server says."""

    job_id: int
    message: pmix.FromServer


class PmixServerEnded(Event, frozen=True):
    """Nothing is left of the job's PMIx server; the text says what became of it."""

    job_id: int
    text: str


# -- actions --------------------------------------------------------------


class CheckObjects(Action, frozen=True):
    """Look which objects are here; reserve room for the others.

    Attributes:
        arguments_first: object 0 is the arguments: memory, not a file to execute.
        uid, gid, groups: the job's owner, to whom its files will belong, and with
            whose rights the objects' paths are opened.
    """

    job_id: int
    objects: tuple[ShippedObject, ...]
    arguments_first: bool
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()  # numbers that nobody in this subtree needs


class ReceiveObject(Action, frozen=True):
    """Expect an object and pass it on to the children that lack it."""

    job_id: int
    number: int
    shipped: ShippedObject
    chunk_bytes: int
    children: tuple[PortalId, ...]


class SendObject(Action, frozen=True):
    """Send an object that is here to children that lack it."""

    job_id: int
    number: int
    shipped: ShippedObject
    path: bytes
    chunk_bytes: int
    children: tuple[PortalId, ...]


class DropObject(Action, frozen=True):
    """An object is not wanted any more; give its room back."""

    job_id: int
    number: int


class StartKeeper(Action, frozen=True):
    """Start a keeper of the job, which starts and holds the ranks of one world."""

    job_id: int
    spec: keeper.KeeperSpec
    world: int = 0


class GiveMap(Action, frozen=True):
    """Fill the file that ranks which use Portals have; they go right after.

    Attributes:
        uid: the job's owner.
        ids: as :func:`native.wire.rank.encode_map` makes it.
    """

    job_id: int
    uid: int
    ids: bytes


class KeeperGo(Action, frozen=True):
    """Let all ranks of a world go."""

    job_id: int
    world: int = 0


class KeeperSignal(Action, frozen=True):
    """Signal every rank's process group, of all worlds."""

    job_id: int
    signal_number: int


class KeeperEnd(Action, frozen=True):
    """Kill all that is left of the job here.

    Attributes:
        world: of this one only; None: of all, and end the PMIx server.
    """

    job_id: int
    world: int | None = None


class PauseOutput(Action, frozen=True):
    """Read no more of this stream of the job's ranks for now."""

    job_id: int
    stream: int


class ResumeOutput(Action, frozen=True):
    """Read again."""

    job_id: int
    stream: int


class WriteInput(Action, frozen=True):
    """Give rank 0 its input; empty data closes it."""

    job_id: int
    data: bytes


class OpenPmi(Action, frozen=True):
    """Listen for the job's clients of PMI; answered by :class:`PmiOpened`.

    Attributes:
        uid, gid: the job's owner; nobody else's process is listened to.
        ranks: of the job on this node.
        nodes: names of the job's nodes and the ranks on each, for a launcher inside.
        home: the owner's home directory, as their environment has it; None: nobody asks
            what the node lacks.
    """

    job_id: int
    uid: int
    gid: int
    ranks: int
    nodes: tuple[tuple[str, int], ...]
    home: bytes | None = None


class PmiReply(Action, frozen=True):
    """Write to a connection."""

    job_id: int
    connection: int
    data: bytes


class PmiHangUp(Action, frozen=True):
    """Close a connection, behind what is to be written."""

    job_id: int
    connection: int


class StartPmixServer(Action, frozen=True):
    """Start the job's PMIx server, as the job's owner."""

    job_id: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    begin: pmix.Begin


class PmixSend(Action, frozen=True):
    """Tell the PMIx server."""

    job_id: int
    message: pmix.FromPct


class DropJob(Action, frozen=True):
    """Give back all that the driver holds for a job."""

    job_id: int
