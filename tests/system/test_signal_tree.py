"""Whom a signal to a job reaches: the ranks, or what they have started, too."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.partition import Done, Partition
from tests.support.programs import HEARS
from tests.support.wait import LIMIT_S, read_until, wait_until

pytestmark = pytest.mark.warm

SIZE = 3


@contextmanager
def hearing(partition: Partition, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A yod whose ranks wait for a signal."""
    words = ("-sz", str(SIZE), *options, sys.executable, "-S", "-c", HEARS)
    with partition.start_yod(*words) as yod:
        try:
            read_until(yod.stdout.fileno(), b"ready\n", times=SIZE)
            yield yod
        finally:
            yod.kill()


def tell(partition: Partition, *words: str) -> None:
    """A command of yodjob about the only job that there is."""

    def yodjob(*words: str) -> Done:
        done = partition.yodjob(*words)
        assert (done.status, done.err) == (0, "")
        return done

    def found() -> list[str]:
        return [job["id"] for job in json.loads(yodjob("list", "--json").out)["jobs"]]

    wait_until(lambda: len(found()) == 1, what="the id of the job")
    yodjob(*words, *found())


def heard(number: int, *, by_helpers: bool) -> list[str]:
    helpers = [f"helper {number}"] * SIZE if by_helpers else []
    return helpers + [f"rank {number}"] * SIZE


def said(yod: subprocess.Popen[bytes]) -> list[str]:
    out, _ = yod.communicate(timeout=LIMIT_S)
    return sorted(out.decode().splitlines())


@pytest.mark.parametrize("options", [(), ("--signal-tree",)], ids=["alone", "tree"])
def test_a_signal_that_yod_passes_on_reaches_helpers_only_when_asked(anywhere, options):
    with hearing(anywhere, *options) as yod:
        yod.send_signal(signal.SIGUSR1)
        assert said(yod) == heard(10, by_helpers=bool(options))
    assert yod.returncode == 0


@pytest.mark.parametrize("name", ["HUP", "USR2"])
@pytest.mark.parametrize("options", [(), ("--signal-tree",)], ids=["alone", "tree"])
def test_a_signal_of_yodjob_reaches_helpers_only_when_asked(here, name, options):
    with hearing(here, *options) as yod:
        tell(here, "signal", name)
        assert said(yod) == heard(signal.Signals[f"SIG{name}"], by_helpers=bool(options))


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_what_ends_a_rank_reaches_its_helpers(here, name):
    with hearing(here) as yod:
        tell(here, "signal", name)
        assert said(yod) == heard(signal.Signals[f"SIG{name}"], by_helpers=True)


def test_an_interrupt_reaches_the_helpers_of_all_ranks(anywhere):
    with hearing(anywhere) as yod:
        yod.send_signal(signal.SIGINT)
        assert said(yod) == heard(15, by_helpers=True)


def test_a_kill_ends_all_ranks_with_their_helpers(anywhere):
    with hearing(anywhere) as yod:
        tell(anywhere, "signal", "KILL")
        assert said(yod) == []
    assert yod.returncode == 128 + signal.SIGKILL


def test_the_warning_before_the_time_limit_reaches_no_helper(here):
    program = (sys.executable, "-S", "-c", HEARS)
    for after_s in (1, 4, 16):
        limits = ("-time", "1:00:00", "-signal", f"USR1@{3600 - after_s}")
        done = here.yod("-sz", str(SIZE), *limits, *program)
        if done.out.count("ready\n") == SIZE:  # else it was there before a rank could hear it
            break
    assert sorted(done.out.splitlines()) == ["rank 10"] * SIZE + ["ready"] * SIZE
