"""The saver of a checkpoint, under a keeper of its own: it works on files of the job's owner."""

from __future__ import annotations

from collections.abc import Callable

from native.loop.reactor import Reactor
from native.machine import JobEvent
from native.waitstatus import how_it_ended
from native.wire import keeper as wire
from native.wire.base import PATH_MAX, TEXT_MAX
from pct.events import RunSaver, SaverEnded, SaverReady, TellSaver
from pct.host.kept.command import command_spec
from pct.host.kept.processes import NOT_STARTED, KeptProcesses
from pct.host.spawn.spawner import Spawner
from pct.host.streams import InputPipe

READY = b"ready\n"  # first word of a saver: the directories are there
OUTPUT_BYTES = 2 * PATH_MAX


class SaverProcess:
    """One saver, from its start until nothing of it is left.

    On standard input it has what it is given, a NUL, and a line for each thing that it is told.
    It writes ``ready``, then, as its last line, the bytes that it has saved and the path of the
    checkpoint. Why it fails is on standard error.

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
        self._trouble = ""
        self._wait_status = NOT_STARTED
        self._kept = KeptProcesses(
            command_spec("saver", action, wants_stdin=True),
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
        line = b"over\n" if action.rank is None else b"%d\n" % action.rank
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
        self._input = InputPipe(self._reactor, fd, lambda count: None)
        self._input.write(self._given)

    def _read(self, _number: int, stream: int, data: bytes) -> None:
        kept = self._kept_bytes[stream] + data
        self._kept_bytes[stream] = kept[:OUTPUT_BYTES] if stream == 1 else kept[-TEXT_MAX:]
        if not self._is_ready and self._kept_bytes[1].startswith(READY):
            self._is_ready = True
            self._handle(SaverReady(self._job_id))

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
    size, _, path = output.removeprefix(READY).removesuffix(b"\n").partition(b" ")
    if size.isdigit() and len(size) < 19 and len(path) <= PATH_MAX:
        return int(size), path, ""
    return 0, b"", "its saver has not said what it has saved"
