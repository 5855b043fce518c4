"""The saver of a checkpoint, under a keeper of its own: it works on files of the job's owner."""

from __future__ import annotations

from collections.abc import Callable

from native.host import programs
from native.loop.reactor import Reactor
from native.machine import JobEvent
from native.waitstatus import how_it_ended
from native.wire import keeper as wire
from native.wire.base import DATA_MAX, PATH_MAX, TEXT_MAX
from pct.events import RunSaver, SaverEnded, SaverReady, TellSaver
from pct.host.kept.command import command_spec
from pct.host.kept.processes import NOT_STARTED, KeptProcesses
from pct.host.spawn.spawner import Spawner
from pct.host.streams import InputPipe
from pct.rare_events import PassToSaver, RankSaved, ShareDrained, ShareKept, ShareRead

READY = b"ready\n"  # first word of a saver: the directories are there
SAVED = b"saved "  # and a rank, where its output is held
DRAINED = b"drained\n"  # of one whose share another node holds: all is in its place
DATA = b"data "  # and how much of it follows, for the other node
OUTPUT_BYTES = 2 * PATH_MAX
_DIGITS = 9  # of a rank, of a length


class SaverProcess:
    """One saver, from its start until nothing of it is left.

    On standard input it has what it is given, a NUL, and a line for each thing that it is told.
    It writes ``ready``, and ``saved`` for each rank where output is held. Its last line has the
    bytes that it has saved and the path of the checkpoint. Why it fails is on standard error. One
    whose share another node holds has lines on both streams behind which data follows.

    Args:
        handle: takes what happens; a :class:`pct.events.SaverEnded` is the last.
    """

    def __init__(
        self,
        action: RunSaver,
        reactor: Reactor,
        spawner: Spawner,
        handle: Callable[[JobEvent], None],
    ) -> None:
        self._job_id = action.job_id
        self._reactor = reactor
        self._handle = handle
        self._given = action.given + b"\0"
        self._input: InputPipe | None = None
        self._kept_bytes = {1: b"", 2: b""}
        self._is_ready = False
        self._is_copied = action.words[0] == b"drain-copied"
        self._trouble = ""
        self._wait_status = NOT_STARTED
        words: tuple[str | bytes, ...] = (
            *programs.command_line("yodjob-cold"),
            "saver",
            *action.words,
        )
        self._kept = KeptProcesses(
            command_spec(words, action, wants_stdin=True),
            reactor,
            spawner,
            report=self._report,
            read=self._read,
            lost=self._lost,
            done=self._ended,
            take_input=self._begin_input,
        )

    def tell(self, action: TellSaver) -> None:
        """Tell it of a rank, or that time is over."""
        self._say(b"over\n" if action.rank is None else b"%d\n" % action.rank)

    def mark(self, rank: int) -> None:
        """Tell it that what a rank had written is known: the rank may go on."""
        self._say(b"marked %d\n" % rank)

    def give(self, action: PassToSaver) -> None:
        """Give it a line, and the data that it names."""
        self._say(action.data)

    def _say(self, line: bytes) -> None:
        if self._input is None:
            self._given += line
        else:
            self._input.write(line)

    def kill(self) -> None:
        """Kill it, and everything below it."""
        self._kept.kill()

    def close(self) -> None:
        """Hang up: it ends, and nobody is told."""
        self._kept.close()
        if self._input is not None:
            self._input.close()

    def _begin_input(self, fd: int) -> None:
        self._input = InputPipe(self._reactor, fd, self._taken)
        self._input.write(self._given)

    def _taken(self, count_bytes: int) -> None:
        if self._is_copied and count_bytes:
            self._reactor.call_soon(lambda: self._handle(ShareKept(self._job_id, count_bytes)))

    def _read(self, _number: int, stream: int, data: bytes) -> None:
        kept = self._kept_bytes[stream] + data
        if stream == 2:
            self._kept_bytes[2] = kept[-TEXT_MAX:]
            return
        if not self._is_ready and kept.startswith(READY):
            self._is_ready = True
            kept = kept.removeprefix(READY)
            self._handle(SaverReady(self._job_id))
        while self._is_ready and kept.startswith(SAVED) and b"\n" in kept:
            line, _, kept = kept.partition(b"\n")
            rank = line.removeprefix(SAVED)
            if rank.isdigit():
                self._handle(RankSaved(self._job_id, int(rank[:_DIGITS])))
        if self._is_copied:
            kept = self._read_share(kept)
        self._kept_bytes[1] = kept[: OUTPUT_BYTES + DATA_MAX]

    def _read_share(self, kept: bytes) -> bytes:
        """Take what is for the other node; what is left."""
        while True:
            line, end, rest = kept.partition(b"\n")
            if line + end == DRAINED:
                self._handle(ShareDrained(self._job_id))
                kept = rest
                continue
            count = line.removeprefix(DATA)
            if not end or not line.startswith(DATA) or not count.isdigit():
                return kept
            size = int(count[:_DIGITS])
            if not 0 < size <= DATA_MAX or len(rest) < size:
                return kept
            self._handle(ShareRead(self._job_id, rest[:size]))
            kept = rest[size:]

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
        if self._input is not None:
            self._input.close()
        size, path, trouble = _result(self._kept_bytes[1])
        if self._trouble or self._wait_status:
            said = self._kept_bytes[2].decode(errors="replace").strip().rpartition("\n")[2]
            trouble = self._trouble or said or f"its saver {how_it_ended(self._wait_status)}"
        self._handle(SaverEnded(self._job_id, size, path, trouble))


def _result(output: bytes) -> tuple[int, bytes, str]:
    """What a saver says in the end: bytes, the path of a checkpoint; and what is wrong with it."""
    size, _, path = output.removesuffix(b"\n").partition(b" ")
    if size.isdigit() and len(size) < 19 and len(path) <= PATH_MAX:
        return int(size), path, ""
    return 0, b"", "its saver has not said what it has saved"
