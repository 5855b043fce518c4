"""A checkpoint: the ranks of all nodes save themselves, and the root makes it whole.

A process of the owner's, the saver, makes the directories of this node's ranks, and looks
whether each of them handles the signal: it would end one that does not. Then the ranks get the
signal. The saver waits until each has saved itself, and records what it finds. The votes of all
nodes go up the tree. Only when all have saved does the root have its saver write the manifest
and give the checkpoint its name. Whatever fails before that, the checkpoint before stays the
last one, and the job goes on. Without a signal the saver itself writes the ranks down. In a
trial it only looks whether that could be done, and votes go up as ever.

    IDLE        no checkpoint is being made
    OPENING     the saver makes directories
    SAVING      the ranks save themselves
    NAMING      time is over: the saver says who has not
    GATHERING   this node is done; its children are not
    COMMITTING  the root: the saver makes the checkpoint whole
"""

from __future__ import annotations

from enum import Enum

from msgspec.structs import replace

from native.errors import PeerProtocolError
from native.machine import Action
from native.nodelist import format_nodes
from native.wire import alloc, load
from native.wire.group import Begin, Done
from pct.events import (
    KeeperSignal,
    KillSaver,
    RunSaver,
    SaverEnded,
    SaverReady,
    TellSaver,
)
from pct.job.ends import Ends
from pct.job.keepers import Keepers
from pct.job.progress import Progress
from pct.tree.collective import SELF, Gather
from pct.tree.group import Group

OPEN_S = 30.0  # the saver has so long to make directories, and to record what it finds


class State(Enum):
    """How far a checkpoint is on this node."""

    IDLE = "idle"
    OPENING = "opening"
    SAVING = "saving"
    NAMING = "naming"
    GATHERING = "gathering"
    COMMITTING = "committing"


class Saving:
    """Checkpoints of a job on one node, one after another."""

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        ranks: tuple[int, ...],
        group: Group,
        progress: Progress,
        keepers: Keepers,
        ends: Ends,
    ) -> None:
        self._job_id = message.job_id
        self._place = message.place
        self._where = message.checkpoints
        self._is_allocation = message.is_allocation
        self._owner = (credential.uid, credential.gid, credential.groups)
        self._ranks = ranks
        self._group = group
        self._progress = progress
        self._keepers = keepers
        self._ends = ends
        self._state = State.IDLE
        self._asked: Begin | None = None
        self._votes: Gather[Done] = Gather([])
        self._has_saver = False
        self._why = ""  # why the saver has been killed
        self._told: set[int] = set()  # ranks of whose end the saver knows
        self._until: float | None = None

    @property
    def is_over(self) -> bool:
        """No process of a checkpoint is left here."""
        return not self._has_saver

    def deadline(self) -> float | None:
        """When the saver is to be killed; None: none runs."""
        return self._until

    # -- messages -------------------------------------------------------------

    def begin(self, message: Begin, now: float) -> list[Action]:
        """RUNNING: every rank is to be written down.

        Raises:
            PeerProtocolError: they are being written down already.
        """
        if self._state is not State.IDLE:
            raise PeerProtocolError("a checkpoint while one is being made")
        self._asked, self._why = message, ""
        self._votes = Gather(list(self._group.children.values()))
        down = self._group.down(replace(message, recipe=b""))
        if why := self._why_not():
            return [*down, *self._vote(Done(self._job_id, 0, 0, text=why), now)]
        ranks = self._left()
        if not ranks:
            return [*down, *self._vote(Done(self._job_id, len(self._ranks), 0), now)]
        self._told = set(self._ends.ranks)
        self._state, self._until = State.OPENING, now + OPEN_S
        unix_pids = [self._keepers.unix_pids[rank] for rank in ranks]
        words = (
            b"inspect" if message.is_trial else b"collect",
            b"%d" % self._place,
            b"%d" % message.signal_number,
            format_nodes(ranks).encode(),
            ",".join(map(str, unix_pids)).encode(),
        )
        return [*down, self._run(words)]

    def voted_below(self, place: int, message: Done, now: float) -> list[Action]:
        """A child's subtree is done."""
        self._votes.give(place, message)
        return self._look(now)

    # -- the saver ------------------------------------------------------------

    def ready(self, event: SaverReady, now: float) -> list[Action]:
        """The directories are there: tell the ranks."""
        assert self._asked is not None
        if self._state is not State.OPENING or self._why:
            return []
        self._state, self._until = State.SAVING, now + self._asked.grace_s
        number = self._asked.signal_number
        tells = number and not self._asked.is_trial
        return [KeeperSignal(self._job_id, number)] if tells else []

    def ended(self, event: SaverEnded, now: float) -> list[Action]:
        """No process of the saver is left."""
        self._has_saver, self._until = False, None
        if self._progress.is_ending:
            self._state = State.IDLE
            return []
        if self._state is State.COMMITTING:
            return self._answer(event)
        why = self._why or event.trouble
        ranks = 0 if why else len(self._ranks)
        return self._vote(Done(self._job_id, ranks, event.size, text=why), now)

    def advance(self) -> list[Action]:
        """After every event: tell the saver of ranks that have ended; end it with the job."""
        if not self._has_saver or self._why:
            return []
        if self._progress.is_ending:
            return self._kill("the job has ended")
        actions: list[Action] = []
        for rank in sorted(self._ends.ranks - self._told):
            self._told.add(rank)
            if rank in self._ends.well:
                actions.append(TellSaver(self._job_id, rank))
        return actions

    def due(self, now: float) -> list[Action]:
        """Time has passed: a saver that is late is killed."""
        if self._until is None or now < self._until:
            return []
        self._until = None
        if self._state is State.SAVING:
            self._state, self._until = State.NAMING, now + OPEN_S
            return [TellSaver(self._job_id, None)]
        return self._kill("its files could not be written in time")

    # -- what follows -----------------------------------------------------------

    def _why_not(self) -> str:
        if self._where is None:
            return "the job was started without --checkpoint-dir"
        if self._is_allocation:
            return "an allocation cannot be written down, its steps can"
        if self._ends.ranks - self._ends.well:
            return "a rank has failed"
        return ""

    def _left(self) -> list[int]:
        """The ranks of this node that have not ended."""
        return sorted(set(self._ranks) - self._ends.ranks)

    def _vote(self, vote: Done, now: float) -> list[Action]:
        self._state = State.GATHERING
        self._votes.give(SELF, vote)
        return self._look(now)

    def _look(self, now: float) -> list[Action]:
        """All of the subtree are done: the root commits, others pass that on."""
        if self._state is not State.GATHERING or not self._votes.is_complete:
            return []
        votes = self._votes.given.values()
        whole = Done(
            self._job_id,
            sum(vote.ranks for vote in votes),
            sum(vote.size for vote in votes),
            text=next((vote.text for vote in votes if vote.text), ""),
        )
        assert self._asked is not None
        if not self._group.is_root or whole.text or self._asked.is_trial:
            self._state = State.IDLE
            return self._group.up(whole)
        self._votes.given = {SELF: whole}
        self._state, self._until = State.COMMITTING, now + OPEN_S
        keep = b"%d" % self._asked.keep
        return [self._run((b"commit", keep), self._asked.recipe)]

    def _answer(self, event: SaverEnded) -> list[Action]:
        self._state = State.IDLE
        whole = self._votes.given[SELF]
        why = self._why or event.trouble
        return self._group.up(replace(whole, path=b"" if why else event.path, text=why))

    def _run(self, words: tuple[bytes, ...], given: bytes = b"") -> Action:
        assert self._where is not None
        self._has_saver = True
        where = (self._where.directory, self._where.collecting.encode())
        return RunSaver(self._job_id, (*words, *where), given, *self._owner)

    def _kill(self, why: str) -> list[Action]:
        self._why, self._until = why, None
        return [KillSaver(self._job_id)]
