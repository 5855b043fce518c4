"""The events and actions of the machines of a node."""

from __future__ import annotations

from msgspec import Struct

from native.ids import PortalId
from native.machine import Action, Event, JobAction, JobEvent
from native.wire import keeper
from native.wire.base import Message
from native.wire.group import Window
from native.wire.load import ShippedObject

PMIX_SERVER = -1  # in place of a world's number: the keeper of the job's PMIx server

# -- events ---------------------------------------------------------------


class Several(JobEvent, frozen=True):
    """Events of one job that have happened together, in order."""

    events: tuple[JobEvent, ...]


class NoPlace(Struct, frozen=True):
    """An object for which no store has room; part of :class:`ObjectsChecked`."""

    number: int
    text: str


class ObjectsChecked(JobEvent, frozen=True):
    """The answer to :class:`CheckObjects`.

    Attributes:
        present: (number, path to execute) of objects that are here already.
        lacking: numbers of objects for which room has been reserved.
        no_place: the others.
    """

    present: tuple[tuple[int, bytes], ...]
    lacking: tuple[int, ...]
    no_place: tuple[NoPlace, ...]


class ObjectArrived(JobEvent, frozen=True):
    """All bytes of an object that was expected are here.

    Attributes:
        digest: BLAKE2b-256 of what has arrived.
    """

    number: int
    digest: bytes


class ObjectPassedOn(JobEvent, frozen=True):
    """Every child that was to have an object from here has all of it."""

    number: int


class ObjectStored(JobEvent, frozen=True):
    """The answer to :class:`PublishObject` or :class:`ReadObject`.

    Attributes:
        path: to execute; empty: the object has been read.
        content: of an object that has been read.
    """

    number: int
    path: bytes
    content: bytes = b""


class ObjectLost(JobEvent, frozen=True):
    """An object cannot be received, sent or published here.

    Attributes:
        is_consequence: the cause is reported by another event, here or on another node.
    """

    number: int
    text: str
    is_consequence: bool = False


class KeeperReported(JobEvent, frozen=True):
    """A report of one of the job's keepers; see :mod:`native.wire.keeper`.

    Attributes:
        world: whose ranks it keeps.
    """

    report: keeper.Report
    world: int = 0


class KeeperNotStarted(JobEvent, frozen=True):
    """The keeper of a world could not be started."""

    world: int
    text: str


class OrphansKilled(JobEvent, frozen=True):
    """The answer to :class:`KillOrphans`."""

    world: int


class OutOfMemory(JobEvent, frozen=True):
    """The kernel has killed a rank, whose end follows: the job has reached its memory."""

    rank: int


class ProcessesNamed(JobEvent, frozen=True):
    """The answer to :class:`NameProcesses`.

    Attributes:
        text: for people; empty: none is left, or none can be seen.
    """

    text: str


class HookResult(Struct, frozen=True):
    """How one process of a hook has ended.

    Attributes:
        rank: for which it ran; -1: for the node.
        trouble: why it did not start or is lost; empty: it ran to its end.
        output, errors: what it has written, as far as it is kept.
    """

    rank: int
    wait_status: int
    trouble: str
    output: bytes
    errors: bytes


class HealthChecked(Event, frozen=True):
    """The node's health has been looked at.

    Attributes:
        trouble: why it is to be given to no job; empty: it is well.
        is_lost: nor can the jobs go on that are there.
    """

    trouble: str
    is_lost: bool = False


class HookEnded(JobEvent, frozen=True):
    """The answer to :class:`RunHook`: no process of it is left.

    Attributes:
        results: one for each rank that it ran for, or one for the node.
    """

    results: tuple[HookResult, ...]


class SaverReady(JobEvent, frozen=True):
    """The saver has made the directories of its ranks."""


class SaverEnded(JobEvent, frozen=True):
    """The last answer to :class:`RunSaver`: no process of it is left.

    Attributes:
        size: bytes in the files of its ranks.
        path: of the checkpoint that it has made whole.
        trouble: why it has not done what it was to; empty: it has.
    """

    size: int = 0
    path: bytes = b""
    trouble: str = ""


class LeftoversRemoved(JobEvent, frozen=True):
    """The answer to :class:`RemoveLeftovers`.

    Attributes:
        names: of the files that have been removed.
    """

    world: int
    names: tuple[str, ...] = ()


class MapNotGiven(JobEvent, frozen=True):
    """The ranks' map could not be written: see :class:`GiveMap`."""

    text: str


class OutputRead(JobEvent, frozen=True):
    """Output of a rank. Empty data: the end of the stream."""

    rank: int
    stream: int
    data: bytes


class InputTaken(JobEvent, frozen=True):
    """The pipes of all ranks that read have accepted so many bytes more of their input."""

    count_bytes: int


class InputClosed(JobEvent, frozen=True):
    """The last rank of this node that read its input has closed it."""


# -- actions --------------------------------------------------------------


class TellBebopd(Action, frozen=True):
    """Send a message to the partition's bebopd."""

    message: Message


class CheckObjects(JobAction, frozen=True):
    """Find out which objects are here; reserve room for the others.

    Attributes:
        arguments_first: object 0 is the arguments: memory, not a file to execute.
        uid, gid, groups: the job's owner, to whom its files will belong, and with
            whose rights the objects' paths are opened.
    """

    objects: tuple[ShippedObject, ...]
    arguments_first: bool
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()  # numbers of those that no rank of this subtree needs


class ReceiveObject(JobAction, frozen=True):
    """Expect an object and pass it on to the children that lack it."""

    number: int
    shipped: ShippedObject
    chunk_bytes: int
    children: tuple[PortalId, ...]


class SendObject(JobAction, frozen=True):
    """Send an object that is here to children that lack it."""

    number: int
    shipped: ShippedObject
    path: bytes
    chunk_bytes: int
    children: tuple[PortalId, ...]


class PublishObject(JobAction, frozen=True):
    """Give a whole object its name and permissions; answered by :class:`ObjectStored`.

    Its file must not be open for writing any more: executing it would give ETXTBSY.
    """

    number: int
    mode: int


class ReadObject(JobAction, frozen=True):
    """Read a whole object that is not a file to execute; answered by :class:`ObjectStored`."""

    number: int


class DropObject(JobAction, frozen=True):
    """An object is not wanted any more; give its room back."""

    number: int


class StartKeeper(JobAction, frozen=True):
    """Start a keeper of the job, which starts and holds the ranks of one world."""

    spec: keeper.KeeperSpec
    world: int = 0


class GiveMap(JobAction, frozen=True):
    """Write the file that ranks with Portals have inherited; go follows.

    Attributes:
        uid: the job's owner.
        ids: as :func:`native.wire.rank.encode_map` makes it.
    """

    uid: int
    ids: bytes


class KeeperGo(JobAction, frozen=True):
    """Let all ranks of a world go."""

    world: int = 0


class KeeperSignal(JobAction, frozen=True):
    """Signal every rank, of all worlds."""

    signal_number: int


class KeeperEnd(JobAction, frozen=True):
    """Kill all that is left of the job here.

    Attributes:
        world: of this one only; None: of all, and end the PMIx server.
    """

    world: int | None = None


class HelperAction(JobAction, frozen=True):
    """Base of what is done with processes beside the ranks: hooks of the site, savers."""


class RunHook(HelperAction, frozen=True):
    """Run a program of the site's; answered by :class:`HookEnded`.

    Attributes:
        environment: of its processes.
        ranks: one process for each, which finds it as YOD_RANK; (-1,): one for the node.
        is_roots: with the PCT's rights; else with those of the job's owner, which follow.
    """

    program: str
    environment: tuple[bytes, ...]
    ranks: tuple[int, ...]
    is_roots: bool
    uid: int
    gid: int
    groups: tuple[int, ...]


class KillHook(HelperAction, frozen=True):
    """Kill the hook that runs."""


class RunSaver(HelperAction, frozen=True):
    """Start a saver as the job's owner; answered by :class:`SaverReady` and :class:`SaverEnded`.

    Attributes:
        words: its arguments.
        given: all that it is given on standard input, before what it is told.
    """

    words: tuple[bytes, ...]
    given: bytes
    uid: int
    gid: int
    groups: tuple[int, ...]


class TellSaver(HelperAction, frozen=True):
    """Tell the saver that a rank has ended well; None: that the time of all ranks is over."""

    rank: int | None


class KillSaver(HelperAction, frozen=True):
    """Kill the saver that runs."""


class KillKeepers(JobAction, frozen=True):
    """Kill the job's keepers themselves; each is reported lost."""


class NameProcesses(JobAction, frozen=True):
    """Find out which processes of the job are left; answered by :class:`ProcessesNamed`."""


class KillOrphans(JobAction, frozen=True):
    """Kill what a lost keeper has left behind; answered by :class:`OrphansKilled`.

    Attributes:
        world: whose keeper it was, or :data:`PMIX_SERVER`.
    """

    world: int


class RemoveLeftovers(JobAction, frozen=True):
    """Remove shared memory of a world whose ranks have ended, or of :data:`PMIX_SERVER`.

    That which no process has open; answered by :class:`LeftoversRemoved`.
    """

    world: int


class PauseOutput(JobAction, frozen=True):
    """Stop reading this stream of the job's ranks until :class:`ResumeOutput`."""

    stream: int


class ResumeOutput(JobAction, frozen=True):
    """Read this stream again."""

    stream: int


class FinishOutput(JobAction, frozen=True):
    """What the pipes hold now is their end: nothing of the job is left here.

    A process that is none of the job's may have been given a writing end, and keep it.
    """


class WriteInput(JobAction, frozen=True):
    """Give the ranks that read it their input; empty data closes it."""

    data: bytes


class ResizeTerminal(JobAction, frozen=True):
    """The terminal of this node's rank that has one has another size."""

    window: Window


class DropJob(JobAction, frozen=True):
    """Give back all that the driver holds for a job."""


# -- actions of the node ----------------------------------------------------


class Leave(Action, frozen=True):
    """End: bebopd does not take this node."""

    text: str


class Restart(Action, frozen=True):
    """End, with whatever is left of jobs, and begin again."""
