"""Conversations `group` and `checkpoint`: what the nodes of a job say of it as a whole.

A node that has lost its parent asks an ancestor to adopt it. The ranks of all nodes are written
down, for a later job that goes on from there.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from native.errors import PeerProtocolError
from native.wire.base import (
    NODE_MAX,
    U63,
    Count,
    Data,
    Interval,
    JobMessage,
    Name,
    NodeNumber,
    Part,
    Path,
    Rank,
    Seconds,
    Text,
    demand_no_nul,
)

RECIPE_MAX_BYTES = 64 * 1024
STACKS_MAX_BYTES = 128 * 1024
DYING_MAX = 4096
STILL_CHECKS = 8  # of a node, while it stands still for StackRules.stall_s
RESCUED_MAX = 1024  # nodes; with more lost at once nobody hopes for a checkpoint
DYING = 0  # number of what is seen of ranks that a signal ends, which nobody has asked for
INPUTS_MAX = 1024
REMOTE_MAX = 16  # directories
STRACE_OPTIONS_MAX = 64
TIMES_MAX = 1024  # nodes of one message

MICROS_MAX = (1 << 50) - 1
MICRO = 1e6  # of a second
Micros = Annotated[int, Meta(ge=0, le=MICROS_MAX)]
MicrosOrNever = Annotated[int, Meta(ge=-1, le=MICROS_MAX)]

Lines = Annotated[int, Meta(ge=0, lt=1 << 15)]

Place = Annotated[int, Meta(ge=0, le=NODE_MAX)]
Inputs = Annotated[tuple[tuple[Rank, Rank], ...], Meta(max_length=INPUTS_MAX)]


class Dialect(Enum):
    """A launcher or framework whose rank variables ranks find beside ours."""

    SLURM = "slurm"
    PALS = "pals"
    FLUX = "flux"
    OMPI = "ompi"
    TORCH = "torch"


Dialects = Annotated[tuple[Dialect, ...], Meta(max_length=len(Dialect))]


class RankFiles(Part, frozen=True):
    """Where ranks write, on their own nodes: patterns with codes (native/pattern.py).

    Attributes:
        out, err: empty: to yod.
        appends: what is in the files stays.
    """

    out: Path = b""
    err: Path = b""
    appends: bool = False

    def __post_init__(self) -> None:
        demand_no_nul(self.out, self.err)


class Window(Part, frozen=True):
    """The size of a terminal; 0: it is not known."""

    rows: Lines
    columns: Lines


RemoteDirectory = Annotated[int, Meta(ge=0, lt=REMOTE_MAX)]


class Remote(Part, frozen=True):
    """Directories whose files yod has, as the ranks see them.

    Attributes:
        directories: absolute; none is within another.
        window_bytes: of requests and replies on their way, for the whole job.
    """

    directories: Annotated[tuple[Path, ...], Meta(min_length=1, max_length=REMOTE_MAX)]
    window_bytes: Annotated[int, Meta(ge=64 * 1024, le=1 << 30)]

    def __post_init__(self) -> None:
        demand_no_nul(*self.directories)


class Strace(Part, frozen=True):
    """Ranks that run under strace, on their own nodes.

    Attributes:
        directory: of the files ``strace.JOB.RANK``; relative: to that of the ranks.
        options: further ones of strace.
    """

    directory: Path
    ranks: Inputs
    options: Annotated[tuple[bytes, ...], Meta(max_length=STRACE_OPTIONS_MAX)] = ()

    def __post_init__(self) -> None:
        demand_no_nul(self.directory, *self.options)


class StackRules(Part, frozen=True):
    """When and how a node looks at the stacks of its ranks, or traces them by strace.

    Attributes:
        of_dying: at ranks that die by a signal.
        stall_s: without a sign of life of its ranks for so long a node says so; 0: it does not.
        look_s: a look at all ranks of a node ends within this.
        dying_count: ranks of a node that wait for that before their end; more die unseen.
        most_bytes: of what one node sends.
        strace: None: no rank runs under it.
    """

    of_dying: bool = False
    stall_s: Seconds = 0.0
    look_s: Interval = 20.0
    dying_count: Annotated[int, Meta(ge=1, le=DYING_MAX)] = 64
    most_bytes: Annotated[int, Meta(ge=1024, le=STACKS_MAX_BYTES)] = 32 * 1024
    strace: Strace | None = None


class Orphan(JobMessage, frozen=True, tag="group.orphan"):
    """To the nearest living ancestor: adopt this node with its subtree.

    Attributes:
        place: the sender's index in the load's nodes.
    """

    place: Place


class Adopted(JobMessage, frozen=True, tag="group.adopted"):
    """The answer: the sender is the parent now. Messages that the node has missed follow."""


class Checkpoints(Part, frozen=True):
    """Where the ranks of a job save themselves; part of a load message.

    Attributes:
        directory: the same on every node; checkpoints lie in it.
        collecting: the directory in it in which the next one is made.
        restart: the checkpoint that the job goes on from; empty: none.
        local: a directory of the owner's on each node: what is saved there first is drained to
            ``directory`` while the ranks go on; empty: it is saved there at once.
        local_bytes: most of what the owner keeps on a node so.
        drain_s: what is kept on nodes is in ``directory`` within this.
    """

    directory: Path
    collecting: Name
    restart: Path = b""
    local: Path = b""
    local_bytes: U63 = 0
    drain_s: Seconds = 0.0

    def __post_init__(self) -> None:
        demand_no_nul(self.directory, self.restart, self.local)

    def saved_in(self, place: int) -> tuple[bytes, bytes]:
        """Where the ranks of a node save themselves: a directory, and the one in it."""
        if self.local:
            return self.local, b"%s.%d" % (self.collecting.encode(), place)
        return self.directory, self.collecting.encode()


class Begin(JobMessage, frozen=True, tag="checkpoint.begin"):
    """Down: every rank is to be written down.

    Attributes:
        signal_number: tells a rank to save itself; 0: the savers write the ranks down.
        grace_s: how long the ranks have for that.
        keep: how many whole checkpoints stay in the directory; 0: all.
        recipe: for the root: what a restart has to know; to others it is empty.
        is_trial: the savers only say whether they could do it.
        holds_output: what a rank writes once it is saved stays in its pipes until
            :class:`GoOn`; what it has written before is on its way up ahead of :class:`Done`.
        attempt: of this job: what an earlier one has left is no part of it.
    """

    signal_number: Annotated[int, Meta(ge=0, le=64)]
    grace_s: Interval
    keep: Count
    recipe: Annotated[bytes, Meta(max_length=RECIPE_MAX_BYTES)]
    is_trial: bool = False
    holds_output: bool = False
    attempt: Count = 0


class Done(JobMessage, frozen=True, tag="checkpoint.done"):
    """Up: the ranks of this subtree are written down; from the root: the checkpoint is whole.

    Attributes:
        ranks: how many have been saved, or had ended well.
        size: bytes in their files.
        path: of the checkpoint; from others than the root it is empty.
        text: why there is none; empty: there is.
        is_kept: they are on their nodes only, and are drained at :class:`GoOn`; the same message
            without it follows when that is done.
    """

    ranks: Count
    size: U63
    path: Path = b""
    text: Text = ""
    is_kept: bool = False


class GoOn(JobMessage, frozen=True, tag="checkpoint.go_on"):
    """Down: yod knows where output stands at the checkpoint; what is held goes on.

    Attributes:
        drains: all nodes keep their ranks: they are copied to the directory of checkpoints.
    """

    drains: bool = False


class WriteDown(JobMessage, frozen=True, tag="checkpoint.write_down"):
    """bebopd to yod, or to a batch job's broker for the yods of its steps: the job is to end.

    Who has no reason to make a checkpoint then does nothing, and the job goes on.

    Attributes:
        text: why, for the user.
        gives_way: others have its slots; it ends also without a checkpoint. Else a node of its is
            drained.
    """

    text: Text
    gives_way: bool = False


class Share(JobMessage, frozen=True, tag="checkpoint.share"):
    """To the node that holds a copy of what the sender keeps: more of it, as its saver reads it.

    Attributes:
        attempt: of the checkpoint, as in :class:`Begin`.
        data: at the end empty.
        is_over: no more comes, and what has come is not needed: all of it is in the directory
            of checkpoints, or the sender has given up.
    """

    attempt: Count
    data: Data
    is_over: bool = False


class ShareTaken(JobMessage, frozen=True, tag="checkpoint.share_taken"):
    """To the node whose share this one holds: it may send more.

    Attributes:
        attempt: of the checkpoint, as in :class:`Begin`.
        count_bytes: so many more; 0: none any more, and nothing is held.
    """

    attempt: Count
    count_bytes: Annotated[int, Meta(ge=0, le=1 << 30)]


class Rescue(JobMessage, frozen=True, tag="checkpoint.rescue"):
    """Down, or yod to one PCT: the job ends behind what its nodes drain.

    Attributes:
        places: of nodes that are lost; who holds the share of one drains that, too. Empty: the
            job ends at once, as without this message.
    """

    places: Annotated[tuple[Place, ...], Meta(max_length=RESCUED_MAX)]


class Look(JobMessage, frozen=True, tag="group.look"):
    """Down: every node says where its ranks are, from their stacks.

    Attributes:
        number: of the request, which comes back.
    """

    number: Count


class Seen(JobMessage, frozen=True, tag="group.seen"):
    """Up: where the ranks of one node are; with number DYING those that a signal is ending.

    Attributes:
        stacks: one tree of stacks as text (yod/launch/stacks/tree.py), cut where it is too long.
        text: why there is none, or what is missing.
    """

    number: Count
    node: NodeNumber
    stacks: Annotated[bytes, Meta(max_length=STACKS_MAX_BYTES)]
    text: Text = ""


class Still(JobMessage, frozen=True, tag="group.still"):
    """Up: no rank of a node has used processor time or written for a while.

    Attributes:
        still_s: for so long; 0: they do again.
    """

    node: NodeNumber
    still_s: Seconds


class NodeTimes(Part, frozen=True):
    """When one node has come to the end of its phases, from its load message on; -1: never.

    Attributes:
        came: when that came, on the same scale after the sender's of the message that has this.
        joined: it knew which objects it lacked.
        loaded: it had all of them.
        started: its keeper was started.
        held: its ranks were at their entry.
        went: they were let go.
        ended: the last of its ranks that has ended did.
        told: it was told to end the job.
        left: nothing of the job was left.
    """

    node: NodeNumber
    came: Micros
    joined: MicrosOrNever = -1
    loaded: MicrosOrNever = -1
    started: MicrosOrNever = -1
    held: MicrosOrNever = -1
    went: MicrosOrNever = -1
    ended: MicrosOrNever = -1
    told: MicrosOrNever = -1
    left: MicrosOrNever = -1


class Times(JobMessage, frozen=True, tag="group.times"):
    """Up, where the load asks for it: a piece of the times of the sender and of all below it.

    Clocks of hosts differ, so no time of day is sent. Each node counts from the arrival of its load
    message. When that was, by the clock of who has sent it that message, is reckoned from the vote:
    the node says how long after the arrival it was sent, and the other knows how long after the
    load message it came. What is left over are the ways down and up, and half of that is the way
    down, as in NTP.

    Attributes:
        voted_us: when the sender has sent the receiver its vote, from its own load message on;
            -1: it has not.
    """

    voted_us: MicrosOrNever
    nodes: Annotated[tuple[NodeTimes, ...], Meta(min_length=1, max_length=TIMES_MAX)]

    def way_us(self, vote_came_us: int) -> int:
        """How long the load message was on its way to the sender; 0 where that is not known.

        Args:
            vote_came_us: when the sender's vote came, from when the load message was sent to it;
                -1: it has not.
        """
        if self.voted_us < 0 or vote_came_us < 0:
            return 0
        return max(0, vote_came_us - self.voted_us) // 2

    def add_to(self, known: dict[int, NodeTimes], vote_came_us: int, most: int) -> None:
        """Add the times of nodes that have told none yet, by number, on the receiver's clock.

        Args:
            most: nodes of the job.

        Raises:
            PeerProtocolError: they are more; nothing has changed.
        """
        new = {each.node: each for each in self.nodes if each.node not in known}
        if len(known) + len(new) > most:
            raise PeerProtocolError(f"times of more than {most} nodes")
        way = self.way_us(vote_came_us)
        for node, times in new.items():
            known[node] = replace(times, came=min(times.came + way, MICROS_MAX))
