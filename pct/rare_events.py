"""What happens to few jobs: looks at their ranks, requests for remote files, shared input.

And to few nodes: processes that a batch system leaves behind, what a host can do.
"""

from __future__ import annotations

from native.machine import Event, JobAction, JobEvent
from native.wire.status import Feature
from pct.events import HelperAction


class RoguesSeen(Event, frozen=True):
    """The host has been looked at for processes of the batch job that nobody ends.

    Attributes:
        rogues: whose they are, and which; empty: there are none.
    """

    rogues: str


class FeaturesSeen(Event, frozen=True):
    """It has been tried what the host can do.

    Attributes:
        text: for the log, why it cannot do what was announced; empty: it can.
    """

    features: tuple[Feature, ...]
    text: str = ""


class LookerEnded(JobEvent, frozen=True):
    """No process of what looked at ranks is left.

    Attributes:
        stacks: what it has found.
        trouble: what is wrong with it; empty: nothing is.
    """

    stacks: bytes
    trouble: str


class RunLooker(HelperAction, frozen=True):
    """Start what looks at ranks, as the job's owner; answered by :class:`LookerEnded`.

    Attributes:
        words: its arguments.
        most_bytes: of what it finds; the rest is left out.
    """

    words: tuple[bytes, ...]
    most_bytes: int
    uid: int
    gid: int
    groups: tuple[int, ...]


class KillLooker(HelperAction, frozen=True):
    """Kill what looks at ranks."""


class UseRead(JobEvent, frozen=True):
    """The answer to :class:`ReadUse`.

    Attributes:
        used_ms: processor time of each rank, in milliseconds.
    """

    used_ms: dict[int, int]
    is_whole: bool


class ReadUse(HelperAction, frozen=True):
    """Find out how much processor time ranks have used; answered by :class:`UseRead`.

    Attributes:
        unix_pids: of the ranks.
        is_whole: with that of the processes that they have started.
    """

    unix_pids: dict[int, int]
    is_whole: bool


class RankSaved(JobEvent, frozen=True):
    """A rank has been saved, and writes nothing until the saver hears that it is marked."""

    rank: int


class MarkRank(HelperAction, frozen=True):
    """Tell the saver that what a rank had written when it was saved is known."""

    rank: int


class ShareRead(JobEvent, frozen=True):
    """The saver has read more of what this node keeps, for the node that holds a copy."""

    data: bytes


class ShareKept(JobEvent, frozen=True):
    """The saver has taken so many bytes of what it was given: lines, and another node's share."""

    count_bytes: int


class ShareDrained(JobEvent, frozen=True):
    """All that this node keeps is in the directory of checkpoints."""


class PassToSaver(HelperAction, frozen=True):
    """Give the saver a line, and the data that it names."""

    data: bytes


class HoldOutput(JobAction, frozen=True):
    """Read what is in the pipes of a rank now, and no more; None: in those of all.

    Attributes:
        is_on: else read all of them again.
    """

    rank: int | None
    is_on: bool = True


class RemoteAsked(JobEvent, frozen=True):
    """The kernel of this node asks for something of remote files.

    Attributes:
        mount: its number here, from 0.
        directory: over which it is, an index into the load's.
        frame: the request; empty: the mount is gone.
    """

    mount: int
    directory: int
    frame: bytes


class AnswerRemote(JobAction, frozen=True):
    """Give the kernel of this node a reply."""

    mount: int
    frame: bytes


class PauseRemote(JobAction, frozen=True):
    """Read no further requests; or, if not ``is_on``, read on."""

    is_on: bool


class LineWanted(JobEvent, frozen=True):
    """A rank has read all that it was given of the input that all share.

    Attributes:
        unread: what it was given, of which it has read nothing.
        is_closed: it reads no more.
    """

    rank: int
    unread: bytes
    is_closed: bool


class GiveLine(JobAction, frozen=True):
    """Give a rank a line, or a piece of one, of the input that all share; empty: its end."""

    rank: int
    data: bytes


class LetSpread(JobAction, frozen=True):
    """Look later at what becomes of the ranks, and at what they write.

    A signal that ends them is on its way to other nodes, whose turn is first where nodes share
    processors.

    Attributes:
        spread_s: from now on.
    """

    spread_s: float


class LetDie(JobAction, frozen=True):
    """Let signals end ranks that their keepers hold before that."""

    ranks: tuple[int, ...]
