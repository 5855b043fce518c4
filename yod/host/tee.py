"""Files that yod writes the output of ranks to, beside what it shows (``--tee``)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from native import pattern
from native.ids import name_of_job
from native.text import shown
from native.wire.alloc import Grant
from native.wire.group import RankFiles
from yod.host.front import Front, OnWritten, Screen
from yod.launch.closing import Append
from yod.launch.lines import Ranks
from yod.plan.plan import Plan

OnFailed = Callable[[str], None]
Path = str  # absolute, or in the directory of yod; empty: no file


class RankPaths:
    """Which file each stream of each rank goes to. Pure.

    Ranks that are spawned later have none.
    """

    def __init__(self, plan: Plan, files: RankFiles, grant: Grant) -> None:
        self._job = name_of_job(grant.job_id, grant.allocation)
        self._places = tuple(grant.runs.places())
        self._nodes = tuple(grant.nodes.names())
        self._patterns = [each.decode(errors="surrogateescape") for each in (files.out, files.err)]
        members = zip(plan.specs, plan.arguments.members, strict=True)
        self._programs = [load.arguments[0] for spec, load in members for _ in range(spec.size)]
        self._directory = plan.options.directory

    def of(self, rank: int, stream: int) -> Path:
        """The file of a rank's standard output (1) or error (2)."""
        text = self._patterns[stream - 1]
        if not text or rank >= len(self._programs):
            return ""
        place = self._places[rank]
        return os.path.join(
            self._directory,
            pattern.expand(
                text,
                pattern.values_of_rank(
                    self._job, place, self._nodes[place], rank, self._programs[rank]
                ),
            ),
        )

    def all(self) -> dict[Path, None]:
        """Each file once."""
        ranks = range(len(self._programs))
        return dict.fromkeys(path for rank in ranks for s in (1, 2) if (path := self.of(rank, s)))


class Copies:
    """The files of one launch. They are there, and empty, before there is output.

    Args:
        on_failed: takes why a file cannot be written, once for all of them.
        say: takes a line for the user.
    """

    def __init__(
        self,
        front: Front,
        plan: Plan,
        files: RankFiles,
        on_failed: OnFailed,
        say: Callable[[str], None],
    ) -> None:
        self._front = front
        self._plan = plan
        self._files = files
        self._on_failed = on_failed
        self._say = say
        self._paths: RankPaths | None = None
        self._has_failed = False
        chosen = plan.checkpointing
        where = None if chosen is None else chosen.where
        self._restart = "" if where is None else os.fsdecode(where.restart)

    def begin(self, grant: Grant) -> None:
        """Begin the files of all ranks: the grant has the nodes that their names need."""
        self._paths = RankPaths(self._plan, self._files, grant)
        if self._restart and self._files.appends:
            from native.host.marks import outputs  # few launches go on

            for mark in outputs.read(self._restart).files:
                if mark.path in self._paths.all() and not outputs.cut(mark):
                    text = f"--tee {shown(mark.path)} is not the file of the checkpoint"
                    self._say(f"{text}: output goes on behind what it has")
        for path in self._paths.all():
            self._append(path, b"", _nothing, empties=not self._files.appends)

    @property
    def paths(self) -> Iterable[Path]:
        """All files, when there are any."""
        return self._paths.all() if self._paths is not None and not self._has_failed else ()

    def add(self, rank: int, stream: int, data: bytes, done: Callable[[], None]) -> None:
        """Write what a rank has written, then call ``done``; also where it cannot be written."""
        path = self._paths.of(rank, stream) if self._paths is not None else ""
        if not path or self._has_failed:
            done()
        else:
            self._append(path, data, done)

    def _append(
        self, path: Path, data: bytes, done: Callable[[], None], *, empties: bool = False
    ) -> None:
        append = Append(path, data, is_log=False, empties=empties)
        self._front.append(append, partial(self._appended, path, done))

    def _appended(self, path: Path, done: Callable[[], None], fault: str) -> None:
        if fault and not self._has_failed:
            self._has_failed = True
            self._on_failed(f"--tee {shown(path)}: {fault}")
        done()


class Tee:
    """A screen behind the files: what is shown has been written there.

    So a slow file system holds back the ranks as a slow terminal does.

    Args:
        on_written: told of no bytes, when something may have become empty.
    """

    def __init__(self, screen: Screen, copies: Copies, on_written: OnWritten) -> None:
        self._screen = screen
        self._copies = copies
        self._on_written = on_written
        self._queue: deque[_Turn] = deque()
        self._waiting_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written, here or there."""
        return not self._queue and self._screen.is_empty

    def show(self, rank: int, stream: int, data: bytes) -> None:
        """Write and show what a rank has written."""
        turn = _Turn(partial(self._screen.show, rank, stream, data), len(data))
        self._queue.append(turn)
        self._waiting_bytes += len(data)
        self._copies.add(rank, stream, data, partial(self._written, turn))

    def show_lines(self, ranks: Ranks, stream: int, data: bytes) -> None:
        """Write lines into the files of all that have written them, and show them."""
        turn = _Turn(partial(self._screen.show_lines, ranks, stream, data), len(data))
        self._queue.append(turn)
        self._waiting_bytes += len(data)
        each = [rank for first, last in ranks for rank in range(first, last + 1)]
        left = len(each)

        def done() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._written(turn)

        for rank in each:
            self._copies.add(rank, stream, data, done)

    def say(self, text: str) -> None:
        """Show a line of yod itself, behind what ranks have written before."""
        self._behind(partial(self._screen.say, text))

    def finish(self) -> None:
        """No rank will write any more."""
        self._behind(self._screen.finish)

    def drop(self) -> int:
        """Show what is taken now, and drop the rest."""
        dropped, self._waiting_bytes = self._waiting_bytes, 0
        self._queue.clear()
        return dropped + self._screen.drop()

    def close(self) -> None:
        """Stop."""
        self._queue.clear()
        self._screen.close()

    def _behind(self, call: Callable[[], None]) -> None:
        if self._queue:
            self._queue.append(_Turn(call, 0, is_written=True))
        else:
            call()

    def _written(self, turn: _Turn) -> None:
        turn.is_written = True
        had = len(self._queue)
        while self._queue and self._queue[0].is_written:
            first = self._queue.popleft()
            self._waiting_bytes -= first.size
            first.call()
        if had > 1 and not self._queue:  # the last ones may have shown nothing
            self._on_written(2, 0)


class _Turn:
    """What is shown when the files have what comes before it."""

    def __init__(self, call: Callable[[], None], size: int, *, is_written: bool = False) -> None:
        self.call = call
        self.size = size
        self.is_written = is_written


def teed(screens: dict[int, Screen], copies: Copies, on_written: OnWritten) -> dict[int, Screen]:
    """The same screens, each behind the files; one that is both stays one."""
    first = Tee(screens[1], copies, on_written)
    is_one = screens[1] is screens[2]
    return {1: first, 2: first if is_one else Tee(screens[2], copies, on_written)}


def _nothing() -> None:
    """Nobody waits for this one."""
