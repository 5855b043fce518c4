"""What a node has given to whom: slots, jobs it hosts, jobs it refuses.

A PCT starts nothing without a credential that names its node, is signed by the
partition's key, comes from the bebopd it belongs to now (or from a later one, whose
word may be on its way), and has not expired; and never twice for one job. It counts
its own slots: two grants of one slot cannot both be honoured, whatever bebopd
believes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from native.errors import TOO_OLD, Refusal
from native.wire.alloc import Credential, node_share_of
from native.wire.placed import NodeLoan
from native.wire.runs import CoreGroup
from pct.account import Gpu

if TYPE_CHECKING:
    from pct.cores import Core, CoreTable, Given

REMEMBERED_COUNT = 4096  # job ids that are not taken (again)


class Reservation:
    """The slots of one node.

    Invariant: slots and memory in use never exceed the node's; no job id is hosted twice, and
    no GPU and no core is given twice. Slots of a job that stands still may be lent to others: they
    are in use once.

    Attributes:
        epoch: of the bebopd that has accepted this node; 0 before that.
    """

    def __init__(
        self,
        slots: int,
        jobs_max: int,
        memory: int = 0,
        gpus: tuple[Gpu, ...] = (),
        cores: tuple[Core, ...] = (),
    ) -> None:
        self.slots = slots
        self.memory = memory
        self.gpus = gpus
        self.epoch = 0
        self._jobs_max = jobs_max
        self._used: dict[int, int] = {}  # job id -> slots
        self._shares: dict[int, tuple[int, tuple[Gpu, ...]]] = {}  # of jobs that have any
        self._cores: CoreTable | None = None
        if cores:
            from pct.cores import CoreTable  # an embedded node mostly counts none

            self._cores = CoreTable(cores)
        self._loans: dict[int, list[NodeLoan]] = {}  # by the job that has them from others here
        self._attempts: dict[int, int] = {}  # of hosted jobs that were placed before
        self._giving_way: set[int] = set()  # hosted jobs that end when others need their slots
        self._spent: dict[int, int] = {}  # job id -> the last attempt that is not taken
        self._spent_order: deque[int] = deque()

    @property
    def slots_used(self) -> int:
        """Slots that hosted jobs hold."""
        lent = (loan.slots for loans in self._loans.values() for loan in loans)
        return sum(self._used.values()) - (sum(lent) if self._loans else 0)

    def loans(self, job_id: int) -> tuple[NodeLoan, ...]:
        """The slots of other hosted jobs that a hosted job has."""
        return tuple(self._loans.get(job_id, ()))

    def share(self, job_id: int) -> tuple[int, tuple[Gpu, ...]]:
        """Bytes of memory and the GPUs that a hosted job has."""
        return self._shares.get(job_id, (0, ()))

    @property
    def groups(self) -> tuple[CoreGroup, ...]:
        """The cores that ranks can be bound to, as bebopd counts them."""
        return self._cores.groups if self._cores is not None else ()

    def attempt(self, job_id: int) -> int:
        """How often a hosted job was placed before; 0 for one that is not hosted."""
        return self._attempts.get(job_id, 0)

    def cores(self, job_id: int) -> Given | None:
        """The cores that a hosted job has, with the members whose they are; None: none."""
        return self._cores.of(job_id) if self._cores is not None else None

    def core_counts(self, job_id: int) -> tuple[int, ...]:
        """How many of each group these are."""
        return self._cores.counts(job_id) if self._cores is not None else ()

    def gives_way(self, job_id: int) -> bool:
        """Whether a hosted job ends when others need its slots."""
        return job_id in self._giving_way

    def take(
        self, credential: Credential, granted: int, unix_s: float, number: int = -1
    ) -> tuple[Refusal, str] | None:
        """Host a job whose credential's MAC has been checked.

        Args:
            credential: what bebopd granted.
            granted: slots on this node.
            unix_s: wall-clock time.
            number: of this node.

        Returns:
            None when the slots are taken; else why not.
        """
        job_id = credential.job_id
        if not 0 < self.epoch <= credential.epoch or self._is_spent(credential):
            return Refusal.STALE_RESERVATION, f"the reservation of job {job_id} is no longer valid"
        if unix_s > credential.expires:
            late = unix_s - credential.expires
            text = f"the reservation of job {job_id} has expired {late:.0f} s ago: {TOO_OLD}"
            return Refusal.STALE_RESERVATION, text
        if job_id in self._used:
            return Refusal.STALE_RESERVATION, f"job {job_id} is here already"
        wanted = 0 if credential.overlaps else granted
        loans = [] if not credential.loans else self._loans_to(credential, number)
        free = self.slots - self.slots_used + sum([loan.slots for loan in loans])
        if wanted > free:
            return Refusal.BUSY, f"{wanted} slots granted, {free} of {self.slots} are free"
        if len(self._used) >= self._jobs_max:
            return Refusal.BUSY, f"{len(self._used)} jobs are here already"
        if credential.shares and (text := self._take_share(credential, number)):
            return Refusal.BUSY, text
        self._used[job_id] = wanted
        if loans:
            self._loans[job_id] = loans
        if credential.attempt:
            self._attempts[job_id] = credential.attempt
        if credential.gives_way:
            self._giving_way.add(job_id)
        return None

    def _is_spent(self, credential: Credential) -> bool:
        return credential.attempt <= self._spent.get(credential.job_id, -1)

    def _loans_to(self, credential: Credential, number: int) -> list[NodeLoan]:
        """The slots that a job has here from others that are still hosted, and not lent yet."""
        found: list[NodeLoan] = []
        for loan in credential.loans:
            lender = loan.lender
            if not loan.node <= number < loan.node + loan.count or lender not in self._used:
                continue
            lent = sum(each.slots for each in self._loans_of(lender))
            slots = min(loan.slots, self._used[lender] - lent)
            if self.attempt(lender) == loan.attempt and slots > 0:
                found.append(NodeLoan(number, 1, lender, loan.attempt, slots))
        return found

    def _loans_of(self, lender: int) -> list[NodeLoan]:
        return [loan for loans in self._loans.values() for loan in loans if loan.lender == lender]

    def _take_share(self, credential: Credential, number: int) -> str:
        """Take memory, GPUs and cores, the first that are free; why not, empty: they are taken."""
        wanted = node_share_of(credential.shares, number)
        if wanted is None:
            return ""
        memory = self.memory - sum(memory for memory, _ in self._shares.values())
        if wanted.memory > memory:
            return f"{wanted.memory} bytes of memory granted, {memory} of {self.memory} are free"
        given = {gpu for _, gpus in self._shares.values() for gpu in gpus}
        free = [gpu for gpu in self.gpus if gpu not in given]
        if wanted.gpus > len(free):
            return f"{wanted.gpus} GPUs granted, {len(free)} of {len(self.gpus)} are free"
        if wanted.cores:
            if self._cores is None:
                return "cores granted, this node has none to be bound to"
            if text := self._cores.take(credential.job_id, wanted.cores):
                return text
        if wanted.memory or wanted.gpus:
            self._shares[credential.job_id] = wanted.memory, tuple(free[: wanted.gpus])
        return ""

    def give_back(self, job_id: int) -> None:
        """A hosted job is over; it is never taken again, unless bebopd places it anew."""
        self._loans.pop(job_id, None)
        for borrower in list(self._loans) if self._loans_of(job_id) else ():
            kept = [loan for loan in self._loans[borrower] if loan.lender != job_id]
            self._loans[borrower] = kept  # the borrower has its slots now
            if not kept:
                del self._loans[borrower]
        self._shares.pop(job_id, None)
        self._giving_way.discard(job_id)
        if self._cores is not None:
            self._cores.give_back(job_id)
        self._used.pop(job_id, None)
        self.refuse(job_id, self._attempts.pop(job_id, 0))

    def refuse(self, job_id: int, attempt: int = 0) -> bool:
        """Do not take this job from now on.

        Args:
            attempt: up to which.

        Returns:
            True when one of these attempts is hosted already, and stays so.
        """
        if job_id in self._used:
            return self.attempt(job_id) <= attempt
        if job_id not in self._spent:
            self._spent[job_id] = attempt
            self._spent_order.append(job_id)
            if len(self._spent_order) > REMEMBERED_COUNT:
                del self._spent[self._spent_order.popleft()]
        self._spent[job_id] = max(attempt, self._spent[job_id])
        return False

    def check(self) -> None:
        """Assert the invariants."""
        assert self.slots_used <= self.slots, (self._used, self.slots)
        for job_id in self._used.keys() & self._spent.keys():
            assert self._spent[job_id] < self._attempts.get(job_id, 0), job_id
        assert self._shares.keys() <= self._used.keys() >= self._giving_way
        assert self._loans.keys() <= self._used.keys() and all(self._loans.values())
        for job_id, slots in self._used.items():
            assert sum(loan.slots for loan in self._loans_of(job_id)) <= slots, job_id
            assert sum(loan.slots for loan in self.loans(job_id)) <= slots, job_id
        assert sum(memory for memory, _ in self._shares.values()) <= self.memory
        given = [gpu for _, gpus in self._shares.values() for gpu in gpus]
        if self._cores is not None:
            self._cores.check(self._used)
        assert len(given) == len(set(given)) and set(given) <= set(self.gpus), given
