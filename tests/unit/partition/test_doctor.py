"""What the doctor finds on a host and of a partition."""

import os
import resource
import time
from types import SimpleNamespace

import pytest

from native.errors import PartitionError
from native.limits import Limits
from native.wire.status import NodeDrain, NodeRow, NodeState
from partition.doctor import finding, host
from partition.doctor import partition as of_partition
from partition.doctor.finding import Level, ok, problem, warning


def test_a_finding_is_a_line_with_its_remedy_below_and_the_last_line_counts():
    found = [ok("a", "well"), warning("store", "small", "enlarge it"), problem("b", "bad", "mend")]
    assert finding.lines(found) == [
        "ok       a      well",
        "warning  store  small",
        "                -> enlarge it",
        "problem  b      bad",
        "                -> mend",
        "1 problem, 1 warning",
    ]
    assert finding.has_problem(found) and not finding.has_problem(found[:2])


def found_on(environment=None, root="/"):
    return {each.subject: each for each in host.findings(environment or {}, root)}


def test_a_limit_that_cannot_be_is_a_problem_with_its_variable():
    found = found_on({"YOD_PHASE_S": "no"})["limits"]
    assert (found.level, found.text) == (Level.PROBLEM, "YOD_PHASE_S=no: not a number")


def test_limits_that_the_environment_sets_are_named():
    assert found_on({"YOD_PHASE_S": "60"})["limits"] == ok("limits", "set by YOD_PHASE_S")


@pytest.mark.parametrize(
    ("which", "subject", "enough", "few"),
    [
        (resource.RLIMIT_NOFILE, "open files", 4096, 1024),
        (resource.RLIMIT_MEMLOCK, "locked memory", 64 << 20, 8 << 20),
    ],
)
def test_a_low_limit_of_processes_is_told_with_its_number(monkeypatch, which, subject, enough, few):
    before = resource.getrlimit
    for hard, level in ((enough, Level.OK), (-1, Level.OK), (few, Level.WARNING)):
        hards = {which: (0, hard)}
        monkeypatch.setattr(
            resource, "getrlimit", lambda kind, h=hards: h.get(kind) or before(kind)
        )
        assert found_on()[subject].level is level


@pytest.mark.parametrize(("free_mib", "level"), [(256, Level.OK), (255, Level.WARNING)])
def test_a_full_ram_disk_is_told(monkeypatch, free_mib, level):
    monkeypatch.setattr(host, "default_directories", lambda: ["/ram"])
    free = SimpleNamespace(f_bavail=free_mib, f_frsize=1 << 20)
    monkeypatch.setattr(os, "statvfs", lambda path: free)
    assert found_on()["store"].level is level
    assert f"/ram: {free_mib} MiB" in found_on()["store"].text


def test_no_directory_for_images_is_a_problem(monkeypatch):
    monkeypatch.setattr(host, "default_directories", list)
    assert found_on()["store"].level is Level.PROBLEM


@pytest.mark.parametrize(
    ("controllers", "level"),
    [("cpu memory", Level.OK), ("cpu", Level.WARNING), (None, Level.WARNING)],
)
def test_control_groups_that_limit_no_memory_are_told(monkeypatch, tmp_path, controllers, level):
    if controllers is not None:
        (tmp_path / "cgroup.controllers").write_text(controllers)
    monkeypatch.setattr(host, "own_path", lambda: None if controllers is None else str(tmp_path))
    assert found_on()["control groups"].level is level


def test_a_kernel_that_keeps_debuggers_from_ranks_is_told(monkeypatch, tmp_path):
    (tmp_path / "proc/sys/kernel/yama").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/yama/ptrace_scope").write_text("1\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = found_on(root=f"{tmp_path}/")["debuggers"]
    assert found.level is Level.WARNING and "ptrace_scope is 1" in found.text


def test_launchers_of_mpi_in_the_path_are_named_and_no_others(tmp_path):
    for name in ("mpiexec", "srun", "mpicc"):
        (tmp_path / name).touch(0o755)
    found = found_on({"PATH": str(tmp_path)})["MPI"]
    assert found == ok("MPI", f"in PATH: {tmp_path}/mpiexec, {tmp_path}/srun")
    (tmp_path / "empty").mkdir()
    assert found_on({"PATH": f"{tmp_path}/empty"})["MPI"] == ok("MPI", "no mpiexec in PATH")


def found_of(monkeypatch, rows, environment=None):
    def answer(where, limits):
        if isinstance(rows, Exception):
            raise rows
        return rows, time.time()

    monkeypatch.setattr(of_partition.reached, "rows_and_clock", answer)
    found = of_partition.findings("head:7117", environment or {}, Limits())
    return [(each.level, each.subject, each.text) for each in found]


def row(number, state, **fields):
    return NodeRow(number, f"n{number}", state, 4, 0, 1.0, **fields)


def test_nodes_that_are_down_are_a_problem_and_drained_ones_a_warning(monkeypatch):
    drain = NodeDrain("fan", "root", 0.0)
    rows = [row(0, NodeState.FREE), row(1, NodeState.DOWN), row(2, NodeState.DRAINED, drain=drain)]
    (first, clock, *others) = found_of(monkeypatch, rows)
    assert clock[:2] == (Level.OK, "clock")
    assert first[:2] == (Level.OK, "partition") and "2 of 3 nodes up" in first[2]
    assert [each[:2] for each in others] == [(Level.PROBLEM, "nodes"), (Level.WARNING, "nodes")]
    assert "node 1 down" in others[0][2] and "node 2 drained by root" in others[1][2]


def test_a_partition_that_does_not_answer_is_a_problem(monkeypatch):
    text = "bebopd at head:7117 does not answer"
    assert found_of(monkeypatch, PartitionError(text)) == [(Level.PROBLEM, "partition", text)]


def test_a_key_that_others_can_read_is_a_problem(monkeypatch, tmp_path):
    key = tmp_path / "key"
    key.touch(0o644)
    found = found_of(monkeypatch, [row(0, NodeState.FREE)], {"YOD_KEY_FILE": str(key)})
    assert found[0] == (Level.PROBLEM, "key", f"{key} has mode 0644: others can read it")


def test_without_a_partition_jobs_run_on_this_host():
    (found,) = of_partition.findings("embedded", {}, Limits())
    assert found.level is Level.OK and "this host by itself" in found.text
