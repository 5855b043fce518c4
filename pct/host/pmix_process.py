"""The PMIx server of one job on a node, as the PCT sees it: a process of the job's user.

A keeper starts it, as a keeper starts the ranks. So it has the user's ids and groups, and no
process of it outlives the job. The messages are in :mod:`native.wire.pmix`.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from native.errors import PeerProtocolError
from native.host.files import Owner
from native.limits import variable
from native.loop.reactor import Reactor
from native.loop.slices import Slices
from native.waitstatus import how_it_ended
from native.wire import keeper as wire
from native.wire import pmix
from pct.account import Account, Charge, OverLimit
from pct.host.connections import ClientSocket
from pct.host.keeper import Keeper
from pct.host.pmix_command import command, make_directory, remove_directory
from pct.host.spawn.spawner import OwnSpawner
from pct.host.streams import OutputPipe

END_S = 2.0  # how long the server may take to finalize; then it is killed
KEPT_VARIABLES = (b"PATH", b"LANG", b"TMPDIR", b"LD_LIBRARY_PATH")
LINE_MAX = 4096  # bytes of a line of its output
LINES_MAX = 100  # of its output that are logged


class PmixServer:
    """A server that is starting, serving or ending.

    Its process starts at once; :meth:`begin` tells it which job it serves. Until then
    nothing is reported.

    Args:
        job_id: the job that it will serve.
        owner: of the job, and of its process.
        spawner: the parent of its keeper: this process, also where the ranks' keepers are
            another one's children.
        memory_bytes: how much memory its process may have.

    Raises:
        OSError, ValueError: it cannot be started.
    """

    def __init__(
        self,
        job_id: int,
        owner: Owner,
        reactor: Reactor,
        spawner: OwnSpawner,
        memory_bytes: int,
    ) -> None:
        self.job_id = job_id
        self._memory_bytes = memory_bytes
        self._lines = 0
        self._reactor = reactor
        self._begin: pmix.Begin | None = None
        self._on_message: Callable[[pmix.FromServer], None] = _nobody
        self._on_end: Callable[[wire.Report, str], None] = _nobody
        self._say: Callable[[str], None] = _nobody
        self._streams: tuple[int, int, int] | None = None  # until it begins
        self._early: list[wire.Report] = []
        self._slices: Slices | None = None
        self._socket: ClientSocket | None = None
        self._outputs: list[OutputPipe] = []
        self._buffer = bytearray()
        self._unsent = self._unread = Charge(Account())  # until it begins
        self._is_ending = False
        self._why = ""
        self._timer = reactor.timer(self._kill)
        words = command()
        program = wire.ProgramSpec(words[0], words, b"/", wire.Hold.BEFORE_EXEC)
        rank = wire.RankSpec(0, 0, (), wants_stdin=False, wants_pmi=True)
        self.keeper = Keeper.start(
            wire.KeeperSpec(
                job_id=job_id,
                uid=owner.uid,
                gid=owner.gid,
                groups=owner.groups,
                umask=0o077,
                limits=((resource.RLIMIT_DATA, memory_bytes, memory_bytes),),
                environment=tuple(
                    name + b"=" + os.environb[name]
                    for name in KEPT_VARIABLES
                    if name in os.environb
                ),
                programs=(program,),
                ranks=(rank,),
            ),
            spawner,
            reactor,
            self._keeper_says,
            self._take_streams,
        )
        self.keeper.go()

    def begin(
        self,
        begin: pmix.Begin,
        parent: str,
        on_message: Callable[[pmix.FromServer], None],
        on_end: Callable[[wire.Report, str], None],
        say: Callable[[str], None],
        slices: Slices,
        account: Account,
    ) -> None:
        """Let it serve.

        Args:
            begin: its first message, without its directory.
            parent: a directory of the PCT, in which the server's directory is made.
            on_message: takes its messages.
            on_end: called once, with the last report of its keeper and what became of it.
            say: takes a line for the log.
            slices: where its directory is removed.
            account: charged for the bytes that either side has not read yet.

        Raises:
            OSError: its directory cannot be made.
        """
        directory = make_directory(parent, begin.uid, begin.gid, begin.server)
        self._begin = replace(begin, directory=directory)
        self._on_message = on_message
        self._on_end = on_end
        self._slices = slices
        self._say = say
        self._unsent, self._unread = Charge(account), Charge(account)
        if self._streams is not None:
            self._open(*self._streams)
        early, self._early = self._early, []
        for report in early:
            self._reactor.call_soon(partial(self._keeper_says, report))

    def send(self, message: pmix.FromPct) -> None:
        """Tell the server."""
        if self._socket is None:
            return
        try:
            self._socket.send(pmix.encode(message))
        except OverLimit as over:
            self._give_up(f"does not take what it is told: {over}")

    def end(self) -> None:
        """Have it finalize and exit; ``on_end`` will be called."""
        if not self._is_ending:
            self._is_ending = True
            self._timer.set(self._reactor.monotonic() + END_S)
            self.send(pmix.End())

    def close(self) -> None:
        """Hang up: its keeper kills it. Nothing is called any more."""
        self._timer.close()
        self.keeper.close()
        self._give_back()
        self._on_message = self._on_end = self._say = _nobody

    def _take_streams(
        self, rank: int, stdin: int | None, stdout: int, stderr: int, socket: int | None
    ) -> None:
        assert socket is not None
        self._streams = stdout, stderr, socket
        if self._begin is not None:
            self._open(*self._streams)

    def _open(self, stdout: int, stderr: int, socket: int) -> None:
        assert self._begin is not None
        self._streams = None
        self._socket = ClientSocket(
            self._reactor, socket, self._received, self._unsent, is_patient=False
        )
        self._outputs = [OutputPipe(self._reactor, fd, self._log_output) for fd in (stdout, stderr)]
        self.send(self._begin)

    def _log_output(self, data: bytes) -> None:
        for line in data[:LINE_MAX].splitlines():
            self._lines += 1
            if self._lines <= LINES_MAX:
                self._say(f"PMIx server: {line.decode(errors='replace')}")
            if self._lines == LINES_MAX:
                self._say("PMIx server: further lines are not logged")

    def _received(self, data: bytes) -> None:
        self._buffer += data
        try:
            while (message := pmix.take(self._buffer)) is not None:
                self._on_message(pmix.decode_from_server(message))
            self._unread.set(len(self._buffer))
        except PeerProtocolError as error:
            self._say(str(error))
            self.keeper.end()
        except OverLimit as over:
            self._give_up(f"says too much at once: {over}")

    def _give_up(self, why: str) -> None:
        self._why = self._why or why
        self.keeper.end()

    def _keeper_says(self, report: wire.Report) -> None:
        if self._begin is None:
            self._early.append(report)
            return
        match report:
            case wire.ExecFailed():
                self._why = report.explain()
            case wire.RankEnded():
                self._why = self._why or self._explain(report)
            case wire.KeeperEmpty() | wire.KeeperLost():
                if self._socket is not None:
                    self._socket.take_rest()  # its last words say why
                self._timer.close()
                self._give_back()
                assert self._slices is not None
                work = remove_directory(self._begin.directory, self._begin.uid)
                self._slices.start(0, work, lambda _: self._ended(report))

    def _ended(self, report: wire.Report) -> None:
        on_end = self._on_end
        self._on_message = self._on_end = self._say = _nobody  # who takes them holds this
        on_end(report, f"its process failed: {self._why}")

    def _explain(self, report: wire.RankEnded) -> str:
        text = how_it_ended(report.wait_status)
        if os.WIFSIGNALED(report.wait_status) and report.max_rss_bytes > self._memory_bytes // 2:
            name = variable("pmix_server_bytes")
            text += f"; it may have {self._memory_bytes} bytes of memory ({name} of the pct)"
        return text

    def _kill(self) -> None:
        self.keeper.end()

    def _give_back(self) -> None:
        for fd in self._streams or ():
            os.close(fd)
        self._streams = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._buffer.clear()
            self._unread.clear()
        outputs, self._outputs = self._outputs, []
        for output in outputs:
            output.close()


def _nobody(*_arguments: object) -> None:
    """Takes calls until :meth:`PmixServer.begin` names who takes them."""
