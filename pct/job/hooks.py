"""A site's hooks around one job on a node.

::

    WAITING --begin--> BEFORE --all have run--> READY
       |                 |  `--one fails--> FAILED  |
       `-----------------`--------------|-----------`--the job ends--> AFTER --> OVER

Before the ranks start, the hooks of each point run one after another, in the order of
:data:`native.hooks.BEFORE`; ``rank_prolog`` once for each rank. When no process of the job is left,
what has begun is undone, in the order of :data:`native.hooks.AFTER`, also if the job never started.
A hook that fails before the start fails the job. One that runs with the PCT's rights says by its
failure that the node is not fit, and bebopd drains it, unless it refuses the job.

An allocation is the job of its PCTs, and has a prolog, a network and an epilog; each step has its
``step_prolog``, ``step_epilog`` and ``rank_prolog``, which the allocation's PCT runs.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from msgspec import Struct

from native.hooks import AFTER, BEFORE, Hook, Hooks, Point
from native.ids import name_of_job
from native.machine import Action, Log
from native.text import shown
from native.waitstatus import how_it_ended
from native.wire import alloc, load
from native.wire.keeper import KeeperSpec
from pct.events import HookEnded, HookResult, KillHook, RunHook, TellBebopd
from pct.job.failures import Failures
from pct.job.keepers import Keepers
from pct.job.progress import Progress
from pct.job.rules import hooklines
from pct.job.rules.hooklines import NOTHING, Changes, Said

SAID_MAX = 200  # bytes of a line of a hook, where people are told of it
_PATH = b"PATH=/usr/sbin:/usr/bin:/sbin:/bin"  # of what runs with the PCT's rights
_OF_STEP = (Point.STEP_PROLOG, Point.RANK_PROLOG)


class Site(Struct, frozen=True):
    """The hooks of a node.

    Attributes:
        is_in_job: of the PCT of an allocation: it runs what is the step's.
        inherited: what the hooks of that allocation have changed, for its steps.
    """

    hooks: Hooks
    is_in_job: bool = False
    inherited: Changes = NOTHING

    @property
    def prepares_allocations(self) -> bool:
        """Hooks run before anything of an allocation may."""
        return any(map(self.hooks.at, self.points(is_allocation=True)))

    def points(self, is_allocation: bool) -> tuple[Point, ...]:
        """The points before the start of a job that are this node's."""
        if self.is_in_job:
            return _OF_STEP
        return tuple(point for point in BEFORE if not (is_allocation and point in _OF_STEP))


class RunsState(Enum):
    """Where the hooks of a job are."""

    WAITING = "the job's arguments are not here"
    BEFORE = "what comes before the start runs"
    FAILED = "a hook has failed: nothing starts"
    READY = "ranks may start"
    AFTER = "what comes after the end runs"
    OVER = "all have run"


_EARLY = (RunsState.WAITING, RunsState.BEFORE, RunsState.FAILED, RunsState.READY)


class HookRuns:
    """Which hooks have run for one job, which runs, and what they have said.

    Args:
        unkillable_s: a hook that has not ended so long after it was killed cannot be killed.
    """

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        ranks: tuple[int, ...],
        site: Site,
        progress: Progress,
        failures: Failures,
        keepers: Keepers,
        unkillable_s: float,
    ) -> None:
        self._message = message
        self._job_id = message.job_id
        self._node = message.nodes[message.place]
        self._credential = credential
        self._ranks = ranks
        self._hooks = site.hooks
        self._progress = progress
        self._failures = failures
        self._keepers = keepers
        self._unkillable_s = unkillable_s
        self._points = site.points(message.is_allocation)
        self._begun: list[Point] = []
        self._state = RunsState.WAITING
        self._left: deque[tuple[Point, Hook]] = deque()
        self._running: tuple[Point, Hook] | None = None
        self._is_killed = False  # the one that runs
        self._until: float | None = None
        self._environment: tuple[bytes, ...] = ()  # of the job
        self._of_all = site.inherited
        self._of_ranks: dict[int, Changes] = {}

    @property
    def is_ready(self) -> bool:
        """All that comes before the start has run."""
        return self._state is RunsState.READY

    @property
    def is_over(self) -> bool:
        """Nothing runs, and nothing is to be undone."""
        return self._state is RunsState.OVER

    def deadline(self) -> float | None:
        """When the running hook is to be killed; None: none runs, or it cannot be killed."""
        return self._until

    # -- before the start ---------------------------------------------------

    def begin(self, arguments: load.Arguments, now: float) -> list[Action]:
        """Run what comes before the start, once."""
        if self._state is not RunsState.WAITING:
            return []
        self._state = RunsState.BEFORE
        self._environment = arguments.environment
        for point in self._points:
            self._left.extend((point, hook) for hook in self._hooks.at(point))
        return self._next(now)

    def changed(self, spec: KeeperSpec) -> KeeperSpec:
        """A keeper's specification, as hooks have changed it."""
        of_all = self._of_all
        if self._message.is_allocation:
            of_all = hooklines.for_steps(of_all, self._hooks.path.encode(errors="surrogateescape"))
        return hooklines.applied(spec, of_all, self._of_ranks)

    def printed(self, rank: int) -> bytes:
        """What hooks print to a rank's standard output; once."""
        changes = self._of_ranks.get(rank)
        if changes is None or not changes.printed:
            return b""
        self._of_ranks[rank] = Changes(changes.variables)
        return changes.printed

    # -- the end --------------------------------------------------------------

    def advance(self, now: float) -> list[Action]:
        """The job ends: stop what runs before the start; with no process left, undo."""
        if self._state not in _EARLY or not self._progress.is_ending or self._keepers.has_any:
            return []
        self._left.clear()
        if self._running is not None:
            return self._kill(now)
        self._state = RunsState.AFTER
        for point, undone in AFTER.items():
            if undone in self._begun:
                self._left.extend((point, hook) for hook in self._hooks.at(point))
        return self._next(now)

    # -- one hook -------------------------------------------------------------

    def _next(self, now: float) -> list[Action]:
        """Run the next hook; enter the next state behind the last one."""
        if not self._left:
            if self._state is RunsState.BEFORE:
                self._begun, self._state = list(self._points), RunsState.READY
            elif self._state is RunsState.AFTER:
                self._state = RunsState.OVER
            return []
        point, hook = self._running = self._left.popleft()
        if point in self._points:
            self._begun = list(self._points[: self._points.index(point) + 1])
        self._is_killed, self._until = False, now + hook.timeout_s
        ranks = self._ranks if point is Point.RANK_PROLOG else (-1,)
        credential = self._credential
        owner = (credential.uid, credential.gid, credential.groups)
        variables = self._variables(point)
        return [RunHook(self._job_id, hook.program, variables, ranks, point.is_of_node, *owner)]

    def _variables(self, point: Point) -> tuple[bytes, ...]:
        """A hook's environment: of the job for what the owner runs, else what is told."""
        told = {
            "YOD_HOOK": point.value,
            "YOD_JOB_ID": name_of_job(self._job_id, self._credential.allocation),
            "YOD_JOB_UID": self._credential.uid,
            "YOD_JOB_GID": self._credential.gid,
            "YOD_NODE": self._node.node,
            "YOD_NODE_NAME": self._node.name,
            "YOD_NODE_COUNT": len(self._message.nodes),
            "YOD_NODE_RANKS": ",".join(map(str, self._ranks)),
            "YOD_NODE_SLOTS": self._node.slots,
        }
        own = tuple(f"{name}={value}".encode() for name, value in told.items())
        if point.is_of_node:
            options = {option.variable.encode() for option in self._hooks.options}
            given = (each for each in self._environment if _name(each) in options)
            return (_PATH, *given, *own)
        names = {_name(each) for each in own}
        environment = hooklines.changed(self._environment, self._of_all.variables)
        return (*(each for each in environment if _name(each) not in names), *own)

    def due(self, now: float) -> list[Action]:
        """Time has passed: a hook that has not ended in its time is killed."""
        if self._until is None or now < self._until:
            return []
        if not self._is_killed:
            return self._kill(now)
        self._until = None
        assert self._running is not None
        return self._blame(f"{_where(*self._running)} cannot be killed")

    def _kill(self, now: float) -> list[Action]:
        if self._is_killed:
            return []
        self._is_killed, self._until = True, now + self._unkillable_s
        return [KillHook(self._job_id)]

    def ended(self, event: HookEnded, now: float) -> list[Action]:
        """The running hook has ended, with all of its processes."""
        assert self._running is not None
        (point, hook), self._running, self._until = self._running, None, None
        self._progress.extend(now)
        actions: list[Action] = []
        for result in event.results:
            actions += self._heard(point, hook, result)
        if self._state is RunsState.FAILED:
            self._left.clear()
        if self._state is RunsState.BEFORE and self._progress.is_ending:
            return actions  # what has begun is undone
        return [*actions, *self._next(now)]

    def _heard(self, point: Point, hook: Hook, result: HookResult) -> list[Action]:
        where, said = _where(point, hook), hooklines.read(result.output)
        lines = (*said.rest, *result.errors.splitlines())
        actions: list[Action] = [
            Log(f"{where}: {shown(line[:SAID_MAX])}", self._job_id) for line in lines
        ]
        if why := self._why_failed(hook, result, said):
            is_refusal = said.refusal is not None and not self._is_killed
            text = f"{where} {'refuses the job' if is_refusal else 'failed'}: {why}"
            return [*actions, *self._failed(point, text, result.rank, is_refusal)]
        if point is Point.RANK_PROLOG:
            before = self._of_ranks.get(result.rank, NOTHING)
            self._of_ranks[result.rank] = before.then(said.changes)
        elif point in BEFORE:
            self._of_all = self._of_all.then(Changes(said.changes.variables))
        return actions

    def _why_failed(self, hook: Hook, result: HookResult, said: Said) -> str:
        if self._is_killed:
            if self._state is RunsState.BEFORE and self._progress.is_ending:
                return ""  # the job ended meanwhile
            return f"it did not end in {hook.timeout_s:g} s"
        if said.refusal is not None:
            return shown(said.refusal[:SAID_MAX])
        if result.trouble or result.wait_status == 0:
            return result.trouble
        last = next(reversed(result.errors.splitlines()), b"")
        more = f": {shown(last[:SAID_MAX])}" if last else ""
        return how_it_ended(result.wait_status) + more

    def _failed(self, point: Point, text: str, rank: int, is_refusal: bool) -> list[Action]:
        actions: list[Action] = [Log(text, self._job_id)]
        is_unfit = point.is_of_node and not is_refusal
        if point in BEFORE:
            self._state = RunsState.FAILED
            kind = load.FailureKind.UNFIT if is_unfit else load.FailureKind.HOOK
            actions += self._failures.report(kind, text, rank=rank)
        if is_unfit:
            actions += self._blame(text)
        return actions

    def _blame(self, text: str) -> list[Action]:
        """The node is not fit for jobs."""
        return [TellBebopd(alloc.Unfit(self._job_id, self._node.node, text))]


def _where(point: Point, hook: Hook) -> str:
    return f"{point.value} {hook.name}"


def _name(variable: bytes) -> bytes:
    return variable.partition(b"=")[0]
