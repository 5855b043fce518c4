"""Between the job on a node and its wire-up, :class:`pct.wireup.machine.Wireup`.

The wire-up answers an event with a :class:`pct.wireup.questions.Step`; this module turns
steps into actions. The wire-up begins when the arguments are known: with the load message,
or when the object that holds them has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from native.errors import IllegalTransition, PeerProtocolError
from native.machine import Action, Event
from native.wire import alloc, load, pmi
from native.wire.base import JobMessage
from pct.account import Account
from pct.events import PMIX_SERVER, KeeperEnd
from pct.job import spec
from pct.job.failures import Failures
from pct.job.keepers import Keepers
from pct.job.progress import JobState, Progress
from pct.job.rules.objects import ObjectTable
from pct.job.spawned import SpawnedWorlds
from pct.pmi_events import (
    OpenPmi,
    PmiClosed,
    PmiConnected,
    PmiHangUp,
    PmiOpened,
    PmiReceived,
    PmiReply,
    PmixReceived,
    PmixSend,
    PmixServerEnded,
    StartPmixServer,
)
from pct.tree.group import Group
from pct.wireup import environment
from pct.wireup.machine import Wireup
from pct.wireup.questions import Step

if TYPE_CHECKING:
    from native.wire import pmix
    from pct.wireup.world import World


class Wiring:
    """The wire-up of one job on one node, with the worlds that it has spawned.

    Attributes:
        wireup: None until the arguments are known.
        spawned: the worlds that the application has started.
    """

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        group: Group,
        progress: Progress,
        failures: Failures,
        keepers: Keepers,
        objects: ObjectTable,
        account: Account,
    ) -> None:
        self.wireup: Wireup | None = None
        self.spawned = SpawnedWorlds(message)
        self._message = message
        self._job_id = message.job_id
        self._credential = credential
        self._group = group
        self._progress = progress
        self._failures = failures
        self._keepers = keepers
        self._objects = objects
        self._account = account

    def begin(self) -> list[Action]:
        """Open what the ranks' environment will name, if the arguments are known."""
        arguments = self._objects.arguments
        if self.wireup is not None or arguments is None:
            return []
        users = environment.of_user(arguments.environment)
        members = spec.members_of(arguments.members)
        self.wireup = Wireup(self._message, members, users, self._account)
        of_owner = (self._credential.uid, self._credential.gid)
        mpi = self._message.mpi
        looks_around = mpi.library or load.Protocol.PMIX in mpi.offered
        home = environment.home_of(arguments.environment) if looks_around else None
        files = self.wireup.host_files
        ranks = len(spec.ranks_at(self._message, self._message.place))
        actions: list[Action] = [OpenPmi(self._job_id, ranks, files, home)]
        if (begin := self.wireup.server_begin(*of_owner)) is not None:
            self._keepers.start(PMIX_SERVER)
            actions.append(StartPmixServer(self._job_id, begin))
        return actions

    def end(self) -> None:
        """The job is over: free what has been kept for its ranks."""
        if self.wireup is not None:
            self.wireup.end()

    def check(self) -> None:
        """Assert the invariants."""
        if self.wireup is not None:
            self.wireup.check()

    # -- events -----------------------------------------------------------

    def port_opened(self, event: PmiOpened, now: float) -> list[Action]:
        """The node listens for PMI clients, or cannot."""
        self._at(event).port_opened(event)
        return []

    def connected(self, event: PmiConnected, now: float) -> list[Action]:
        """A client has connected."""
        return self.do(self._at(event).connected(event.connection, event.rank))

    def received(self, event: PmiReceived, now: float) -> list[Action]:
        """Bytes from a client."""
        return self.do(self._at(event).received(event.connection, event.data))

    def closed(self, event: PmiClosed, now: float) -> list[Action]:
        """A client has hung up."""
        return self.do(self._at(event).closed(event.connection))

    def from_server(self, event: PmixReceived, now: float) -> list[Action]:
        """A message of the PMIx server."""
        return self.do(self._at(event).from_server(event.message))

    def server_ended(self, event: PmixServerEnded, now: float) -> list[Action]:
        """The PMIx server has ended before the job does."""
        return self.do(self._at(event).server_ended(event.text))

    # -- messages ---------------------------------------------------------

    def fence_out(self, message: pmi.FenceOut, now: float) -> list[Action]:
        """All participants have entered a fence."""
        return self.do(self._of(message).fence_out(message))

    def lost(self, message: pmi.Lost, now: float) -> list[Action]:
        """Ranks somewhere in the job have ended abnormally."""
        return self.do(self._of(message).lost(message))

    def asked(self, message: pmi.Ask, now: float) -> list[Action]:
        """A question from above."""
        return self.do(self._of(message).asked(message, None))

    def replied(self, message: pmi.Reply, now: float) -> list[Action]:
        """An answer from above."""
        return self.do(self._of(message).replied(message))

    def fence_in(self, place: int, message: pmi.FenceIn, now: float) -> list[Action]:
        """The participants in a child's subtree have entered a fence."""
        return self.do(self._of(message, "child").fence_in(place, message))

    def asked_below(self, place: int, message: pmi.Ask, now: float) -> list[Action]:
        """A question from a child."""
        return self.do(self._of(message, "child").asked(message, place))

    def replied_below(self, place: int, message: pmi.Reply, now: float) -> list[Action]:
        """An answer from a child."""
        return self.do(self._of(message, "child").replied(message))

    def alone_below(self, place: int, message: pmi.Alone, now: float) -> list[Action]:
        """A rank below has ended without joining a world."""
        return self.do(self._of(message, "child").alone(message))

    def excess_below(self, place: int, message: pmi.Excess, now: float) -> list[Action]:
        """A node below has refused to keep more for its ranks."""
        return self.do(self._of(message, "child").excess_below(message))

    def spawned_below(self, place: int, message: load.Spawned, now: float) -> list[Action]:
        """A node below reports whether its ranks of a spawned world run."""
        return self._tell_of_spawn(message)

    def _of(self, message: JobMessage, sender: str = "parent") -> Wireup:
        if self.wireup is None:
            name = type(message).__name__
            raise PeerProtocolError(f"{name} is not a {sender}'s to send before the arguments")
        return self.wireup

    def _at(self, event: Event) -> Wireup:
        if self.wireup is None:
            raise IllegalTransition(self._progress.state, event)
        return self.wireup

    # -- ranks ------------------------------------------------------------

    def add_world(self, message: load.StartWorld, places: list[int]) -> Step:
        """A world is being started.

        Args:
            places: of its ranks, in order.
        """
        wireup = self._of(message)
        wireup.spawn_comes(message)
        if message.is_tool:
            return wireup.tool_started(message)
        members = spec.members_of(message.members)
        of_parent = (message.parent, message.pairs)
        return wireup.add_world(message.world, message.first_rank, places, members, *of_parent)

    def rank_runs(self, world: int, rank: int, text: str = "") -> list[Action]:
        """A rank of a spawned world runs here; or, if there is a text, why it does not."""
        told = self.spawned.rank_is(world, rank, text)
        return self._tell_of_spawn(told) if told is not None else []

    def tool_ended(self, world: int, wait_status: int) -> list[Action]:
        """If the world is a tool, tell its end to the agent that has started it."""
        return self._reply(self.spawned.tool_ended(world, wait_status))

    def rank_left(
        self, rank: int, wait_status: int, library: str, was_signalled: bool
    ) -> list[Action]:
        """A rank of this node has ended; ``was_signalled`` as an outcome has it."""
        if self.wireup is None:
            return []
        actions = self.do(self.wireup.left(rank, wait_status, library))
        return [*actions, *self._tell_of_loss((rank,), wait_status, was_signalled)]

    def ranks_left_below(self, place: int, outcomes: Iterable[load.Outcome]) -> list[Action]:
        """Ranks in a child's subtree have ended."""
        if self.wireup is None:
            return []
        ranks = tuple(rank for outcome in outcomes for rank in outcome.ranks)
        actions = self.do(self.wireup.ended_below(place, ranks))
        for outcome in outcomes:
            told = outcome.ranks, outcome.wait_status, outcome.was_signalled
            actions += self._tell_of_loss(*told)
        return actions

    def _tell_of_loss(
        self, ranks: tuple[int, ...], wait_status: int, was_signalled: bool
    ) -> list[Action]:
        """At the root: tell all nodes of ranks that ended abnormally; PMIx clients may ask.

        Not of those that yod ends: it ends all, and the words for each to each node would
        hold up the signal on its way to the others.
        """
        if not (self._group.is_root and wait_status and self.wireup):
            return []
        if was_signalled and wait_status & 0x7F in (SIGTERM, SIGKILL):
            return []
        is_offered = load.Protocol.PMIX in self._message.mpi.offered
        if not is_offered or self._progress.state is not JobState.RUNNING:
            return []
        return self.do(self.wireup.lost(pmi.Lost(self._job_id, ranks, wait_status)))

    def _tell_of_spawn(self, told: load.Spawned) -> list[Action]:
        """Pass a report about a spawned world up; the root answers the spawn."""
        if self._group.is_root:
            return self._reply(self.spawned.gather(told))
        return self._group.up(told)

    def _reply(self, reply: pmi.Reply | None) -> list[Action]:
        if reply is None or self.wireup is None:
            return []
        return self.do(self.wireup.replied(reply))

    # -- steps ------------------------------------------------------------

    def do(self, step: Step) -> list[Action]:
        """The actions of a step: an abort first, then what other nodes wait for."""
        actions: list[Action] = []
        if step.abort is not None:
            rank, code, text = step.abort.rank, step.abort.exit_code, step.abort.text
            kind = load.FailureKind.ABORTED
            actions += self._failures.report(kind, text, rank=rank, exit_code=code)
        for message in step.down:
            actions += self._group.down(message)
        for place, message in step.to:
            actions += self._group.to(place, message)
        for message in step.up:
            actions += self._group.up(message)
        actions += [PmiReply(self._job_id, number, data) for number, data in step.replies]
        actions += [PmiHangUp(self._job_id, number) for number in step.hang_ups]
        step.server += [self._table(serial, worlds) for serial, worlds in step.tables]
        if self._keepers.has_server:
            actions += [PmixSend(self._job_id, message) for message in step.server]
        for world in step.ended_tools:
            if self.spawned.is_tool(world):
                actions.append(KeeperEnd(self._job_id, world))
        if step.failure:
            actions += self._failures.report(load.FailureKind.NO_WIREUP, step.failure)
        elif step.abort is None and self.wireup and (excess := self.wireup.excess()) is not None:
            actions += self._group.up(excess)
        return actions

    def _table(self, serial: int, worlds: tuple[World, ...]) -> pmix.Table:
        """The answer to the PMIx server's question for a process table."""
        from pct.job import process_table  # few programs ask for it

        assert self._objects.arguments is not None
        of_job = (self._message, self._objects.arguments, self.spawned)
        return process_table.table(serial, worlds, of_job, self._keepers.unix_pids)
