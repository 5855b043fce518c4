"""The processes of a site's hook, under a keeper of their own: none outlives it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from native.loop.reactor import Reactor
from native.wire import keeper as wire
from pct.events import HookEnded, HookResult, RunHook
from pct.host.keeper import Keeper
from pct.host.spawn.spawner import Spawner
from pct.host.streams import OutputPipe

OUTPUT_BYTES = 64 * 1024  # of one process that are kept: the first of its output
ERRORS_BYTES = 4096  # and the last of its errors
_NOT_STARTED = -1


class _Process:
    """What is known of one process."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.trouble = ""
        self.wait_status = _NOT_STARTED
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
        self._reactor = reactor
        self._spawner = spawner
        self._done = done
        self._processes = [_Process(rank) for rank in action.ranks]
        self._outputs: dict[tuple[int, int], OutputPipe] = {}
        self._is_empty = False
        self._keeper = Keeper.start(
            _spec(action), spawner, reactor, self._report, self._take_streams
        )

    def kill(self) -> None:
        """Kill it, and everything below it."""
        self._keeper.end()

    def close(self) -> None:
        """Hang up: it ends, and nobody is told."""
        self._done = lambda event: None
        self._keeper.close()
        for output in self._outputs.values():
            output.close()

    def _take_streams(
        self, place: int, stdin: int | None, stdout: int, stderr: int, client: int | None
    ) -> None:
        for stream, fd in ((1, stdout), (2, stderr)):
            pipe = OutputPipe(self._reactor, fd, partial(self._read, place, stream))
            self._outputs[place, stream] = pipe

    def _read(self, place: int, stream: int, data: bytes) -> None:
        self._processes[place].read(stream, data)
        if not data:
            del self._outputs[place, stream]
            self._look_at_end()

    def _report(self, report: wire.Report) -> None:
        match report:
            case wire.ExecFailed(place):
                self._processes[place].trouble = report.explain()
            case wire.RankEnded(place, wait_status):
                self._processes[place].wait_status = wait_status
                if all(each.wait_status != _NOT_STARTED for each in self._processes):
                    self._keeper.end()
            case wire.KeeperLost(reason):
                for each in self._processes:
                    each.trouble = each.trouble or reason
                self._spawner.kill_orphans(self._ended)
            case wire.KeeperEmpty():
                self._ended()

    def _ended(self) -> None:
        """No process is left; what the pipes hold now is the last."""
        self._is_empty = True
        for output in list(self._outputs.values()):
            output.finish()
        self._look_at_end()

    def _look_at_end(self) -> None:
        if not self._is_empty or self._outputs:
            return
        results = tuple(
            HookResult(each.rank, each.wait_status, each.trouble, each.kept[1], each.kept[2])
            for each in self._processes
        )
        # When the loop has none of its callbacks on the way.
        self._reactor.call_soon(partial(self._done, HookEnded(self._job_id, results)))


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
