"""How the ranks of a job ended: the exit status, the table, the log line.

The exit status is 0 if no rank failed. Else the first failure that yod received decides:

    a rank failed       its exit code, or 128 and the number of the signal that killed it.
                        Of ranks that failed together the lowest counts. Ranks that a signal
                        of yod killed do not count.
    the launch failed   NEVER_STARTED, NOT_EXECUTABLE or NOT_FOUND
    a rank called abort the code that it gave. If another rank was killed, that was the cause
                        and decides: the library of a peer calls abort for it, and yod may
                        receive the abort first.
    an interrupt        128 and the number of the signal
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from msgspec import Struct

from native import nodelist
from native.errors import UsageError
from native.waitstatus import CORE_DUMPED, SIGNAL_BASE, exit_status, how_it_ended
from native.wire.alloc import Grant
from native.wire.base import JobEnd, State, clipped
from native.wire.group import Seen
from native.wire.load import Failure, FailureKind, Held, Outcome
from native.wire.runs import Run
from yod.launch.lines import LastWords

NEVER_STARTED = 125
TIMEOUT_STATUS = 124  # as timeout(1) has it
NOT_EXECUTABLE = 126
NOT_FOUND = 127

_TABLE = "{:<20} {:>6} {:>5} {:>8} {:>9} {:>9} {:>6}  {}"

_STATUS = {
    FailureKind.NOT_FOUND: NOT_FOUND,
    FailureKind.NOT_EXECUTABLE: NOT_EXECUTABLE,
    FailureKind.OUT_OF_MEMORY: SIGNAL_BASE + signal.SIGKILL,
}


class Completion(Struct):
    """One rank's end, as the table shows it."""

    rank: int
    node: int
    unix_pid: int
    wait_status: int
    was_released: bool
    elapsed_s: float
    user_s: float
    system_s: float
    max_rss_bytes: int
    is_ours: bool  # killed by a signal that yod sent


class Report:
    """Collects what happens to the ranks of one job.

    Attributes:
        exit_status: None until :meth:`close`.
        reason: one line that says why the job failed; empty: it did not, or ranks tell.
        first_failure: the first rank that failed, and how; empty: none did.
        first_failed: that rank; -1: none.
        lost: nodes that are out of reach, or whose end bebopd could not confirm.
        interrupted_by: the signal that ended the job; 0: none did.
        was_left: the user did not wait for the end of the job.
        is_unready: a node could not be made ready by the site's hooks, and is drained.
        is_timed_out: its time limit has ended it.
        notes: further lines for the table's end.
        stacks: lines, where ranks were that died by a signal, the outermost frame first.
        last_words: what the ranks have last written on standard error.
        ended_because: a clause that says for what yod ends ranks that would go on; empty: none.
        stands_for: gives the end of the allocation whose PCTs the ranks are; None: they are a
            job of their own.
    """

    def __init__(self, names: tuple[str, ...], sizes: tuple[int, ...]) -> None:
        self.exit_status: int | None = None
        self.reason = ""
        self.first_failure = ""
        self.first_failed = -1
        self.lost: set[int] = set()
        self.interrupted_by = 0
        self.was_left = self.is_unready = self.is_timed_out = False
        self.completions: dict[int, Completion] = {}
        self.notes: list[str] = []
        self.last_words = LastWords()
        self.stacks: dict[int, list[str]] = {}
        self.ended_because = ""
        self.stands_for: Callable[[], JobEnd] | None = None
        self.job_id = 0
        self.nodes: tuple[int, ...] = ()
        self.node_names: dict[int, str] = {}
        self.unix_pids: dict[int, int] = {}
        self._node_of: list[int] = []
        self._names = names
        self._sizes = sizes
        self._loaded_size = sum(sizes)
        self._gone: set[int] = set()  # ranks of nodes whose loss ends nothing else
        self._tools: set[int] = set()  # ranks that are daemons of a launcher in the job
        self._failed_with: int | None = None  # exit status of a failure other than a rank's
        self._first_status: int | None = None  # exit status of the first rank that failed
        self._aborted_by: int | None = None  # the rank, if its abort was the first failure
        self._told_of = -1  # that the user was told of as it happened

    @property
    def size(self) -> int:
        """Ranks of the job."""
        return sum(self._sizes)

    @property
    def is_complete(self) -> bool:
        """Every rank has ended. The daemons of a launcher need not have."""
        ended = self.completions.keys() | self._tools | self._gone
        return len(ended) == self.size

    @property
    def has_succeeded_so_far(self) -> bool:
        """No rank has failed other than by a signal of yod."""
        return self._first_status is None

    def node_of(self, rank: int) -> int:
        """The number of a rank's node; -1: it has none."""
        return self._node_of[rank] if rank < len(self._node_of) else -1

    def place(self, grant: Grant) -> None:
        """The nodes have been granted."""
        self.job_id = grant.job_id
        self.nodes = tuple(grant.nodes.numbers())
        self.node_names = dict(zip(self.nodes, grant.nodes.names(), strict=True))
        self._node_of = [self.nodes[place] for place in grant.runs.places()]

    def map(self, held: Held) -> None:
        """Ranks were started, with these process ids."""
        self.unix_pids.update(zip(held.ranks, held.unix_pids, strict=False))

    def spawn(
        self, names: tuple[str, ...], sizes: tuple[int, ...], runs: tuple[Run, ...], is_tool: bool
    ) -> None:
        """The job has more ranks; their numbers follow those before."""
        first = self.size
        self._names += names
        self._sizes += sizes
        self._node_of += [self.nodes[run.place] for run in runs for _ in range(run.count)]
        if is_tool:
            self._tools.update(range(first, self.size))

    def complete(self, outcome: Outcome, sent_signals: Iterable[int]) -> list[int]:
        """Ranks have ended. A rank counts once, however often it is reported.

        Args:
            outcome: how they ended.
            sent_signals: signals that yod has sent to end ranks.

        Returns:
            The ranks that were not known to have ended.
        """
        number = outcome.wait_status & 0x7F
        is_ours = number != 0 and outcome.was_signalled and number in sent_signals
        columns = zip(
            outcome.ranks,
            outcome.nodes,
            outcome.unix_pids,
            outcome.elapsed_ms,
            outcome.user_ms,
            outcome.system_ms,
            outcome.max_rss_kb,
            strict=False,
        )
        fresh = []
        for rank, node, unix_pid, elapsed, user, system, rss in columns:
            if rank in self.completions or rank >= self.size:
                continue
            fresh.append(rank)
            self.completions[rank] = Completion(
                rank,
                node,
                unix_pid,
                outcome.wait_status,
                outcome.was_released,
                elapsed / 1000,
                user / 1000,
                system / 1000,
                rss * 1024,
                is_ours,
            )
        counted = [rank for rank in fresh if self._counts(rank, outcome)]
        if not counted or not outcome.wait_status or is_ours:
            return fresh
        is_cause = self._is_cause(counted, number)
        if is_cause:
            self._aborted_by = self._failed_with = None
        if is_cause or self._first_status is None:
            self._first_status = exit_status(outcome.wait_status)
            rank = self.first_failed = min(counted)
            if is_cause:
                self.ended_because = f"rank {rank} failed"
            where = self.node_names.get(self.completions[rank].node, "?")
            self.first_failure = f"rank {rank} on {where}: {how_it_ended(outcome.wait_status)}"
        return fresh

    def tell_first_failure(self) -> str:
        """A line for the user, now; :meth:`summary` need not repeat it."""
        self._told_of = self.first_failed
        return self.first_failure

    def saw(self, message: Seen) -> None:
        """A node has seen ranks that a signal is ending."""
        for line in message.stacks.decode(errors="replace").splitlines():
            try:
                _, ranks, frame = line.split(" ", 2)
                numbers = nodelist.parse(ranks)
            except (ValueError, UsageError):  # cut where there was too much
                continue
            for rank in numbers:
                if rank < self.size and rank not in self.completions:
                    self.stacks.setdefault(rank, []).append(f"    {frame}")
        where = self.node_names.get(message.node, "?")
        if message.text and not any(message.text in note for note in self.notes):
            self.note(f"stacks on {where}: {message.text}")

    def evidence(self) -> list[str]:
        """Where the rank that failed first was, and what it has last written, if that is hidden."""
        frames = self.stacks.get(self.first_failed, [])
        head = [f"rank {self.first_failed} was here:"] if frames else []
        return [*head, *frames, *self._hidden_words()]

    def _hidden_words(self) -> list[str]:
        words = self.last_words.of(self.first_failed)
        if not words or self.last_words.are_seen(self.first_failed):
            return []
        return [f"rank {self.first_failed} has last written on standard error:", *words]

    def _is_cause(self, ranks: list[int], number: int) -> bool:
        """Whether ranks that a signal killed are the reason why another rank called abort.

        An MPI library calls abort when it loses a peer, and yod may receive that before the
        completion of the peer. SIGPIPE is not such a cause: an abort leads to it.
        """
        if self._aborted_by is None or number in (0, signal.SIGPIPE):
            return False
        return any(rank != self._aborted_by for rank in ranks)

    def _counts(self, rank: int, outcome: Outcome) -> bool:
        """Whether a rank's failure is one of the job.

        That of a launcher's daemon is not, nor that of a spawned rank before its entry: the
        rank that spawned it was told.
        """
        if rank in self._tools:
            return False
        return rank < self._loaded_size or outcome.was_released

    def blame(self, failure: Failure, has_gone: bool) -> str:
        """The launch or a node has failed.

        Args:
            failure: what a PCT has reported.
            has_gone: the application was running.

        Returns:
            A line for the user: phase, node, rank, cause.
        """
        rank = f", rank {failure.rank}" if failure.rank >= 0 else ""
        where = f"node {failure.node} ({failure.name}){rank}"
        match failure.kind:
            case FailureKind.NODE_LOST:
                self.lose(failure.node)
                text = f"{where} was lost ({failure.phase}): it {failure.text}"
            case FailureKind.ABORTED:
                text = f"{where}: {failure.text}"
            case _:
                text = f"{where}: {failure.text}" + ("" if has_gone else f" ({failure.phase})")
        self.is_unready |= failure.kind is FailureKind.UNFIT
        if failure.kind is FailureKind.ABORTED:
            if self._failed_with is None and self._first_status is None:
                self._aborted_by = failure.rank
            self.fail(failure.exit_code & 0xFF or 1, text)  # an abort with code 0 fails, too
        else:
            self.fail(_STATUS.get(failure.kind, NEVER_STARTED), text)
        return text

    def fail(self, exit_status: int, reason: str) -> None:
        """The launch has failed. It decides the exit status if nothing failed before."""
        if self._failed_with is None and self._first_status is None:
            self._failed_with = exit_status
        self.reason = self.reason or reason

    def time_out(self, reason: str) -> None:
        """The time limit ends the job; a rank that failed before decides its status."""
        self.end_because("its time was over")
        self.fail(TIMEOUT_STATUS, reason)
        self.is_timed_out = self._failed_with == TIMEOUT_STATUS

    def interrupt(self, signal_number: int, keeps_going: bool) -> None:
        """The user ends the job, and so decides the exit status.

        A rank that failed before decides it instead, unless ``keeps_going``: such a failure
        was to end nothing.
        """
        self.end_because("the job was interrupted")
        if self.has_succeeded_so_far or keeps_going:
            self.interrupted_by = self.interrupted_by or signal_number

    def end_because(self, why: str) -> None:
        """yod ends ranks that would go on; the first reason counts.

        Args:
            why: a clause: ``rank 2 failed``.
        """
        self.ended_because = self.ended_because or why

    def leave(self, signal_number: int, reason: str) -> None:
        """The user did not wait for the end of the job, or of its output."""
        self.was_left = True
        self.interrupted_by = signal_number
        self.reason = self.reason or reason
        self.close()

    def lose(self, *nodes: int) -> None:
        """Nodes are lost, with what they have not reported of their ranks."""
        self.lost.update(nodes)

    def outlive(self, node: int) -> None:
        """A node is lost, and its ranks; the job goes on with the others."""
        self.lose(node)
        self._gone.update(rank for rank, at in enumerate(self._node_of) if at == node)

    def note(self, text: str) -> None:
        """Add a line to the end of the table."""
        self.notes.append(text)

    def close(self) -> None:
        """Decide the exit status."""
        self.exit_status = self._status()

    def _status(self) -> int:
        """The exit status, from what is known now."""
        if self.interrupted_by:
            return SIGNAL_BASE + self.interrupted_by
        if self._failed_with is not None:
            return self._failed_with
        if self._first_status is not None:
            return self._first_status
        return 0 if self.is_complete else NEVER_STARTED

    def end(self) -> JobEnd:
        """What bebopd is told of the end of the job."""
        if self.stands_for is not None:
            return self.stands_for()
        status, reason = self._status() & 0xFF, self.reason or self.first_failure
        if self.interrupted_by:
            number = self.interrupted_by
            said = reason or f"ended by {signal.Signals(number).name}"
            return JobEnd(State.CANCELLED, status, number, clipped(said))
        if not status:
            return JobEnd(State.COMPLETED, 0, 0, "")
        is_lost = self.lost and self._first_status is None
        state = State.NODE_FAIL if is_lost else State.FAILED
        if self.is_timed_out:
            state = State.TIMEOUT
        return JobEnd(state, status, 0, clipped(reason))

    def table(self) -> list[str]:
        """The completion report: a line for each rank; several programs each have a heading."""
        lines = [_TABLE.format("Name", "Rank", "Node", "PID", "Elapsed", "CPU s", "MB", "End")]
        first = 0
        for name, size in zip(self._names, self._sizes, strict=True):
            if len(self._names) > 1:
                lines.append(f"({name})")
            for rank in range(first, first + size):
                lines += [self._row(rank), *self.stacks.get(rank, ())]
            first += size
        return [*lines, *self.notes]

    def summary(self) -> list[str]:
        """The report in few lines: ranks that ended alike share one, the first failure first.

        Ranks that ended before their entry are left out if there is a :attr:`reason`, and so is
        a rank of which the user was told when it failed, if it is alone.
        """
        groups: dict[str, list[int]] = {}
        for rank, done in self.completions.items():  # in the order they were received
            if rank in self._tools:
                continue
            if done.wait_status and (done.was_released or not self.reason):
                groups.setdefault(self._end_of(done), []).append(rank)
        known = self.completions.keys() | self._tools
        for rank in range(self.size):
            if rank not in known and self.unix_pids:
                groups.setdefault(self._missing(rank), []).append(rank)
        lines = []
        for end, ranks in groups.items():
            if ranks == [self._told_of]:
                continue
            where = self._nodes_of(ranks)
            noun = "rank" if len(ranks) == 1 else "ranks"
            lines.append(f"{noun} {nodelist.format_nodes(sorted(ranks))} on {where}: {end}")
        return [*lines, *self.notes]

    def _end_of(self, done: Completion) -> str:
        """How a rank ended, and why if that was no doing of its own."""
        end = how_it_ended(done.wait_status)
        if done.is_ours:
            why = f" because {self.ended_because}" if self.ended_because else ""
            end = end.removeprefix("killed by ").replace(CORE_DUMPED, ", core dumped")
            return f"killed by yod ({end}){why}"
        return end if done.was_released else end + " before its entry"

    def _missing(self, rank: int) -> str:
        """Why a rank that was started has no completion."""
        node = self.node_of(rank)
        if node in self.lost:
            return f"lost with node {self.node_names[node]}"
        return "no completion received"

    def _nodes_of(self, ranks: list[int]) -> str:
        nodes = sorted({self._node_of[rank] for rank in ranks if rank < len(self._node_of)})
        if len(nodes) == 1:
            return self.node_names[nodes[0]]
        return f"nodes {nodelist.format_nodes(nodes)}"

    def _row(self, rank: int) -> str:
        done = self.completions.get(rank)
        node = self.node_of(rank)
        name = self.node_names.get(node, "?")
        number = str(node) if node >= 0 else "-"
        if done is None:
            pid = self.unix_pids.get(rank)
            end = self._missing(rank) if pid else "never started"
            return _TABLE.format(name, rank, number, pid or "-", "-", "-", "-", end)
        cpu, memory = f"{done.user_s + done.system_s:.2f}", f"{done.max_rss_bytes / 1e6:.0f}"
        clock = hms(done.elapsed_s)
        end = self._end_of(done)
        return _TABLE.format(name, rank, number, done.unix_pid, clock, cpu, memory, end)


def hms(seconds: float) -> str:
    """hh:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
