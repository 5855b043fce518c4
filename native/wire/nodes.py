"""Conversation `node`: an operator takes nodes out of use, and back; a user ends jobs on nodes.

yodctl asks bebopd, which answers when the change is on its disk. bebopd tells a PCT to
restart when its turn has come. pingd asks bebopd to end jobs, which tells their PCTs.
"""

from enum import Enum
from typing import Annotated

from msgspec import Meta

from native.wire.base import (
    JOB_ID_MAX,
    JobId,
    JobMessage,
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
USERS_MAX = 63  # of one reservation, beside the first
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
    """Give these nodes to jobs of some users only; those of others that are there go on.

    Attributes:
        uid: the user, or the first of several.
        reason: for people; empty: none is given.
        start: unix time; 0: at once.
        duration_s: 0: until they are given back.
        others: the other users.
    """

    uid: Uid
    reason: Name = ""
    start: Seconds = 0.0
    duration_s: Seconds = 0.0
    others: Annotated[tuple[Uid, ...], Meta(max_length=USERS_MAX)] = ()


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


# -- jobs are ended, whatever their yods do --------------------------------------


class Ending(Enum):
    """How jobs are ended. Other programs read the words."""

    INTERRUPT = "interrupt"  # SIGTERM
    NICEKILL = "nicekill"  # SIGTERM; SIGKILL later
    RESET = "reset"  # SIGKILL; their slots are freed, too


class EndJobs(Message, frozen=True, tag="node.end_jobs"):
    """pingd asks bebopd to end jobs. They meet every condition that is given.

    Attributes:
        nodes: what is on these; empty: on all.
        job_id: this job; 0: any.
        uid: those of this user; -1: of any.
        batch_job: those of this job of the batch system; empty: any.
    """

    how: Ending
    nodes: Some = ()
    job_id: Annotated[int, Meta(ge=0, le=JOB_ID_MAX)] = 0
    uid: Annotated[int, Meta(ge=-1, le=(1 << 32) - 2)] = -1
    batch_job: Name = ""


class JobsEnding(Message, frozen=True, tag="node.jobs_ending"):
    """bebopd: these are being ended.

    Attributes:
        jobs: lowest ids first, as many as fit.
        job_count: how many they are.
        node_count: of nodes whose PCTs were told.
        other_count: of jobs that meet the conditions and belong to others.
    """

    jobs: Annotated[tuple[OwnedJob, ...], Meta(max_length=JOBS_MAX)]
    job_count: Annotated[int, Meta(ge=0, lt=1 << 32)]
    node_count: Annotated[int, Meta(ge=0, lt=1 << 32)]
    other_count: Annotated[int, Meta(ge=0, lt=1 << 32)]


class SignalJob(JobMessage, frozen=True, tag="node.signal_job"):
    """bebopd tells a PCT to send the ranks of one job there a signal that ends them.

    Attributes:
        by: who has asked for it.
    """

    number: SignalNumber
    by: Name


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
