"""Processes under a keeper of their own, from their start until nothing of them is left.

The end has three parts: the keeper says that no process is left, or what a lost one has left is
killed; the control group, if there is one, is emptied and removed; the pipes are read to their end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from native.loop.closing import close_all
from native.loop.reactor import Reactor
from native.loop.slices import Slices
from native.wire import keeper as wire
from pct.host.keeper import Keeper
from pct.host.spawn.orphans import tree_of
from pct.host.spawn.spawner import Spawner
from pct.host.streams import OutputPipe

if TYPE_CHECKING:
    from pct.host.cgroups.job import JobGroup

NOT_STARTED = -1  # in place of a wait status


class Place(NamedTuple):
    """Where the processes are.

    Attributes:
        group: their control group; None: they have none of their own.
        slices: where it is removed.
    """

    group: JobGroup
    slices: Slices


class KeptProcesses:
    """The processes of one keeper and their output.

    Args:
        report: takes what the keeper says of them; not of its own end.
        read: takes a process's number, a stream's, and data; empty: the end of the stream.
        lost: takes why the keeper is lost, or was not started.
        done: called once, when nothing is left.
        take_input: takes the descriptor of a process's standard input.
    """

    def __init__(
        self,
        spec: wire.KeeperSpec,
        reactor: Reactor,
        spawner: Spawner,
        *,
        report: Callable[[wire.Report], None],
        read: Callable[[int, int, bytes], None],
        lost: Callable[[str], None],
        done: Callable[[], None],
        take_input: Callable[[int], None] | None = None,
        place: Place | None = None,
    ) -> None:
        self._job_id = spec.job_id
        self._reactor = reactor
        self._spawner = spawner
        self._on_report = report
        self._on_read = read
        self._on_lost = lost
        self._on_done = done
        self._take_input = take_input
        self._place = place
        self._outputs: dict[tuple[int, int], OutputPipe] = {}
        self._is_empty = False
        self._is_over = False
        if place is not None:
            group = place.group
            spec = replace(spec, group=os.fsencode(group.path), denied=group.denied)
        try:
            self._keeper = Keeper.start(
                spec,
                spawner,
                reactor,
                self._report,
                self._take_streams,
                on_not_started=self._not_started,
            )
        except BaseException:
            if place is not None:
                place.group.close()
            raise

    def kill(self) -> None:
        """Kill them, and everything below them."""
        self._keeper.end()

    def kill_keeper(self) -> None:
        """Kill the keeper itself, which is then lost."""
        self._keeper.kill()

    def left(self) -> set[int]:
        """Processes that are there: the keeper with all below it, and what a lost one has left."""
        found = set(self._spawner.unkilled())
        if self._keeper.unix_pid and not self._is_empty:
            found.update(tree_of(self._keeper.unix_pid))
        if self._place is not None:
            found.update(self._place.group.processes())
        return found

    def close(self) -> None:
        """Hang up: they end, and nobody is told."""
        self._on_done = _nobody
        calls: list[Callable[[], None]] = []
        if self._place is not None:
            calls.append(self._place.group.close)
        calls += [output.close for output in self._outputs.values()]
        close_all([*calls, self._keeper.close])

    def _take_streams(
        self, number: int, stdin: int | None, stdout: int, stderr: int, client: int | None
    ) -> None:
        assert client is None
        if stdin is not None:
            assert self._take_input is not None
            self._take_input(stdin)
        for stream, fd in ((1, stdout), (2, stderr)):
            pipe = OutputPipe(self._reactor, fd, partial(self._read, number, stream))
            self._outputs[number, stream] = pipe

    def _read(self, number: int, stream: int, data: bytes) -> None:
        self._on_read(number, stream, data)
        if not data:
            del self._outputs[number, stream]
            self._look_at_end()

    def _report(self, report: wire.Report) -> None:
        match report:
            case wire.KeeperLost(reason):
                self._on_lost(reason)
                self._spawner.kill_orphans(self._ended)
            case wire.KeeperEmpty():
                self._ended()
            case _:
                self._on_report(report)

    def _not_started(self, why: str) -> None:
        self._on_lost(why)
        self._ended()

    def _ended(self) -> None:
        """The keeper and its processes have ended; what is left in the group is killed."""
        if self._place is None:
            self._emptied()
        else:
            group, slices = self._place
            group.end(self._reactor, slices, self._job_id, self._emptied)

    def _emptied(self) -> None:
        """No process is left; what the pipes hold now is the last."""
        self._is_empty = True
        for output in list(self._outputs.values()):
            output.finish()
        self._look_at_end()

    def _look_at_end(self) -> None:
        if self._is_empty and not self._outputs and not self._is_over:
            self._is_over = True
            # When the loop has none of its callbacks on the way.
            self._reactor.call_soon(self._over)

    def _over(self) -> None:
        self._on_done()


def _nobody() -> None:
    """Has nothing to be told."""
