"""Many launches on one embedded partition: nothing is left of any, however it has ended."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from native.limits import Limits
from native.machine import Event
from pct.host.spawn.orphans import children_of
from tests.support.keeper_client import ClientProcess
from tests.support.launches import Launches, open_launches
from tests.support.leaks import descendants
from tests.support.wait import wait_for_exit
from yod.driver import Driver
from yod.launch.machine import Launch
from yod.launch.phases import Phase

HERE = Path(__file__).parents[2]
TRUE = ("/bin/true",)
SLEEP = ("/bin/sleep", "1000")
ALLOCATION_REFUSED = 125
SETTLED = 3  # periods after which everything that is kept for all launches is there


@pytest.fixture
def launches(place: object) -> Iterator[Launches]:
    with open_launches() as launches:
        yield launches


@pytest.fixture
def processes(launches: Launches) -> set[int]:
    """Those that were there before, below this one."""
    return descendants(os.getpid())


@pytest.fixture
def client(launches: Launches) -> Iterator[ClientProcess]:
    client = ClientProcess(launches.reactor)
    yield client
    client.close()


def measure(count: int, period: int, mpi: str, *words: str) -> list[list[int]]:
    """Objects, descriptors, children and KiB after each period of launches."""
    command = [sys.executable, "-m", "tests.support.launches", str(count), str(period), mpi, *words]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr or words != TRUE, done.stderr
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def demand_flat(measured: list[list[int]], period: int) -> None:
    first, *later = measured[SETTLED - 1 :]
    for objects, descriptors, children, _ in later:
        assert objects < first[0] + period // 10, measured  # not one for every tenth launch
        assert (descriptors, children) == (first[1], 0), measured


def test_three_hundred_launches_in_turn_leave_no_object_descriptor_or_process(place):
    demand_flat(measure(300, 50, "none", *TRUE), 50)


@pytest.mark.parametrize(
    ("mpi", "words"),
    [("pmi1", TRUE), ("none", ("/bin/sh", "-c", "kill -9 $PPID")), ("none", ("/bin/false",))],
    ids=["pmi", "killed keeper", "failed rank"],
)
def test_launches_that_end_in_another_way_leave_as_little(place, mpi, words):
    demand_flat(measure(120, 20, mpi, *words), 20)


def test_what_a_job_was_made_of_on_its_node_does_not_wait_for_the_garbage_collector(launches):
    def launch() -> None:
        launches.run(*TRUE, mpi="auto")
        launches.settle()

    launch()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        launch()
        gc.collect()
        kinds = {type(each).__module__ for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert [kind for kind in kinds if kind.startswith("pct.")] == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_thousand_launches_in_turn_leave_memory_as_it_was(place):
    measured = measure(10_000, 1000, "none", *TRUE)
    demand_flat(measured, 1000)
    # By then the node remembers the ids of as many ended jobs as it ever does.
    half, last = measured[4][3], measured[-1][3]
    assert last <= half + 512, measured


class AfterEvents:
    """Counts the events of a launch, and then calls back once.

    Args:
        count: of events; 0: as many as come before the ranks run.
    """

    def __init__(self, count: int, call: Callable[[], None]) -> None:
        self._left = count
        self._call: Callable[[], None] | None = call
        self.phase = Phase.ALLOCATING

    def __call__(self, driver: Driver, machine: Launch) -> None:
        handle = driver.handle

        def counting(event: Event) -> None:
            handle(event)
            self._left -= 1
            is_due = not self._left or machine.phase is Phase.RUNNING
            if is_due and self._call is not None:
                self.phase = machine.phase
                call, self._call = self._call, None
                call()

        driver.handle = counting  # type: ignore[method-assign]


@pytest.mark.parametrize("mpi", ["none", "pmi1"])
def test_a_launch_that_is_dropped_after_any_event_frees_all(launches, processes, mpi):
    launches.run("/bin/true", mpi=mpi)
    launches.settle()
    before = len(os.listdir("/proc/self/fd"))
    seen: list[Phase] = []
    while Phase.RUNNING not in seen:
        drop = AfterEvents(len(seen) + 1, launches.reactor.stop)
        launches.run("/bin/sleep", "1000", size=2, mpi=mpi, watch=drop)
        launches.settle()
        assert descendants(os.getpid()) == processes
        assert len(os.listdir("/proc/self/fd")) == before
        seen.append(drop.phase)
    assert {Phase.FORMING, Phase.STARTING, Phase.RUNNING} <= set(seen)
    assert launches.run("/bin/true").report.exit_status == 0


def test_a_launch_that_is_dropped_before_its_first_answer_frees_its_slots(launches, processes):
    def drop(driver: Driver, machine: Launch) -> None:
        driver.handle = lambda event: launches.reactor.stop()  # type: ignore[method-assign]

    machine = launches.run("/bin/sleep", "1000", watch=drop)
    assert machine.phase is Phase.ALLOCATING
    launches.settle()
    assert descendants(os.getpid()) == processes


def test_job_ids_are_counted_on(launches):
    ids = [launches.run("/bin/true").grant.job_id for _ in range(3)]
    assert ids == [os.getpid(), os.getpid() + 1, os.getpid() + 2]


def test_launches_at_a_time_share_the_slots_where_a_number_is_given(place):
    statuses: list[int | None] = []
    with open_launches(slots=2) as launches:

        def launch_others() -> None:
            statuses.append(launches.run("/bin/true").report.exit_status)
            statuses.append(launches.run("/bin/true", size=2).report.exit_status)

        launches.run("/bin/sleep", "1000", watch=AfterEvents(0, launch_others))
        launches.settle()
        assert launches.run("/bin/true", size=2).report.exit_status == 0
    assert statuses == [0, ALLOCATION_REFUSED]


def test_launches_at_a_time_are_as_many_as_are_asked_for(place):
    """More than a node of a partition of daemons takes."""
    depth = 0
    with open_launches(Limits(jobs_per_node_count=1)) as launches:

        def launch_another() -> None:
            nonlocal depth
            depth += 1
            if depth == 5:
                launches.reactor.stop()
                return
            machine = launches.run(*SLEEP, watch=AfterEvents(0, launch_another))
            assert machine.phase is Phase.RUNNING

        launches.run(*SLEEP, watch=AfterEvents(0, launch_another))
        launches.settle()
    assert depth == 5


def test_the_keepers_of_a_launch_are_children_of_its_own_client(launches, client):
    command = f"read -r _ _ _ parent _ < /proc/$PPID/stat; test $parent = {client.process.pid}"
    machine = launches.run("/bin/sh", "-c", command, size=2, spawner=client.spawner)
    assert machine.report.exit_status == 0
    assert launches.run("/bin/sh", "-c", command).report.exit_status == 1


@pytest.mark.parametrize("count", [1, 2, 0])
def test_a_launch_whose_client_dies_ends_and_frees_all(launches, processes, client, count):
    watch = AfterEvents(count, client.process.kill)
    machine = launches.run(*SLEEP, size=2, spawner=client.spawner, watch=watch)
    assert machine.report.exit_status not in (None, 0)
    launches.settle()
    for unix_pid in descendants(os.getpid()) - processes:
        wait_for_exit(unix_pid)  # its end has been seen by its descriptors


def test_orphans_of_a_launch_are_killed_by_its_own_client(launches, client, processes, build):
    """And a neighbour's keeper, which is this process's child, lives on."""

    def kill_keeper() -> None:
        (keeper,) = children_of(client.process.pid)
        os.kill(keeper, signal.SIGKILL)

    watch = AfterEvents(0, kill_keeper)
    machine = launches.run(build("daemon"), spawner=client.spawner, watch=watch)
    assert machine.report.exit_status not in (None, 0)
    launches.settle()
    assert descendants(os.getpid()) == processes
