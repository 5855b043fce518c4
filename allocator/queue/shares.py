"""Fair share: who has used less than their share of a partition goes first. Pure.

The accounts are a tree, and the users of an account its leaves. Each has a part of all shares, *S*,
and of all that was used a part, *U*, drawn towards that of its parent::

    E = U + (E of the parent - U) * share / shares of all parts of the parent
    factor = 2 ** (-E / S)

What was used counts half after each half-life. What running jobs use is computed, not counted
from time to time: so the factors follow from what is on the disk and from the time alone, and
are the same under a later bebopd.

Source: Slurm's multifactor priority plugin, "Fair-share factor".
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, log

from allocator.jobs.charges import Charge
from allocator.queue.rules import Account

Leaf = tuple[str, int]  # an account and a uid
EVERY_S = 10.0  # factors are computed as of whole multiples of this


class Shares:
    """What was used, by whom.

    Args:
        earlier: what an earlier bebopd has kept.
    """

    def __init__(self, earlier: Iterable[Charge] = ()) -> None:
        self._used: dict[Leaf, Charge] = {(each.account, each.uid): each for each in earlier}
        self._running: dict[Leaf, dict[int, tuple[int, float]]] = {}  # slots, since when
        self._leaf_of: dict[int, Leaf] = {}
        self._accounts: dict[str, Account] = {}
        self._half_life_s = 1.0
        self._factors: dict[Leaf, float] = {}
        self._as_of = -1.0

    def follow(self, accounts: dict[str, Account], half_life_s: float) -> None:
        """Go by these from now on."""
        self._accounts, self._half_life_s = accounts, half_life_s
        self._as_of = -1.0

    def begins(self, leaf: Leaf, job_id: int, slots: int, began: float) -> None:
        """A job begins to use slots, at a unix time."""
        self._running.setdefault(leaf, {})[job_id] = (slots, began)
        self._leaf_of[job_id] = leaf
        self._as_of = -1.0

    def forget(self, job_id: int) -> None:
        """A job has no slots any more, and has used nothing."""
        if (leaf := self._leaf_of.pop(job_id, None)) is None:
            return
        del self._running[leaf][job_id]
        if not self._running[leaf]:
            del self._running[leaf]
        self._as_of = -1.0

    def ends(self, leaf: Leaf, job_id: int, slots: int, began: float, ended: float) -> Charge:
        """A job has ended; gives what its user has used on the account, with this job."""
        self.forget(job_id)
        before = self._used.get(leaf)
        at = max(ended, before.at) if before else ended
        slot_s = self._of_job(slots, began, ended) * self._left(at - ended)
        if before is not None:
            slot_s += before.slot_s * self._left(at - before.at)
        charge = self._used[leaf] = Charge(*leaf, slot_s, at)
        self._as_of = -1.0
        return charge

    def used(self, leaf: Leaf, unix_time: float) -> float:
        """What a user has used on an account, in slot seconds."""
        parts = [
            self._of_job(slots, began, unix_time)
            for slots, began in self._running.get(leaf, {}).values()
        ]
        if (before := self._used.get(leaf)) is not None:
            parts.append(before.slot_s * self._left(unix_time - before.at))
        return fsum(parts)

    def factors(self, leaves: Iterable[Leaf], unix_time: float) -> dict[Leaf, float]:
        """The factors of some users, from 0 to 1."""
        as_of = unix_time - unix_time % EVERY_S
        if as_of != self._as_of:
            self._factors, self._as_of = {}, as_of
        wanted = {*self._factors, *leaves}
        if len(wanted) > len(self._factors):  # each counts among those of its account
            self._factors = self._computed(sorted(wanted), as_of)
        return self._factors

    def _of_job(self, slots: int, began: float, until: float) -> float:
        """What slots have used that were held from one time to another, as of the latter."""
        half_life_s = self._half_life_s
        return slots * half_life_s / log(2) * (1.0 - self._left(until - began))

    def _left(self, elapsed_s: float) -> float:
        """How much of what was used still counts after a time."""
        return float(2.0 ** (-max(0.0, elapsed_s) / self._half_life_s))

    def _computed(self, leaves: list[Leaf], unix_time: float) -> dict[Leaf, float]:
        known = sorted({*self._used, *self._running, *leaves})
        use = {leaf: self.used(leaf, unix_time) for leaf in known}
        total = fsum(use.values())
        if not total:
            return dict.fromkeys(leaves, 1.0)
        of_account = dict.fromkeys(self._accounts, 0.0)
        users: dict[str, int] = {}
        for (account, _), slot_s in use.items():
            users[account] = users.get(account, 0) + 1
            while account in of_account:
                of_account[account] += slot_s
                account = self._accounts[account].parent
        shares: dict[str, int] = {}  # of all parts of an account
        for each in self._accounts.values():
            shares[each.parent] = shares.get(each.parent, 0) + each.share
        found: dict[str, tuple[float, float]] = {}  # E and S

        def of(name: str) -> tuple[float, float]:
            """Of an account. Of the root (-1, 1): there is no E there to be drawn towards."""
            if name not in self._accounts:
                return -1.0, 1.0
            if name not in found:
                account = self._accounts[name]
                part = account.share / shares[account.parent]
                found[name] = _drawn(of_account[name] / total, of(account.parent), part)
            return found[name]

        factors = {}
        for leaf in leaves:
            effective, share = _drawn(use[leaf] / total, of(leaf[0]), 1 / users[leaf[0]])
            factors[leaf] = float(2.0 ** (-effective / share))
        return factors


def _drawn(used: float, parent: tuple[float, float], part: float) -> tuple[float, float]:
    """The effective use, and the share of all, of a part of an account.

    Args:
        used: its part of all that was used.
        parent: the same two of the account; a use below 0: it is the whole.
        part: its part of the account's shares.
    """
    effective, share = parent
    return used if effective < 0 else used + (effective - used) * part, share * part
