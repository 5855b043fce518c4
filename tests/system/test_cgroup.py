"""A PCT's cgroup: processes that outlive both the PCT and its keepers are still found."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pct.host.cgroups import files, own
from tests.support.wait import wait_for_exit

pytestmark = pytest.mark.system

CHILD = """
import subprocess, sys
from pct.host.cgroups.own import Cgroup
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
assert Cgroup.enter() is not None, "no cgroup v2 can be made here"
child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(needs_root: None) -> Iterator[str]:
    """A cgroup of the test's own: PCTs of other tests sweep the one it is in."""
    ours = files.own_path()
    assert ours is not None, "cgroup v2 is not mounted"
    path = f"{ours}/test-{os.getpid()}"
    os.mkdir(path)
    yield path
    os.rmdir(path)


def start(parent: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, parent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_killed_pcts_daemonised_descendants_are_killed_by_the_next_sweep(parent: str) -> None:
    process, orphan = start(parent)
    end(process)
    os.kill(orphan, 0)  # it has survived
    assert own.sweep(parent) >= 1
    wait_for_exit(orphan)
    own.sweep(parent)  # now it is empty
    assert not [name for name in os.listdir(parent) if name.startswith(own.PREFIX)]


def test_a_living_pcts_cgroup_is_left_alone(parent: str) -> None:
    process, child = start(parent)
    try:
        own.sweep(parent)
        os.kill(child, 0)
    finally:
        end(process)
        own.sweep(parent)
        wait_for_exit(child)
        own.sweep(parent)
