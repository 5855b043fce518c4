"""What runs on a node beside the ranks of a job: hooks of the site, savers, what looks at ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from native.loop.closing import close_all
from native.loop.reactor import Reactor
from native.machine import Event, JobEvent
from pct import events, rare_events
from pct.host.spawn.spawner import Spawner

if TYPE_CHECKING:
    from pct.host.kept.hooks import HookProcesses
    from pct.host.kept.lookers import LookerProcess
    from pct.host.kept.savers import SaverProcess


class JobHelpers:
    """The hook, the saver and the looker of each job, if they run.

    Args:
        handle: takes what becomes of them.
    """

    def __init__(self, reactor: Reactor, spawner: Spawner, handle: Callable[[Event], None]) -> None:
        self._reactor = reactor
        self._spawner = spawner
        self._handle = handle
        self._hooks: dict[int, HookProcesses] = {}
        self._savers: dict[int, SaverProcess] = {}
        self._lookers: dict[int, LookerProcess] = {}

    def perform(self, action: events.HelperAction) -> None:
        """Carry out an action."""
        job_id = action.job_id
        match action:
            case events.RunHook():
                self._run_hook(action)
            case events.KillHook() if (hook := self._hooks.get(job_id)) is not None:
                hook.kill()
            case events.RunSaver():
                self._run_saver(action)
            case events.TellSaver() if (saver := self._savers.get(job_id)) is not None:
                saver.tell(action)
            case rare_events.MarkRank(_, rank) if (saver := self._savers.get(job_id)) is not None:
                saver.mark(rank)
            case rare_events.PassToSaver() if (saver := self._savers.get(job_id)) is not None:
                saver.give(action)
            case events.KillSaver() if (saver := self._savers.get(job_id)) is not None:
                saver.kill()
            case rare_events.RunLooker():
                self._run_looker(action)
            case rare_events.ReadUse(_, unix_pids, is_whole):
                from pct.host import usage  # likewise

                used = usage.read(unix_pids, is_whole=is_whole)
                self._handle(rare_events.UseRead(job_id, used, is_whole))
            case rare_events.KillLooker() if (looker := self._lookers.get(job_id)) is not None:
                looker.kill()

    def drop(self, job_id: int) -> None:
        """Hang up on those of a job: they end, and nobody is told."""
        calls: list[Callable[[], None]] = []
        if (hook := self._hooks.pop(job_id, None)) is not None:
            calls.append(hook.close)
        if (saver := self._savers.pop(job_id, None)) is not None:
            calls.append(saver.close)
        if (looker := self._lookers.pop(job_id, None)) is not None:
            calls.append(looker.close)
        close_all(calls)

    def _run_hook(self, action: events.RunHook) -> None:
        from pct.host.kept.hooks import HookProcesses  # few sites have any

        around = self._reactor, self._spawner, self._happened
        try:
            self._hooks[action.job_id] = HookProcesses(action, *around)
        except (OSError, ValueError) as error:
            results = tuple(
                events.HookResult(rank, -1, f"it cannot be started: {error}", b"", b"")
                for rank in action.ranks
            )
            self._handle(events.HookEnded(action.job_id, results))

    def _run_saver(self, action: events.RunSaver) -> None:
        from pct.host.kept.savers import SaverProcess  # few jobs have any

        around = self._reactor, self._spawner, self._happened
        try:
            self._savers[action.job_id] = SaverProcess(action, *around)
        except (OSError, ValueError) as error:
            text = f"its saver cannot be started: {error}"
            self._handle(events.SaverEnded(action.job_id, trouble=text))

    def _run_looker(self, action: rare_events.RunLooker) -> None:
        from pct.host.kept.lookers import LookerProcess  # likewise

        around = self._reactor, self._spawner, self._happened
        try:
            self._lookers[action.job_id] = LookerProcess(action, *around)
        except (OSError, ValueError) as error:
            text = f"nothing can look at the ranks: {error}"
            self._handle(rare_events.LookerEnded(action.job_id, b"", text))

    def _happened(self, event: JobEvent) -> None:
        match event:
            case events.HookEnded(job_id):
                self._hooks.pop(job_id).close()
            case events.SaverEnded(job_id):
                self._savers.pop(job_id).close()
            case rare_events.LookerEnded(job_id):
                self._lookers.pop(job_id).close()
        self._handle(event)
