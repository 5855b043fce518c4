"""Output on its way up the tree, with identical lines of different ranks folded (``--merge``).

A *source* is a rank of this node, or a child. It has a queue of whole lines, in order. Lines
leave only from the heads of queues, so no line of a rank overtakes an earlier one; a head
takes along the same line at the heads of all other queues.

    complete   every source that may still write has the same line at its head: it leaves
    due        a line has waited for the window: it leaves, and so does all before it in its
               queue. Where another source has the same line further back, what is before it
               there leaves first, so that both leave as one. Lines that would hold up the
               loop for long, as many short ones in different orders, leave unfolded
    no room    more than half an output window is held: the oldest lines leave, as when due. Not
               where all have been in step until now: who is ahead runs out of credit, or is not
               read, and waits for who is behind, for the window at most
    passed     what is no line of text leaves as it is, for its rank alone: a line that is not
               ended in the window, a line that is longer than a message, and what has NULs
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf

from native.deadlines import earliest
from native.errors import PeerProtocolError
from native.wire.base import DATA_MAX
from native.wire.io import OUTPUT_MAX_BYTES, RUNS_FEW, RUNS_MAX, Lines, LinesRun, Output, cost
from pct.job.rules.folding import Bundle, Index, Owed, Part, Runs, Source, common, joined, place_of
from pct.job.rules.relay import OutputRelay

IN_STEP_WINDOWS = 4  # since all have last had the same line: then nobody waits for the others
STEPS_MAX = 1 << 15  # in one call, which the loop waits for: then lines leave unfolded


class MergingRelay(OutputRelay):
    """One node's standard output or error of one job, folded.

    Args:
        window_s: how long a line waits for the same line of others.
        places: of the children.

    Attributes:
        steps: lines of one queue that were compared with the others', counted.
    """

    def __init__(
        self, job_id: int, stream: int, window_bytes: int, window_s: float, places: Iterable[int]
    ) -> None:
        super().__init__(job_id, stream, window_bytes)
        self._window_s = window_s
        self._room_bytes = window_bytes // 2  # a child must not run out of credit
        self._held_bytes = 0
        self._now = 0.0
        self._met_at = inf  # when all that may write have last had the same line, or first any
        self._outbox: deque[Bundle | tuple[Owed, Output]] = deque()
        self._ranks: dict[int, Source] = {}
        self._below = {place: Source() for place in places}
        # May still write. Of the root of a job on one node these are its ranks.
        self._active: dict[Source, None] = dict.fromkeys(self._below.values())
        self._pending: dict[Source, None] = {}  # have lines
        self._index = Index()
        self._unindexed: dict[Source, None] = {}  # have parts that were not looked at
        self._tails: dict[Source, int] = {}  # have the beginning of one: the rank
        self.steps = self._last_step = 0

    @property
    def is_empty(self) -> bool:
        """Nothing waits here."""
        return not (self._outbox or self._pending or self._tails)

    @property
    def is_held_back(self) -> bool:
        """Output waits for credit."""
        return bool(self._outbox)

    def deadline(self) -> float | None:
        """When :meth:`due` is to be called."""
        lines = min((source.parts[0].since for source in self._pending), default=None)
        tail = min((source.tail_since for source in self._tails), default=None)
        since = earliest(lines, tail)
        return None if since is None else since + self._window_s

    # -- what comes -------------------------------------------------------

    def started(self, rank: int) -> None:
        """A rank of this node may write."""
        self._active[self._rank(rank)] = None

    def read(self, own: int, rank: int, data: bytes, now: float) -> None:
        """Take output of a rank of this node."""
        self._begin_steps(now)
        source = self._rank(rank)
        for start in range(0, len(data), DATA_MAX):
            self._read(rank, source, data[start : start + DATA_MAX], now)
        self._settle(source)

    def ended(self, rank: int) -> None:
        """A rank of this node writes nothing more."""
        self._begin_steps()
        source = self._rank(rank)
        self._pass_tail(rank, source)
        self._active.pop(source, None)
        self._settle(None)

    def pass_lines(self, place: int, message: Lines, now: float) -> None:
        """Take lines of a child.

        Raises:
            PeerProtocolError: the last of them has no end.
        """
        if not message.data.endswith(b"\n"):
            raise PeerProtocolError("io.lines without the end of a line")
        self._begin_steps(now)
        source = self._below.setdefault(place, Source())
        self._add(source, message.data, message.runs, now, ((place, cost(message)),))
        self._settle(source)

    def pass_on(self, place: int, message: Output) -> None:
        """Take what a child has passed. It waits for nothing but what its rank wrote before."""
        self._begin_steps()
        source = self._below.setdefault(place, Source())
        last = next((part for part in reversed(source.parts) if _has(part, message.rank)), None)
        while last is not None and last.size:
            self._release(source)
        self._outbox.append((((place, cost(message)),), message))
        self._settle(None)

    def gone(self, place: int) -> None:
        """A child sends nothing more. Its heirs may send what comes after its last lines."""
        self._begin_steps()
        if (source := self._below.pop(place, None)) is not None:
            while source.parts:
                self._release(source)
            self._active.pop(source, None)
            self._settle(None)

    def over(self, place: int) -> None:
        """A child has sent all that its subtree has."""
        self._begin_steps()
        if (source := self._below.get(place)) is not None:
            self._active.pop(source, None)
            self._settle(None)

    def due(self, now: float) -> None:
        """The deadline may have come. What is nearly due leaves with the rest."""
        self._begin_steps(now)
        before = now - self._window_s * 7 / 8
        while self._pending and (source := self._oldest()).parts[0].since <= before:
            self._release(source)
        for source, rank in list(self._tails.items()):
            if source.tail_since <= before:
                self._pass_tail(rank, source)
        self._settle(None)

    def abandon(self) -> None:
        """Need no credit from now on, and wait for nothing."""
        super().abandon()
        self._begin_steps()
        while self._pending:
            self._release(self._oldest())

    # -- what goes --------------------------------------------------------

    def take(self) -> tuple[list[Output | Lines], list[tuple[int, int]]]:
        """Take what may be sent now."""
        messages: list[Output | Lines] = []
        while self._outbox and self._credit > 0:
            owed, message = self._next()
            self._credit -= cost(message)
            for place, count_bytes in owed:
                self._owed[place] = self._owed.get(place, 0) + count_bytes
            messages.append(message)
        self.is_paused = self.is_held_back or self._are_own_ahead()
        return messages, self._due_credit()

    def _next(self) -> tuple[Iterable[tuple[int, int]], Output | Lines]:
        first = self._outbox.popleft()
        if isinstance(first, Bundle):
            return first.owed, first.message(self._job_id, self._stream)
        return first

    def check(self) -> None:
        """Assert the invariants."""
        sources = [*self._ranks.values(), *self._below.values()]
        for source in sources:
            assert len(source.data) == sum(part.size for part in source.parts)
            assert (source in self._pending) == bool(source.data)
            assert (source in self._tails) == bool(source.tail)
            assert not (source.is_inside and (source.data or source.tail))
        assert bool(self._pending) or self._index.is_empty
        assert self._held_bytes == sum(len(each.data) + len(each.tail) for each in sources)
        in_step_bytes = len(self._below) * self._window_bytes + self._own_max_bytes
        assert self._held_bytes <= (in_step_bytes if self._are_in_step() else self._room_bytes)

    # -- queues -----------------------------------------------------------

    def _rank(self, rank: int) -> Source:
        if (source := self._ranks.get(rank)) is None:
            source = self._ranks[rank] = Source()
        return source

    def _read(self, rank: int, source: Source, data: bytes, now: float) -> None:
        """Put what a rank has written where it belongs: passed, or in the queue, or its tail."""
        if source.is_inside or b"\0" in data:
            end = len(data) if b"\0" in data else data.find(b"\n") + 1 or len(data)
            self._pass(rank, source, data[:end])
            data = data[end:]
        first = data.find(b"\n") + 1
        if len(source.tail) + (first or len(data)) > DATA_MAX:
            self._pass(rank, source, data[: first or len(data)])
            data = data[first or len(data) :]
        end = data.rfind(b"\n") + 1
        if end:
            size = len(source.tail) + end
            runs = ((rank, rank, source.end - len(source.tail)),)
            lines = data[:end]
            if self._tails.pop(source, None) is not None:
                lines = bytes(source.tail) + lines
                self._held_bytes -= len(source.tail)
                source.tail.clear()
            source.end = runs[0][2] + size
            self._add(source, lines, runs, now)
        if end < len(data):
            if not source.tail:
                source.tail_since = now
                self._tails[source] = rank
            source.tail += data[end:]
            source.end += len(data) - end
            self._held_bytes += len(data) - end

    def _add(self, source: Source, data: bytes, runs: Runs, now: float, owed: Owed = ()) -> None:
        if self._met_at == inf:
            self._met_at = now
        self._held_bytes += len(data)
        source.data += data
        self._pending[source] = None
        self._unindexed[source] = None
        if source.parts and (last := source.parts[-1]).lines is None:
            fits = last.size + len(data) <= OUTPUT_MAX_BYTES
            is_soon = fits and now - last.since <= self._window_s / 8
            if is_soon and runs == tuple((a, b, offset + last.size) for a, b, offset in last.runs):
                last.size += len(data)
                last.owed = tuple((place, more + last.owed[0][1]) for place, more in owed)
                return
        source.parts.append(Part(len(data), runs, now, owed))

    def _pass(self, rank: int, source: Source, data: bytes) -> None:
        """Pass bytes of a rank, behind all that it has written before."""
        while source.parts:
            self._release(source)
        self._pass_tail(rank, source)
        if data:
            message = Output(self._job_id, rank, self._stream, source.end, data)
            self._outbox.append(((), message))
            source.end += len(data)
            source.is_inside = not data.endswith(b"\n")

    def _pass_tail(self, rank: int, source: Source) -> None:
        if self._tails.pop(source, None) is None:
            return
        while source.parts:
            self._release(source)
        tail = bytes(source.tail)
        source.tail.clear()
        source.end -= len(tail)
        self._held_bytes -= len(tail)
        self._pass(rank, source, tail)

    def _begin_steps(self, now: float | None = None) -> None:
        self._last_step = self.steps + STEPS_MAX
        self._now = self._now if now is None else now

    def _oldest(self) -> Source:
        return min(self._pending, key=lambda source: source.parts[0].since)

    # -- folding ----------------------------------------------------------

    def _settle(self, fresh: Source | None) -> None:
        """Send what need not wait, or may not."""
        if fresh is None or len(fresh.parts) == 1:
            self._send_complete()
        while self._held_bytes > self._room_bytes and not self._are_in_step():
            if self._pending:
                self._met_at = -inf
                self._release(self._oldest())
            else:
                source, rank = next(iter(self._tails.items()))
                self._pass_tail(rank, source)

    def _are_in_step(self) -> bool:
        """Who is ahead may wait for who is behind: so far all have the same."""
        is_late = self._now > self._met_at + self._window_s * IN_STEP_WINDOWS
        if is_late or not self._pending or self._own_bytes > self._own_max_bytes:
            return False
        return self._has_all(self._pending, next(iter(self._pending)).head())

    @property
    def _own_bytes(self) -> int:
        return sum(len(source.data) + len(source.tail) for source in self._ranks.values())

    @property
    def _own_max_bytes(self) -> int:
        """What its own ranks have here at most: one read of each beside a window."""
        return self._window_bytes + OUTPUT_MAX_BYTES * len(self._ranks)

    def _are_own_ahead(self) -> bool:
        """The ranks of this node wait for those below it."""
        if (
            not self._below
            or self._held_bytes <= self._room_bytes // 2
            or self._own_bytes <= self._room_bytes // 2
        ):
            return False
        own = [source for source in self._ranks.values() if source in self._active]
        return all(source in self._pending for source in own) and self._are_in_step()

    def _send_complete(self) -> None:
        pending, active = self._pending, self._active
        while pending and len(active) <= len(pending) and active.keys() <= pending.keys():
            lead = next(iter(active), None)
            if lead is None or len(active) == 1:
                self._release(self._oldest())
                continue
            if not self._has_all(active, lead.head()):
                break
            self._met_at = self._now
            self._fold(lead, lead.parts[0].size)

    def _has_all(self, sources: Iterable[Source], line: bytes) -> bool:
        """All begin with a line."""
        return all(source.data.startswith(line) for source in sources)

    def _release(self, lead: Source) -> None:
        """Send the first part of a source's queue, with what others have of it."""
        part = lead.parts[0]
        while len(self._pending) > 1 and self._has_all(self._pending, lead.head()):
            self._fold(lead, part.size)
            if not part.size:
                return
        if len(self._pending) == 1:
            self._alone(lead, part.size)
            return
        for source in self._unindexed:
            self._index.add(source)
        self._unindexed.clear()
        if not (shared := self._index.shared(lead)):
            self._alone(lead, part.size)
            return
        alone = 0
        missed: set[bytes] = set()  # no other has them near its head
        lines = iter(lead.begin(part.size - 1).split(b"\n"))
        for line in lines:
            alone += len(line) + 1
            if line not in shared or line in missed or self.steps >= self._last_step:
                continue
            if count := self._together(lead, line + b"\n", alone - len(line) - 1):
                alone = 0
                missed.clear()
                for _ in range(count - 1):  # left with this one
                    next(lines)
            else:
                missed.add(line)
        if alone:
            self._alone(lead, alone)

    def _together(self, lead: Source, line: bytes, before: int) -> int:
        """Send a line of a source with all that have it, after what is before it there.

        Returns:
            How many lines have left with it, that one too; 0: none, as no other has it.
        """
        self.steps += len(self._pending)  # each is searched
        found = [other for other in self._pending if other is not lead and place_of(other, line)]
        if not found:
            return 0
        if before:
            self._alone(lead, before)
        for other in found:
            at = place_of(other, line) - 1
            while at > 0 and self.steps < self._last_step:
                at -= len(self._fold(other, at))
            if at > 0:
                self._alone(other, at)
        return self._fold(lead, lead.parts[0].size).count(b"\n")

    def _alone(self, lead: Source, size: int) -> None:
        """Send lines from the head of a queue that no other has there."""
        while size:
            part = lead.parts[0]
            count = lead.fitting(min(size, part.size), len(part.runs))
            self._send([lead], lead.begin(count))
            size -= count

    def _fold(self, lead: Source, most: int) -> bytes:
        """Send the line at the head of a queue, and what others have of it and what follows.

        Returns:
            What has left each queue, at most ``most`` bytes.
        """
        self.steps += 1
        head = lead.head()
        run_most = RUNS_MAX if len(head) <= DATA_MAX else RUNS_FEW
        members = [lead]
        run_count = len(lead.parts[0].runs)
        block = lead.begin(min(most, lead.parts[0].size))
        for other in self._pending:
            if other is not lead and other.data.startswith(head):
                run_count += len(other.parts[0].runs)
                if run_count > run_most:
                    break
                members.append(other)
                block = common(block, other)
        if len(members) == 1:
            block = head
        block = block[: lead.fitting(len(block), run_count)]
        self._send(members, block)
        return block

    def _send(self, members: list[Source], block: bytes) -> None:
        """Send whole lines that are at the heads of some queues."""
        size = len(block)
        found: list[LinesRun] = []
        owed: Owed = ()
        for source in members:
            part = source.parts[0]
            found += part.runs
            del source.data[:size]
            part.size -= size
            if part.size:
                part.runs = tuple((a, b, offset + size) for a, b, offset in part.runs)
            else:
                owed += part.owed
                if part.lines is not None:
                    self._index.remove(part.lines)
                source.parts.popleft()
                if not source.parts:
                    del self._pending[source]
        self._held_bytes -= size * len(members)
        runs = tuple(found) if len(members) == 1 else joined(found)
        last = self._outbox[-1] if self._outbox else None
        if not (isinstance(last, Bundle) and last.takes(runs, block, owed)):
            self._outbox.append(Bundle(runs, block, owed))


def _has(part: Part, rank: int) -> bool:
    """Whether some of it is a rank's."""
    return any(first <= rank <= last for first, last, _ in part.runs)
