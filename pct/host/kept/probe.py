"""Whether what was announced of this host holds: CRIU is tried, while the PCT goes on."""

from __future__ import annotations

import os
from collections.abc import Callable

from native.loop.reactor import Reactor
from native.machine import JobEvent
from native.wire.status import Feature
from pct.events import RunSaver, SaverEnded
from pct.host.kept.savers import SaverProcess
from pct.host.spawn.spawner import Spawner
from pct.rare_events import FeaturesSeen

NO_JOB = 0  # whose keeper it is


class Probe:
    """The trial of a criu, from now on, of one feature after the other.

    Each is a saver that saves nothing.

    Args:
        program: the path of criu.
        features: that were announced.
        handle: is told of each that is not there, with those that are left.
    """

    def __init__(
        self,
        program: str,
        features: tuple[Feature, ...],
        reactor: Reactor,
        spawner: Spawner,
        handle: Callable[[FeaturesSeen], None],
    ) -> None:
        self._program = program
        self._features = features
        self._left = list(features)  # the first is being tried
        self._reactor = reactor
        self._spawner = spawner
        self._handle = handle
        self._process: SaverProcess | None = None
        self._try_next()

    def _try_next(self) -> None:
        if not self._left:
            return
        words = (b"try", os.fsencode(self._program), self._left[0].value.encode())
        own = os.geteuid(), os.getegid(), tuple(os.getgroups())
        action = RunSaver(NO_JOB, words, b"", *own)
        try:
            self._process = SaverProcess(action, self._reactor, self._spawner, self._happened)
        except (OSError, ValueError) as error:
            self._tried(f"it cannot be tried: {error}")

    def close(self) -> None:
        """Try no more."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _happened(self, event: JobEvent) -> None:
        if isinstance(event, SaverEnded):
            self.close()
            self._tried(event.trouble)

    def _tried(self, trouble: str) -> None:
        feature = self._left.pop(0)
        if trouble:
            self._features = tuple(each for each in self._features if each is not feature)
            self._handle(FeaturesSeen(self._features, f"no feature {feature.value}: {trouble}"))
        self._try_next()
