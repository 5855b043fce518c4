"""Which workers of a raptor have which call: the rules.

A raptor has a queue of calls, and workers that are tasks of their own, with ranks. A call has one
rank, or several of one worker. One rank that comes, or is free again, gets the call that has waited
longest. A call of several ranks for which none of the workers has enough that are free is passed by
others, but not on the worker that has most of them free: so it is not passed for ever.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct


class Given(Struct, frozen=True):
    """A call has its ranks.

    Attributes:
        ranks: their numbers, in the order of their ranks.
    """

    uid: str
    ranks: tuple[int, ...]


class _Rank(Struct, frozen=True):
    raptor: str
    worker: str
    rank: int


class _Raptor:
    """One raptor.

    Attributes:
        waiting: calls, in their order.
        passed: the call that others pass; empty: none.
        large: calls that are too large for each worker that there is.
        idle: free ranks by worker, where it has any; sizes: how many ranks each worker has.
    """

    def __init__(self) -> None:
        self.waiting: deque[str] = deque()
        self.passed = ""
        self.large: list[str] = []
        self.idle: dict[str, list[int]] = {}
        self.sizes: dict[str, int] = {}
        self.is_over = False

    def fits(self, count: int) -> bool:
        """A worker has so many ranks."""
        return any(size >= count for size in self.sizes.values())

    def kept(self, count: int) -> str:
        """The worker on which nothing passes a call of so many ranks; empty: there is none."""
        large = [worker for worker, size in self.sizes.items() if size >= count]
        return max(large, key=lambda worker: len(self.idle.get(worker, ())), default="")

    def take(self, count: int, kept: str) -> list[int]:
        """Free ranks of one worker, but not of one; empty: there are not so many."""
        if count == 1:
            worker = next((each for each in self.idle if each != kept), "")
        else:
            enough = [each for each, own in self.idle.items() if len(own) >= count]
            able = [each for each in enough if each != kept]
            worker = min(able, key=lambda each: len(self.idle[each]), default="")
        if not worker:
            return []
        own = self.idle[worker]
        taken = [own.pop() for _ in range(count)]
        if not own:
            del self.idle[worker]
        return taken

    def forget(self, uid: str) -> None:
        """A call that waits does so no more."""
        if uid == self.passed:
            self.passed = ""
        elif uid in self.large:
            self.large.remove(uid)
        else:
            self.waiting.remove(uid)


class Raptors:
    """All raptors of one pilot: their calls by uids, the ranks of their workers by numbers."""

    def __init__(self) -> None:
        self._raptors: dict[str, _Raptor] = {}
        self._ranks: dict[int, _Rank] = {}
        self._calls: dict[int, str] = {}  # rank -> its call
        self._running: dict[str, list[int]] = {}  # call -> the ranks that it has
        self._queued: dict[str, tuple[str, int]] = {}  # call -> where it waits, for how many

    def want(self, uid: str, raptor: str, count: int = 1) -> list[Given]:
        """A call is to be run, by so many ranks.

        Raises:
            KeyError: the raptor has ended.
        """
        own = self._open(raptor)
        own.waiting.append(uid)
        self._queued[uid] = (raptor, count)
        return self._assign(own)

    def came(self, number: int, raptor: str, worker: str, rank: int) -> list[Given]:
        """A rank is there.

        Raises:
            KeyError: the raptor has ended.
        """
        own = self._open(raptor)
        self._ranks[number] = _Rank(raptor, worker, rank)
        own.sizes[worker] = own.sizes.get(worker, 0) + 1
        own.idle.setdefault(worker, []).append(number)
        own.waiting.extendleft(reversed(own.large))
        own.large.clear()
        return self._assign(own)

    def call_of(self, number: int) -> str:
        """The call that a rank has; empty: none."""
        return self._calls.get(number, "")

    def done(self, uid: str) -> list[Given]:
        """All ranks of a call that are left have done it."""
        ranks = self._running.pop(uid, [])
        if not ranks:
            return []
        for number in ranks:
            del self._calls[number]
            rank = self._ranks[number]
            self._raptors[rank.raptor].idle.setdefault(rank.worker, []).append(number)
        return self._assign(self._raptors[rank.raptor])

    def gone(self, number: int) -> tuple[str, list[Given]]:
        """A rank is not there any more: the call that it had; empty: none."""
        rank = self._ranks.pop(number, None)
        if rank is None:
            return "", []
        own = self._raptors[rank.raptor]
        own.sizes[rank.worker] -= 1
        if not own.sizes[rank.worker]:
            del own.sizes[rank.worker]
        uid = self._calls.pop(number, "")
        if uid:
            self._running[uid].remove(number)
            if not self._running[uid]:
                del self._running[uid]
        elif number in own.idle.get(rank.worker, ()):
            own.idle[rank.worker].remove(number)
            if not own.idle[rank.worker]:
                del own.idle[rank.worker]
        return uid, self._assign(own)

    def drop(self, uid: str) -> tuple[list[int], list[Given]]:
        """A call is not wanted any more: the ranks that have it; none: it has waited."""
        raptor, _ = self._queued.pop(uid, ("", 0))
        if not raptor:
            return list(self._running.get(uid, ())), []
        own = self._raptors[raptor]
        own.forget(uid)
        return [], self._assign(own)

    def end(self, raptor: str) -> tuple[list[str], list[int]]:
        """A raptor takes no more calls: those that wait, and the ranks of its workers."""
        own = self._raptors.setdefault(raptor, _Raptor())
        own.is_over = True
        waiting = [uid for uid, (of, _) in self._queued.items() if of == raptor]
        for uid in waiting:
            own.forget(uid)
            del self._queued[uid]
        return waiting, [each for each, rank in self._ranks.items() if rank.raptor == raptor]

    def why(self, uid: str) -> str:
        """Why a call stands still; empty: it runs, or is not here."""
        raptor, count = self._queued.get(uid, ("", 0))
        if not raptor:
            return ""
        sizes = self._raptors[raptor].sizes
        if not sizes:
            return f"the raptor {raptor} has no worker"
        if max(sizes.values()) < count:
            return (
                f"it has {count} ranks, and the largest worker of the raptor {raptor} has"
                f" {max(sizes.values())}"
            )
        if count > 1:
            return f"it waits for {count} ranks of a worker of the raptor {raptor} to be free"
        return f"it waits for one of {sum(sizes.values())} workers of the raptor {raptor}"

    def check(self) -> None:
        """What is always true."""
        for own in self._raptors.values():
            idle = [number for ranks in own.idle.values() for number in ranks]
            assert len(set(idle)) == len(idle)
            assert not set(idle) & self._calls.keys()
            for worker, ranks in own.idle.items():
                assert 0 < len(ranks) <= own.sizes[worker]
            if own.waiting and idle and not own.passed:
                raise AssertionError("calls wait though ranks are free, and nothing is in front")
        for uid, ranks in self._running.items():
            assert uid not in self._queued
            assert len({self._ranks[number].worker for number in ranks}) == 1
            assert all(self._calls[number] == uid for number in ranks)

    def _open(self, raptor: str) -> _Raptor:
        own = self._raptors.setdefault(raptor, _Raptor())
        if own.is_over:
            raise KeyError(raptor)
        return own

    def _assign(self, own: _Raptor) -> list[Given]:
        """Give calls to free ranks."""
        given: list[Given] = []
        if not own.sizes:
            return given
        while own.passed or own.waiting:
            uid = own.passed or own.waiting.popleft()
            count = self._queued[uid][1]
            own.passed = ""
            if not own.fits(count):
                own.large.append(uid)
            elif taken := own.take(count, ""):
                given.append(self._give(uid, taken))
            else:
                own.passed = uid
                return given + self._pass(own, own.kept(count))
        return given

    def _pass(self, own: _Raptor, kept: str) -> list[Given]:
        """Give the calls behind the one that is passed."""
        given: list[Given] = []
        while own.waiting:
            uid = own.waiting[0]
            count = self._queued[uid][1]
            if not own.fits(count):
                own.large.append(own.waiting.popleft())
                continue
            taken = own.take(count, kept)
            if not taken:
                break
            own.waiting.popleft()
            given.append(self._give(uid, taken))
        return given

    def _give(self, uid: str, taken: list[int]) -> Given:
        ranks = sorted(taken, key=lambda number: self._ranks[number].rank)
        for number in ranks:
            self._calls[number] = uid
        self._running[uid] = list(ranks)
        del self._queued[uid]
        return Given(uid, tuple(ranks))
