"""Nodes that are lost while they copy a checkpoint: another node has what they kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemons import HostDaemons
from tests.support.limits import try_longer
from tests.support.partition import finish
from tests.support.processes import stopped
from tests.support.wait import read_until, wait_until
from tests.system.test_checkpoint import PROGRAM, Study

pytestmark = pytest.mark.hosts

BULK = '(directory / "bulk").write_bytes(rank.encode() * 1000)'
MANY = "[(directory / str(i)).write_text(rank) for i in range(int(open(sys.argv[2] + 's').read()))]"
QUICK = {"YOD_LIVENESS_S": "5", "YOD_END_S": "5", "YOD_ORPHAN_S": "2"}
LOCAL = "/dev/shm"
FILES = 100  # of a rank: each is written to the disk by itself, so a copy takes its time
LARGE = "(directory / 'bulk').write_bytes(bytes(24 << 20))"


class Kept(Study):
    """A job on three hosts, which keep its checkpoints in their memory first."""

    def __init__(self, partition: HostDaemons, place: Path, bulk: str = MANY) -> None:
        super().__init__(partition, place)
        assert BULK in PROGRAM
        self.hosts = partition.hosts
        self.program.write_text(PROGRAM.replace(BULK, bulk))

    def begun(self) -> subprocess.Popen[bytes]:
        """A job of a rank on each host."""
        return self.start("--checkpoint-local", LOCAL, "-N", "3", size=3)

    def holds(self, place: int) -> bool:
        """Whether its holder has all of a node's share."""
        holder = self.hosts[(place + 1) % 3]
        pattern = f"yod-checkpoints-*/.collecting-*.{place}.held/node.{place}.json"
        return any(holder.path(LOCAL).glob(pattern))

    def savers(self, node: int) -> list[int]:
        """The processes of a node that drain and hold."""
        found = self.hosts[node].processes().items()
        return [pid for pid, words in found if "saver drain-copied" in words]

    def left(self, *nodes: int) -> list[str]:
        """What nodes keep."""
        paths = [self.hosts[node].path(LOCAL) for node in nodes]
        return [each.name for path in paths for each in path.glob("yod-checkpoints-*/*")]


@pytest.fixture
def start_study(start_hosts, tmp_path: Path) -> Iterator[Callable[..., Kept]]:
    """A function that gives such a job; what is left on hosts is only the owner's directory."""
    begun: list[Kept] = []

    def start(bulk: str = MANY) -> Kept:
        place = tmp_path / str(len(begun))
        place.mkdir()
        begun.append(Kept(start_hosts(3, slots=2, env=QUICK), place, bulk))
        return begun[-1]

    yield start
    for study in begun:
        for host in study.hosts:
            if os.path.exists(f"/proc/{host.unix_pid}/root"):
                for path in host.path(LOCAL).glob("yod-checkpoints-*"):
                    path.rmdir()


@pytest.mark.parametrize("victim", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_job_goes_on_from_what_another_node_holds_of_a_lost_one(start_study, victim):
    def goes_on(files: float) -> None:
        study = start_study()
        Path(f"{study.limit}s").write_text(f"{files:.0f}")
        yod = study.begun()
        assert study.ask().status == 0  # a whole one, which would do if there were no other
        asked = study.command("checkpoint", study.job_id)
        wait_until(lambda: study.holds(victim), what="a share that another node holds")
        study.partition.power_off(victim)
        done = finish(yod)
        asked = finish(asked)
        assert done.status == 125
        assert f"its nodes copy the last checkpoint to {study.kept}; Ctrl-C ends that" in done.err
        assert f"yod: checkpoint {study.kept}/checkpoint.2; yod --restart goes on" in done.err
        assert asked.out.endswith(f": {study.kept}/checkpoint.2\n")
        assert study.left(*{0, 1, 2} - {victim}) == []
        again = study.partition.yod("--restart", str(study.kept), "-sz", "3", *study.words(1))
        assert again.out.count(" begins at 2\n") == 3

    try_longer(goes_on, FILES)  # the node is lost before it has copied all


@pytest.mark.long
def test_a_node_that_is_lost_before_another_has_its_share_takes_the_checkpoint_along(start_study):
    study = start_study(LARGE)
    yod = study.begun()
    asked = study.command("checkpoint", study.job_id)
    savers = wait_until(lambda: study.savers(0), what="the saver that holds a share")
    with stopped(*savers):  # its node takes no more than the window
        wait_until(lambda: study.savers(2), what="the saver of that share")
        study.partition.power_off(2)
        read_until(yod.stderr.fileno(), b"Ctrl-C ends that")
    done = finish(yod)
    assert done.status == 125
    lost = "no checkpoint: rank 2 lost with a node before another one had all that it kept"
    assert f"yod: {lost}\n" in done.err
    asked = finish(asked)
    assert (asked.status, asked.out) == (1, "")
    assert f"yodjob: {study.job_id}: {lost}\n" in asked.err
    assert list(study.kept.iterdir()) == []
    assert study.left(0, 1) == []
