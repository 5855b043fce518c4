"""What happens on a node, and what its machines ask for."""

from native.ids import PortalId
from native.machine import Action, Event
from native.wire import keeper
from native.wire.load import ShippedObject

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
    """Something that the job's keeper says; see :mod:`native.wire.keeper`."""

    job_id: int
    report: keeper.Report


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


class PmiReceived(Event, frozen=True):
    """One line of a rank's PMI conversation, without its newline."""

    job_id: int
    rank: int
    line: bytes


# -- actions --------------------------------------------------------------


class CheckObjects(Action, frozen=True):
    """Look which objects are here; reserve room for the others.

    Attributes:
        arguments_first: object 0 is the arguments: memory, not a file to execute.
        uid, gid: the job's owner, to whom its files will belong.
    """

    job_id: int
    objects: tuple[ShippedObject, ...]
    arguments_first: bool
    uid: int
    gid: int
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
    """Start the job's keeper, which starts and holds the ranks."""

    job_id: int
    spec: keeper.KeeperSpec


class KeeperGo(Action, frozen=True):
    """Let all ranks go."""

    job_id: int


class KeeperSignal(Action, frozen=True):
    """Signal every rank's process group."""

    job_id: int
    signal_number: int


class KeeperEnd(Action, frozen=True):
    """Kill all that is left of the job here."""

    job_id: int


class PauseOutput(Action, frozen=True):
    """Read no more from the job's ranks for now."""

    job_id: int


class ResumeOutput(Action, frozen=True):
    """Read again."""

    job_id: int


class WriteInput(Action, frozen=True):
    """Give rank 0 its input; empty data closes it."""

    job_id: int
    data: bytes


class PmiReply(Action, frozen=True):
    """Answer a rank."""

    job_id: int
    rank: int
    data: bytes


class DropJob(Action, frozen=True):
    """Give back all that the driver holds for a job."""

    job_id: int
