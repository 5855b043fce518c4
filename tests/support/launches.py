"""Launches in one process on one embedded partition, one after the other.

As a program (``python -m tests.support.launches COUNT PERIOD MPI WORD...``) it launches the words
so many times, and prints a line after each PERIOD of launches: Python objects that the collector
knows, open descriptors, children, and KiB of memory.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from native.limits import Limits
from native.loop.reactor import Reactor
from native.wire.alloc import NodeSpec
from partition.open import own_spawner
from partition.up.embedded import EmbeddedPartition
from pct.host.spawn.orphans import children_of
from pct.host.spawn.spawner import Spawner
from yod import launching
from yod.driver import Driver
from yod.host import own
from yod.launch.machine import Launch
from yod.plan.plan import Member, Options


class Launches:
    """A partition and its loop.

    Attributes:
        partition: the partition.
        spawner: its own.
    """

    def __init__(self, limits: Limits, slots: int | None) -> None:
        self.reactor = Reactor()
        self.spawner = own_spawner(self.reactor)
        self.partition = EmbeddedPartition(self.reactor, limits, self.spawner, slots=slots)
        self._limits = limits

    def run(
        self,
        *words: str,
        size: int = 1,
        mpi: str = "none",
        spawner: Spawner | None = None,
        watch: Callable[[Driver, Launch], None] = lambda driver, machine: None,
    ) -> Launch:
        """Launch something to its end, or until the loop is stopped.

        Args:
            watch: called before the launch begins.
        """
        here = own.invocation(("yod", *words))
        prepared = launching.prepare(
            [Member(NodeSpec(size), words)],
            Options(is_quiet=True, input_ranks=(), mpi=mpi),
            here,
            partition="embedded",
            limits=self._limits,
            monotonic=self.reactor.monotonic,
        )
        launch = self.partition.open(spawner)
        front = own.OwnFront(self.reactor, here, prepared.shared_directory)
        driver = Driver(
            prepared,
            front,
            launch.port,
            launch.bebopd,
            self.reactor,
            launch.use_grant,
            self.reactor.stop,
        )
        watch(driver, driver.machine)
        try:
            driver.start()
            if driver.result is None:
                self.reactor.run()
        finally:
            driver.close()
            launch.close()
            driver.machine.report.close()
        return driver.machine

    def settle(self) -> None:
        """Serve the loop until nothing is left of any job, and nothing waits to be told of."""
        while not self.partition.is_idle or self.spawner.has_keepers:
            self.reactor.run_once(1.0)
        self.reactor.when_idle(self.reactor.stop)
        self.reactor.run()


@contextmanager
def open_launches(limits: Limits | None = None, slots: int | None = None) -> Iterator[Launches]:
    """A partition that is closed in the end."""
    launches = Launches(limits or Limits(), slots)
    try:
        yield launches
    finally:
        launches.partition.close()
        launches.reactor.close()


def main() -> None:
    count, period = map(int, sys.argv[1:3])
    mpi, *words = sys.argv[3:]
    with open_launches() as launches:
        for number in range(1, count + 1):
            launches.run(*words, mpi=mpi)
            if number % period == 0:
                launches.settle()
                gc.collect()
                with open("/proc/self/statm", encoding="ascii") as statm:
                    kib = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
                fds = len(os.listdir("/proc/self/fd"))
                print(len(gc.get_objects()), fds, len(children_of(os.getpid())), kib, flush=True)


if __name__ == "__main__":
    main()
