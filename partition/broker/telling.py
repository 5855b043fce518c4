"""Tells the partition's bebopd of ended steps, over a port of its own."""

from __future__ import annotations

from collections.abc import Callable

from native.errors import YodError
from native.loop.reactor import Reactor
from native.port.port import Opened, PeerLost, Received
from native.wire.alloc import Refused
from native.wire.batch import StepsHeard
from partition.broker.steps import EndedSteps

AFTER_S = 1.0  # from the first step that is to be told
AGAIN_S = 10.0  # without an answer
END_S = 5.0  # the end of the allocation waits so long for the last answer


class Telling:
    """The conversation about steps. The port is opened when there is something to tell.

    Args:
        steps: that have ended.
        open_port: opens a port to the partition's bebopd, whose key is the owner's.
    """

    def __init__(
        self, steps: EndedSteps, open_port: Callable[[], Opened], reactor: Reactor
    ) -> None:
        self._steps = steps
        self._open_port = open_port
        self._reactor = reactor
        self._opened: Opened | None = None
        self._timer = reactor.timer(self._tell)
        self._end_timer = reactor.timer(self._finish)
        self._is_asked = False  # a piece is on its way
        self._is_refused = False
        self._on_finished: Callable[[], None] | None = None

    def look(self) -> None:
        """Steps may have ended."""
        if self._steps.is_heard or self._is_asked or self._is_refused:
            return
        if self._steps.fills_piece or self._on_finished is not None:
            self._tell()
        elif self._timer.at is None:
            self._timer.set(self._reactor.monotonic() + AFTER_S)

    def finish(self, on_finished: Callable[[], None]) -> None:
        """Tell what is left; call when that is done, or no answer comes."""
        self._on_finished = on_finished
        if self._steps.is_heard or self._is_refused:
            self._finish()
            return
        self._end_timer.set(self._reactor.monotonic() + END_S)
        self.look()

    def close(self) -> None:
        """Tell nothing any more."""
        self._timer.close()
        self._end_timer.close()
        if self._opened is not None:
            self._watch.close()
            self._opened.close()
            self._opened = None

    def _tell(self) -> None:
        if self._steps.is_heard:
            return
        if self._opened is None:
            try:
                self._opened = self._open_port()
            except YodError:  # the history lacks these steps, and nothing else
                self._give_up()
                return
            self._watch = self._opened.port.listen(self._reactor, self._ready)
        self._is_asked = True
        self._timer.set(self._reactor.monotonic() + AGAIN_S)
        self._opened.port.send(self._opened.bebopd, self._steps.next_piece())

    def _ready(self) -> None:
        assert self._opened is not None
        for event in self._opened.port.events():
            match event:
                case Received(_, _, StepsHeard(_, first)):
                    self._heard(first)
                case Received(_, _, Refused()):
                    self._give_up()  # bebopd knows no such allocation any more
                case PeerLost():  # it may come back
                    self._timer.set(self._reactor.monotonic() + AFTER_S)
            if self._opened is None:
                return

    def _heard(self, first: int) -> None:
        if not self._steps.heard(first):
            return
        self._is_asked = False
        self._timer.set(None)
        if self._steps.is_heard:
            self._finish()
        else:
            self.look()

    def _give_up(self) -> None:
        self._is_refused = True
        self._timer.set(None)
        self._finish()

    def _finish(self) -> None:
        on_finished, self._on_finished = self._on_finished, None
        if on_finished is not None:
            self._end_timer.set(None)
            on_finished()
