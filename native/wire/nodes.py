"""Conversation `node`: an operator takes nodes out of use, and back.

yodctl asks bebopd, which answers when the change is on its disk. bebopd tells a PCT to
restart when its turn has come.
"""

from enum import Enum
from typing import Annotated

from msgspec import Meta

from native.wire.base import (
    JobId,
    Message,
    Name,
    NodeNumber,
    Part,
    Seconds,
    SignalNumber,
    Text,
    Uid,
    demand_distinct,
)
from native.wire.status import Portion

ORDERED_MAX = 1 << 13  # nodes of one order: the longest answer fits a message
JOBS_MAX = 128  # that an answer names
EVENTS_MAX = 64  # of one answer
HISTORY_MAX = 10_000  # events of all answers to one question

Some = Annotated[tuple[NodeNumber, ...], Meta(max_length=ORDERED_MAX)]


class Order(Message, frozen=True):
    """Base of what an operator asks. The nodes are the first field."""

    nodes: Annotated[tuple[NodeNumber, ...], Meta(min_length=1, max_length=ORDERED_MAX)]

    def __post_init__(self) -> None:
        demand_distinct("nodes", self.nodes)


class Drain(Order, frozen=True, tag="node.drain"):
    """Give these nodes to no job from now on; the jobs that are there go on."""

    reason: Name


class Resume(Order, frozen=True, tag="node.resume"):
    """Give these nodes to jobs again. A restart that has not begun is taken back."""


class Restart(Order, frozen=True, tag="node.restart"):
    """Restart the PCTs of these nodes when their jobs have ended.

    Attributes:
        is_forced: at once; their jobs end.
    """

    is_forced: bool = False


class Reserve(Order, frozen=True, tag="node.reserve"):
    """Give these nodes to this user's jobs only; those of others that are there go on.

    Attributes:
        reason: for people; empty: none is given.
    """

    uid: Uid
    reason: Name = ""


class Unreserve(Order, frozen=True, tag="node.unreserve"):
    """Give these nodes to jobs of all users again."""


class Dedicate(Order, frozen=True, tag="node.dedicate"):
    """Give these nodes to jobs of this kind only; those of others that are there go on."""

    portion: Portion


class OwnedJob(Part, frozen=True):
    """A job and whose it is."""

    job_id: JobId
    owner: Name


class Changed(Message, frozen=True, tag="node.changed"):
    """bebopd: it is done, and on the disk.

    Attributes:
        nodes: those whose state has changed, ascending.
        busy: those of them that jobs hold, ascending.
        jobs: these jobs, lowest ids first, as many as fit.
        job_count: how many they are.
    """

    nodes: Some
    busy: Some
    jobs: Annotated[tuple[OwnedJob, ...], Meta(max_length=JOBS_MAX)]
    job_count: Annotated[int, Meta(ge=0, lt=1 << 32)]


class SignalRanks(Message, frozen=True, tag="node.signal_ranks"):
    """bebopd of an allocation tells a PCT to send the ranks of all jobs a signal."""

    number: SignalNumber


class RestartNow(Message, frozen=True, tag="node.restart_now"):
    """bebopd tells a PCT to begin again, when it has no job.

    Attributes:
        is_forced: end the jobs first.
    """

    is_forced: bool


# -- what has happened to nodes ------------------------------------------------


class NodeEventKind(Enum):
    """What has happened to a node. Other programs read the words."""

    UP = "up"  # announced itself, or is back
    LOST = "lost"
    RESTARTED = "restarted"  # another PCT has announced itself
    DRAINED = "drained"
    RESTARTING = "restarting"  # an operator has ordered it
    RESUMED = "resumed"
    RESERVED = "reserved"
    UNRESERVED = "unreserved"
    DEDICATED = "dedicated"  # to batch jobs, to interactive ones, to any
    TROUBLE = "trouble"
    WELL = "well"  # its trouble is over


class NodeEvent(Part, frozen=True):
    """Something that has happened to a node.

    Attributes:
        name: of the node; empty: it has not announced itself.
        at: unix time.
        by: the operator; empty: none.
        text: the reason, or more about it.
    """

    node: NodeNumber
    name: Name
    at: Seconds
    kind: NodeEventKind
    by: Name
    text: Text


class AskNodeEvents(Message, frozen=True, tag="node.ask_events"):
    """yodctl asks what has happened to nodes.

    Attributes:
        nodes: these; empty: all.
        count: so many events, the last.
    """

    nodes: Some
    count: Annotated[int, Meta(ge=1, le=HISTORY_MAX)]


class NodeEvents(Message, frozen=True, tag="node.events"):
    """A piece of the answer, the oldest first.

    Attributes:
        is_last: nothing follows.
    """

    events: Annotated[tuple[NodeEvent, ...], Meta(max_length=EVENTS_MAX)]
    is_last: bool
