"""The queues of a partition, as its site's file says, and what their jobs have. Pure.

A limit counts the jobs that have slots, from the grant until the last slot is free; so do licences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from allocator.jobs.assign import RequestRefused
from allocator.jobs.charges import Charge
from allocator.jobs.grants import Owner
from allocator.nodes.bookings import Booking
from allocator.queue.admission import ANY_NODES, NOBODYS, Claimed, demand_launch, fewest_nodes
from allocator.queue.rules import (
    EVERYBODY,
    NO_RULES,
    Bounds,
    Members,
    PreemptMode,
    Queue,
    QueueState,
    Reserved,
    Rules,
    tiers,
)
from allocator.queue.shares import Shares
from native.duration import written
from native.errors import Refusal
from native.text import shown
from native.wire.alloc import NodeSpec
from native.wire.base import Terms
from native.wire.batch import Row


class Held(Struct, frozen=True):
    """What one job has."""

    uid: int
    terms: Terms
    slots: int
    nodes: int


class Usage(Struct):
    """What all jobs of a queue hold together, or those of one user in it."""

    jobs: int = 0
    slots: int = 0
    nodes: int = 0

    def over(self, bounds: Bounds, slots: int, nodes: int) -> str:
        """Which limit one more job would exceed, and the numbers; empty: none."""
        more = (("jobs", self.jobs, 1), ("slots", self.slots, slots), ("nodes", self.nodes, nodes))
        for name, had, wanted in more:
            most = getattr(bounds, name)
            if most is not None and had + wanted > most:
                return f"{name} is {most}, {had} in use" + (f", {wanted} asked for" * (wanted > 1))
        return ""


class QueueTable:
    """The queues. See :class:`allocator.queue.admission.Admission`.

    Attributes:
        rules: of the site's file.
        freed: how often a job gave back what it had.
        shares: what was used.
        bookings: nodes that are kept for some users for a time.

    Args:
        is_in: whether a user, by uid, is in a group, by name.
        earlier: what users had used under an earlier bebopd.
        owner_of: a user by uid; None: no such user.
    """

    def __init__(
        self,
        rules: Rules,
        is_in: Callable[[int, str], bool],
        earlier: Iterable[Charge] = (),
        owner_of: Callable[[int], Owner | None] = lambda uid: None,
    ) -> None:
        self._is_in = is_in
        self._owner_of = owner_of
        self._held: dict[int, Held] = {}
        self._had: dict[tuple[str, int], Usage] = {}  # by queue and user; -1: all users
        self._licences: Counter[str] = Counter()  # in use
        self._submitted: Counter[tuple[str, int]] = Counter()  # likewise
        self.shares = Shares(earlier)
        self.rules = NO_RULES
        self.freed = 0
        self.follow(rules)

    def follow(self, rules: Rules) -> None:
        """Go by these rules from now on; what jobs have they keep."""
        self.rules = rules
        self._nodes = {name: frozenset(queue.nodes) for name, queue in rules.queues.items()}
        self._tiers = tiers(rules.queues)
        self.bookings = tuple(map(self._booking, rules.reserved))
        self.shares.follow(rules.accounts, rules.weights.half_life_s)

    def check(self) -> None:
        """Assert what must always hold."""
        had: dict[tuple[str, int], Usage] = {}
        licences: Counter[str] = Counter()
        for held in self._held.values():
            licences.update(dict(held.terms.licences))
            for key in _keys(held.uid, held.terms):
                each = had.setdefault(key, Usage())
                each.jobs += 1
                each.slots += held.slots
                each.nodes += held.nodes
        assert had == {key: each for key, each in self._had.items() if each.jobs}
        assert +self._licences == licences
        assert min(self._submitted.values(), default=0) >= 0

    # -- a job is handed in -----------------------------------------------

    def terms(
        self, owner: Owner, wanted: Terms, specs: Sequence[NodeSpec], time_s: float, is_launch: bool
    ) -> tuple[Terms, float]:
        """The terms of a new job. The text of a refusal names the limit."""
        demand_launch(wanted, is_launch)
        name = wanted.queue or self.rules.default
        queue = self.rules.queues.get(name)
        if queue is None:
            there = ", ".join(self.rules.queues)
            text = f"no queue {shown(name)} here; there are {there}"
            raise RequestRefused(Refusal.BAD_REQUEST, text)
        account = self._account(owner, wanted.account)
        self._demand_permitted(owner, queue, account, is_launch)
        time_s = time_s or queue.default_s
        _demand_time(queue, time_s)
        slots, nodes = sum(spec.slots for spec in specs), fewest_nodes(specs)
        for which in ("per_job", "per_user", "total"):
            bounds = replace(getattr(queue, which), jobs=None)
            if text := Usage().over(bounds, slots, nodes):
                raise _refused(queue, f"{which}.{text.replace(', 0 in use', '')}")
        self._demand_submittable(queue, owner, is_launch)
        for licence, count in wanted.licences:
            if (most := self.rules.licences.get(licence)) is None:
                raise RequestRefused(Refusal.BAD_REQUEST, f"no licence {shown(licence)} here")
            if count > most:
                text = f"licence {licence}: there are {most}, {count} asked for"
                raise RequestRefused(Refusal.NOT_PERMITTED, text)
        return replace(wanted, queue=name, account=account), time_s

    def _account(self, owner: Owner, wanted: str) -> str:
        """The account that a job is charged to; empty: there are none."""
        accounts = self.rules.accounts
        if not accounts and not wanted:
            return ""
        if wanted and wanted not in accounts:
            raise RequestRefused(Refusal.BAD_REQUEST, f"no account {shown(wanted)} here")
        for account in [accounts[wanted]] if wanted else accounts.values():
            if self._is_among(owner, account.members):
                return account.name
        which = f"account {wanted}" if wanted else "any account"
        raise RequestRefused(Refusal.NOT_PERMITTED, f"{owner.name} is not in {which}")

    def _demand_permitted(self, owner: Owner, queue: Queue, account: str, is_launch: bool) -> None:
        if queue.state is not QueueState.OPEN:
            raise _refused(queue, f"it is {queue.state.value}, and takes no jobs")
        if not queue.members.is_empty and not self._is_among(owner, queue.members):
            raise _refused(queue, f"{owner.name} may not use it (users, groups)")
        if queue.accounts and account not in queue.accounts:
            raise _refused(queue, f"account {account} may not use it (accounts)")
        if is_launch and not queue.takes_launches:
            raise _refused(queue, "it takes batch jobs only: `yodjob submit` (launches)")

    def _demand_submittable(self, queue: Queue, owner: Owner, is_launch: bool) -> None:
        for which, uid in (("per_user", owner.uid), ("total", -1)):
            most, there = getattr(queue, which).submitted, self._submitted[queue.name, uid]
            if not is_launch and most is not None and there >= most:
                raise _refused(queue, f"{which}.submitted is {most}, so many have not ended")

    def _booking(self, reserved: Reserved) -> Booking:
        members = reserved.members

        def admits(uid: int) -> bool:
            owner = None if members.is_empty else self._owner_of(uid)
            return owner is not None and self._is_among(owner, members)

        users = [*members.users, *(f"group {group}" for group in members.groups)]
        times = reserved.start, reserved.end
        whom = ", ".join(users) or "nobody"
        return Booking(reserved.nodes, *times, whom, admits, reserved.name)

    def _is_among(self, owner: Owner, members: Members) -> bool:
        if EVERYBODY in members.users or owner.name in members.users:
            return True
        return any(self._is_in(owner.uid, group) for group in members.groups)

    def demand_time(self, terms: Terms, time_s: float) -> None:
        """Refuse a time limit that a job may not have; 0: any time."""
        if (queue := self.rules.queues.get(terms.queue)) is not None:
            _demand_time(queue, time_s)

    def taken(self, uid: int, terms: Terms) -> None:
        """A batch job is there."""
        self._submitted.update(_keys(uid, terms))

    def dropped(self, uid: int, terms: Terms) -> None:
        """It is there no more."""
        self._submitted.subtract(_keys(uid, terms))

    # -- it waits -----------------------------------------------------------

    def nodes_of(self, terms: Terms) -> frozenset[int]:
        """The nodes that a job may have; empty: all."""
        return self._nodes.get(terms.queue, ANY_NODES)

    def blocked(
        self, uid: int, terms: Terms, slots: int, nodes: int, claimed: Claimed = NOBODYS
    ) -> str:
        """Why a job may not begin now, were there slots; empty: it may."""
        queue = self.rules.queues.get(terms.queue)
        if queue is None:
            return f"there is no queue {shown(terms.queue)} any more"
        if queue.state is QueueState.DRAINED:
            return f"queue {queue.name} is drained"
        if text := Usage().over(replace(queue.per_job, jobs=None), slots, nodes):
            return f"queue {queue.name}: per_job.{text.replace(', 0 in use', '')}"
        for which, whose in (("per_user", uid), ("total", -1)):
            had = self._had.get((queue.name, whose)) or Usage()
            if text := had.over(getattr(queue, which), slots, nodes):
                return f"queue {queue.name}: {which}.{text}"
        for licence, count in terms.licences:
            there = self.rules.licences.get(licence, 0)
            free = there - self._licences[licence]
            if count > free - claimed.get(licence, 0):
                kept = f", {claimed[licence]} kept for others" if claimed.get(licence) else ""
                text = f"{count} asked for, {max(0, free)} of {there} free{kept}"
                return f"licence {licence}: {text}"
        return ""

    # -- it takes the slots of others ---------------------------------------

    @property
    def preempts(self) -> bool:
        """Some jobs may end others."""
        return any(queue.preempts for queue in self.rules.queues.values())

    def may_preempt(self, terms: Terms, job_id: int) -> bool:
        """Whether a request may have a job ended that has slots."""
        queue, held = self.rules.queues.get(terms.queue), self._held.get(job_id)
        return queue is not None and held is not None and held.terms.queue in queue.preempts

    def is_suspended_for_others(self, job_id: int) -> bool:
        """Whether a job that has slots stands still where another needs them, and does not end."""
        held = self._held.get(job_id)
        queue = None if held is None else self.rules.queues.get(held.terms.queue)
        return queue is not None and queue.preempt_mode is PreemptMode.SUSPEND

    def waits_again(self, terms: Terms) -> bool:
        """Whether a job that was preempted waits again; else it is over."""
        queue = self.rules.queues.get(terms.queue)
        return queue is not None and queue.preempt_mode is PreemptMode.REQUEUE

    def tier_of(self, terms: Terms) -> int:
        """How many queues there are, one preempting the next, below that of a request."""
        return self._tiers.get(terms.queue, 0)

    def preempt_grace(self, terms: Terms) -> float:
        """Seconds from SIGTERM until it is ended; 0: it is ended at once."""
        queue = self.rules.queues.get(terms.queue)
        return 0.0 if queue is None else queue.preempt_grace_s

    # -- it runs ------------------------------------------------------------

    def begins(
        self, job_id: int, uid: int, terms: Terms, slots: int, nodes: int, unix_time: float
    ) -> None:
        """A job has got its slots."""
        self.slots_freed(job_id)
        self._held[job_id] = Held(uid, terms, slots, nodes)
        self._count(self._held[job_id], 1)
        self.shares.begins((terms.account, uid), job_id, slots, unix_time)

    def slots_freed(self, job_id: int) -> None:
        """It has no slot any more."""
        if (held := self._held.pop(job_id, None)) is not None:
            self._count(held, -1)
            self.freed += 1

    def withdrawn(self, job_id: int, has_slots: bool) -> None:
        """A job's use is not counted any more: it used nothing, or its use was charged."""
        self.shares.forget(job_id)
        if not has_slots:
            self.slots_freed(job_id)

    def ended(self, row: Row) -> Charge | None:
        """A job that had slots has ended: what its user has used."""
        leaf = row.account, row.uid
        return self.shares.ends(leaf, row.job_id, row.slots, row.began, row.ended)

    def _count(self, held: Held, by: int) -> None:
        for key in _keys(held.uid, held.terms):
            had = self._had.setdefault(key, Usage())
            had.jobs += by
            had.slots += by * held.slots
            had.nodes += by * held.nodes
            if not had.jobs:
                del self._had[key]
        for licence, count in held.terms.licences:
            self._licences[licence] += by * count


def _keys(uid: int, terms: Terms) -> tuple[tuple[str, int], tuple[str, int]]:
    """A queue's user, and all of its users."""
    return (terms.queue, uid), (terms.queue, -1)


def _demand_time(queue: Queue, time_s: float) -> None:
    if queue.most_s and not 0 < time_s <= queue.most_s:
        text = f"max_time is {written(queue.most_s)}, {written(time_s)} asked for"
        raise _refused(queue, text)


def _refused(queue: Queue, text: str) -> RequestRefused:
    return RequestRefused(Refusal.NOT_PERMITTED, f"queue {queue.name}: {text}")
