"""Each job has a control group of its own on a node, where the PCT makes one (cgroup v2).

This kernel's v2 hierarchy may have no controllers: what is written as limits is looked at in
tests/unit/pct/test_cgroups.py. Here groups are made, entered, frozen, killed and removed.
"""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from pct.host.cgroups.files import own_path
from tests.support.batch import Jobs
from tests.support.nobody import as_nobody, yod_as_nobody
from tests.support.partition import BIN, finish
from tests.support.wait import read_until, wait_for_exit, wait_until

pytestmark = pytest.mark.usefixtures("needs_root")

ASKED = ("--cgroups", "yes")
WHERE = ("sh", "-c", "grep ^0:: /proc/self/cgroup")
STAYS = ("sh", "-c", "echo $PPID $$; exec sleep 600")


def group_of(unix_pid: int) -> Path:
    """The directory of a process's group."""
    (line,) = (
        line for line in Path(f"/proc/{unix_pid}/cgroup").read_text().splitlines() if "0::" in line
    )
    root = Path(str(own_path()).removesuffix(_inside(os.getpid())))
    return root / line[3:].lstrip("/")


def _inside(unix_pid: int) -> str:
    text = Path(f"/proc/{unix_pid}/cgroup").read_text()
    return next(line[3:] for line in text.splitlines() if line.startswith("0::")).rstrip("/")


@pytest.fixture
def grouped(start_local):
    return start_local(2, pct_options=ASKED)


def start(partition, *words):
    """A yod, and the process ids of the keeper and of its rank."""
    yod = partition.start_yod(*words, *STAYS)
    keeper, rank = map(int, read_until(yod.stdout.fileno(), b"\n").split())
    return yod, keeper, rank


def end(yod):
    yod.terminate()
    yod.communicate()


def test_ranks_and_keeper_are_in_two_groups_of_the_job_that_go_with_it(grouped):
    yod, keeper, rank = start(grouped, "-list", "1")
    ranks = group_of(rank)
    job = ranks.parent
    assert (ranks.name, group_of(keeper)) == ("ranks", job / "keeper")
    assert job.parent == group_of(grouped.pcts[1].unix_pid).parent
    assert job.name.startswith("job-")
    end(yod)
    wait_until(lambda: not job.exists())
    assert grouped.states() == ["free"] * 2


def test_jobs_of_one_node_have_a_group_each(grouped):
    yods = [start(grouped, "-list", "0") for _ in range(2)]
    groups = {group_of(rank).parent for _, _, rank in yods}
    assert len(groups) == 2
    for yod, _, _ in yods:
        end(yod)


def test_a_suspended_job_is_frozen_and_goes_on_afterwards(grouped):
    yod, _, rank = start(grouped, "-list", "0")
    events = group_of(rank) / "cgroup.events"
    job_id = group_of(rank).parent.name.removeprefix("job-")
    assert finish(grouped.start_command(BIN / "yodjob", "suspend", job_id)).status == 0
    wait_until(lambda: "frozen 1" in events.read_text())
    assert finish(grouped.start_command(BIN / "yodjob", "resume", job_id)).status == 0
    wait_until(lambda: "frozen 0" in events.read_text())
    end(yod)


def test_a_frozen_job_ends_when_it_is_told_to(grouped):
    yod, _, rank = start(grouped, "-list", "0")
    job = group_of(rank).parent
    finish(grouped.start_command(BIN / "yodjob", "suspend", job.name.removeprefix("job-")))
    wait_until(lambda: "frozen 1" in (job / "ranks" / "cgroup.events").read_text())
    end(yod)
    wait_for_exit(rank)
    wait_until(lambda: not job.exists())


def test_what_a_killed_keeper_leaves_ends_with_the_group(grouped):
    script = "setsid sleep 600 & echo $! $PPID; exec sleep 600"
    yod = grouped.start_yod("-list", "0", "sh", "-c", script)
    left, keeper = map(int, read_until(yod.stdout.fileno(), b"\n").split())
    job = group_of(left).parent
    os.kill(keeper, signal.SIGKILL)
    yod.communicate()
    wait_for_exit(left)
    wait_until(lambda: not job.exists())
    wait_until(lambda: grouped.states() == ["free"] * 2)


def test_another_users_ranks_may_make_groups_below_theirs_and_change_no_limit(grouped, theirs):
    script = """
        group=$1$(grep ^0:: /proc/self/cgroup | cut -c 4-)
        mkdir $group/mine && echo $$ > $group/mine/cgroup.procs && echo made
        echo 0 > $group/cgroup.freeze; echo max > $group/../cgroup.max.depth
        echo 0 > $group/../cgroup.freeze; echo $$ > $group/../../cgroup.procs
    """
    root = str(own_path()).removesuffix(_inside(os.getpid()))
    done = yod_as_nobody(grouped, theirs, "-list", "0", "sh", "-c", script, "sh", root)
    assert done.out == "made\n"
    assert done.err.count("Permission denied") >= 4, done.err
    wait_until(lambda: grouped.states() == ["free"] * 2)


def test_steps_have_groups_below_their_allocations(grouped, theirs):
    words = (BIN / "yodjob", "alloc", "-quiet", "-sz", "2", BIN / "yod", *WHERE)
    env = {"YOD_CGROUPS": "yes"}
    done = finish(as_nobody(grouped, theirs, *words, env=env))
    assert done.status == 0, done.err
    (place, *_) = done.out.splitlines()
    parts = place.rpartition("yod-pct-")[0].split("/")
    assert parts[-2] == "ranks" and parts[-3].startswith("job-"), place
    assert place.endswith("/job-1/ranks"), place


def test_a_batch_script_is_in_a_group_beside_its_slots_which_goes_with_it(grouped, tmp_path):
    jobs = Jobs(grouped, tmp_path)
    left = "setsid sleep 600 & echo $! $$ > said; read line < go"
    job_id = jobs.submit("--wrap", left)
    leaves, script = map(int, jobs.said.until("\n").split())
    broker = group_of(script).parent
    assert (broker.name, broker.parent.name) == ("broker", f"job-{job_id}")
    assert group_of(script).name == group_of(leaves).name == "ranks"
    wait_until((broker.parent / "slots" / "ranks").is_dir)
    jobs.go.say()
    assert jobs.wait(job_id) == 0
    wait_for_exit(leaves)
    wait_until(lambda: not broker.parent.exists())
    jobs.close()


def gpu_files(root):
    """The files of two GPUs, with the numbers of others that do no harm."""
    (root / "dev").mkdir()
    for number, name in enumerate(("full", "zero")):
        device = os.stat(f"/dev/{name}").st_rdev
        os.mknod(root / "dev" / f"nvidia{number}", 0o666 | stat.S_IFCHR, device)
    return {"YOD_FSROOT": str(root)}


@pytest.fixture
def with_gpus(start_local, tmp_path):
    """A node that counts two GPUs."""
    return start_local(1, pct_options=ASKED, env={"YOD_GPUS": "2", **gpu_files(tmp_path)})


OPENS = "for name in full zero null; do head -c 1 /dev/$name | wc -c; done"


def test_a_job_may_open_the_gpus_that_it_was_given_and_no_others(with_gpus):
    given = ("-sz", "1", "--gpus-per-node")
    for count, counts in (("1", "1 0 0"), ("2", "1 1 0")):
        done = with_gpus.yod(*given, count, "sh", "-c", OPENS)
        assert (done.status, " ".join(done.out.split())) == (0, counts)
    none = with_gpus.yod("-sz", "1", "sh", "-c", OPENS)
    assert " ".join(none.out.split()) == "0 0 0"
    assert none.err.count("Operation not permitted") == 2


def test_a_batch_script_may_open_none_and_its_steps_those_of_the_job(with_gpus, tmp_path):
    jobs = Jobs(with_gpus, tmp_path)
    script = f"{OPENS}; {BIN}/yod -sz 1 --gpus-per-node 1 sh -c '{OPENS}'"
    job_id = jobs.submit("-sz", "1", "--gpus-per-node", "1", text=script)
    assert jobs.wait(job_id) == 0
    counts = [line for line in jobs.output(job_id).splitlines() if line.isdigit()]
    assert counts == ["0", "0", "0", "1", "0", "0"]
    jobs.close()


def two_steps(directory):
    """A script of two steps at a time that have a GPU each; the first says last what it opens."""
    for name in ("begun", "go"):
        os.mkfifo(directory / name)
        (directory / name).chmod(0o666)
    step = f"{BIN}/yod -sz 1 --no-stdin --gpus-per-node 1 sh -c"
    return f"""
        first=$({step} "{OPENS}; echo > {directory}/begun; read line < {directory}/go" &
            read line < {directory}/begun
            {step} "{OPENS}" >&2
            echo > {directory}/go; wait)
        echo $first
    """.replace("$name", "\\$name")


OF_TWO = ("alloc", "-quiet", "-sz", "2", "--gpus-per-node", "2", "sh", "-c")


def test_steps_of_roots_allocation_may_open_their_own_gpus_alone(with_gpus, tmp_path):
    env = {"YOD_CGROUPS": "yes", "YOD_FSROOT": str(tmp_path)}
    done = finish(with_gpus.start_command(BIN / "yodjob", *OF_TWO, two_steps(tmp_path), env=env))
    assert (done.status, done.out.split()) == (0, ["1", "0", "0"]), done.err
    assert [line for line in done.err.split() if line.isdigit()] == ["0", "1", "0"]


def test_steps_of_another_users_allocation_may_open_their_own_gpus_alone(with_gpus, theirs):
    """Their PCT may load no program: root's has the groups deny the GPUs of others."""
    env = {"YOD_CGROUPS": "yes", **gpu_files(theirs)}
    words = (BIN / "yodjob", *OF_TWO, two_steps(theirs))
    done = finish(as_nobody(with_gpus, theirs, *words, env=env))
    assert (done.status, done.out.split()) == (0, ["1", "0", "0"]), done.err
    assert [line for line in done.err.split() if line.isdigit()] == ["0", "1", "0"]
