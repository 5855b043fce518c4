"""One launch in a loop of the program's: its streams, its time, its events, its result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

from native.loop.reactor import Reactor
from native.port.port import Opened
from yod.driver import END_SIGNALS
from yod.guest.collected import Collected, open_collection
from yod.guest.feed import Feed, Held, RankEnded, Started
from yod.guest.front import GuestFront, Source
from yod.guest.request import Request
from yod.guest.results import JobTimeoutError, Result, result_of
from yod.host.front import OnBroken, OnWritten, Screen
from yod.launch.phases import BEFORE_GO, Phase
from yod.launching import Cancellation, Launching
from yod.plan.prepared import Prepared
from yod.ranks import rank_of

_BY_TIMEOUT = "the timeout"  # who has cancelled the job, for the user


class GuestLaunch:
    """One launch.

    Args:
        asked: what the program has asked for.
        opened: its place in the partition.
        on_over: called once, when it is over. It is to be closed then.
        source: gives the input; None: this process's standard input.
        collects_output: keep the output for the result.
        feed: takes events, output among them; None: nobody reads events.
        takes_signals: the signals of this process are the job's. Only in the main thread.
        timeout_s: how long it may last; None: for ever.
        before: the try that has failed before this one; None: it is the first.
        is_id_late: as of :class:`Launching`.

    Attributes:
        driver: of the launch.
        cancellation: ends it.
    """

    def __init__(
        self,
        asked: Request,
        prepared: Prepared,
        opened: Opened,
        reactor: Reactor,
        on_over: Callable[[], None],
        *,
        source: Source | None,
        collects_output: bool,
        feed: Feed | None,
        takes_signals: bool,
        timeout_s: float | None,
        before: GuestLaunch | None = None,
        is_id_late: bool = False,
    ) -> None:
        self._prepared = prepared
        self._tries: int = 1 if before is None else before._tries + 1
        self._until: float | None = None if before is None else before._until
        self._reactor = reactor
        self._feed = feed
        if feed is not None and before is not None:
            feed.begin_again()
        self._collection = None
        if collects_output:
            kept = None if before is None else before._collection
            self._collection = kept or Collected(prepared.limits.collected_bytes)
        self._front = GuestFront(
            reactor,
            asked.invocation,
            prepared.shared_directory,
            self._collection,
            source,
            takes_signals,
            prepared.plan.options.remote,
        )
        self._launching = Launching(
            prepared,
            self._front,
            opened,
            reactor,
            on_over,
            open_screens=self._screens(),
            after_event=None if feed is None else self._tell,
            is_id_late=is_id_late,
        )
        self.driver = self._launching.driver
        self.cancellation = Cancellation(self.driver, reactor, prepared.limits)
        self._timeout_s = timeout_s
        self._timer = reactor.timer(self._timed_out)
        self._is_timed_out = False
        self._is_held = False
        self._told_pids = 0
        self._told_ends = 0

    @property
    def job_id(self) -> str:
        """What commands call the job; empty: it has no id, or not yet."""
        return self._launching.job_id

    @property
    def unix_pids(self) -> Collection[int]:
        """Process ids of the ranks, as far as they are known."""
        return self.driver.machine.report.unix_pids.values()

    @property
    def ended_by(self) -> int:
        """The first signal of this process that has told the job to end; 0: none has."""
        return next((number for number in self._front.heard if number in END_SIGNALS), 0)

    def begin(self) -> None:
        """Start it."""
        if self._timeout_s is not None:
            if self._until is None:
                self._until = self._reactor.monotonic() + self._timeout_s
            self._timer.set(self._until)
        self.driver.start()

    def next_try(self) -> Prepared | None:
        """The launch to try when this one has ended; None: no other one is tried."""
        options, ended = self._prepared.plan.options, self.driver.result
        if not options.retries or ended is None or self.cancellation.has_begun or self.ended_by:
            return None
        from yod import retrying  # few launches are tried again

        return retrying.next_try(self._prepared, ended, self._tries)

    def result(self) -> Result:
        """How it has ended."""
        ended, kept = self.driver.result, self._collection
        assert ended is not None
        if kept is None:
            return result_of(ended.report, ended.timing, self.job_id)
        out, err = kept.data(1), kept.data(2)
        return result_of(ended.report, ended.timing, self.job_id, out, err, kept.messages)

    def check(self, result: Result, is_checked: bool) -> None:
        """Raise where the program has asked for it.

        Raises:
            JobTimeoutError: its time was over.
            JobFailedError: ``is_checked``, and it has failed.
        """
        if self._is_timed_out and self._timeout_s is not None:
            raise JobTimeoutError(result, self._timeout_s)
        if is_checked:
            result.check()

    def close(self) -> None:
        """Give everything back; what is left of the job ends. Calling twice is harmless."""
        self._timer.close()
        self.cancellation.close()
        self._launching.close()

    def _timed_out(self) -> None:
        self._is_timed_out = True
        self.cancellation.begin(_BY_TIMEOUT)

    def _screens(self) -> Callable[[OnWritten, OnBroken], dict[int, Screen]] | None:
        feed, collection = self._feed, self._collection
        if feed is not None:
            return lambda on_written, on_broken: {**feed.open(on_written)}
        if collection is None:
            return None
        options, size = self._prepared.plan.options, self._prepared.plan.size
        return lambda on_written, on_broken: open_collection(
            collection,
            self._reactor,
            self._front,
            options.style,
            size,
            self._prepared.limits,
            on_written,
            on_broken,
            has_stamps=options.has_stamps,
        )

    # -- events -----------------------------------------------------------

    def _tell(self) -> None:
        """Tell what has become of ranks since the last event."""
        machine, feed = self.driver.machine, self._feed
        report, phase, has_begun = machine.report, machine.phase, Phase.RUNNING in machine.began
        assert feed is not None
        if phase is Phase.HELD and not self._is_held:
            self._is_held = True
            feed.put(Held(self.job_id, dict(report.unix_pids)))
        if has_begun and len(report.unix_pids) > self._told_pids:
            pids = islice(report.unix_pids.items(), self._told_pids, None)
            self._told_pids = len(report.unix_pids)
            feed.put(Started(self.job_id, dict(pids)))
        if phase not in BEFORE_GO:
            feed.release()
        if has_begun or not self._prepared.plan.options.retries:
            self.tell_ends()  # else the ranks of a try that fails are nobody's

    def tell_ends(self) -> None:
        """Tell which ranks have ended, and have not been told of."""
        report, feed = self.driver.machine.report, self._feed
        if feed is not None and len(report.completions) > self._told_ends:
            ended = list(islice(report.completions, self._told_ends, None))
            self._told_ends = len(report.completions)
            for rank in ended:
                feed.put(RankEnded(rank_of(report, rank)))
