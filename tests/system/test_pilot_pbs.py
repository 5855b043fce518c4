"""A pilot as a job of PBS whose nodes do not see the session's directory: tests/support/pbs.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosts import Hosts
from tests.support.partition import BIN, finish
from tests.support.pbs import Job, Pbs, all_gone
from tests.support.pilot_calls import TASKS
from tests.support.pilots import check_profiles
from tests.support.place import MARK, Place

pytestmark = pytest.mark.hosts

NODES = 2


class Site:
    """Two nodes with a PBS, and the host of the application, each with files of its own."""

    def __init__(self, hosts: Hosts, place: Place, directory: Path) -> None:
        self.hosts = hosts
        self.pbs = Pbs(directory / "pbs", list(hosts)[:NODES])
        self.pbs.taken = self._begin
        self.data = directory / "data"
        self.data.mkdir()
        kept = ("HOME", "XDG_STATE_HOME", "TMPDIR")
        own = {name: value for name, value in place.environment().items() if name in kept}
        self._env = {**own, MARK: place.mark, "XDG_RUNTIME_DIR": "/run/yod-ram"}
        for n in range(NODES):
            hosts[n].run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.data], check=True)

    def _begin(self, script: str) -> Job:
        assert "#PBS -l select=4:ncpus=1:mpiprocs=1\n" in script
        return self.pbs.qsub(script, [0, 0, 1, 1], self._env, path=str(BIN))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a program of the application's."""
        home = self.hosts[NODES]
        path = f"{self.pbs.bin}:{BIN}:{os.environ['PATH']}"
        return home.popen(
            [sys.executable, "-c", *words],
            cwd=self.data,
            env={**home.environment(), "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@pytest.fixture
def site(needs_root: None, place: Place, tmp_path: Path) -> Iterator[Site]:
    with Hosts(NODES + 1) as hosts:
        found = Site(hosts, place, tmp_path)
        try:
            yield found
            check_profiles(found.data)
        finally:
            found.pbs.close()


@pytest.mark.parametrize("is_late", [False, True], ids=["qsub", "slow qsub"])
def test_a_job_of_pbs_on_nodes_with_files_of_their_own_runs_tasks_and_all_comes_home(site, is_late):
    site.pbs.is_late = is_late
    done = finish(site.start(TASKS, "pbs.here"))
    assert done.err == "", done.out
    lines = done.out.splitlines()
    assert lines[:3] == [
        "['DONE', 'DONE', 'DONE'] ['', '', '']",
        "'from the application\\n' True",
        "['node0', 'node1'] 49",
    ]
    key, *job = lines[3].split()
    assert (
        job == ([] if is_late else ["0.pbs"])
        and key in (site.data / "s/pilot.0000/pilot.sh").read_text()
    )
    assert lines[4:] == ["CANCELED "]
    here = os.listdir(site.data / "s/pilot.0000")
    assert {"agent_0.prof", "task.000000", "agent.log"} <= set(here)
    found = [site.hosts[n].run(["find", site.data, "-name", "*.dat"]).stdout for n in range(NODES)]
    assert found == ["", ""]
    all_gone(list(site.hosts)[:NODES], "pct", "bebopd")
