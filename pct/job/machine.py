"""One job on one node: from the load message until nothing of it is left.

A node's place in the job's tree gives it a parent (the root's is yod) and
children. It passes on what goes down before it acts upon it. What goes up it gathers from
its children and itself, and sends once.

A job consists of parts. Each owns one rule, with the data of that rule, and calls only
parts of the lines above its own:

    Progress            the state, what ends it, its deadline, reports of late nodes
    Failures, Keepers   which failures have been reported; which keepers run
    Output              standard output and error up, standard input down
    Wiring              how ranks find one another; spawned worlds
    Ends                how ranks have ended
    HookRuns            programs of the site's, before the start and after the end
    Starting            ranks: started, held at entry, let go
    Loading             objects
    Forming             votes
    Saving              checkpoints
    Looking             where the ranks are, for a user who asks
    Killing             processes that do not end
    Release             the end, until nothing is left
    Losses              a lost parent, lost children, adoption, reset

:mod:`pct.job.table` says which part takes an event or a message, by state and sender. This
module applies the table, and enters the next state when the present one is over. After a
failure the node waits until it is told to end. If its parent is lost and no ancestor is
left, it ends without being told.
"""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGSTOP
from typing import TYPE_CHECKING, Any, TypeVar

from native.deadlines import earliest
from native.errors import IllegalTransition, PeerProtocolError
from native.ids import PortalId
from native.limits import JOB_STORE_BYTES
from native.machine import Action, DeadlineReached, Event, MessageReceived
from native.wire import alloc, load
from pct.account import Account
from pct.job import spec
from pct.job.ends import Ends
from pct.job.failures import Failures
from pct.job.forming import Forming
from pct.job.keepers import Keepers, Stopper
from pct.job.killing import Killing
from pct.job.loading import Loading
from pct.job.losses import Losses
from pct.job.no_hooks import NoHooks
from pct.job.output import Output
from pct.job.progress import JobState, Progress
from pct.job.release import Release
from pct.job.rules.looking import Looking
from pct.job.rules.objects import ObjectTable
from pct.job.saving import Saving
from pct.job.starting import Starting
from pct.job.table import ADVANCES, EVENTS, FROM_ANYBODY, OWNER, method_for
from pct.job.wiring import Wiring
from pct.tree.group import Group, Sender

if TYPE_CHECKING:
    from pct.account import Gpu
    from pct.cores import Given
    from pct.job.hooks import HookRuns, Site
    from pct.job.rules.stalling import Signs

_T = TypeVar("_T")


class Job:
    """State machine of one job on one node.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.
    """

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        parent: PortalId,
        now: float,
        notice_s: float = float("inf"),
        store_bytes: int = JOB_STORE_BYTES,
        gpus: tuple[Gpu, ...] = (),
        unkillable_s: float = float("inf"),
        cores: Given | None = None,
        site: Site | None = None,
    ) -> None:
        self.job_id = message.job_id
        self.uid = credential.uid
        self.started_at = now
        self.slots = message.nodes[message.place].slots
        self.account = Account(store_bytes)
        self._group = group = Group(message, parent)
        below = frozenset(group.places_below())
        unused = spec.unused_objects(message, below)
        self._objects = objects = ObjectTable(len(message.objects), unused, message.arguments)

        self._progress = progress = Progress(message, group, now, notice_s)
        self._failures = failures = Failures(message, group, progress)
        self._keepers = keepers = Keepers(message.job_id, group)
        self._output = output = Output(message, group)
        known = (message, credential, group, progress, failures)
        self._wiring = wiring = Wiring(*known, keepers, objects, self.account)
        self._ends = ends = Ends(message, group, progress, failures, keepers, wiring)
        ranks = spec.ranks_at(message, message.place)
        watched = (progress, failures, keepers, unkillable_s)
        self._hooks = hooks = _hooks(site, message, credential, ranks, *watched)
        self._starting = starting = Starting(*known, keepers, objects, wiring, ends, output, hooks)
        starting.gpus, starting.cores = gpus, cores
        self._looking = looking = Looking(message, credential, group, keepers.unix_pids, ends.ranks)
        starting.looking = looking
        if message.stacks is not None and message.stacks.stall_s:
            from pct.job.rules.stalling import Stalling  # few users want to know

            of_ranks = (keepers.unix_pids, ends.ranks)
            looking.stalling = Stalling(message, group, *of_ranks, self._signs)
        around = (message, group, progress)
        self._loading = loading = Loading(*around, failures, objects, wiring, starting)
        self._forming = forming = Forming(*known, objects, starting, loading)
        self._killing = killing = Killing(message, keepers, unkillable_s)
        self._saving = saving = Saving(*known[:2], ranks, *around[1:], keepers, ends, output)
        self._release = release = Release(
            *around, keepers, wiring, ends, output, killing, hooks, saving, looking
        )
        self._losses = losses = Losses(*around, failures, keepers, ends, output, release, saving)
        shared = (progress, failures, keepers, output, wiring, ends)
        parts = (*shared, forming, loading, starting, saving, looking, killing, release, losses)
        self._parts: dict[type, Any] = {type(part): part for part in parts}
        self.ranks = starting.ranks

    @property
    def state(self) -> JobState:
        """How far this node's subtree is."""
        return self._progress.state

    @property
    def parent(self) -> PortalId | None:
        """The peer that this node obeys; None while it is an orphan."""
        return self._group.parent

    def has_member(self, peer: PortalId) -> bool:
        """Is this peer a node of the job?"""
        return self._group.has_member(peer)

    # -- interface ---------------------------------------------------------

    def begin(self, now: float) -> list[Action]:
        """The first actions. Call this once."""
        return [*self._forming.begin(), *self._starting.begin(), *self._wiring.begin()]

    def deadline(self) -> float | None:
        """Time of the next ``DeadlineReached``, or None when nothing is timed."""
        of_ranks = self._ends.deadline(), self._killing.deadline(), self._hooks.deadline()
        of_job = self._progress.deadline(), self._losses.deadline(), self._saving.deadline()
        return earliest(*of_job, *of_ranks, self._looking.deadline(), self._output.deadline())

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            PeerProtocolError: the sender may not send this message now; nothing
                has changed.
            IllegalTransition: the state has no such event; a bug.
        """
        if self._progress.state is JobState.RELEASED:
            return []
        match event:
            case MessageReceived():
                actions = self._message(event, now)
            case DeadlineReached():
                actions = self._due(now)
            case _:
                actions = self._event(event, now)
        return [*actions, *self._advance(now)]

    @property
    def has_ranks(self) -> bool:
        """Keepers of ranks have been started, and are not gone."""
        return self._keepers.has_any

    def signal(self, number: int) -> list[Action]:
        """The allocation sends the ranks a signal. Before go they run no code to stop."""
        if number == SIGSTOP and self.state is not JobState.RUNNING:
            self._keepers.stopped_by.add(Stopper.ALLOCATION)
            return []
        return self._keepers.pass_on(number, Stopper.ALLOCATION)

    def give_up(self, text: str, now: float) -> list[Action]:
        """An exception was raised on behalf of the job: report it, and end as at all-done."""
        failed = self._failures.report(load.FailureKind.FAULT, text)
        return [*failed, *self._release.end(now), *self._advance(now)]

    def lose(self, text: str, now: float) -> list[Action]:
        """The node is as good as lost, because it ``text``: report that, and end."""
        failed = self._failures.report(load.FailureKind.NODE_LOST, text)
        return [*failed, *self._release.end(now), *self._advance(now)]

    def drop(self, text: str, now: float) -> list[Action]:
        """Leave the job at once, in any state; tell the other nodes, bebopd and the parent."""
        failed = self._failures.report_again(load.FailureKind.FAULT, text)
        return [*failed, *self._release.drop(now)]

    def check(self) -> None:
        """Assert the invariants."""
        self._objects.check()
        self._wiring.check()
        assert all(rank < self._wiring.spawned.rank_count for rank in self._ends.ranks)
        if self.state in (JobState.HELD, JobState.RUNNING):
            assert self._starting.own_held == set(self.ranks)
        if self.state is JobState.RELEASED:
            assert self.account.used_bytes == 0

    # -- the tables, applied -----------------------------------------------

    def _call(self, method: Callable[..., _T], *arguments: Any) -> _T:
        """Call a method of a table on the part that owns it."""
        return method(self._parts[OWNER[method]], *arguments)

    def _event(self, event: Event, now: float) -> list[Action]:
        state = self._progress.state
        method = EVENTS[state].get(type(event))
        if method is None:
            raise IllegalTransition(state, event)
        return self._call(method, event, now)

    def _message(self, event: MessageReceived, now: float) -> list[Action]:
        source, message = event.source, event.message
        if (method := FROM_ANYBODY.get(type(message))) is not None:
            return self._call(method, event, now)
        sender = self._group.sender(source)
        if sender is Sender.STRANGER:
            raise PeerProtocolError(f"{type(message).__name__} from {source}, {sender.value}")
        method = method_for(sender, self.state, message)
        if sender is Sender.CHILD:
            return self._call(method, self._group.children[source], message, now)
        return self._call(method, message, now)

    def _advance(self, now: float) -> list[Action]:
        """Leave the state if it is over, and the next one if that is over as well."""
        actions = [*self._hooks.advance(now), *self._saving.advance(now)]
        while (method := ADVANCES.get(self._progress.state)) is not None:
            step = self._call(method, now)
            if step is None:
                break
            actions += step
        return actions

    # -- time --------------------------------------------------------------

    def _due(self, now: float) -> list[Action]:
        actions = [*self._ends.tell(now), *self._losses.due(now), *self._killing.due(now)]
        actions += [*self._hooks.due(now), *self._saving.due(now), *self._looking.due(now)]
        actions += [*self._output.due(now), *self._advance(now)]
        if text := self._progress.take_timeout(now, self._own_wait):
            late = self._progress.late_place
            actions += self._failures.report(load.FailureKind.TIMED_OUT, text, place=late)
        if (told := self._progress.take_late(now, self._late_wait)) is not None:
            actions += self._group.up(told)
        return actions

    def _signs(self) -> Signs:
        """Of life of this node's ranks."""
        from pct.job.rules.stalling import Signs  # few users want to know

        output, is_running = self._output, self.state is JobState.RUNNING
        is_held = bool(self._keepers.stopped_by) or output.is_held_back
        return Signs(is_running, is_held, output.wrote_at)

    def _own_wait(self) -> str:
        """What is awaited of this node itself."""
        if self.state is JobState.ENDING:
            return self._release.wait()
        return self._loading.wait() or self._starting.wait()

    def _late_wait(self) -> str:
        return "" if self._output.is_held_back else self._own_wait()


def _hooks(
    site: Site | None,
    message: load.Load,
    credential: alloc.Credential,
    ranks: tuple[int, ...],
    progress: Progress,
    failures: Failures,
    keepers: Keepers,
    unkillable_s: float,
) -> HookRuns | NoHooks:
    if site is None:
        return NoHooks()
    from pct.job.hooks import HookRuns  # few sites have any

    return HookRuns(message, credential, ranks, site, progress, failures, keepers, unkillable_s)
