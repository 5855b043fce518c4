"""While the application runs: its completions, the kill delay, input, remote files, warnings."""

from __future__ import annotations

import signal
from collections import deque

from native.errors import PeerProtocolError
from native.limits import Limits
from native.machine import Action, DeadlineReached
from native.wire import io, load, pmi
from yod.launch.checkpoints import Checkpoints
from yod.launch.ending import Ending
from yod.launch.events import (
    InputRead,
    ReadInput,
    RemoteServed,
    Resized,
    ServeRemote,
    Tell,
    UseTerminal,
)
from yod.launch.phases import Progress
from yod.launch.report import Report
from yod.launch.spawn import Spawner
from yod.launch.tree import Tree
from yod.plan.plan import Options

PIECE_BYTES = 16 * 1024  # of a line, given at a time
ROOM_BYTES = 64 * 1024  # of input that has been read and not been given

Asker = tuple[int, int]  # the place of its node, and the rank


class SharedInput:
    """Input that all ranks share (``--stdin shared``): each line goes to the rank that asks next.

    A line longer than a piece goes to one rank, piece by piece, as that one asks for more.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._buffer = bytearray()
        self._allowed_bytes = 0  # that may still come of what was asked for
        self._has_ended = False
        self._has_told_end = False
        self._asking: deque[Asker] = deque()
        self._reading: set[Asker] = set()  # have a piece, and may ask again
        self._holder: Asker | None = None  # has the beginning of the line that goes on
        self._holder_asks = False
        self._in_a_line: set[Asker] = set()  # were last given what does not begin one
        self._returned: deque[bytes] = deque()  # lines that were given, and not read
        self._skips = False  # the rest of a line whose reader has gone

    def asked(self, message: io.LineAsked, now: float) -> list[Action]:
        """RUNNING: a rank has read all that it was given, or reads no more.

        Raises:
            PeerProtocolError: the job has no such node.
        """
        if message.place >= len(self._tree.nodes):
            raise PeerProtocolError(f"a line for place {message.place}")
        who = (message.place, message.rank)
        self._reading.discard(who)
        if message.is_closed:
            self._take_back(who, message.unread)
        elif who == self._holder:
            self._holder_asks = True
        else:
            self._asking.append(who)
        return [*self._flow(), *self._tell_of_rest()]

    def read(self, event: InputRead, now: float) -> list[Action]:
        """Input has come, or its end."""
        self._has_ended |= not event.data
        self._allowed_bytes -= len(event.data)
        self._buffer += event.data
        return self._flow()

    def _take_back(self, who: Asker, unread: bytes) -> None:
        """A rank that reads no more has this left: a line or the beginning of one is another's."""
        if who in self._in_a_line:
            unread = b""  # it has read how the line begins
        if who == self._holder:
            self._holder = None
            self._skips = not unread
            self._buffer[:0] = unread  # before the rest of the line
        elif unread:
            self._returned.append(unread)

    def _tell_of_rest(self) -> list[Action]:
        """What came back is nobody's, when all others have come to the end."""
        if not (self._has_told_end and self._returned) or self._asking or self._reading:
            return []
        count_bytes = sum(map(len, self._returned))
        self._returned.clear()
        return [Tell(f"{count_bytes} bytes of the input are left, which no rank has read")]

    def _flow(self) -> list[Action]:
        """Give what can be given, and read on while there is room."""
        actions: list[Action] = []
        while (piece := self._next()) is not None:
            actions += self._give(piece)
        if self._has_ended and not self._buffer and not self._returned:
            if self._holder is not None and self._holder_asks:
                self._asking.append(self._holder)
            self._holder = None
            for who in self._asking:
                actions += self._send(who, b"")
                self._has_told_end = True
            self._asking.clear()
        room_bytes = ROOM_BYTES - len(self._buffer) - self._allowed_bytes
        if not self._has_ended and room_bytes >= ROOM_BYTES // 2:
            self._allowed_bytes += room_bytes
            actions.append(ReadInput(room_bytes))
        return actions

    def _next(self) -> bytes | None:
        """What is given now; None: nothing, or to nobody."""
        end = self._buffer.find(b"\n", 0, PIECE_BYTES) + 1
        while self._skips and self._buffer:
            self._skips = not end
            del self._buffer[: end or PIECE_BYTES]
            end = self._buffer.find(b"\n", 0, PIECE_BYTES) + 1
        if not (self._holder_asks if self._holder is not None else self._asking):
            return None
        if self._holder is None and self._returned:
            return self._returned.popleft()
        if not end and (self._has_ended or len(self._buffer) >= PIECE_BYTES):
            end = min(len(self._buffer), PIECE_BYTES)
        if not end:
            return None
        piece = bytes(self._buffer[:end])
        del self._buffer[:end]
        return piece

    def _give(self, piece: bytes) -> list[Action]:
        """To the rank whose line it is, or to the one that has asked first."""
        if self._holder is None:
            who = self._asking.popleft()
            self._in_a_line.discard(who)
        else:
            who = self._holder
            self._in_a_line.add(who)
        is_whole = piece.endswith(b"\n")
        self._holder, self._holder_asks = (None if is_whole else who), False
        return self._send(who, piece)

    def _send(self, who: Asker, data: bytes) -> list[Action]:
        if data:
            self._reading.add(who)
        return self._tree.send(io.Line(self._tree.job_id, *who, data))


class Running:
    """Ends the job after its last rank, or some time after the first that failed.

    The other ranks have the kill delay to end by themselves, and after SIGTERM the same
    time again. The progress of RUNNING is timed only then.
    """

    def __init__(
        self,
        options: Options,
        progress: Progress,
        tree: Tree,
        report: Report,
        spawner: Spawner,
        ending: Ending,
        checkpoints: Checkpoints,
        limits: Limits,
    ) -> None:
        self._options = options
        self._checkpoints = checkpoints
        self._progress = progress
        self._tree = tree
        self._report = report
        self._spawner = spawner
        self._ending = ending
        self._kill_delay_s = limits.kill_delay_s
        self._kills_at_once = options.kills_at_once or not limits.kill_delay_s
        self._has_sent_term = False
        self._has_told_of_lonely_ranks = False
        self._has_told_of_limit = False
        self._terminal_rank = options.terminal_rank
        self._shared: SharedInput | None = None
        if options.shares_input:
            self._shared = SharedInput(tree)

    # -- completions ------------------------------------------------------

    def completed(self, completions: load.Completions, now: float) -> list[Action]:
        """RUNNING: ranks have ended."""
        actions: list[Action] = []
        was_clean = self._report.has_succeeded_so_far
        for outcome in _in_rank_order(completions):
            actions += self._count(outcome)
        if was_clean and not self._report.has_succeeded_so_far:
            actions += self._first_failure(now)
        if self._report.is_complete:
            actions += self._checkpoints.last_rank_ended() or self._ending.all_done(now)
        return actions

    def counted(self, completions: load.Completions, now: float) -> list[Action]:
        """Any other phase: ranks have ended, which ends nothing more."""
        return [
            action for outcome in _in_rank_order(completions) for action in self._count(outcome)
        ]

    def _count(self, outcome: load.Outcome) -> list[Action]:
        actions: list[Action] = []
        for rank in self._report.complete(outcome, self._tree.sent_signals):
            self._spawner.ended(rank)
            if rank == self._terminal_rank:
                actions.append(UseTerminal(False))
        return actions

    def _first_failure(self, now: float) -> list[Action]:
        if self._report.is_complete:
            return []
        if self._options.keeps_going:
            return [Tell(f"{self._report.tell_first_failure()}; the others go on")]
        self._report.end_because(f"rank {self._report.first_failed} failed")
        if self._kills_at_once:
            self._progress.until = now
            return []
        self._progress.until = now + self._kill_delay_s
        text = f"{self._report.tell_first_failure()}; the others have {self._kill_delay_s:g} s"
        return [Tell(f"{text} to end")]

    def kill_due(self, _: DeadlineReached, now: float) -> list[Action]:
        """The kill delay is over."""
        if self._kills_at_once:
            return self._kill(f"{self._report.tell_first_failure()}; ", now)
        if self._has_sent_term:
            return self._kill("", now)
        self._has_sent_term = True
        self._progress.until = now + self._kill_delay_s
        advice = "SIGTERM sent to the others (--keep-going lets them run)"
        return [Tell(advice), *self._tree.signal(signal.SIGTERM)]

    def _kill(self, why: str, now: float) -> list[Action]:
        """The other ranks are killed: with the job, or before it ends."""
        told = Tell(f"{why}the others are being killed")
        if not self._checkpoints.precedes_end():
            return [told, *self._ending.all_done(now)]
        self._progress.until = None
        return [told, *self._tree.signal(signal.SIGKILL)]

    # -- input ------------------------------------------------------------

    def input_wanted(self, credit: io.InputCredit, now: float) -> list[Action]:
        """Rank 0 has room for more input."""
        return [ReadInput(credit.count_bytes)]

    def line_asked(self, message: io.LineAsked, now: float) -> list[Action]:
        """RUNNING: a rank asks for a line of the input that all share.

        Raises:
            PeerProtocolError: they share none.
        """
        if self._shared is None:
            raise PeerProtocolError("a line of shared input, which the job has not")
        return self._shared.asked(message, now)

    def resized(self, event: Resized, now: float) -> list[Action]:
        """RUNNING: the rank's terminal gets the size of the user's."""
        return self._tree.send(io.Resize(self._tree.job_id, event.window))

    def input_read(self, event: InputRead, now: float) -> list[Action]:
        """Input for rank 0, or for all."""
        if self._shared is not None:
            return self._shared.read(event, now)
        return self._tree.send(io.Input(self._tree.job_id, event.data))

    # -- remote files -----------------------------------------------------

    def remote_asked(self, asked: io.RemoteRequest, now: float) -> list[Action]:
        """Any phase with nodes: ranks need files before they are at their entry.

        Raises:
            PeerProtocolError: the job has no such directory, or no such node.
        """
        if asked.directory >= len(self._options.remote):
            raise PeerProtocolError(f"remote files of directory {asked.directory}")
        if asked.place >= len(self._tree.nodes):
            raise PeerProtocolError(f"remote files for place {asked.place}")
        return [ServeRemote(asked.place, asked.mount, asked.directory, asked.frame)]

    def remote_served(self, event: RemoteServed, now: float) -> list[Action]:
        """It has been carried out."""
        reply = io.RemoteReply(self._tree.job_id, event.place, event.mount, event.frame)
        return self._tree.send(reply)

    # -- warnings ---------------------------------------------------------

    def ranks_are_alone(self, alone: pmi.Alone, now: float) -> list[Action]:
        """MPI ranks did not find each other; told once."""
        if self._has_told_of_lonely_ranks:
            return []
        self._has_told_of_lonely_ranks = True
        return [Tell(f"rank {alone.rank}: {alone.text}")]

    def limit_reached(self, excess: pmi.Excess, now: float) -> list[Action]:
        """A node has refused a request of its ranks; told once."""
        if self._has_told_of_limit:
            return []
        self._has_told_of_limit = True
        return [Tell(f"{excess.name}: the application's request was refused: {excess.text}")]


def _in_rank_order(completions: load.Completions) -> list[load.Outcome]:
    """Of outcomes that arrive together the one of the lowest rank counts as the first."""
    return sorted(completions.outcomes, key=lambda outcome: min(outcome.ranks, default=0))
