"""A job under a real keeper: started, driven and watched by a test.

As a program (``python -m tests.support.keeper_job``) it stands for a PCT that a test can
kill, or run in another mount namespace: it prints every event, and the ranks' output, one on
each line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType

from native.host.process import become_subreaper
from native.loop.reactor import Reactor, Watch
from native.wire.keeper import (
    ExecFailed,
    Hold,
    KeeperEmpty,
    KeeperLost,
    KeeperSpec,
    ProgramSpec,
    RankEnded,
    RankHeld,
    RankSpec,
    RankStarted,
    Report,
)
from pct.host.keeper import HOLD_LIBRARY, Keeper, OnMount
from pct.host.spawn.orphans import Orphans
from pct.host.spawn.spawner import KEEPER, OwnSpawner, Spawner
from tests.support.wait import LIMIT_S

UNDER_TEST = os.environ.get("KEEPER_UNDER_TEST", KEEPER)  # another build of the keeper


def make_spec(
    argv: tuple[str | bytes, ...],
    *,
    ranks: int = 1,
    others: tuple[tuple[str | bytes, ...], ...] = (),
    path: str | None = None,
    hold: Hold = Hold.AUTO,
    environment: tuple[bytes, ...] | None = None,
    own: Callable[[int], tuple[bytes, ...]] = lambda rank: (),
    cwd: str = "",
    limits: tuple[tuple[int, int] | tuple[int, int, int], ...] = (),
    umask: int = 0o22,
    uid: int | None = None,
    gid: int | None = None,
    groups: tuple[int, ...] = (),
    wants_stdin: bool = False,
    wants_pmi: bool = False,
    signals_group: bool = False,
) -> KeeperSpec:
    """Ranks of one program; ``others`` are programs of one more rank each."""
    commands = [argv, *others]
    programs = tuple(
        ProgramSpec(
            os.fsencode(path or words[0]),
            tuple(os.fsencode(word) for word in words),
            os.fsencode(cwd),
            hold,
        )
        for words in commands
    )
    numbers = [0] * ranks + list(range(1, len(commands)))
    if environment is None:
        environment = tuple(name + b"=" + value for name, value in os.environb.items())
    return KeeperSpec(
        job_id=7,
        uid=os.getuid() if uid is None else uid,
        gid=os.getgid() if gid is None else gid,
        groups=groups,
        umask=umask,
        limits=limits,
        environment=environment,
        programs=programs,
        ranks=tuple(
            RankSpec(rank, program, own(rank), wants_stdin, wants_pmi)
            for rank, program in enumerate(numbers)
        ),
        signals_group=signals_group,
    )


class Job:
    """One job; leaves nothing behind when its block ends.

    Attributes:
        events: all reports so far, in order.
        output: what each rank wrote, by (rank, 1 or 2).
        stdin, pmi: descriptors, by rank.

    Args:
        make_spawner: gives the parent of the keeper; None: this process.
        on_mount: see Keeper.start.
    """

    def __init__(
        self,
        spec: KeeperSpec,
        *,
        portals_fd: int = -1,
        keeper: str = UNDER_TEST,
        hold_library: str = HOLD_LIBRARY,
        make_spawner: Callable[[Reactor], Spawner] | None = None,
        on_mount: OnMount | None = None,
    ) -> None:
        self.spec = spec
        self.events: list[Report] = []
        self.output: dict[tuple[int, int], bytes] = {}
        self.stdin: dict[int, int] = {}
        self.pmi: dict[int, int] = {}
        self.reactor = Reactor()
        self._readers: dict[int, Watch] = {}
        self.spawner = (
            make_spawner(self.reactor) if make_spawner else OwnSpawner(self.reactor, program=keeper)
        )
        try:
            self.keeper = Keeper.start(
                spec,
                self.spawner,
                self.reactor,
                self.events.append,
                self._take_streams,
                portals_fd,
                hold_library=hold_library,
                on_mount=on_mount,
            )
        except BaseException:
            self.reactor.close()
            raise

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self.of(KeeperEmpty, KeeperLost):
                self.keeper.end()
                self.run_until(lambda: bool(self.of(KeeperEmpty, KeeperLost)), "the end")
        finally:
            self.keeper.close()
            for fd, watch in self._readers.items():
                watch.close()
                os.close(fd)
            for fd in (*self.stdin.values(), *self.pmi.values()):
                os.close(fd)
            self.reactor.close()

    def of(self, *kinds: type[Report]) -> list[Report]:
        """The events of these kinds."""
        return [event for event in self.events if isinstance(event, kinds)]

    def run_until(self, condition: Callable[[], bool], what: str) -> None:
        """Serve the loop until something is so."""
        until = time.monotonic() + LIMIT_S
        while not condition():
            now = time.monotonic()
            if now >= until:
                raise AssertionError(f"{what}: not in {LIMIT_S:g} s, but {self.events[-20:]}")
            due = self.reactor.deadline()
            self.reactor.run_once(max(0.0, min(until, until if due is None else due) - now))

    def wait_held(self, count: int | None = None) -> None:
        wanted = len(self.spec.ranks) if count is None else count
        self.run_until(lambda: len(self.of(RankHeld)) >= wanted, f"{wanted} held")
        # A keeper of a client reports by itself, and the client its process.
        self.run_until(lambda: self.keeper.unix_pid > 0, "the keeper's process")

    def wait_ended(self, count: int | None = None) -> list[RankEnded]:
        wanted = len(self.spec.ranks) if count is None else count
        self.run_until(lambda: len(self.of(RankEnded)) >= wanted, f"{wanted} ended")
        return [event for event in self.events if isinstance(event, RankEnded)]

    def wait_output(self, text: bytes, rank: int = 0, stream: int = 1) -> bytes:
        self.run_until(lambda: text in self.output.get((rank, stream), b""), f"{text!r}")
        return self.output[rank, stream]

    def wait_empty(self) -> None:
        self.run_until(lambda: bool(self.of(KeeperEmpty, KeeperLost)), "empty")
        assert self.of(KeeperEmpty), self.events
        self.drain()

    def drain(self) -> None:
        """Read all output to its end."""
        self.run_until(lambda: not self._readers, "the end of all output")

    def open_streams(self) -> int:
        """How many streams of output have not ended, after a look at what is ready."""
        self.reactor.run_once(0.0)
        return len(self._readers)

    def unix_pid(self, rank: int = 0) -> int:
        for event in self.events:
            if isinstance(event, RankStarted) and event.rank == rank:
                return event.unix_pid
        raise AssertionError(f"rank {rank} has not started")

    def run(self) -> Job:
        """From start over go to the end of all; fails when a rank is not held."""
        self.wait_held()
        self.keeper.go()
        self.wait_ended()
        self.keeper.end()
        self.wait_empty()
        return self

    def text(self, rank: int = 0, stream: int = 1) -> str:
        return self.output.get((rank, stream), b"").decode()

    def _take_streams(
        self, rank: int, stdin: int | None, stdout: int, stderr: int, pmi: int | None
    ) -> None:
        if stdin is not None:
            self.stdin[rank] = stdin
        if pmi is not None:
            self.pmi[rank] = pmi
        for stream, fd in ((1, stdout), (2, stderr)):
            self.output[rank, stream] = b""
            self._readers[fd] = self.reactor.watch(fd, partial(self._read, rank, stream, fd))

    def _read(self, rank: int, stream: int, fd: int) -> None:
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return
        self.output[rank, stream] += data
        if not data:
            self._readers.pop(fd).close()
            os.close(fd)


def _failure(job: Job) -> ExecFailed:
    (failure,) = job.of(ExecFailed)
    assert isinstance(failure, ExecFailed)
    return failure


def failure_of(spec: KeeperSpec) -> ExecFailed:
    """Start a program that cannot be started; gives the reason."""
    with Job(spec) as job:
        (ended,) = job.wait_ended()
        assert not ended.was_released
        assert job.events.index(_failure(job)) < job.events.index(ended)
        return _failure(job)


def main() -> None:
    """Arguments: subreaper or plain, then a command for one rank, which is let go."""
    if sys.argv[1] == "subreaper":
        become_subreaper()
    job = Job(make_spec(tuple(sys.argv[2:]), environment=(b"PATH=/usr/bin:/bin",)))
    print("keeper", job.keeper.unix_pid, flush=True)
    shown = 0
    written = 0
    is_over = False

    def over() -> None:
        nonlocal is_over
        is_over = True

    while not is_over:
        job.reactor.run_once(-1.0 if job.reactor.deadline() is None else 0.0)
        for event in job.events[shown:]:
            print(repr(event), flush=True)
            if isinstance(event, RankHeld):
                job.keeper.go()
            elif isinstance(event, RankEnded):
                job.keeper.end()
            elif isinstance(event, KeeperEmpty):
                over()
            elif isinstance(event, KeeperLost):
                Orphans(job.reactor).kill(over)
        shown = len(job.events)
        output = job.output.get((0, 1), b"")
        sys.stdout.write(output[written:].decode())
        sys.stdout.flush()
        written = len(output)
    print("over", flush=True)


if __name__ == "__main__":
    main()
