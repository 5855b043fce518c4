"""Control groups as a tree of files: what is written where. tests/system has the kernel's."""

import os
from pathlib import Path

import pytest

from native.errors import UsageError
from native.host.files import Owner
from pct.host.cgroups import files, own
from pct.host.cgroups.job import Bounds, JobGroup
from pct.host.cgroups.own import Cgroup, ForJobs

GB = 1 << 30
ALL = frozenset({"cpu", "cpuset", "memory", "pids"})
FILES = (
    *("cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "cgroup.freeze", "cgroup.kill"),
    *("cgroup.max.descendants", "cgroup.max.depth", "cgroup.events", "memory.events"),
    *("memory.max", "cpu.weight", "cpuset.cpus"),
)


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A directory in which a new one has the files of a group, as in the kernel's."""
    plain = os.mkdir

    def make(path: str, mode: int = 0o777) -> None:
        plain(path, mode)
        for name in FILES:
            Path(path, name).touch()
        Path(path, "cgroup.controllers").write_text(" ".join(sorted(ALL)))

    monkeypatch.setattr(os, "mkdir", make)
    os.mkdir(f"{tmp_path}/own")
    return tmp_path / "own"


def a_group(tree, bounds, controllers=ALL, uid=None) -> Path:
    owner = Owner(os.geteuid() if uid is None else uid, os.getegid(), ())
    return Path(JobGroup(f"{tree}/job-7", owner, bounds, controllers).path)


def test_a_job_that_asked_for_memory_may_have_no_more(tree):
    path = a_group(tree, Bounds(slots=4, memory=2 * GB))
    assert (path / "memory.max").read_text() == str(2 * GB)


def test_a_job_that_asked_for_no_memory_has_no_limit_of_it(tree):
    assert (a_group(tree, Bounds(slots=4)) / "memory.max").read_text() == ""


@pytest.mark.parametrize(("slots", "weight"), [(1, "100"), (4, "400"), (1000, "10000")])
def test_jobs_share_the_processors_by_their_slots(tree, slots, weight):
    assert (a_group(tree, Bounds(slots)) / "cpu.weight").read_text() == weight


def test_a_job_with_cores_of_its_own_has_no_others(tree):
    assert (a_group(tree, Bounds(2, cpus=(1, 5))) / "cpuset.cpus").read_text() == "1,5"
    assert "cpuset.cpus" not in Bounds(2).files(ALL)


def test_nothing_is_limited_that_the_host_has_no_controller_for(tree):
    path = a_group(tree, Bounds(4, GB, (1,)), frozenset())
    names = ("memory.max", "cpu.weight", "cpuset.cpus")
    assert [(path / name).read_text() for name in names] == ["", "", ""]


def test_an_owner_is_given_what_moves_processes_and_no_limit(tree, monkeypatch):
    given = set()
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.add(os.path.relpath(path, tree)))
    a_group(tree, Bounds(1), uid=1234)
    names = ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control")
    places = ("job-7", "job-7/ranks")
    assert given == {*places, *(f"{place}/{name}" for place in places for name in names)}


def test_a_group_that_cannot_be_made_whole_is_not_there(tree):
    plain = os.rmdir

    def rmdir(path: str) -> None:
        for name in ("cgroup.controllers", *FILES):  # the kernel's do not keep a directory
            os.unlink(os.path.join(path, name))
        plain(path)

    def fail(*_: object) -> None:
        raise PermissionError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(PermissionError):
        patch.setattr(os, "chown", fail)
        patch.setattr(os, "rmdir", rmdir)
        a_group(tree, Bounds(1), uid=1234)
    assert not (tree / "job-7").exists()


def test_the_processes_that_were_killed_for_lack_of_memory_are_counted(tree):
    group = JobGroup(f"{tree}/job-7", Owner(os.geteuid(), 0, ()), Bounds(1, GB), ALL)
    Path(group.path, "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.out_of_memory_count == 2


def test_where_no_group_can_be_made_a_pct_that_must_make_them_does_not_start(monkeypatch):
    monkeypatch.setattr(own, "own_path", lambda: None)
    assert Cgroup.enter(ForJobs.AUTO) is None
    with pytest.raises(UsageError, match="--cgroups yes: no control group"):
        Cgroup.enter(ForJobs.YES)


def test_what_the_kernel_does_not_take_is_not_enabled(tree, monkeypatch):
    asked = []

    def write(path: str, text: str) -> None:
        asked.append(text)
        raise OSError

    monkeypatch.setattr(files, "write", write)
    assert files.enable(str(tree), ("memory", "rdma")) == frozenset()
    assert asked == ["+memory"]


def a_pct(tree) -> Cgroup:
    pct = Cgroup(str(tree), "", -1)
    pct.controllers = ALL
    return pct


OWNER = Owner(os.geteuid(), os.getegid(), ())


def test_broker_and_slots_of_a_batch_job_are_in_one_group_and_only_slots_are_limited(tree):
    pct = a_pct(tree)
    broker = pct.begin_broker(17, OWNER)
    slots = pct.begin_job(17, 0, OWNER, Bounds(4, GB))
    assert (broker.path, slots.path) == (f"{tree}/job-17/broker", f"{tree}/job-17/slots")
    assert Path(slots.path, "memory.max").read_text() == str(GB)
    assert Path(broker.path, "memory.max").read_text() == ""
    assert Path(tree, "job-17", "memory.max").read_text() == ""
    assert pct.begin_job(18, 0, OWNER, Bounds(4)).path == f"{tree}/job-18"


def test_a_group_tells_the_processes_in_it_and_below(tree):
    group = a_pct(tree).begin_broker(17, OWNER)
    Path(group.path, "keeper", "cgroup.procs").write_text("7\n")
    Path(group.path, "ranks", "cgroup.procs").write_text("8\n9\n")
    assert group.processes() == {7, 8, 9}
