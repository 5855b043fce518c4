"""Which nodes a job gets from a real bebopd: by switches, or by a policy of the site."""

import shutil
import sysconfig
import uuid
from pathlib import Path

import pytest

from tests.support.batch import Jobs
from tests.support.partition import finish
from tests.support.wait import read_until, wait_until
from tests.system.test_bebopd import run

SWITCHES = """SwitchName=s0 Nodes=node[0-1]
SwitchName=s1 Nodes=node[2-3]
SwitchName=top Switches=s[0-1]
"""
LAST_FIRST = """
import numpy as np
def last(free, size):
    if size == 3:
        raise KeyError("three")
    return np.flatnonzero(free)[-size:]
"""


@pytest.fixture
def installed(tmp_path):
    """A package of a site's, beside yod: bebopd does not look at PYTHONPATH."""
    packages = Path(sysconfig.get_path("purelib"))
    name = f"yod_site_{uuid.uuid4().hex}"
    info = packages / f"{name}-1.dist-info"
    info.mkdir()
    try:
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[yod.select]\n{name} = {name}:last\n")
        (packages / f"{name}.py").write_text(LAST_FIRST)
        yield name
    finally:
        shutil.rmtree(info)
        (packages / f"{name}.py").unlink(missing_ok=True)


def nodes_of(partition, size):
    """The nodes of a job of so many ranks."""
    done = partition.yod("-sz", str(size), "printenv", "YOD_NODE")
    assert done.status == 0, done
    return sorted(map(int, done.out.split()))


def test_a_job_stays_below_one_leaf_switch_where_it_fits(start_local, tmp_path):
    (tmp_path / "nodes").write_text("".join(f"node{number}\n" for number in range(4)))
    (tmp_path / "topology").write_text(SWITCHES)
    words = ["--nodes-file", tmp_path / "nodes", "--topology", tmp_path / "topology"]
    partition = start_local(4, slots=1, bebopd_options=words)
    yod = partition.start_yod("-list", "1", "sh", "-c", "echo up; exec sleep 600")
    read_until(yod.stdout.fileno(), b"up\n")
    assert nodes_of(partition, 2) == [2, 3]
    assert nodes_of(partition, 3) == [0, 2, 3]
    yod.terminate()
    finish(yod)


def test_a_job_gets_neighbours_on_the_curve_through_a_torus(start_local, tmp_path):
    at = ((0, 0), (1, 1), (0, 1), (1, 0))  # the curve goes from node 0 over 2 and 1 to 3
    lines = [f"node{number} at={x},{y}\n" for number, (x, y) in enumerate(at)]
    (tmp_path / "nodes").write_text("".join(lines))
    words = ["--nodes-file", tmp_path / "nodes", "--placement", "first-fit"]
    partition = start_local(4, slots=1, bebopd_options=words)
    assert nodes_of(partition, 2) == [0, 2]
    yod = partition.start_yod("-list", "2", "sh", "-c", "echo up; exec sleep 600")
    read_until(yod.stdout.fileno(), b"up\n")
    assert nodes_of(partition, 2) == [1, 3]
    yod.terminate()
    finish(yod)


def test_a_job_gets_neighbours_across_the_edge_of_a_torus(start_local, tmp_path):
    lines = [f"node{number} at={number}\n" for number in range(5)]
    (tmp_path / "nodes").write_text("".join(lines))
    words = ["--nodes-file", tmp_path / "nodes", "--torus", "5"]
    partition = start_local(5, slots=1, bebopd_options=words)
    yod = partition.start_yod("-list", "1,3", "sh", "-c", "echo up; exec sleep 600")
    read_until(yod.stdout.fileno(), b"up\nup\n")
    assert nodes_of(partition, 2) == [0, 4]
    assert nodes_of(partition, 3) == [0, 2, 4]
    yod.terminate()
    finish(yod)


@pytest.fixture
def jobs(start_local, tmp_path):
    """Of four nodes with a slot each, two below each leaf switch."""
    (tmp_path / "nodes").write_text("".join(f"node{number}\n" for number in range(4)))
    (tmp_path / "topology").write_text(SWITCHES)
    words = ["--nodes-file", tmp_path / "nodes", "--topology", tmp_path / "topology"]
    found = Jobs(start_local(4, slots=1, bebopd_options=words), tmp_path)
    yield found
    found.close()


def test_who_wants_few_leaf_switches_waits_for_them_and_takes_more_at_its_time(jobs):
    busy = [jobs.submit("-list", number, "--wrap", "read line <go") for number in ("1", "3")]
    wait_until(lambda: all(jobs.state(each) == "RUNNING" for each in busy))
    refused = jobs.partition.yod("--switches", "1", "-sz", "2", "true")
    assert refused.status == 125
    assert "2 ranks requested below one leaf switch, 2 of 4 slots free now" in refused.err
    say = ("yod", "-sz", "2", "printenv", "YOD_NODE")
    done = jobs.yodjob("alloc", "-quiet", "--switches", "1@0:01", "-sz", "2", *say)
    assert (sorted(done.out.split()), done.err) == (["0", "2"], "")
    done = jobs.partition.yod("--switches", "2", *say[1:])
    assert sorted(done.out.split()) == ["0", "2"]
    job_id = jobs.submit(text="#SBATCH --switches=1@1-0\n#SBATCH -n 2\ntrue")
    assert "below one leaf switch" in jobs.yodjob("why", job_id).out
    jobs.go.say()
    assert jobs.wait(job_id) == 0
    assert jobs.row(job_id)["nodes"] in ([0, 1], [2, 3])
    jobs.go.say()
    assert jobs.wait(*busy) == 0


def test_a_job_of_any_kind_gets_none_of_the_nodes_that_its_user_excludes(jobs):
    say = ("printenv", "YOD_NODE")
    done = jobs.partition.yod("-x", "node[1-2]", "-sz", "2", *say)
    assert (sorted(done.out.split()), done.err) == (["0", "3"], "")
    done = jobs.yodjob("alloc", "-quiet", "--exclude", "0,node2", "-sz", "2", "yod", "-sz=2", *say)
    assert sorted(done.out.split()) == ["1", "3"]
    inside = ("yod", "-sz", "2", "--exclude", "2", "sh", "-c", "echo $YOD_NODE")
    done = jobs.yodjob("alloc", "-quiet", "-sz", "3", *inside)
    assert sorted(done.out.split()) == ["0", "1"]
    detached = jobs.partition.yod("--detach", "-quiet", "-x", "0..2", "true").out.strip()
    numbers = [
        jobs.submit(text="#SBATCH --exclude=node[0-2]\ntrue"),
        jobs.submit("-x", "0..1,node2", "--wrap", "true"),
        detached,
    ]
    assert jobs.wait(*numbers) == 0
    assert [jobs.row(number)["nodes"] for number in numbers] == [[3], [3], [3]]


@pytest.mark.parametrize(
    ("nodes", "error"),
    [
        ("0..3", "1 rank requested, 0 slots there (nodes 0..3 are excluded (--exclude))"),
        ("1,node9", "--exclude 1,node9: no node node9 here; this partition has nodes 0..3"),
        ("1..", "--exclude: node list `1..`: `1..` is neither a number nor a range a..b"),
        ("A=1", "--exclude A=1: -x names nodes here; ranks have the environment of yod: env NAME"),
        ("PATH", "--exclude PATH: -x names nodes here; ranks have the environment of yod: env"),
        ("a b", "--exclude `a b`: write nodes by number or name: 3,5..7,n9"),
    ],
)
def test_an_exclusion_that_leaves_nothing_or_means_nothing_gets_one_line(jobs, nodes, error):
    done = jobs.partition.yod("--wait=5", "--exclude", nodes, "true")
    assert (done.status, done.out, done.err.count("\n")) == (125, "", 1), done.err
    assert done.err.startswith(f"yod: {error}")


def test_a_sites_own_policy_chooses_until_it_fails(start_local, installed):
    partition = start_local(4, slots=1, bebopd_options=["--placement", installed])
    assert nodes_of(partition, 2) == [2, 3]
    assert nodes_of(partition, 3) == [0, 1, 2]
    assert nodes_of(partition, 2) == [0, 1]
    assert partition.log().count("`lowest` chooses from now on") == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--placement", "tree"], "--placement tree goes by the switches: say --topology FILE"),
        (["--placement", "torus"], "--placement torus goes by a torus: say --torus SIZES"),
        (["--torus", "4x4"], "--torus 4x4: the nodes file says no coordinates (at=X,Y,Z)"),
        (["--torus", "4x"], "--torus 4x: sizes are numbers from 1, as in 8x8x4"),
        (["--torus", "4", "--topology", "topology"], "--topology and --torus both say what is"),
        (["--placement", "odd"], "--placement odd: no such policy, nor an entry point of yod.sel"),
        (["--topology", "/nonexistent"], "topology /nonexistent: No such file or directory"),
        (["--topology", "topology"], "topology:1: there is no switch s9"),
        (["--topology", "topology", "-remap", "nodes"], "-remap and --topology both say the order"),
    ],
)
def test_wrong_words_on_placement_are_one_line(tmp_path, monkeypatch, words, error):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topology").write_text("SwitchName=s0 Switches=s9\n")
    done = run("--state-dir", tmp_path / "records", *words)
    assert done.status == 2
    assert done.err.startswith(f"bebopd: {error}")
    assert done.err.count("\n") == 1
