"""The state of a job on one node, and which nodes it waits for.

States are those of the *subtree*: a node is HELD when all ranks below it are.

    FORMING   the load message has been passed on; the store's answer and the children's
              votes are awaited; ends with a vote
    LOADING   some node of the subtree lacks an object
    STARTING  every node of the subtree has its objects; ranks are being started
    HELD      every rank of the subtree is at its entry
    RUNNING   go has been passed on
    ENDING    all done has been passed on; the keepers kill what is left
    RELEASED  nothing is left here; the parent has been told

FORMING, LOADING, STARTING and ENDING end when this node and each child have contributed
what the state waits for. The states before HELD have a deadline. It is longer in a node
with more levels below it, so that the parent of a late node reports it first.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from native.deadlines import earliest
from native.machine import Action
from native.wire import load
from native.wire.base import NAME_MAX, Message
from pct.tree.collective import SELF, Gather
from pct.tree.group import Group
from pct.tree.late import LateNodes

if TYPE_CHECKING:
    from pct.job.rules.times import Step, Times

SLOWEST_LOAD = 1e6  # bytes a second; yod reckons with the same rate
LEVEL_GRACE = 0.1  # of a deadline, for each level below


class JobState(Enum):
    """How far this node's subtree is."""

    __hash__ = object.__hash__  # that of Enum is a call of Python for each look into a table

    FORMING = "forming the group"
    LOADING = "loading"
    STARTING = "starting"
    HELD = "held at entry"
    RUNNING = "running"
    ENDING = "ending"
    RELEASED = "released"


class Progress:
    """The state of one job on one node.

    Attributes:
        state: only :meth:`enter` changes it.
        votes, loaded, held, released: the contributions that end FORMING, LOADING,
            STARTING and ENDING.
        times: of the phases, here and below; None: nobody wants to know them.
    """

    def __init__(self, message: load.Load, group: Group, now: float, notice_s: float) -> None:
        self.state = JobState.FORMING
        self.started_at = now
        children = list(group.children.values())
        self.votes: Gather[load.Vote] = Gather(children)
        self.loaded: Gather[load.Slowest] = Gather(children)
        self.held: Gather[load.Slowest] = Gather(children)
        self.released: Gather[tuple[int, ...]] = Gather(children)
        self._message = message
        self._here = message.nodes[message.place]
        self._group = group
        self._late = LateNodes(message.job_id, notice_s, group.levels)
        self._late.begin(now)
        self._until: float | None = now + self._patience()
        self.times: Times | None = None
        if message.tells_times:
            from pct.job.rules.times import Times  # few launches are traced

            self.times = Times(message, now)

    @property
    def is_ending(self) -> bool:
        """The job ends or has ended: start nothing any more."""
        return self.state in (JobState.ENDING, JobState.RELEASED)

    @property
    def awaited(self) -> set[int]:
        """Places whose contribution this state still awaits."""
        return self._gather().awaited

    def _gather(self) -> Gather[Any]:
        match self.state:
            case JobState.FORMING:
                return self.votes
            case JobState.LOADING:
                return self.loaded
            case JobState.ENDING:
                return self.released
        return self.held

    def enter(self, state: JobState, now: float) -> None:
        """Change the state."""
        self.state = state
        if state in (JobState.HELD, JobState.RUNNING, JobState.RELEASED):
            self._late.end()
        else:
            self._late.begin(now)
        if state in (JobState.LOADING, JobState.STARTING):
            self.extend(now)
        else:
            self._until = None  # yod decides how long these last

    def note(self, step: Step, now: float) -> None:
        """This node has come to the end of a phase, for a trace."""
        if self.times is not None:
            self.times.note(step, now)

    def slowest(self, now: float) -> load.Slowest:
        """How long this node has taken so far, as one entry for the search of the slowest."""
        return load.Slowest(self._here.node, self._here.name, now - self.started_at)

    # -- messages ---------------------------------------------------------

    def late(self, message: Message, now: float) -> list[Action]:
        """A message or event that comes after the state it is for: ignore it."""
        return []

    def late_below(self, place: int, message: Message, now: float) -> list[Action]:
        """A child's message that comes after the state it is for: ignore it."""
        self._late.came(place)
        return []

    def pass_down(self, message: Message, now: float) -> list[Action]:
        """A message that comes too late for this node, but perhaps not for nodes below."""
        return self._group.down(message)

    def hear(self, place: int, message: load.Late, now: float) -> list[Action]:
        """A child reports which nodes below it are late."""
        self._late.hear(place, message)
        return []

    def came(self, place: int) -> None:
        """A child has contributed: its report of late nodes is out of date."""
        self._late.came(place)

    # -- time -------------------------------------------------------------

    def deadline(self) -> float | None:
        """The time at which the state is overdue, or late nodes are reported; None: neither."""
        return earliest(self._until, self._late.due)

    def extend(self, now: float) -> None:
        """The node has made progress: the deadline starts again, unless it has passed."""
        if self._until is not None:
            self._until = now + self._patience()

    def take_timeout(self, now: float, own_wait: Callable[[], str]) -> str:
        """Name the nodes that have let the deadline pass, once; empty: it has not passed.

        Args:
            own_wait: returns what this node itself has not done yet.
        """
        if self._until is None or now < self._until:
            return ""
        self._until = None
        names = [self._message.nodes[place].name for place in sorted(self.awaited - {SELF})]
        if SELF in self.awaited:
            names.append(f"{self._here.name} ({own_wait()})")
        return f"no answer in {self._patience():.0f} s from {', '.join(names)}"

    @property
    def late_place(self) -> int:
        """The place of a node that is awaited, the first; this one if no other is."""
        return min(self.awaited - {SELF}, default=self._message.place)

    def take_late(self, now: float, own_wait: Callable[[], str]) -> load.Late | None:
        """The report of late nodes, if it is time to send one and it says something new.

        Args:
            own_wait: as above; if it returns nothing, this node is not the cause.
        """
        if not self._late.is_due(now):
            return None
        wait = own_wait() if SELF in self.awaited else ""
        own = [load.LateNode(self._here.node, self._here.name, wait[:NAME_MAX])] if wait else []
        children = {}
        for place in self.awaited - {SELF}:
            node = self._message.nodes[place]
            children[place] = load.LateNode(node.node, node.name)
        return self._late.tell(own, children)

    def _patience(self) -> float:
        patience = self._message.deadline_s * (1 + LEVEL_GRACE * self._group.levels)
        if self.state is JobState.LOADING:
            patience += sum(shipped.size for shipped in self._message.objects) / SLOWEST_LOAD
        return patience
