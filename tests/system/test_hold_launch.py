"""No rank passes its entry before all are held; if one fails, none ever does.

One rank is kept from its entry: its program needs a library whose path is a named
pipe, at which the loader waits. The other rank's program writes a file when it runs.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemons import Daemons
from tests.support.limits import try_longer
from tests.support.partition import Partition
from tests.support.programs import Programs, Stopped, script
from tests.support.wait import LIMIT_S, wait_until

RUNS = "open({!r}, 'a').close()"


def programs_of(kind: str, programs: Programs, directory: Path, ran: Path) -> str:
    """The words of a program that writes ``ran`` as soon as it runs."""
    match kind:
        case "dynamic":
            return f"{programs.dynamic} {ran}"
        case "static":
            return f"{programs.static} {ran}"
        case "python":
            return f'{sys.executable} -c "{RUNS.format(str(ran))}"'
    return str(script(directory / "job", f"#!/bin/sh\n: > {ran}\n"))


@pytest.fixture(params=["embedded", "three nodes"])
def partition(request: pytest.FixtureRequest) -> Partition:
    """One node, or a tree of three."""
    if request.param == "embedded":
        return request.getfixturevalue("embedded")  # type: ignore[no-any-return]
    start: Callable[..., Daemons] = request.getfixturevalue("start_local")
    return start(3, slots=1)


@pytest.mark.parametrize("kind", ["dynamic", "static", "python", "script"])
def test_no_main_runs_while_one_rank_is_not_held_nor_after_it_has_failed(
    partition, programs, tmp_path, kind
):
    stopped = Stopped(programs, tmp_path)
    ran = tmp_path / "ran"
    words = programs_of(kind, programs, tmp_path, ran)
    load = tmp_path / "job.load"
    load.write_text(f"{words}\n{stopped.program}\n{words}\n")
    with partition.start_yod(load) as yod:
        stopped.wait()
        pids = wait_until(lambda: held(tmp_path, kind, programs), what="the others held")
        assert len(pids) == 2
        assert not ran.exists()
        stopped.go_on()
        _, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 125, err
    assert b"before its entry" in err and b"rank 1" in err
    assert not ran.exists()


@pytest.mark.parametrize("kind", ["dynamic", "static", "python", "script"])
def test_a_hold_is_not_seen_once_it_is_over(partition, programs, tmp_path, kind):
    ran = tmp_path / "ran"
    load = tmp_path / "job.load"
    words = programs_of(kind, programs, tmp_path, ran)
    load.write_text(f"{words}\n{words}\n")
    assert partition.yod(load).status == 0
    assert ran.exists()


def test_an_interrupt_while_a_rank_is_late_cancels_the_load(partition, programs, tmp_path):
    stopped = Stopped(programs, tmp_path)
    with partition.start_yod("-sz", "3", stopped.program) as yod:
        stopped.wait()
        yod.send_signal(2)
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (yod.returncode, out) == (-signal.SIGINT, b"")
    assert b"the load is being cancelled" in err


def test_signals_before_go_are_told_to_be_ignored(partition, programs, tmp_path):
    stopped = Stopped(programs, tmp_path)
    with partition.start_yod("-sz", "3", stopped.program) as yod:
        stopped.wait()
        yod.send_signal(10)
        assert yod.stderr.readline() == b"yod: SIGUSR1 ignored: the application is not running\n"
        yod.send_signal(2)
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT


def test_a_rank_that_is_late_beyond_the_limit_is_named(partition, programs, tmp_path):
    stopped = Stopped(programs, tmp_path)
    load = tmp_path / "job.load"
    load.write_text(f"true\n{stopped.program}\ntrue\n")

    def is_named(limit_s: float) -> None:
        done = partition.yod(load, env={"YOD_PHASE_S": str(limit_s)})
        assert (done.status, done.out) == (125, "")
        (line,) = done.err.splitlines()
        assert "no answer in" in line or "timed out" in line
        assert partition.node_names[min(1, len(partition.node_names) - 1)] in line
        assert "ranks not at their entry: 1" in line

    try_longer(is_named, 3)  # the others are at their entry long before


def held(directory: Path, kind: str, programs: Programs) -> list[int]:
    """Processes of the two other ranks, once they are there and wait."""
    needle = {
        "dynamic": str(programs.dynamic),
        "static": str(programs.static),
        "python": str(directory / "ran"),
        "script": str(directory / "job"),
    }[kind]
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            environment = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        is_rank = b"YOD_RANK=" in environment and any(needle in word for word in words)
        if is_rank and state in "tTS":
            found.append(int(entry.name))
    return found if len(found) == 2 else []
