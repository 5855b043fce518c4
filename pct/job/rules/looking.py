"""Where the ranks of a node are: a process of their owner's looks at their stacks.

One looks at a time. Who asks meanwhile is answered with what it finds. Ranks that a signal is about
to end stand still until they have been looked at (``yod -bt``); yod is told without asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from native.deadlines import earliest
from native.machine import Action
from native.nodelist import format_nodes
from native.wire import alloc, load
from native.wire.group import DYING, Look, Seen, StackRules, Still
from pct.rare_events import KillLooker, LetDie, LookerEnded, RunLooker, UseRead
from pct.tree.group import Group

if TYPE_CHECKING:
    from pct.job.rules.stalling import Stalling


class Looking:
    """Looks at the ranks of this node, and passes on what others have seen.

    Args:
        unix_pids: of the ranks of this node that have been started.
        ended: ranks that have ended.

    Attributes:
        stalling: tells yod when the ranks stand still; None: it does not want to know.
    """

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        group: Group,
        unix_pids: Mapping[int, int],
        ended: Set[int],
    ) -> None:
        self._job_id = message.job_id
        self._node = message.nodes[message.place].node
        self._owner = (credential.uid, credential.gid, credential.groups)
        self._rules = message.stacks or StackRules()
        self._group = group
        self.stalling: Stalling | None = None
        self._unix_pids = unix_pids
        self._ended = ended
        self._number: int | None = None  # of the request that is to be answered; None: none is
        self._waiting: dict[int, int] = {}  # dying ranks that nobody has looked at: their threads
        self._shown: tuple[int, ...] = ()  # dying ranks that are looked at
        self._runs = self._is_closing = False
        self._until: float | None = None

    def use_read(self, event: UseRead, now: float) -> list[Action]:
        """The host says how much processor time the ranks have used."""
        assert self.stalling is not None
        return self.stalling.used(event, now)

    @property
    def is_over(self) -> bool:
        """No process that looks is left here."""
        return not self._runs

    def deadline(self) -> float | None:
        """When there is something to do again; None: not before something happens."""
        return earliest(self._until, self.stalling.deadline() if self.stalling else None)

    def look(self, message: Look, now: float) -> list[Action]:
        """The parent asks."""
        self._number = message.number
        return [*self._group.down(message), *self._next(now)]

    def dying(self, rank: int, thread: int, now: float) -> list[Action]:
        """A signal will end a rank, which waits for that until it has been looked at."""
        if self._is_closing or len(self._waiting) + len(self._shown) >= self._rules.dying_count:
            return [LetDie(self._job_id, (rank,))]
        self._waiting[rank] = thread
        return self._next(now)

    def ended(self, event: LookerEnded, now: float) -> list[Action]:
        """No process is left."""
        self._until, self._runs = None, False
        shown, self._shown = self._shown, ()
        if not shown:
            return [*self._answer(event.stacks, event.trouble), *self._next(now)]
        # Above the ends of these ranks, which come later, yod knows where they were.
        seen = Seen(self._job_id, DYING, self._node, event.stacks, event.trouble)
        return [*self._group.up(seen), LetDie(self._job_id, shown), *self._next(now)]

    def seen_below(self, place: int, message: Seen | Still, now: float) -> list[Action]:
        """A node of a child's subtree has answered, or says that its ranks stand still."""
        return self._group.up(message)

    def due(self, now: float) -> list[Action]:
        """Time has passed: what is late is killed."""
        actions = self.stalling.due(now) if self.stalling else []
        if self._until is None or now < self._until:
            return actions
        self._until = None
        return [*actions, KillLooker(self._job_id)]

    def hurry(self) -> list[Action]:
        """The job ends: what looks is killed."""
        self._is_closing = True
        waiting, self._waiting = tuple(self._waiting), {}
        actions: list[Action] = [LetDie(self._job_id, waiting)] if waiting else []
        if self._until is None:
            return actions
        self._until = None
        return [*actions, KillLooker(self._job_id)]

    def _next(self, now: float) -> list[Action]:
        """Start what looks, if somebody waits for it and none runs."""
        if self._runs:
            return []
        if self._waiting:
            threads, self._waiting = self._waiting, {}
            self._shown = tuple(sorted(threads))
            return self._run(self._shown, now, [threads[rank] for rank in self._shown])
        if self._number is None:
            return []
        ranks = tuple(sorted(self._unix_pids.keys() - self._ended))
        return self._run(ranks, now) if ranks else self._answer(b"", "")

    def _run(self, ranks: tuple[int, ...], now: float, threads: Sequence[int] = ()) -> list[Action]:
        self._until, self._runs = now + self._rules.look_s, True
        unix_pids = [self._unix_pids[rank] for rank in ranks]
        numbers = [unix_pids, threads] if threads else [unix_pids]
        words = [",".join(map(str, each)).encode() for each in numbers]
        all_words = (b"%g" % self._rules.look_s, format_nodes(ranks).encode(), *words)
        return [RunLooker(self._job_id, all_words, self._rules.most_bytes, *self._owner)]

    def _answer(self, stacks: bytes, trouble: str) -> list[Action]:
        number, self._number = self._number, None
        if number is None:
            return []
        return self._group.up(Seen(self._job_id, number, self._node, stacks, trouble))
