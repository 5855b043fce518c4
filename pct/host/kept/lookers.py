"""What looks at the stacks of ranks, under a keeper of its own, as the job's owner."""

from __future__ import annotations

import os
from collections.abc import Callable

from native.host import programs
from native.loop.reactor import Reactor
from native.machine import JobEvent
from native.waitstatus import how_it_ended
from native.wire import keeper as wire
from native.wire.base import TEXT_MAX
from pct.host.kept.command import command_spec
from pct.host.kept.processes import NOT_STARTED, KeptProcesses
from pct.host.spawn.spawner import Spawner
from pct.rare_events import LookerEnded, RunLooker

_CODE = "from partition.stacks.looker import main; main()"


class LookerProcess:
    """One that looks, from its start until nothing of it is left.

    It writes a tree of stacks, and on standard error what is wrong with it.

    Args:
        handle: takes its end.
    """

    def __init__(
        self,
        action: RunLooker,
        reactor: Reactor,
        spawner: Spawner,
        handle: Callable[[JobEvent], None],
    ) -> None:
        self._job_id = action.job_id
        self._handle = handle
        self._most_bytes = action.most_bytes
        self._kept_bytes = {1: b"", 2: b""}
        self._trouble = ""
        self._wait_status = NOT_STARTED
        command = programs.own_python(_CODE, *map(os.fsdecode, action.words))
        self._kept = KeptProcesses(
            command_spec(command, action, wants_stdin=False),
            reactor,
            spawner,
            report=self._report,
            read=self._read,
            lost=self._lost,
            done=self._ended,
        )

    def kill(self) -> None:
        """Kill it, and everything below it."""
        self._trouble = "it took too long"
        self._kept.kill()

    def close(self) -> None:
        """Hang up: it ends, and nobody is told."""
        self._kept.close()

    def _read(self, _number: int, stream: int, data: bytes) -> None:
        kept = self._kept_bytes[stream] + data
        most = self._most_bytes if stream == 1 else TEXT_MAX // 4
        self._kept_bytes[stream] = kept[:most]

    def _report(self, report: wire.Report) -> None:
        match report:
            case wire.ExecFailed():
                self._trouble = report.explain()
            case wire.RankEnded(_, wait_status):
                self._wait_status = wait_status
                self._kept.kill()

    def _lost(self, why: str) -> None:
        self._trouble = self._trouble or why

    def _ended(self) -> None:
        said = " ".join(self._kept_bytes[2].decode(errors="replace").split())
        trouble = self._trouble or said
        if self._wait_status and not trouble:
            trouble = f"what looks at the ranks {how_it_ended(self._wait_status)}"
        self._handle(LookerEnded(self._job_id, self._kept_bytes[1], trouble))
