"""What a site says of its queues: who may use them, with how much, and who is first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

EVERYBODY = "*"  # in a list of users
DAY_S = 86400.0


class QueueState(Enum):
    """Whether a queue takes jobs, and starts those that it has."""

    OPEN = "open"
    CLOSED = "closed"  # it takes none, and starts those that wait
    DRAINED = "drained"  # it takes none and starts none

    __hash__ = object.__hash__


class PreemptMode(Enum):
    """What becomes of a job of a queue when one of another queue needs its slots."""

    OFF = "off"  # it keeps them
    CANCEL = "cancel"  # it ends
    REQUEUE = "requeue"  # it ends, and waits again
    SUSPEND = "suspend"  # it stands still until they are free again

    __hash__ = object.__hash__


class Bounds(Struct, frozen=True):
    """How much jobs may have at a time; None: as much as there is.

    Attributes:
        jobs, slots, nodes: of those that have slots; a node counts once for each job on it.
        submitted: jobs that have not ended.
    """

    jobs: int | None = None
    slots: int | None = None
    nodes: int | None = None
    submitted: int | None = None


NO_BOUNDS = Bounds()


class Members(Struct, frozen=True):
    """Users, by their names and those of their groups."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nobody is named."""
        return not (self.users or self.groups)


class Queue(Struct, frozen=True):
    """One queue.

    Attributes:
        members: who may use it; empty: everybody.
        accounts: that may use it; empty: all.
        nodes: that its jobs may have; empty: all.
        takes_launches: of yod and `yodjob alloc` outside of allocations, too.
        default_s: of a job that has no time limit; 0: none.
        most_s: the longest time limit; 0: any.
        per_job, per_user, total: limits of one job, of all jobs of a user, of all jobs.
        preempts: queues whose batch jobs end, or stand still, when its jobs need their slots.
        preempt_mode: what becomes of its own jobs where another queue does so.
        preempt_grace_s: they have so long between SIGTERM and their end.
    """

    name: str
    state: QueueState = QueueState.OPEN
    priority: int = 0
    members: Members = Members()
    accounts: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    takes_launches: bool = True
    default_s: float = 0.0
    most_s: float = 0.0
    per_job: Bounds = NO_BOUNDS
    per_user: Bounds = NO_BOUNDS
    total: Bounds = NO_BOUNDS
    preempts: frozenset[str] = frozenset()
    preempt_mode: PreemptMode = PreemptMode.OFF
    preempt_grace_s: float = 0.0


class Reserved(Struct, frozen=True):
    """Nodes that are kept for a time.

    Attributes:
        nodes: empty: all.
        start, end: unix time.
        members: for whom; empty: for nobody.
    """

    name: str
    nodes: tuple[int, ...]
    start: float
    end: float
    members: Members = Members()


class Account(Struct, frozen=True):
    """One account.

    Attributes:
        parent: the account that it is a part of; empty: of none.
        share: of the parent, beside the shares of its other parts.
        members: users who charge it; each has the same share.
    """

    name: str
    parent: str = ""
    share: int = 1
    members: Members = Members()


class Weights(Struct, frozen=True):
    """The points that a factor of 1 gives. Without any the order is that of arrival.

    Attributes:
        most_age_s: a job that has waited so long has the factor 1.
        favors_small: the size factor is 1 of the smallest jobs, not of the largest.
        half_life_s: after which use counts half.
    """

    age: int = 0
    size: int = 0
    queue: int = 0
    fair_share: int = 0
    most_age_s: float = 7 * DAY_S
    favors_small: bool = False
    half_life_s: float = 7 * DAY_S

    @property
    def are_none(self) -> bool:
        """There is no priority by factors."""
        return not (self.age or self.size or self.queue or self.fair_share)


class Rules(Struct, frozen=True):
    """All that a site's file says.

    Attributes:
        default: the queue of a job that names none.
    """

    queues: dict[str, Queue] = {}
    default: str = ""
    accounts: dict[str, Account] = {}
    licences: dict[str, int] = {}
    weights: Weights = Weights()
    reserved: tuple[Reserved, ...] = ()


NO_RULES = Rules()


def tiers(queues: Mapping[str, Queue]) -> dict[str, int]:
    """How many queues are below each, one preempting the next.

    Raises:
        ValueError: one would preempt itself; its name.
    """
    found: dict[str, int] = {}

    def tier(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise ValueError(name)
        if name not in found:
            below = [tier(each, (*above, name)) for each in queues[name].preempts]
            found[name] = 1 + max(below, default=-1)
        return found[name]

    for name in queues:
        tier(name, ())
    return found
