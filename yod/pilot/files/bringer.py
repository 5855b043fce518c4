"""Copies, moves and links files in a thread, so that the loop never waits for the file system."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from native.loop.reactor import Reactor
from yod.pilot.files.attempt import Attempt
from yod.pilot.model.staging import Directive

if TYPE_CHECKING:
    from native.loop.aside import Aside

Tried = list[Attempt]


class Bringer:
    """Does directives one after another, in a thread that begins with the first."""

    def __init__(self, reactor: Reactor, name: str) -> None:
        self._reactor = reactor
        self._name = name
        self._aside: Aside | None = None

    def bring(
        self,
        directives: list[Directive],
        roots: Mapping[str, str],
        then: Callable[[Tried], None],
    ) -> None:
        """Do directives of one task; ``then`` takes those that were tried."""

        def work() -> Tried:
            from yod.pilot.files.staging import bring_all

            with suppress(OSError):  # the first directive tells
                os.makedirs(roots["task"], exist_ok=True)
            return bring_all(directives, roots)

        self._there().give(work, then)

    def do(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Do something else that waits for the file system, and raises nothing."""
        self._there().give(work, lambda _: then())

    def _there(self) -> Aside:
        if self._aside is None:
            from native.loop.aside import Aside

            self._aside = Aside(self._reactor, self._name)
        return self._aside

    def close(self) -> None:
        """Do nothing more. What is being done may go on in the thread."""
        if self._aside is not None:
            self._aside.close(0.0)
            self._aside = None
