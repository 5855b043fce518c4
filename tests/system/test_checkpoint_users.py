"""CRIU writes down ranks of users other than root, with no more rights than theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from native import auth
from tests.support.criu import needs_criu_for_users
from tests.support.nobody import AS_NOBODY, NOBODY, as_nobody, yod_as_nobody
from tests.support.partition import BIN, Done, Partition, drained, finish
from tests.support.users import UIDS, show_python, words_as
from tests.support.wait import read_until, wait_until

pytestmark = pytest.mark.usefixtures("needs_root")

# Counts to 9, a step for each line that the file in its first argument allows; what it has in the
# end depends on the order of all steps.
PROGRAM = """
n=0 total=$YOD_RANK
echo "rank $YOD_RANK begins in job $YOD_JOB_ID."
while [ $n -lt 9 ]; do
    [ $n -lt "$(cat "$1")" ] || { sleep 0.05; continue; }
    n=$((n + 1)) total=$(((total * 31 + n) % 1000003))
    echo "rank $YOD_RANK at $n"
done
echo "rank $YOD_RANK has $total as $(id -u)"
"""


# The same with a thread, a child, a pipe, a file without a name, and memory that is shared.
RICH = """
import mmap, os, queue, subprocess, sys, tempfile, threading, time
tasks, done = queue.Queue(), queue.Queue()
def work():
    while True:
        done.put(tasks.get() * 2)
threading.Thread(target=work, daemon=True).start()
shared, nameless = mmap.mmap(-1, 4096), tempfile.TemporaryFile("w+")
child, (reads, writes), n = subprocess.Popen(["cat"], stdin=subprocess.PIPE), os.pipe(), 0
print(f"rank {os.environ['YOD_RANK']} begins in job {os.environ['YOD_JOB_ID']}.")
while n < 9:
    if n >= int(open(sys.argv[1]).read()):
        time.sleep(0.01)
        continue
    n += 1
    tasks.put(n)
    shared[n] = done.get()
    os.write(writes, b"%d" % n)
    print(shared[n], file=nameless, flush=True)
    print("rank", os.environ["YOD_RANK"], "at", n, flush=True)
child.communicate()
nameless.seek(0)
print("rank has", nameless.read().split(), list(shared[:10]), os.read(reads, 99), child.returncode)
"""
# One that users can execute: nothing of theirs may pass a directory that root alone can search.
PYTHON = next(filter(os.path.exists, ("/usr/bin/python3", sys.executable)))


class Study:
    """A job of the other user's that counts, and its checkpoints."""

    def __init__(self, partition: Partition, home: Path) -> None:
        self.partition = partition
        self.home = home
        self.kept = home / "kept"
        self.limit = home / "limit"
        self.interpreter = "sh"
        self.env: dict[str, str | None] = {"YOD_CRIU": needs_criu_for_users()}
        (home / "count").write_text(PROGRAM)
        self.let(3)

    def let(self, steps: int) -> None:
        """Each rank may do so many steps from its beginning."""
        other = self.limit.with_suffix(".new")
        other.write_text(str(steps))
        other.rename(self.limit)

    def options(self, size: int = 2) -> list[str]:
        program = (self.interpreter, str(self.home / "count"), str(self.limit))
        by = ("--checkpoint-dir", str(self.kept), "--checkpoint-by", "criu")
        return [*by, "-sz", str(size), *program]

    def yod(self, *words: str) -> Done:
        return yod_as_nobody(self.partition, self.home, *words, env=self.env)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return as_nobody(self.partition, self.home, BIN / "yod", *words, env=self.env)

    def killed_behind_one(self, *more: str, out: str = "") -> None:
        """Have a job written down behind its third step, and end it.

        Args:
            out: the beginning of the names of the files to which it writes; empty: to yod.
        """
        yod = self.start(*more, *self.options())
        if out:
            paths = [Path(f"{out}{rank}") for rank in (0, 1)]
            wait_until(lambda: all(each.exists() and " at 3" in each.read_text() for each in paths))
            text = paths[0].read_text()
        else:
            text = read_until(yod.stdout.fileno(), b" at 3\n", times=2).decode()
        (job_id,) = set(re.findall(r"in job (\S+)\.$", text, re.MULTILINE))
        if self.partition.kind == "embedded":
            listed = self.command("list").out
            (job_id,) = re.findall(r"^ *(local\.\d+)", listed, re.MULTILINE)
        trial = self.command("checkpoint", "--check", job_id)
        assert trial.out.endswith(": a checkpoint can be made\n"), trial
        done = self.command("checkpoint", "--kill", job_id)
        assert (done.status, done.err) == (0, "")
        assert finish(yod).status == 75

    def command(self, *words: str) -> Done:
        return finish(as_nobody(self.partition, self.home, BIN / "yodjob", *words, env=self.env))


@pytest.fixture
def study(embedded: Partition, theirs: Path) -> Study:
    return Study(embedded, theirs)


def results(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if " has " in line)


def test_a_users_ranks_go_on_from_a_checkpoint_to_the_same_result_as_that_user(study):
    study.let(9)
    undisturbed = study.yod(*study.options())
    assert undisturbed.status == 0
    assert len(results(undisturbed.out)) == 2
    assert all(line.endswith(f" as {NOBODY}") for line in results(undisturbed.out))
    study.let(3)
    study.killed_behind_one()
    study.let(9)
    again = study.yod("--restart", str(study.kept))
    assert again.status == 0, again
    assert results(again.out) == results(undisturbed.out)
    assert [again.out.count(f" at {n}\n") for n in range(1, 10)] == [0] * 3 + [2] * 6
    kept = [study.kept / "checkpoint.1", *(study.kept / "checkpoint.1").rglob("*")]
    assert {path.stat().st_uid for path in kept} == {NOBODY}


def test_a_users_threads_children_pipes_and_nameless_files_come_back(study):
    (study.home / "count").write_text(RICH)
    study.interpreter = PYTHON
    study.killed_behind_one()
    study.let(9)
    again = study.yod("--restart", str(study.kept))
    assert again.status == 0, again
    doubled = [2 * n for n in range(1, 10)]
    has = f"rank has {[str(each) for each in doubled]} {[0, *doubled]} b'123456789' 0"
    assert results(again.out) == [has, has]


@pytest.mark.hosts
def test_a_partition_of_roots_brings_a_users_ranks_back_on_another_node(start_hosts, theirs):
    hosts = start_hosts(2, slots=2, env=lambda node: {"YOD_CRIU": needs_criu_for_users()})
    show_python(hosts.hosts)
    key = auth.derive_user_key(hosts.key_file.read_bytes(), NOBODY)
    study = Study(hosts, theirs)
    study.env = {"PATH": f"{os.path.dirname(needs_criu_for_users())}:{os.environ['PATH']}"}
    study.env["YOD_KEY_FILE"] = str(theirs / "key")
    (theirs / "key").write_text(f"user {NOBODY} {key.hex()}\n")
    (theirs / "key").chmod(0o600)
    os.chown(theirs / "key", NOBODY, NOBODY)
    study.let(9)
    undisturbed = study.yod(*study.options())
    study.let(3)
    study.killed_behind_one()
    study.let(9)
    with drained(hosts, 0):
        again = study.yod("--restart", str(study.kept), "--report", str(theirs / "report"))
    assert again.status == 0, again
    assert results(again.out) == results(undisturbed.out)
    assert hosts.node_names[1] in (theirs / "report").read_text()


def test_a_checkpoint_by_criu_goes_on_as_the_user_that_it_is_of_and_as_nobody_else(study, tmp_path):
    study.killed_behind_one()
    images = study.kept / "checkpoint.1" / "rank.0"
    assert not images.stat().st_mode & 0o077
    words = ("--restart", str(study.kept), "--checkpoint-dir", str(tmp_path / "kept"))
    own = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": None, "XDG_STATE_HOME": None}
    as_bob = study.partition.start_command(
        *words_as("bob"), BIN / "yod", *words, env=study.env | own, cwd="/"
    )
    for done in (finish(as_bob), study.partition.yod(*words, env=study.env)):
        assert (done.status, done.out) == (125, "")
        assert done.err == (
            f"yod: --restart {study.kept}/checkpoint.1: it is of user nobody; by criu ranks come"
            " back for the user alone whose they were\n"
        )


def test_images_that_others_may_write_are_brought_back_for_nobody(study):
    study.killed_behind_one()
    images = study.kept / "checkpoint.1" / "rank.1"
    os.chown(images, UIDS["bob"], -1)
    images.chmod(0o755)
    done = study.yod("--restart", str(study.kept))
    assert done.status != 0
    assert " has " not in done.out
    assert f"rank.1: user {UIDS['bob']} wrote it, or others may" in done.err


def test_a_users_output_in_files_goes_on_where_it_was(study):
    out = f"{study.home}/out."
    study.killed_behind_one("-o", f"{out}%t", out=out)
    study.let(9)
    again = study.yod("--restart", str(study.kept))
    assert (again.status, again.out) == (0, ""), again
    for rank in (0, 1):
        lines = (study.home / f"out.{rank}").read_text().splitlines()
        assert [line for line in lines if " at " in line] == [
            f"rank {rank} at {n}" for n in range(1, 10)
        ]


def test_where_users_make_no_user_namespaces_a_launch_by_criu_says_so(study):
    none = 'read mapped && echo 0 >/proc/sys/user/max_user_namespaces && exec "$@" </dev/null'
    inside = ("unshare", "--user", "--keep-caps", "sh", "-c", f"echo here; {none}", "sh")
    env = {**study.env, "HOME": str(study.home), "XDG_RUNTIME_DIR": None, "XDG_STATE_HOME": None}
    words = (*inside, *AS_NOBODY, BIN / "yod", *study.options())
    with study.partition.start_command(*words, env=env, cwd=study.home) as process:
        read_until(process.stdout.fileno(), b"here\n")
        for ids in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{ids}").write_text("0 0 70000")
        done = finish(process, b"\n")
    assert (done.status, done.out) == (125, "")
    assert done.err == (
        "yod: --checkpoint-by criu: cannot make a user namespace: No space left on device"
        " (`yodctl doctor`)\n"
    )
