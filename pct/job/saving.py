"""A checkpoint: the ranks of all nodes save themselves, and the root makes it whole.

A process of the owner's, the saver, makes the directories of this node's ranks, and looks
whether each of them handles the signal: it would end one that does not. Then the ranks get the
signal. The saver waits until each has saved itself, and records what it finds. The votes of all
nodes go up the tree. Only when all have saved does the root have its saver write the manifest
and give the checkpoint its name. Whatever fails before that, the checkpoint before stays the
last one, and the job goes on. Without a signal the saver itself writes the ranks down. In a
trial it only looks whether that could be done, and votes go up as ever.

Where yod writes output into a file of its own it has to know how much of that belongs to the
checkpoint. Then a rank that has been saved waits until what it has written was read, and what
it writes from then on stays in its pipes until yod lets all go on. A node votes behind the output
of its subtree from before.

Where ranks are saved on their nodes first, the root answers yod twice. When all are kept there
output goes on and no rank has to wait any more; then the savers drain, votes go up again, and
the root makes the checkpoint whole as ever. Meanwhile another node holds a copy of what each node
keeps (:mod:`pct.job.rules.partner`). When a node is lost yod ends the job, but what others drain
goes on, and yod makes the checkpoint whole when all nodes have ended.

    IDLE        no checkpoint is being made
    OPENING     the saver makes directories
    SAVING      the ranks save themselves
    NAMING      time is over: the saver says who has not
    GATHERING   this node is done; its children are not
    KEPT        the ranks of the subtree are saved on their nodes; yod has not said what follows
    DRAINING    the saver copies what is kept here to the directory of checkpoints
    COMMITTING  the root: the saver makes the checkpoint whole
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from native.deadlines import earliest
from native.errors import PeerProtocolError
from native.ids import PortalId
from native.machine import Action, MessageReceived, PeerGone, Send
from native.nodelist import format_nodes
from native.text import shown
from native.wire import alloc, load
from native.wire.group import Begin, Done, GoOn, Rescue, Share, ShareTaken
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
from pct.job.output import Output
from pct.job.progress import Progress
from pct.rare_events import (
    HoldOutput,
    MarkRank,
    RankSaved,
    ShareDrained,
    ShareKept,
    ShareRead,
)
from pct.tree.collective import SELF, Gather
from pct.tree.group import Group

if TYPE_CHECKING:
    from pct.job.rules.partner import Partner

OPEN_S = 30.0  # the saver has so long to make directories, and to record what it finds
HOLD_S = 4 * OPEN_S  # beside the time of the ranks: output is not held longer


class State(Enum):
    """How far a checkpoint is on this node."""

    IDLE = "idle"
    OPENING = "opening"
    SAVING = "saving"
    NAMING = "naming"
    GATHERING = "gathering"
    KEPT = "kept"
    DRAINING = "draining"
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
        output: Output,
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
        self._output = output
        self._held_until: float | None = None  # None: no output is held
        self._unmarked: set[int] = set()  # ranks that have not been saved yet
        self._state = State.IDLE
        self._asked: Begin | None = None
        self._votes: Gather[Done] = Gather([])
        self._has_saver = False
        self._keeps = False  # what is gathered are votes that ranks are kept on their nodes
        self._has_kept = False  # this node has something to drain
        self._drains = False  # nodes drain the checkpoint that was begun last, or have
        self._leaves = False  # it may have; what it has goes with the job
        self._is_dropping = False
        self._why = ""  # why the saver has been killed
        self._told: set[int] = set()  # ranks of whose end the saver knows
        self._until: float | None = None
        self._lost: tuple[int, ...] = ()  # places: the job ends behind what others drain
        self._lost_by: PortalId | None = None  # who has said so
        self._partner: Partner | None = None
        if message.checkpoints is not None and message.checkpoints.local and group.size > 1:
            from pct.job.rules.partner import Partner  # few jobs have any

            self._partner = Partner(message.job_id, group)

    @property
    def is_over(self) -> bool:
        """No process of a checkpoint is left here, and nothing that is kept for one."""
        return not self._has_saver and not self._leaves

    def deadline(self) -> float | None:
        """When the saver is to be killed, or output goes on; None: there is no such time."""
        return earliest(self._until, self._held_until)

    # -- messages -------------------------------------------------------------

    def begin(self, message: Begin, now: float) -> list[Action]:
        """RUNNING: every rank is to be written down.

        Raises:
            PeerProtocolError: they are being written down already.
        """
        if self._state not in (State.IDLE, State.KEPT):
            raise PeerProtocolError("a checkpoint while one is being made")
        self._asked, self._why = message, ""
        self._keeps = bool(self._where and self._where.local) and not message.is_trial
        self._has_kept = self._drains = False
        if message.holds_output:
            self._held_until = now + message.grace_s + HOLD_S
        if self._partner is not None:
            self._partner.expect(message.attempt)
        self._votes = Gather(list(self._group.children.values()))
        down = self._group.down(replace(message, recipe=b""))
        if why := self._why_not():
            return [*down, *self._vote(Done(self._job_id, 0, 0, text=why), now)]
        ranks = self._left()
        if not ranks:
            return [*down, *self._vote(Done(self._job_id, len(self._ranks), 0), now)]
        self._told, self._unmarked = set(self._ends.ranks), set(ranks)
        self._state, self._until = State.OPENING, now + OPEN_S
        unix_pids = [self._keepers.unix_pids[rank] for rank in ranks]
        what = b"collect-held" if message.holds_output else b"collect"
        words = (
            b"inspect" if message.is_trial else what,
            b"%d" % self._place,
            b"%d" % message.attempt,
            b"%d" % message.signal_number,
            format_nodes(ranks).encode(),
            ",".join(map(str, unix_pids)).encode(),
        )
        assert self._where is not None
        where = self._where.saved_in(self._place)
        self._leaves = self._keeps
        return [*down, self._run((*words, *where, self._most_kept()))]

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

    def saved(self, event: RankSaved, now: float) -> list[Action]:
        """A rank has been saved: what it has written belongs to the checkpoint."""
        if self._held_until is None or event.rank not in self._unmarked:
            return []
        self._unmarked.discard(event.rank)
        return [HoldOutput(self._job_id, event.rank), MarkRank(self._job_id, event.rank)]

    def go_on(self, message: GoOn, now: float) -> list[Action]:
        """yod knows where output stands: ranks are read again, and what is kept is drained."""
        passed = [*self._group.down(message), *self._let_go()]
        if self._state is not State.KEPT:
            return passed
        if not message.drains:  # another node could not keep its ranks
            self._state = State.IDLE
            return passed
        self._keeps, self._drains = False, True
        self._votes = Gather(list(self._group.children.values()))
        if not self._has_kept and self._partner is None:
            return [*passed, *self._vote(Done(self._job_id, len(self._ranks), 0), now)]
        assert self._where is not None
        self._state, self._until = State.DRAINING, now + self._where.drain_s
        here = (b"%d" % self._place, *self._where.saved_in(self._place))
        if self._partner is None:
            return [*passed, self._run((b"drain", *here, *self._shared()))]
        self._leaves = True
        has_kept = b"1" if self._has_kept else b"0"
        held = (b"%d" % self._partner.ward, self._held(), self._most_kept())
        words = (b"drain-copied", *here, *self._shared(), has_kept, *held)
        return [*passed, self._run(words), *self._partner.begin()]

    def ended(self, event: SaverEnded, now: float) -> list[Action]:
        """No process of the saver is left."""
        self._has_saver, self._until = False, None
        told = self._partner.ended() if self._partner is not None else []
        if self._progress.is_ending:
            self._state = State.IDLE
            return told
        if self._state is State.COMMITTING:
            return self._answer(event)
        why = self._why or event.trouble
        self._leaves &= bool(self._keeps or why)
        ranks = 0 if why else len(self._ranks)
        self._has_kept = self._keeps and not why
        return told + self._vote(Done(self._job_id, ranks, event.size, text=why), now)

    def advance(self, now: float) -> list[Action]:
        """After every event: tell the saver of ranks that have ended; end it with the job."""
        if self._held_until is not None and self._progress.is_ending:
            return [*self._let_go(), *self.advance(now)]
        if self._held_until is not None and self._state is State.GATHERING:
            return self._look(now)
        if self._leaves and not self._has_saver and self._progress.is_ending:
            return self._drop(now)
        if not self._has_saver or self._why:
            return []
        if self._progress.is_ending:
            is_spared = self._is_dropping or self._goes_on_draining
            return [] if is_spared else self._kill("the job has ended")
        actions: list[Action] = []
        for rank in sorted(self._ends.ranks - self._told):
            self._told.add(rank)
            if rank in self._ends.well:
                actions.append(TellSaver(self._job_id, rank))
        return actions

    def due(self, now: float) -> list[Action]:
        """Time has passed: a saver that is late is killed, and output is not held any longer."""
        if self._held_until is not None and now >= self._held_until:
            return self._let_go()
        if self._until is None or now < self._until:
            return []
        self._until = None
        if self._state is State.SAVING:
            self._state, self._until = State.NAMING, now + OPEN_S
            return [TellSaver(self._job_id, None)]
        if self._state is State.DRAINING:
            assert self._where is not None
            directory = shown(self._where.directory)
            return self._kill(f"not drained to {directory} within {self._where.drain_s:g} s")
        return self._kill("its files could not be written in time")

    # -- the copy on another node -----------------------------------------------

    def share_read(self, event: ShareRead, now: float) -> list[Action]:
        """The saver has read more of what is kept here."""
        return [] if self._partner is None else self._partner.read(event.data)

    def share_kept(self, event: ShareKept, now: float) -> list[Action]:
        """The saver has taken what came of the share that is held here."""
        return [] if self._partner is None else self._partner.kept(event.count_bytes)

    def share_drained(self, event: ShareDrained, now: float) -> list[Action]:
        """All that is kept here is in the directory of checkpoints."""
        return [] if self._partner is None else self._partner.end()

    def share(self, event: MessageReceived, now: float) -> list[Action]:
        """More of the share that is held here.

        Raises:
            PeerProtocolError: none of this node is.
        """
        assert isinstance(event.message, Share)
        return self._demand_partner().share(event.source, event.message)

    def share_taken(self, event: MessageReceived, now: float) -> list[Action]:
        """The holder of this node's share has room.

        Raises:
            PeerProtocolError: nobody holds it.
        """
        assert isinstance(event.message, ShareTaken)
        return self._demand_partner().taken(event.source, event.message)

    def rescue(self, event: MessageReceived, now: float) -> list[Action]:
        """Nodes are lost: the job ends behind what the others drain.

        Raises:
            PeerProtocolError: nobody holds a share of a lost node.
        """
        assert isinstance(event.message, Rescue)
        partner = self._demand_partner()
        self._lost, self._lost_by = event.message.places, event.source
        passed = self._group.down(event.message) if event.source == self._group.parent else []
        return [*passed, *partner.lost(*self._lost)]

    def cut_off(self) -> list[Action]:
        """No ancestor is left, so the root is lost: drain on, until yod says otherwise."""
        if not self._drains or self._partner is None or self._group.is_root:
            return []
        self._lost = (0,)
        return [*self._group.down(Rescue(self._job_id, self._lost)), *self._partner.lost(0)]

    def reset_by(self, source: PortalId) -> None:
        """yod ends the job here; it has said before if others are to drain on."""
        if source != self._lost_by:
            self._lost = ()

    def rescue_with(self, peer: PortalId) -> list[Action]:
        """A node that comes under this one is told what the others have been."""
        return [Send(peer, Rescue(self._job_id, self._lost))] if self._lost else []

    def peer_gone(self, event: PeerGone) -> list[Action]:
        """A peer is out of reach."""
        return [] if self._partner is None else self._partner.peer_gone(event.peer)

    @property
    def _goes_on_draining(self) -> bool:
        """The job ends behind what is drained, or made whole."""
        return bool(self._lost) and self._state in (State.DRAINING, State.COMMITTING)

    def _demand_partner(self) -> Partner:
        if self._partner is None:
            raise PeerProtocolError("no node holds what another one keeps")
        return self._partner

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
        if self._held_until is None:
            return self._look(now)
        return [HoldOutput(self._job_id, None), *self._look(now)]

    def _let_go(self) -> list[Action]:
        if self._held_until is None:
            return []
        self._held_until = None
        return [HoldOutput(self._job_id, None, is_on=False)]

    def _look(self, now: float) -> list[Action]:
        """All of the subtree are done: the root commits, others pass that on."""
        if self._state is not State.GATHERING or not self._votes.is_complete:
            return []
        if self._held_until is not None and not self._output.is_sent:
            return []  # it is looked again behind what lets output go
        votes = self._votes.given.values()
        whole = Done(
            self._job_id,
            sum(vote.ranks for vote in votes),
            sum(vote.size for vote in votes),
            text=next((vote.text for vote in votes if vote.text), ""),
        )
        assert self._asked is not None
        if self._keeps and not whole.text:
            self._state = State.KEPT
            return self._group.up(replace(whole, is_kept=True))
        if not self._group.is_root or whole.text or self._asked.is_trial:
            self._state = State.IDLE
            return self._group.up(whole)
        self._votes.given = {SELF: whole}
        self._state, self._until = State.COMMITTING, now + OPEN_S
        asked = self._asked
        words = (b"commit", b"%d" % asked.attempt, b"%d" % asked.keep, *self._shared())
        return [self._run(words, self._asked.recipe)]

    def _drop(self, now: float) -> list[Action]:
        """The job has ended: what was not drained by then is of no use."""
        if self._keepers.has_any:  # ranks may still write
            return []
        assert self._where is not None
        self._leaves, self._is_dropping, self._why = False, True, ""
        self._until = now + OPEN_S
        held = () if self._partner is None else (self._held(),)
        return [self._run((b"drop", *self._where.saved_in(self._place), *held))]

    def _answer(self, event: SaverEnded) -> list[Action]:
        self._state = State.IDLE
        whole = self._votes.given[SELF]
        why = self._why or event.trouble
        return self._group.up(replace(whole, path=b"" if why else event.path, text=why))

    def _shared(self) -> tuple[bytes, bytes]:
        """Where all nodes collect the checkpoint: a directory, and the one in it."""
        assert self._where is not None
        return self._where.directory, self._where.collecting.encode()

    def _held(self) -> bytes:
        """The directory of what is held here of another node."""
        assert self._where is not None and self._partner is not None
        return self._where.saved_in(self._partner.ward)[1] + b".held"

    def _most_kept(self) -> bytes:
        """Bytes that the owner keeps on this node at most; 0: nothing is kept here."""
        assert self._where is not None
        return b"%d" % self._where.local_bytes if self._where.local else b"0"

    def _run(self, words: tuple[bytes, ...], given: bytes = b"") -> Action:
        self._has_saver = True
        return RunSaver(self._job_id, words, given, *self._owner)

    def _kill(self, why: str) -> list[Action]:
        self._why, self._until = why, None
        return [KillSaver(self._job_id)]
