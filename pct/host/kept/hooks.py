"""The processes of a site's hook, under a keeper of their own: none outlives it."""

from __future__ import annotations

import os
from collections.abc import Callable

from native.loop.reactor import Reactor
from native.wire import keeper as wire
from pct.events import HookEnded, HookResult, RunHook
from pct.host.kept.processes import NOT_STARTED, KeptProcesses
from pct.host.spawn.spawner import Spawner

OUTPUT_BYTES = 64 * 1024  # of one process that are kept: the first of its output
ERRORS_BYTES = 4096  # and the last of its errors


class _Process:
    """What is known of one process."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.trouble = ""
        self.wait_status = NOT_STARTED
        self.kept = {1: b"", 2: b""}

    def read(self, stream: int, data: bytes) -> None:
        """It has written."""
        both = self.kept[stream] + data
        self.kept[stream] = both[:OUTPUT_BYTES] if stream == 1 else both[-ERRORS_BYTES:]


class HookProcesses:
    """One hook, from its start until nothing of it is left.

    Args:
        done: takes what became of it, once.
    """

    def __init__(
        self,
        action: RunHook,
        reactor: Reactor,
        spawner: Spawner,
        done: Callable[[HookEnded], None],
    ) -> None:
        self._job_id = action.job_id
        self._done = done
        self._processes = [_Process(rank) for rank in action.ranks]
        self._kept = KeptProcesses(
            _spec(action),
            reactor,
            spawner,
            report=self._report,
            read=self._read,
            lost=self._lost,
            done=self._ended,
        )

    def kill(self) -> None:
        """Kill it, and everything below it."""
        self._kept.kill()

    def close(self) -> None:
        """Hang up: it ends, and nobody is told."""
        self._kept.close()

    def _read(self, number: int, stream: int, data: bytes) -> None:
        self._processes[number].read(stream, data)

    def _report(self, report: wire.Report) -> None:
        match report:
            case wire.ExecFailed(number):
                self._processes[number].trouble = report.explain()
            case wire.RankEnded(number, wait_status):
                self._processes[number].wait_status = wait_status
                if all(each.wait_status != NOT_STARTED for each in self._processes):
                    self._kept.kill()

    def _lost(self, why: str) -> None:
        for each in self._processes:
            each.trouble = each.trouble or why

    def _ended(self) -> None:
        results = tuple(
            HookResult(each.rank, each.wait_status, each.trouble, each.kept[1], each.kept[2])
            for each in self._processes
        )
        self._done(HookEnded(self._job_id, results))


def _spec(action: RunHook) -> wire.KeeperSpec:
    is_own = action.is_roots or os.geteuid() != 0
    program = os.fsencode(action.program)
    of_rank = [(b"YOD_RANK=%d" % rank,) if rank >= 0 else () for rank in action.ranks]
    return wire.KeeperSpec(
        job_id=action.job_id,
        uid=os.geteuid() if is_own else action.uid,
        gid=os.getegid() if is_own else action.gid,
        groups=() if is_own else action.groups,
        umask=0o022,
        limits=(),
        environment=action.environment,
        programs=(wire.ProgramSpec(program, (program,), b"/", wire.Hold.BEFORE_EXEC),),
        ranks=tuple(
            wire.RankSpec(place, 0, variables, wants_stdin=False, wants_pmi=False)
            for place, variables in enumerate(of_rank)
        ),
        is_alone=True,
    )
