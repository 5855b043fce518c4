"""Whether a node is well, while no job is on it.

Every ``health_s`` the host is looked at, then the site's hooks of the point ``health`` run, one
after another. The first thing that is not well puts the node in trouble, with its reason, and
bebopd gives it to no job; when all is well again the trouble is over. A job that comes while
checks run makes them void: its processes may be what they have seen.

Pure: no clock, no I/O. Source: Cplant's pct_health.c; Slurm's HealthCheckProgram.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from native.hooks import Hook
from native.limits import Limits
from native.machine import Action, DeadlineReached, Event
from native.text import shown
from native.waitstatus import how_it_ended
from pct.events import HookResult

SAID_MAX = 200  # bytes of a hook's words


class LookAtHost(Action, frozen=True):
    """See how the host is; answered by :class:`HostSeen`."""


class LookForRogues(Action, frozen=True):
    """Look for processes of the batch job that nobody will end."""


class RunCheck(Action, frozen=True):
    """Run a check of the site's; answered by :class:`CheckEnded`."""

    hook: Hook


class KillCheck(Action, frozen=True):
    """Kill the check that runs."""


class Tell(Action, frozen=True):
    """This is how the node is.

    Attributes:
        trouble: why it is to be given to no job; empty: it is well.
    """

    trouble: str


class HostSeen(Event, frozen=True):
    """What of the host is not well; empty: all is."""

    trouble: str


class CheckEnded(Event, frozen=True):
    """A check of the site's has ended, and everything below it."""

    result: HookResult


class HealthState(Enum):
    """What goes on."""

    RESTING = "until the next look"
    LOOKING = "at the host"
    CHECKING = "a hook runs"


class Health:
    """State machine of a node's checks.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Args:
        hooks: the site's checks.
        now: seconds, monotonic. The first look is at once if the site has checks.
        has_rogues: the batch system leaves processes behind; for them the host is looked at
            also while jobs are there.
    """

    def __init__(
        self, hooks: tuple[Hook, ...], limits: Limits, now: float, *, has_rogues: bool = False
    ) -> None:
        self.state = HealthState.RESTING
        self._hooks = hooks
        self._has_rogues = has_rogues
        self._every_s = limits.health_s
        self._next: deque[Hook] = deque()
        self._running: Hook | None = None
        self._is_killed = False
        self._due: float | None = None
        if self._every_s:
            self._due = now if hooks else now + self._every_s

    def deadline(self) -> float | None:
        """When the next ``DeadlineReached`` is due; None: nothing is timed."""
        return self._due

    def handle(self, event: Event, is_idle: bool, now: float) -> list[Action]:
        """Advance by one event.

        Args:
            is_idle: no job is on the node.
        """
        match self.state, event:
            case HealthState.RESTING, DeadlineReached():
                return self._begin(is_idle, now)
            case HealthState.LOOKING, HostSeen(trouble):
                self._next = deque(self._hooks)
                return self._go_on(trouble, is_idle, now)
            case HealthState.CHECKING, CheckEnded(result):
                return self._go_on(self._judge(result), is_idle, now)
            case HealthState.CHECKING, DeadlineReached():
                self._due, self._is_killed = None, True
                return [KillCheck()]
        return []

    def _begin(self, is_idle: bool, now: float) -> list[Action]:
        actions: list[Action] = [LookForRogues()] if self._has_rogues else []
        if not is_idle:
            self._due = now + self._every_s
            return actions
        self.state, self._due = HealthState.LOOKING, None
        return [*actions, LookAtHost()]

    def _go_on(self, trouble: str, is_idle: bool, now: float) -> list[Action]:
        self._running = None
        if trouble or not is_idle or not self._next:
            self.state, self._due = HealthState.RESTING, now + self._every_s
            return [Tell(trouble)] if is_idle else []
        self._running = hook = self._next.popleft()
        self.state, self._is_killed = HealthState.CHECKING, False
        self._due = now + hook.timeout_s
        return [RunCheck(hook)]

    def _judge(self, result: HookResult) -> str:
        """Why the check that has ended failed; empty: it has not."""
        hook = self._running
        assert hook is not None
        if self._is_killed:
            return f"health check {hook.name} took longer than {hook.timeout_s:g} s"
        if not result.trouble and result.wait_status == 0:
            return ""
        how = result.trouble or how_it_ended(result.wait_status)
        said = (
            result.errors.decode(errors="replace").strip()
            or result.output.decode(errors="replace").strip()
        )
        why = shown(said.splitlines()[-1][:SAID_MAX]) if said else how
        return f"health check {hook.name}: {why}"
