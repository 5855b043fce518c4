"""Carries out what the machine of a node's health decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from native.hooks import Hook, Point
from native.loop.reactor import Reactor
from native.machine import Action, DeadlineReached, Event
from pct.events import HookEnded, HookResult, RunHook
from pct.health import (
    CheckEnded,
    Health,
    HostSeen,
    KillCheck,
    LookAtHost,
    LookForRogues,
    RunCheck,
    Tell,
)
from pct.host.kept.hooks import HookProcesses
from pct.host.spawn.spawner import Spawner

NO_JOB = 0  # whose keeper it is
_PATH = b"PATH=/usr/sbin:/usr/bin:/sbin:/bin"


class HealthWatch:
    """The health of this node, from now on.

    Args:
        look: gives a new look at the host, in pieces: what is not well, or an empty text.
        is_idle: tells whether no job is on the node.
        name: of the node, for the site's checks.
        tell: takes why the node is in trouble; empty: it is well.
        look_for_rogues: gives a new look for processes that nobody ends: empty texts, and last
            which there are.
        tell_rogues: takes which; empty: there are none.
    """

    def __init__(
        self,
        health: Health,
        reactor: Reactor,
        spawner: Spawner,
        *,
        look: Callable[[], Iterator[str]],
        is_idle: Callable[[], bool],
        name: str,
        tell: Callable[[str], None],
        look_for_rogues: Callable[[], Iterator[str]] = lambda: iter(()),
        tell_rogues: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._health = health
        self._reactor = reactor
        self._spawner = spawner
        self._looks = look
        self._is_idle = is_idle
        self._name = name
        self._tell = tell
        self._look_for_rogues = look_for_rogues
        self._tell_rogues = tell_rogues
        self._is_looking_for_rogues = False
        self._check: HookProcesses | None = None
        self._is_closed = False
        self._timer = reactor.timer(lambda: self._handle(DeadlineReached()))
        self._timer.set(health.deadline())

    def close(self) -> None:
        """Look no more; a check that runs ends."""
        self._is_closed = True
        self._timer.close()
        if self._check is not None:
            self._check.close()

    def _handle(self, event: Event) -> None:
        if self._is_closed:
            return
        actions = self._health.handle(event, self._is_idle(), self._reactor.monotonic())
        self._timer.set(self._health.deadline())
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case LookAtHost():
                self._look(self._looks())
            case LookForRogues():
                if not self._is_looking_for_rogues:
                    self._is_looking_for_rogues = True
                    self._seek(self._look_for_rogues(), "")
            case RunCheck(hook):
                self._run(hook)
            case KillCheck():
                if self._check is not None:
                    self._check.kill()
            case Tell(trouble):
                self._tell(trouble)
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _look(self, left: Iterator[str]) -> None:
        """One piece in each turn of the loop."""
        if self._is_closed:
            return
        trouble = next(left, None)
        if trouble is None or trouble:
            self._handle(HostSeen(trouble or ""))
        else:
            self._reactor.call_soon(lambda: self._look(left))

    def _seek(self, left: Iterator[str], found: str) -> None:
        """The same, for processes that nobody ends."""
        if self._is_closed:
            return
        text = next(left, None)
        if text is None:
            self._is_looking_for_rogues = False
            self._tell_rogues(found)
        else:
            self._reactor.call_soon(lambda: self._seek(left, text))

    def _run(self, hook: Hook) -> None:
        said = (f"YOD_HOOK={Point.HEALTH.value}", f"YOD_NODE_NAME={self._name}")
        environment = (_PATH, *(text.encode() for text in said))
        action = RunHook(NO_JOB, hook.program, environment, (-1,), True, 0, 0, ())
        try:
            self._check = HookProcesses(action, self._reactor, self._spawner, self._ended)
        except (OSError, ValueError) as error:
            text = f"it cannot be started: {error}"
            self._handle(CheckEnded(HookResult(-1, -1, text, b"", b"")))

    def _ended(self, event: HookEnded) -> None:
        check, self._check = self._check, None
        if check is not None:
            check.close()
        self._handle(CheckEnded(event.results[0]))
