"""A PCT's cgroup: what outlives both the PCT and its keepers is still found."""

import os
import signal
import subprocess
import sys

import pytest

from pct import cgroup
from tests.support.wait import wait_for_exit

pytestmark = pytest.mark.system

CHILD = """
import subprocess, sys
from pct.cgroup import Cgroup
assert Cgroup.enter() is not None, "no cgroup v2 can be made here"
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(needs_root: None) -> str:
    path = cgroup.own_path()
    assert path is not None, "cgroup v2 is not mounted"
    return path


def start() -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_killed_pcts_daemonised_descendants_are_killed_by_the_next_sweep(parent: str) -> None:
    process, orphan = start()
    end(process)
    os.kill(orphan, 0)  # it has survived
    assert cgroup.sweep(parent) >= 1
    wait_for_exit(orphan)
    cgroup.sweep(parent)  # now it is empty
    assert not os.path.exists(f"{parent}/{cgroup.PREFIX}{process.pid}")


def test_a_living_pcts_cgroup_is_left_alone(parent: str) -> None:
    process, child = start()
    try:
        cgroup.sweep(parent)
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        end(process)
        cgroup.sweep(parent)
