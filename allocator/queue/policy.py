"""What a policy decides, and the simplest: first in, first out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from msgspec import Struct

from allocator.jobs.assign import Picks, RequestRefused
from allocator.jobs.choosing import Chooser
from allocator.jobs.line import Line, Waiting, kept_text
from allocator.jobs.table import JobTable
from allocator.nodes.access import Claim
from allocator.nodes.table import NodeTable, Placement
from allocator.queue.admission import Admission
from native.errors import Refusal
from native.limits import Limits
from native.wire.alloc import NodeRequest


class Turn(Struct, frozen=True):
    """It is a request's turn.

    Attributes:
        placement: the slots that it may have; None: all that are free.
        lenders: jobs that stand still for it, whose slots are among these.
    """

    waiting: Waiting
    placement: Placement | None = None
    lenders: tuple[int, ...] = ()


class Preemption(Struct, frozen=True):
    """Jobs are to end, or to stand still, so that a request has their slots.

    Attributes:
        victims: the ids of those that end.
        stopped: of those that are suspended.
        turn: of the request, when they are told to be; None: it waits for the end of the others.
    """

    waiting: Waiting
    victims: tuple[int, ...]
    stopped: tuple[int, ...] = ()
    turn: Turn | None = None


class Running(Protocol):
    """The jobs that have slots."""

    def left(self, job_id: int) -> float | None:
        """Until the limit of a job, in seconds; 0: it is to end now. None: it has no limit."""

    def can_end(self, job_id: int) -> bool:
        """Whether a job can be told to end, and was not told so already."""

    def can_stand_still(self, job_id: int) -> bool:
        """Whether a job can be suspended for others, and is not yet."""

    def stands_still(self, job_id: int) -> bool:
        """Whether a job is suspended for others."""

    def ends(self, job_id: int) -> bool:
        """Whether a launch was told to end, for others or by somebody's request."""


class Expectation(Protocol):
    """When a request is expected to begin, and where.

    Attributes:
        at: seconds from now.
        picks: the nodes of each of its members.
    """

    @property
    def at(self) -> float: ...

    @property
    def picks(self) -> list[Picks]: ...


PolicyMaker = Callable[[NodeTable, JobTable, Any, Chooser, Limits, Running, Admission], "Policy"]


class Policy(Protocol):
    """Decides who is next. It holds no slot.

    Attributes:
        pass_s: it is asked for turns once in so long, at most; 0: at each event.
        is_put_off: it is to be asked for turns, and not yet.
    """

    pass_s: float
    is_put_off: bool

    def turns(self, line: Line, unix_time: float) -> Iterator[Turn | Preemption]:
        """Whose turn it is, one after another; and who is to end for whom.

        Each is taken from the line, and has its slots or is refused, before the next is asked for.
        The victims of a preemption are told to end by then.
        """

    def changed(self) -> None:
        """How long jobs run, or whether anybody gets anything, is not what it was."""

    def check(self, line: Line, unix_time: float) -> None:
        """Assert that nobody waits whose turn it is."""

    def demand_turn(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float
    ) -> Placement | None:
        """The slots that a request may have that does not wait; None: all that are free.

        Raises:
            RequestRefused: what is free is kept for one that waits.
        """

    def given(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float, job_id: int
    ) -> None:
        """The request that had its turn last, by :meth:`demand_turn`, has its slots."""

    def ends_others(self, request: NodeRequest, claim: Claim, line: Line, unix_time: float) -> bool:
        """Whether a request that comes last in the line begins when launches that give way end."""

    def why_not(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float, time_s: float
    ) -> str:
        """Why a request has to wait that comes last in the line; empty: it has not.

        Args:
            time_s: how long it would have its slots; 0: any time.
        """

    def booked(self, request: NodeRequest, claim: Claim, unix_time: float, time_s: float) -> str:
        """What is kept for others, so that a request cannot have it now; empty: nothing.

        Args:
            time_s: as for :meth:`why_not`.
        """

    def next_change(self, unix_time: float) -> float | None:
        """The unix time at which others may begin though no slot was freed; None: it is at none."""

    def forecast(
        self,
        request: NodeRequest,
        claim: Claim,
        line: Line,
        unix_time: float,
        time_s: float,
        since_s: float,
    ) -> Expectation | None:
        """When and where a request would begin that comes last in the line; None: not known.

        Args:
            time_s: as for :meth:`why_not`.
            since_s: seconds from now before which it does not begin.
        """


class FirstInFirstOut:
    """The first that does not fit holds back all later ones: an allocation's steps."""

    pass_s = 0.0  # a pass costs little
    is_put_off = False

    def __init__(self, slots: Chooser) -> None:
        self._slots = slots

    def turns(self, line: Line, unix_time: float) -> Iterator[Turn]:
        """Up to the first that is to be waited for."""
        for waiting in line.served():
            while self._slots.fits(waiting.request, waiting.claim):
                yield Turn(waiting)
                if not waiting.count:
                    break
            else:
                waiting.is_shut_out = self._slots.is_shut_out(waiting.request, waiting.claim)

    def changed(self) -> None:
        """Whatever it is."""

    def check(self, line: Line, unix_time: float) -> None:
        """Assert that nobody waits whose turn it is."""
        for turn in self.turns(line, unix_time):
            raise AssertionError(turn)

    def demand_turn(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float
    ) -> Placement | None:
        """Refuse what others wait before."""
        keeper = None if request.overlaps else line.keeper
        if keeper is not None and self._slots.fits(request, claim):
            raise RequestRefused(Refusal.BUSY, kept_text(keeper, self._slots.free(claim)))
        return None

    def given(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float, job_id: int
    ) -> None:
        """Whoever it is."""

    def ends_others(self, request: NodeRequest, claim: Claim, line: Line, unix_time: float) -> bool:
        """No step gives way."""
        return False

    def why_not(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float, time_s: float
    ) -> str:
        """What it lacks, or for whom that is kept."""
        if text := self._slots.lacks(request, claim):
            return text
        try:
            self.demand_turn(request, claim, line, unix_time)
        except RequestRefused as refused:
            return str(refused)
        return ""

    def booked(self, request: NodeRequest, claim: Claim, unix_time: float, time_s: float) -> str:
        """Nothing is."""
        return ""

    def next_change(self, unix_time: float) -> float | None:
        """At none."""

    def forecast(self, *asked: object) -> None:
        """Steps have no time limits, so nothing is known."""


def first_in_first_out(
    nodes: NodeTable,
    jobs: JobTable,
    placement: Placement,
    slots: Chooser,
    limits: Limits,
    running: Running,
    admission: Admission,
) -> Policy:
    """The policy of that name, for partitions without queues."""
    return FirstInFirstOut(slots)
