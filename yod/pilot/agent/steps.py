"""Runs MPI tasks: each is a launch as any other, in the agent's loop.

In an allocation the launch is a step with ``--overlap``: the agent assigns the slots of its pilot,
and the broker does not count them again. Elsewhere it is a launch of the
agent's embedded partition.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace

from native.errors import YodError
from native.host import stdio
from native.loop.reactor import Reactor
from native.machine import fault_text
from native.port.port import Opened
from yod.guest.choices import Choices, Command, Member
from yod.guest.driver import GuestLaunch
from yod.guest.feed import Feed, Output, RankEnded, Started
from yod.guest.front import Given, Source
from yod.guest.request import request
from yod.guest.results import Result
from yod.launch.events import SignalToPass
from yod.launch.phases import Phase
from yod.pilot.work.place import Outcome
from yod.plan.prepared import Prepared
from yod.ranks import RankResult

if TYPE_CHECKING:
    from partition.find.kept import KeptPartitions
    from partition.up.guest import GuestPartition

_TAIL_BYTES = 1024
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_BY = "the pilot"

OnEnd = Callable[[Outcome], None]


class Steps:
    """All MPI tasks of an agent.

    Args:
        in_allocation: the agent runs in one.
    """

    def __init__(self, reactor: Reactor, *, in_allocation: bool) -> None:
        self.reactor = reactor
        self._in_allocation = in_allocation
        self._guest: GuestPartition | None = None
        self._kept: KeptPartitions | None = None
        self._steps: dict[str, _Step] = {}
        stdio.take_numbers()

    def start(
        self,
        uid: str,
        words: list[str],
        ranks: int,
        variables: dict[str, str],
        directory: str,
        output: str,
        error: str,
        on_started: Callable[[float], None],
        on_end: OnEnd,
        *,
        nodes: Sequence[int] = (),
        more: Choices | None = None,
        source: Source | None = None,
        on_rank_ended: Callable[[RankResult], None] | None = None,
    ) -> None:
        """Launch a task; its outcome goes to ``on_end``, mostly later.

        Args:
            on_rank_ended: told of each rank; None: nobody.
            nodes: that of each rank; empty: anywhere.
            source: the input of all ranks; None: they have none.
        """
        began = time.time()
        try:
            os.makedirs(directory, exist_ok=True)
            # Standard error last: where both are one file it is the same one.
            paths = [os.path.join(directory, name) for name in (output, error)]
            command, placed = _placed(words, ranks, nodes)
            choices: Choices = {
                **placed,
                "cwd": directory,
                "env": {**os.environ, **variables},
                "raw": True,
                "quiet": True,
            }
            if self._in_allocation:
                choices["overlap"] = True
            else:
                choices["partition"] = "embedded"
            choices |= more or {}
            asked = request(command, has_input=source is not None, **choices)
            if source is not None:
                every = replace(asked.options, input_ranks=((0, ranks - 1),))
                asked = replace(asked, options=every)
            prepared = asked.prepare()
            files = _Files(paths[0], paths[1])
        except (YodError, OSError) as failure:
            if source is not None:
                source.close()
            text = failure.strerror if isinstance(failure, OSError) else str(failure)
            on_end(Outcome(exit_code=None, reason=str(text), times=[("task_start", began)]))
            return

        def over(outcome: Outcome) -> None:
            self._steps.pop(uid, None)
            on_end(outcome)

        step = _Step(self, files, began, on_started, over, source, on_rank_ended)
        self._steps[uid] = step
        self.reactor.run_for(step.fault, step.begin, self._open(prepared, step), asked, prepared)

    def signal(self, uid: str, signo: int) -> None:
        """Send a task's ranks a signal; SIGTERM begins its end."""
        step = self._steps.get(uid)
        if step is not None:
            self.reactor.run_for(step.fault, step.signal, signo)

    def close(self) -> None:
        """End whatever is left."""
        for step in list(self._steps.values()):
            step.close()
        self._steps.clear()
        if self._guest is not None:
            self._guest.close()
        if self._kept is not None:
            self._kept.close()

    def _open(self, prepared: Prepared, step: _Step) -> Opened:
        if prepared.reach is not None:
            if self._kept is None:
                from partition.find.kept import KeptPartitions

                self._kept = KeptPartitions(self.reactor)
            return self._kept.open(prepared.reach, prepared.limits)
        if self._guest is None:
            from partition.up.guest import GuestPartition

            self._guest = GuestPartition(self.reactor, prepared.limits)
        return self._guest.open(lambda: step.unix_pids)


def _placed(words: list[str], ranks: int, nodes: Sequence[int]) -> tuple[Command, Choices]:
    """A command, and choices by which each rank is on its node."""
    runs = [(node, len(list(group))) for node, group in groupby(nodes)]
    if not runs:
        return words, {"size": ranks}
    each = [node for node, _ in runs]
    count = runs[0][1]
    if len(set(each)) == len(each) and all(other == count for _, other in runs):
        return words, {"size": ranks, "nodes": each, "ranks_per_node": count}
    return [Member(words, count, [node], ranks_per_node=count) for node, count in runs], {}


class _Files:
    """Both output files of a task, and the ends of what they got."""

    def __init__(self, output: str, error: str) -> None:
        self._fds = [os.open(output, _APPEND, 0o666)]
        self._fds.append(self._fds[0] if output == error else os.open(error, _APPEND, 0o666))
        self.tails = [b"", b""]
        self.failure = ""

    def write(self, stream: int, data: bytes) -> None:
        """A rank has written."""
        at = stream - 1
        self.tails[at] = (self.tails[at] + data)[-_TAIL_BYTES:]
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fds[at], left) :]
        except OSError as error:
            self.failure = f"its output cannot be written: {error.strerror}"

    def close(self) -> None:
        for fd in set(self._fds):
            os.close(fd)
        self._fds.clear()


class _Step:
    """One launch."""

    def __init__(
        self,
        steps: Steps,
        files: _Files,
        began: float,
        on_started: Callable[[float], None],
        on_end: OnEnd,
        source: Source | None,
        on_rank_ended: Callable[[RankResult], None] | None,
    ) -> None:
        self._on_rank_ended = on_rank_ended
        self._source = source
        self._reactor = steps.reactor
        self._files = files
        self._on_started = on_started
        self._on_end: OnEnd | None = on_end
        self._feed = Feed(self._more)
        self._launch: GuestLaunch | None = None
        self._is_asked = False
        self._times = [("task_start", began), ("task_run_start", time.time())]

    @property
    def unix_pids(self) -> list[int]:
        """Of its ranks, as far as they are known."""
        return [] if self._launch is None else list(self._launch.unix_pids)

    def begin(self, opened: Opened, asked: object, prepared: Prepared) -> None:
        """Launch it."""
        reactor = self._reactor
        self._times.append(("launch_submit", time.time()))
        self._launch = GuestLaunch(
            asked,  # type: ignore[arg-type]
            prepared,
            opened,
            reactor,
            lambda: reactor.call_soon(self._over),  # not from within the driver
            source=self._source or Given(reactor, b""),
            collects_output=False,
            feed=self._feed,
            takes_signals=False,
            timeout_s=None,
        )
        self._launch.begin()

    def signal(self, signo: int) -> None:
        """End it, or pass a signal on."""
        launch = self._launch
        if launch is None or launch.driver.result is not None:
            return
        if signo in (signal.SIGTERM, signal.SIGKILL):
            launch.cancellation.begin(_BY)
        elif launch.driver.machine.phase is Phase.RUNNING:
            launch.driver.handle(SignalToPass(signo))

    def fault(self, error: Exception) -> None:
        """Something that was done for it has raised."""
        text = str(error) if isinstance(error, YodError) else fault_text(error)
        self._end(Outcome(exit_code=None, reason=text))

    def close(self) -> None:
        """End it at once."""
        self._on_end = None
        self._end(Outcome())

    def _more(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._reactor.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_asked = False
        while (event := self._feed.take()) is not None:
            if isinstance(event, Output):
                self._files.write(event.stream, event.data)
            elif isinstance(event, RankEnded):
                if self._on_rank_ended is not None:
                    self._on_rank_ended(event.rank)
            elif isinstance(event, Started):
                now = time.time()
                if len(self._times) < 4:  # ranks that it spawns come later
                    self._times += [("exec_start", now), ("rank_start", now)]
                    self._on_started(now)

    def _over(self) -> None:
        if self._launch is None:
            return
        self._drain()
        result = self._launch.result()
        now = time.time()
        self._times += [("rank_stop", now), ("exec_stop", now)]
        self._end(_outcome(result, self._files))

    def _end(self, outcome: Outcome) -> None:
        if self._launch is not None:
            launch, self._launch = self._launch, None
            launch.close()
            self._feed.close()
        if self._source is not None:
            self._source.close()
        outcome.times = self._times
        outcome.stdout, outcome.stderr = (t.decode(errors="replace") for t in self._files.tails)
        self._files.close()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(outcome)


def _outcome(result: Result, files: _Files) -> Outcome:
    if files.failure:
        return Outcome(exit_code=result.exit_status, reason=files.failure)
    if not result.exit_status:
        return Outcome()
    failed = [rank for rank in result.ranks if rank.exit_code or rank.signal]
    own = failed and failed[0].exit_code and failed[0].exit_code == result.exit_status
    reason = "" if own else result.reason
    is_lost = any(rank.phase == "lost" for rank in result.ranks)
    return Outcome(result.exit_status, result.signal, reason, is_lost=is_lost)
