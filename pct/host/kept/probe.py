"""Whether what was announced of this host holds: CRIU is tried once, while the PCT goes on."""

from __future__ import annotations

import os
from collections.abc import Callable

from native.loop.reactor import Reactor
from native.machine import JobEvent
from pct.events import RunSaver, SaverEnded
from pct.host.kept.savers import SaverProcess
from pct.host.spawn.spawner import Spawner
from pct.rare_events import FeaturesSeen

NO_JOB = 0  # whose keeper it is


class Probe:
    """The trial of a criu, from now on. It is a saver that saves nothing.

    Args:
        program: the path of criu.
        handle: is told if it does not work here.
    """

    def __init__(
        self,
        program: str,
        reactor: Reactor,
        spawner: Spawner,
        handle: Callable[[FeaturesSeen], None],
    ) -> None:
        self._handle = handle
        action = RunSaver(
            NO_JOB,
            (b"try", os.fsencode(program)),
            b"",
            os.geteuid(),
            os.getegid(),
            tuple(os.getgroups()),
        )
        self._process: SaverProcess | None = None
        try:
            self._process = SaverProcess(action, reactor, spawner, self._happened)
        except (OSError, ValueError) as error:
            self._is_not(f"it cannot be tried: {error}")

    def close(self) -> None:
        """Try no more."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _happened(self, event: JobEvent) -> None:
        if isinstance(event, SaverEnded):
            self.close()
            if event.trouble:
                self._is_not(event.trouble)

    def _is_not(self, why: str) -> None:
        self._handle(FeaturesSeen((), f"no feature criu: {why}"))
