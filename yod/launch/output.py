"""The output of the ranks: what arrives is shown, what is missing is told, credit is returned."""

from __future__ import annotations

from native.limits import Limits
from native.machine import Action
from native.nodelist import ranges
from native.wire.io import MESSAGE_COST_BYTES, STREAMS, Lines, Output, OutputCredit, cost
from yod.launch.events import FollowAsked, Followed, OutputWritten, Tell, Write, WriteLines
from yod.launch.lines import Ranks, format_ranks
from yod.launch.report import Report
from yod.launch.tree import Tree


class OutputLedger:
    """Accounts for one stream of all ranks: standard output or standard error.

    Attributes:
        lost_bytes: never arrived.
        waiting_bytes: arrived, and not written yet.
    """

    def __init__(self, window_bytes: int) -> None:
        self.lost_bytes = 0
        self.waiting_bytes = 0
        self._window_bytes = window_bytes
        self._expected: dict[int, int] = {}  # by rank
        self._owed = 0

    def arrived(self, message: Output) -> tuple[bytes, int]:
        """Take one message.

        Returns:
            The data to write, and how many bytes before it were lost.
        """
        expected = self._expected.get(message.rank, 0)
        gap = max(0, message.offset - expected)
        repeated = max(0, expected - message.offset)
        self._expected[message.rank] = max(expected, message.offset + len(message.data))
        self.lost_bytes += gap
        data = message.data[repeated:]
        # The overhead of a message, and data that is not written, need not be waited for.
        self._owed += MESSAGE_COST_BYTES + len(message.data) - len(data)
        self.waiting_bytes += len(data)
        return data, gap

    def lines_arrived(self, message: Lines) -> tuple[Ranks, int]:
        """Take lines of some ranks.

        Returns:
            The ranks of which they were not shown before, and how many bytes were lost.
        """
        expected = self._expected
        size, gap = len(message.data), 0
        fresh: list[int] = []
        for first, last, offset in message.runs:
            for rank in range(first, last + 1):
                known = expected.get(rank, 0)
                if offset >= known:  # else it was shown
                    gap += offset - known
                    expected[rank] = offset + size
                    fresh.append(rank)
        self.lost_bytes += gap
        self._owed += cost(message)
        if fresh:
            self._owed -= size
            self.waiting_bytes += size
        return tuple(ranges(fresh)), gap

    def written(self, count_bytes: int) -> int:
        """Output has left yod.

        Returns:
            Bytes of credit to send now; 0 while it is not worth a message.
        """
        self.waiting_bytes -= count_bytes
        self._owed += count_bytes
        return self.credit()

    def credit(self) -> int:
        """Bytes of credit to send now; 0 while it is not worth a message."""
        if self._owed < self._window_bytes // 4:
            return 0
        due, self._owed = self._owed, 0
        return due


class Outputs:
    """Standard output and error of all ranks: shown as they arrive, credited as they leave yod."""

    def __init__(self, tree: Tree, report: Report, limits: Limits) -> None:
        self._tree = tree
        self._report = report
        self._words = report.last_words
        self._line_room_bytes = limits.line_room_bytes
        self._followed: tuple[tuple[int, int], ...] = ()
        self._ledgers = {stream: OutputLedger(limits.output_window_bytes) for stream in STREAMS}

    @property
    def are_waiting(self) -> bool:
        """Some output has arrived, and its reader has not taken it yet."""
        return any(ledger.waiting_bytes for ledger in self._ledgers.values())

    def arrived(self, output: Output, now: float) -> list[Action]:
        """A rank has written."""
        ledger = self._ledgers[output.stream]
        data, gap = ledger.arrived(output)
        actions = self._credit(output.stream, ledger.credit())
        if gap:
            actions.append(Tell(f"{gap} bytes of rank {output.rank}'s output are lost"))
            self._report.note(f"{gap} bytes of output lost")
        actions.append(Write(output.stream, output.rank, data))
        self._words.add(((output.rank, output.rank),), output.stream, data)
        if any(first <= output.rank <= last for first, last in self._followed):
            actions.append(Followed(output.rank, output.stream, data))
        return actions

    def lines_arrived(self, lines: Lines, now: float) -> list[Action]:
        """Some ranks have written the same lines."""
        ledger, stream, data = self._ledgers[lines.stream], lines.stream, lines.data
        ranks, gap = ledger.lines_arrived(lines)
        actions = self._credit(stream, ledger.credit())
        if gap:
            text = f"{gap} bytes of the output of ranks {format_ranks(ranks)} are lost"
            actions.append(Tell(text))
            self._report.note(f"{gap} bytes of output lost")
        if not ranks:
            return actions
        actions.append(WriteLines(stream, ranks, data))
        self._words.add(ranks, stream, data)
        for first, last in self._followed:
            for begin, end in ranks:
                both = range(max(first, begin), min(last, end) + 1)
                actions += [Followed(rank, stream, data) for rank in both]
        return actions

    def follow(self, event: FollowAsked, now: float) -> list[Action]:
        """Any phase: commands want to see what these ranks write from now on."""
        self._followed = event.ranks
        return []

    def written(self, event: OutputWritten, now: float) -> list[Action]:
        """Output has left yod."""
        return self._credit(event.stream, self._ledgers[event.stream].written(event.count_bytes))

    def credit_for_lines(self) -> list[Action]:
        """Credit for what is held back until its line is whole.

        It is given beforehand: the lines of many ranks would fill a window.
        """
        return [each for stream in STREAMS for each in self._credit(stream, self._line_room_bytes)]

    def _credit(self, stream: int, due_bytes: int) -> list[Action]:
        if not due_bytes:
            return []
        return self._tree.send(OutputCredit(self._tree.job_id, stream, due_bytes))
