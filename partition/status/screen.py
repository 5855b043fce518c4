"""pingd --watch: the table in a terminal, as it changes."""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from native.errors import UsageError
from native.limits import Limits
from native.loop.reactor import Reactor
from native.text import shown
from native.wire.batch import Row
from native.wire.nodes import NodeEvent
from native.wire.status import NodeRow, NodeState
from partition.find.discover import Where
from partition.status import show, why
from partition.status.follow import Follower
from partition.status.window import HEADER, Key, Window, keys

if TYPE_CHECKING:
    from rich.console import RenderableType

TICK_S = 1.0  # elapsed times go on
FRAME_LINES = 4  # totals, header, keys
KEYS_BYTES = 1024
UNKNOWN = (80, 24)  # of a terminal that does not know its size
_HELP = "q leaves · arrows, Page Up, Page Down, Home, End move · n: only nodes that are not free"
_STYLES = {
    NodeState.BUSY: "green",
    NodeState.PENDING: "yellow",
    NodeState.DOWN: "red",
    NodeState.DRAINING: "magenta",
    NodeState.DRAINED: "magenta",
    NodeState.TROUBLE: "red",
}


def watch(
    where: Where, limits: Limits, select: Callable[[Iterable[NodeRow]], list[NodeRow]]
) -> None:
    """Show the table until the user leaves.

    Args:
        select: chooses the rows.

    Raises:
        UsageError: there is no terminal.
        PartitionError: there is no partition.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "--watch needs a terminal; without one use pingd, pingd --json or pingd --web"
        )
    reactor = Reactor()
    try:
        screen = Screen(reactor, Window(select, partial(why.stale_s, limits)), where.name)
        follower = Follower(where, limits, reactor, screen, asks=False)
        try:
            follower.connect()
            screen.run()
        finally:
            follower.close()
    finally:
        reactor.close()


class Screen:
    """The terminal, and what is shown on it."""

    def __init__(self, reactor: Reactor, window: Window, name: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._reactor = reactor
        self._window = window
        self._name = name
        self._lost = ""
        self._console = Console()
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)
        self._tick = reactor.timer(self._draw)

    def run(self) -> None:
        """Show until the user leaves."""
        reactor = self._reactor
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            reactor.on_signal(number, reactor.stop)
        reactor.on_signal(signal.SIGWINCH, self._draw)
        reactor.on_signal(signal.SIGTSTP, self._suspend)
        watch = reactor.watch(self._fd, self._pressed)
        try:
            self._begin()
            reactor.run()
        finally:
            watch.close()
            self._end()

    # -- what follows the partition ----------------------------------------

    def changed(self, rows: Sequence[NodeRow], is_whole: bool) -> None:
        """New rows of bebopd's table."""
        self._lost = ""
        self._window.changed(rows, is_whole, time.time())
        self._draw()

    def asked(self, jobs: Sequence[Row], events: Sequence[NodeEvent]) -> None:
        """Nothing of that is shown."""

    def lost(self, text: str) -> None:
        """bebopd is out of reach."""
        self._lost = text
        self._draw()

    # -- the terminal ------------------------------------------------------

    def _begin(self) -> None:
        tty.setcbreak(self._fd)
        self._live.start()
        self._draw()

    def _end(self) -> None:
        self._live.stop()
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def _suspend(self) -> None:
        self._end()
        self._reactor.suspend(signal.SIGTSTP)
        self._begin()

    def _pressed(self) -> None:
        try:
            data = os.read(self._fd, KEYS_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        pressed = keys(data)
        if not data or Key.QUIT in pressed:
            self._reactor.stop()
            return
        for key in pressed:
            self._window.press(key, self._height)
        self._draw()

    @property
    def _height(self) -> int:
        return max(1, self._console.size.height - FRAME_LINES)

    def _draw(self) -> None:
        from rich.console import ConsoleDimensions

        # The terminal's, also where COLUMNS and LINES say how large it was.
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        self._console.size = ConsoleDimensions(columns or UNKNOWN[0], lines or UNKNOWN[1])
        self._live.update(self._picture(), refresh=True)
        self._tick.set(self._reactor.monotonic() + TICK_S)

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now = time.time()
        rows, first, count = self._window.seen(self._height, now)
        table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        for column, title in enumerate(HEADER):
            side = "right" if column in (0, 3) else "left"
            ratio = 1 if column == len(HEADER) - 1 else None
            table.add_column(title, justify=side, no_wrap=True, ratio=ratio)  # type: ignore[arg-type]
        for row in rows:
            cells = (Text(cell) for cell in self._window.cells(row, now))
            table.add_row(*cells, style=_STYLES.get(row.state, ""))
        totals = " · ".join(show.totals(self._window.rows))
        place = f"{first + 1}..{first + len(rows)} of {count}" if rows else "no nodes"
        below = f"{shown(self._lost)}; trying again" if self._lost else _HELP
        return Group(
            Text(f"{totals} · {self._name}", no_wrap=True, overflow="ellipsis", style="bold"),
            table,
            *(Text("") for _ in range(self._height - len(rows))),
            Text(place, style="dim"),
            Text(below, no_wrap=True, overflow="ellipsis", style="red" if self._lost else "dim"),
        )
