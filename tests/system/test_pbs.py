"""yod in a job of PBS: a stand-in for OpenPBS, tests/support/pbs.py, on hosts of namespaces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosts import Hosts
from tests.support.partition import BIN, down_of_a_job
from tests.support.pbs import Job, Pbs, all_gone
from tests.support.place import MARK, Place
from tests.support.wait import wait_until

pytestmark = pytest.mark.hosts


class Site:
    """Three hosts of PBS, and a user's place."""

    def __init__(self, hosts: Hosts, place: Place, directory: Path) -> None:
        self.hosts = hosts
        self.place = place
        self.pbs = Pbs(directory, list(hosts))

    def qsub(self, script: str, lines: list[int], **more: str) -> Job:
        kept = ("HOME", "XDG_STATE_HOME", "TMPDIR")
        env = {
            **{name: value for name, value in self.place.environment().items() if name in kept},
            MARK: self.place.mark,
            "XDG_RUNTIME_DIR": "/run/yod-ram",
            "YOD_LAUNCH_SERVER": "cold",
            "YOD_LIVENESS_S": "8",
            **more,
        }
        return self.pbs.qsub(script, lines, env, path=str(BIN))


@pytest.fixture
def site(needs_root: None, place: Place, tmp_path: Path) -> Iterator[Site]:
    with Hosts(3) as hosts:
        found = Site(hosts, place, tmp_path / "pbs")
        try:
            yield found
        finally:
            found.pbs.close()


def test_yod_makes_the_hosts_of_its_job_a_partition_once(site):
    script = "yod -sz 4 sh -c 'echo at $(hostname)'; yod -sz 4 true; pingd -parse; echo $?"
    job = site.qsub(script, [0, 0, 1, 2])
    out = job.wait()
    lines = [line for line in out.splitlines() if line.startswith("at ")]
    assert sorted(lines) == ["at node0", "at node0", "at node1", "at node2"], out
    assert out.count("yod: 3 nodes of pbs job 0.pbs are up, until it ends (") == 1
    assert out.endswith("\n0\n")


def test_the_end_of_the_job_reaches_all_ranks_as_sigterm_and_leaves_none(site):
    rank = (
        'trap "echo term $YOD_RANK; exit 0" TERM; echo began $YOD_RANK;'
        " while :; do sleep 600 & wait $!; done"
    )
    job = site.qsub(f"yod -sz 3 sh -c '{rank}'", [0, 1, 2])
    wait_until(lambda: job.output.read_text().count("began ") == 3)
    job.qdel()
    all_gone(site.hosts, "/bin/pct")
    all_gone(site.hosts, "bebopd")
    all_gone(site.hosts, "sleep")
    out = job.output.read_text()
    assert sorted(line for line in out.splitlines() if line.startswith("term ")) == [
        "term 0",
        "term 1",
        "term 2",
    ], out


@pytest.mark.long
def test_what_ignores_the_end_of_the_job_is_killed_with_it(site):
    stubborn = 'trap "" TERM; echo began; while :; do sleep 600; done'
    script = f"trap '' TERM; yod -sz 3 setsid -w sh -c '{stubborn}'; sleep 600"
    job = site.qsub(script, [0, 1, 2])
    wait_until(lambda: job.output.read_text().count("began") == 3)
    job.qdel()
    for words in ("/bin/pct", "bebopd", "sleep", "keeper"):
        all_gone(site.hosts, words)


def test_a_yod_that_is_killed_while_it_brings_hosts_up_leaves_none(site):
    job = site.qsub("yod true & echo $!; wait; exec sleep 600", [0, 1, 2])
    wait_until(lambda: any(site.hosts[0].path("/run/yod-ram").glob("yod/pbs-*/key")))
    for unix_pid, words in site.hosts[0].processes().items():
        if words.endswith(" true") and "yod" in words:
            os.kill(unix_pid, 9)
    all_gone(site.hosts, "--job-secret")
    all_gone(site.hosts, "bebopd")
    job.qdel()


@pytest.mark.long
def test_pcts_that_cannot_begin_are_an_error_with_their_words(site):
    job = site.qsub("yod true; echo status $?", [0, 1], YOD_MEMORY="much")
    out = job.wait()
    assert out.endswith("status 125\n"), out
    assert "yod: pbs job 0.pbs: pbsdsh has ended" in out
    assert re.search("^yod: node[01]: pct: --memory much: ", out, re.MULTILINE)


def test_a_job_of_this_host_alone_is_the_embedded_partition_with_its_slots(site):
    script = "yod -sz 2 hostname; yod -sz 3 true; echo status $?; yod --dry-run true"
    out = site.qsub(script, [0, 0]).wait()
    assert out.startswith("node0\nnode0\n")
    assert "3 ranks requested" in out and "status 125" in out
    assert "partition: embedded (pbs job 0.pbs)\n" in out


def test_a_job_without_its_secret_or_its_file_is_an_error_with_a_way_out(site):
    script = (
        "env -u PBS_JOBCOOKIE yod true; PBS_NODEFILE=/none yod true;"
        " PBS_NODEFILE=/none yod --partition embedded hostname"
    )
    out = site.qsub(script, [0, 1]).wait()
    assert out.splitlines() == [
        "yod: pbs job 0.pbs: no PBS_JOBCOOKIE is set, by which its hosts know one another",
        "yod: PBS_NODEFILE /none: No such file or directory;"
        " --partition embedded is this host alone",
        "node0",
    ]


@pytest.mark.long
def test_yodctl_in_a_job_is_about_its_hosts(site):
    script = "yodctl up; yodctl status; yodctl up; yodctl down; yodctl status"
    out = site.qsub(script, [0, 1, 1, 2]).wait()
    assert "3 nodes of pbs job 0.pbs are up at unix:" in out
    assert "3 nodes: 3 free" in out and "4 slots: 0 in use" in out
    assert "are up already at unix:" in out
    assert down_of_a_job(out)
    assert out.endswith("no partition is up\n")
    all_gone(site.hosts, "--job-secret")


def test_processes_that_pbs_leaves_behind_are_shown_and_those_of_ranks_are_killed_with_the_job(
    site,
):
    script = (
        "setsid sleep 611 & YOD_RANK=0 setsid sleep 612 & sleep 613 & yod -sz 2 true;"
        " until pingd | grep ' rogue '; do :; done; exec sleep 614"
    )
    job = site.qsub(script, [0, 1], YOD_HEALTH_S="0.2")
    wait_until(lambda: " rogue " in job.output.read_text())
    (line,) = (line for line in job.output.read_text().splitlines() if " rogue " in line)
    whose = "node 0 with rogue processes of pbs job 0.pbs, which PBS does not end"
    assert re.fullmatch(whose + r": \d+ \(sleep\), \d+ \(sleep\)", line)
    job.qdel()
    all_gone(site.hosts, "/bin/pct", "sleep 612", "sleep 613", "sleep 614")
    assert "sleep 611" in site.hosts[0].processes().values()
