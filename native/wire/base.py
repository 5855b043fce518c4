"""What every message is: a frozen, tagged struct, a MessagePack array on the wire.

And the parts that several conversations have.
"""

from collections.abc import Collection, Iterator
from enum import Enum
from typing import Annotated, ClassVar, Self

from msgspec import Meta, Struct

from native.nodelist import NODE_MAX as NODE_MAX

MESSAGE_MAX_BYTES = 256 * 1024  # one encoded message; more travels as an object
SIZE_MAX = 1 << 20  # ranks of one job
MEMBERS_MAX = 1024  # lines of one load file
OBJECTS_MAX = 1024
ARGUMENTS_MAX = 1 << 18  # words of all members
ENVIRONMENT_MAX = 1 << 13  # variables
TEXT_MAX = 4096  # characters of a text for people
NAME_MAX = 255  # characters of a host or user name
PATH_MAX = 4096
DATA_MAX = 128 * 1024  # bytes of output or input in one message
ARITY_MAX = 64
DIGEST_BYTES = 32
SLOTS_MAX = 1 << 16
AFTER_MAX = 64  # jobs that one waits for
RANGES_MAX = 64  # of the elements of an array
LICENCES_MAX = 16  # kinds of one job
LICENCE_MAX = 1 << 20  # of one kind
PRIORITY_MAX = 1 << 32
CONSTRAINT_MAX = 256  # characters of an expression of features
EXCLUDE_MAX = 2048  # characters of a list of nodes and their names
NICE_MAX = 1 << 30
TIME_MAX_S = float(1 << 40)  # infinity and beyond are nobody's deadline

JOB_ID_MAX = (1 << 47) - 1
JobId = Annotated[int, Meta(ge=1, le=JOB_ID_MAX)]
NodeNumber = Annotated[int, Meta(ge=0, le=NODE_MAX)]
NodeCount = Annotated[int, Meta(ge=1, le=NODE_MAX + 1)]
Rank = Annotated[int, Meta(ge=0, lt=SIZE_MAX)]
Count = Annotated[int, Meta(ge=0, le=SIZE_MAX)]
U32 = Annotated[int, Meta(ge=0, lt=1 << 32)]
U63 = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Index = Annotated[int, Meta(ge=0, lt=1 << 31)]  # of an element of an array
Step = Annotated[int, Meta(ge=1, lt=1 << 31)]
Seconds = Annotated[float, Meta(ge=0, le=TIME_MAX_S)]
Interval = Annotated[float, Meta(gt=0, le=TIME_MAX_S)]
Uid = Annotated[int, Meta(ge=0, lt=(1 << 32) - 1)]
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
Name = Annotated[str, Meta(max_length=NAME_MAX, pattern=r"^[^\0]*\Z")]
Path = Annotated[bytes, Meta(max_length=PATH_MAX)]
Data = Annotated[bytes, Meta(max_length=DATA_MAX)]
Digest = Annotated[bytes, Meta(max_length=DIGEST_BYTES)]  # BLAKE2b-256, or empty
ObjectNumber = Annotated[int, Meta(ge=0, lt=OBJECTS_MAX)]
SignalNumber = Annotated[int, Meta(ge=1, le=64)]


def clipped(text: str, most: int = TEXT_MAX) -> str:
    """As much of a text for people as a message takes; an ellipsis stands for the rest."""
    return text if len(text) <= most else text[: most - 1] + "…"


GPUS_MAX = 64  # of one node
MEMORY_MAX = 1 << 60
KIND_MAX = 32

Memory = Annotated[int, Meta(ge=0, le=MEMORY_MAX)]  # bytes
GpuCount = Annotated[int, Meta(ge=0, le=GPUS_MAX)]
GpuKind = Annotated[str, Meta(max_length=KIND_MAX)]
Gpus = Annotated[tuple[GpuKind, ...], Meta(max_length=GPUS_MAX)]


class Message(Struct, frozen=True, array_like=True, tag_field="message"):
    """Base of all messages. Fields are checked for type and range on decode.

    Attributes:
        comes_cut: who makes one cuts what may be long in it, so it is never too long.
    """

    comes_cut: ClassVar[bool] = False


class JobMessage(Message, frozen=True):
    """Base of the messages that belong to a job. Its id is their first field."""

    job_id: JobId


class Part(Struct, frozen=True, array_like=True):
    """Base of what messages are made of."""


ATTEMPT_MAX = 255
Attempt = Annotated[int, Meta(ge=0, le=ATTEMPT_MAX)]  # how often a job was placed before


class OfAttempt(JobMessage, frozen=True):
    """Base of what is said of one placing of a job. Which one is the second field."""

    attempt: Attempt = 0


class State(Enum):
    """Where a job is. Names and codes are Slurm's; other programs read them."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    PREEMPTED = "PREEMPTED"

    @property
    def is_final(self) -> bool:
        """The job has ended."""
        return self in _FINAL


_FINAL = frozenset(
    (
        State.COMPLETED,
        State.CANCELLED,
        State.FAILED,
        State.TIMEOUT,
        State.NODE_FAIL,
        State.BOOT_FAIL,
        State.DEADLINE,
        State.PREEMPTED,
    )
)
CODES = {
    State.PENDING: "PD",
    State.CONFIGURING: "CF",
    State.RUNNING: "R",
    State.SUSPENDED: "S",
    State.COMPLETING: "CG",
    State.COMPLETED: "CD",
    State.CANCELLED: "CA",
    State.FAILED: "F",
    State.TIMEOUT: "TO",
    State.NODE_FAIL: "NF",
    State.BOOT_FAIL: "BF",
    State.DEADLINE: "DL",
    State.PREEMPTED: "PR",
}


class Array(Part, frozen=True):
    """The elements of an array of jobs.

    Attributes:
        ranges: each a first index, a last and a step; they do not overlap, and ascend.
        at_once: so many run at the same time; 0: any number.
    """

    ranges: Annotated[tuple[tuple[Index, Index, Step], ...], Meta(max_length=RANGES_MAX)]
    at_once: Annotated[int, Meta(ge=0, lt=1 << 20)] = 0

    @property
    def count(self) -> int:
        """How many they are."""
        return sum((last - first) // step + 1 for first, last, step in self.ranges)

    @property
    def is_sound(self) -> bool:
        """The ranges are as they are to be."""
        ends = [-1, *(last for _, last, _ in self.ranges)]
        pairs = zip(ends, self.ranges, strict=False)
        return all(end < first <= last for end, (first, last, _) in pairs)

    @property
    def text(self) -> str:
        """As people write it: ``0-9:3,12%2``."""
        parts = [
            str(first) if first == last else f"{first}-{last}" + (f":{step}" if step > 1 else "")
            for first, last, step in self.ranges
        ]
        return ",".join(parts) + (f"%{self.at_once}" if self.at_once else "")

    def indices(self) -> Iterator[int]:
        """The indices, ascending."""
        for first, last, step in self.ranges:
            yield from range(first, last + 1, step)

    def without(self, indices: Collection[int]) -> Self:
        """The others, in ranges that are apart where some are missing."""
        ranges: list[tuple[int, int, int]] = []
        for first, last, step in self.ranges:
            here = range(first, last + 1, step)
            if not any(index in here for index in indices):
                ranges.append((first, last, step))
                continue
            for index in here:
                if index in indices:
                    continue
                if ranges and ranges[-1][1] == index - step and ranges[-1][2] == step:
                    ranges[-1] = (ranges[-1][0], index, step)
                else:
                    ranges.append((index, index, step))
        return type(self)(tuple(ranges), self.at_once)

    def __contains__(self, index: int) -> bool:
        return any(index in range(first, last + 1, step) for first, last, step in self.ranges)

    def without_one(self, index: int) -> Self:
        """The others, if it is one of them, in at most one range more."""
        ranges: list[tuple[int, int, int]] = []
        for first, last, step in self.ranges:
            if index not in range(first, last + 1, step):
                ranges.append((first, last, step))
                continue
            if first < index:
                ranges.append((first, index - step, step))
            if index + step <= last:
                ranges.append((index + step, last, step))
        return type(self)(tuple(ranges), self.at_once)


class Element(Part, frozen=True):
    """Which element of which array a job is."""

    array: JobId
    index: Index


class Factor(Part, frozen=True):
    """A part of a job's priority.

    Attributes:
        value: from 0 to 1; of what has no such value, 1.
        points: that it gives.
    """

    name: Name
    value: Annotated[float, Meta(ge=0, le=1)]
    points: Annotated[int, Meta(ge=-(1 << 40), le=1 << 40)]


class JobEnd(Part, frozen=True):
    """How a job has ended, as the process knows that has held or run it.

    Attributes:
        state: a final one.
        exit_status: of the script, or of yod.
        signal: that has ended the script; 0: none.
        has_lost_nodes: some of its nodes were lost while it ran.
    """

    state: State
    exit_status: Annotated[int, Meta(ge=0, lt=256)]
    signal: Annotated[int, Meta(ge=0, le=64)]
    reason: Text
    has_lost_nodes: bool = False


class AfterKind(Enum):
    """What a job waits for in another one. The words are Slurm's."""

    BEGUN = "after"  # that it has begun, or ended without that
    ENDED = "afterany"
    OK = "afterok"  # that it has ended with exit status 0
    NOT_OK = "afternotok"  # that it has ended otherwise
    CORRESPONDS = "aftercorr"  # of an element: that the other array's of its index has so ended


class After(Part, frozen=True):
    """One job that another waits for.

    Attributes:
        job_id: of a step, its number in the allocation of both.
    """

    kind: AfterKind
    job_id: JobId

    def text(self, name: str) -> str:
        """As users write it, with the name of the job."""
        return f"{self.kind.value}:{name}"


class Dependency(Part, frozen=True):
    """The jobs that one waits for.

    Attributes:
        is_any: one of them is enough.
        is_singleton: also for all earlier batch jobs of its name and user, as one of them.
    """

    on: Annotated[tuple[After, ...], Meta(max_length=AFTER_MAX)]
    is_any: bool = False
    is_singleton: bool = False


NO_DEPENDENCY = Dependency(())

Nice = Annotated[int, Meta(ge=0, le=NICE_MAX)]
LicenceCount = Annotated[int, Meta(ge=1, le=LICENCE_MAX)]
Licences = Annotated[tuple[tuple[Name, LicenceCount], ...], Meta(max_length=LICENCES_MAX)]


class Terms(Part, frozen=True):
    """On which terms a job waits and runs.

    Attributes:
        queue: empty: the partition's default.
        account: that its use is charged to; empty: the first one that its user is in.
        licences: names, and how many of each it needs while it has slots.
        nice: points that it gives up of its priority.
        requeue_on: it waits again when its script ends with this exit status; 0: with none.
        constraint: features that its nodes have, as an expression; empty: any.
        gives_way: it ends when one that does not give way needs its slots.
        requeue_lost: it waits again when its nodes are lost.
        switches: it waits for nodes below at most so many leaf switches; 0: below any.
        switches_s: how long it does, once it would begin below more; 0: as bebopd's limit says.
        exclude: nodes that it gets none of, by number or name, as users write them; empty: none.
        checkpoint_s: before it gives way it has so long for a checkpoint; 0: it makes none.
    """

    queue: Name = ""
    account: Name = ""
    licences: Licences = ()
    nice: Nice = 0
    requeue_on: Annotated[int, Meta(ge=0, le=255)] = 0
    constraint: Annotated[str, Meta(max_length=CONSTRAINT_MAX)] = ""
    gives_way: bool = False
    requeue_lost: bool = False
    switches: Annotated[int, Meta(ge=0, le=NODE_MAX)] = 0
    switches_s: Seconds = 0.0
    exclude: Annotated[str, Meta(max_length=EXCLUDE_MAX)] = ""
    checkpoint_s: Seconds = 0.0


NO_TERMS = Terms()


def demand_no_nul(*strings: bytes) -> None:
    """Refuse what the kernel cannot take as a path, an argument or a variable.

    Raises:
        ValueError: one holds a NUL; decoding turns it into its own error.
    """
    if b"\0" not in b"".join(strings):  # there may be a hundred thousand
        return
    for string in strings:
        if b"\0" in string:
            raise ValueError(f"a NUL in {string[:80]!r}")


def demand_same_length(**columns: tuple[object, ...]) -> None:
    """Refuse columns of one table that do not go together.

    Raises:
        ValueError: they have different lengths.
    """
    if len(set(map(len, columns.values()))) > 1:
        lengths = {name: len(column) for name, column in columns.items()}
        said = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise ValueError(f"columns contradict one another: {said}")


def demand_distinct(what: str, things: tuple[object, ...]) -> None:
    """Refuse a list that names something twice.

    Raises:
        ValueError: it does.
    """
    if len(set(things)) != len(things):
        raise ValueError(f"{what} contradict: one is there twice")
