"""Checkpoints: ranks save themselves, a later job goes on, and a half checkpoint is none."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from native import duration
from tests.support.limits import try_longer
from tests.support.partition import BIN, ROOT, Done, Partition, finish
from tests.support.wait import read_until, wait_until

pytestmark = pytest.mark.warm

# Counts to the number in its first argument, a step for each line of the file in its second,
# so that a test says how far it gets.
PROGRAM = """
import os, signal, sys, time
from yod.checkpoint import Saver
saver, rank, n = Saver(), os.environ["YOD_RANK"], 0
if saver.restart:
    n = int((saver.restart / "n").read_text())
print(f"job {os.environ['YOD_JOB_ID']}.", flush=True)
print(f"rank {rank} begins at {n}", flush=True)
while n < int(sys.argv[1]):
    if n < int(open(sys.argv[2]).read()):
        n += 1
        print(f"rank {rank} at {n}", flush=True)
    if saver.is_asked:
        with saver.saving() as directory:
            (directory / "n").write_text(str(n))
            (directory / "bulk").write_bytes(rank.encode() * 1000)
    signal.sigtimedwait([], 0.01)
"""
STUBBORN = "trap : USR1; echo job $YOD_JOB_ID.; while :; do sleep 0.05; done"


class Study:
    """A job that counts, and its checkpoints."""

    def __init__(self, partition: Partition, place: Path) -> None:
        self.partition = partition
        self.kept = place / "kept"
        self.limit = place / "limit"
        self.program = place / "count.py"
        self.program.write_text(PROGRAM)
        self.env: dict[str, str | None] = {}
        if partition.launch_server is not None:
            self.env = dict(partition.launch_server.directories)
        self.job_id = ""
        self.let(2)

    def let(self, steps: int) -> None:
        """Each rank may do so many steps from its beginning."""
        other = self.limit.with_suffix(".new")
        other.write_text(str(steps))
        other.rename(self.limit)

    def words(self, steps: int) -> list[str]:
        return ["python", str(self.program), str(steps), str(self.limit)]

    def start(self, *options: str, size: int = 2) -> subprocess.Popen[bytes]:
        kept = ("--checkpoint-dir", str(self.kept))
        yod = self.partition.start_yod(*kept, *options, "-sz", str(size), *self.words(4))
        try:
            return self.seen(yod, b" at 2\n", size)
        except AssertionError:
            yod.kill()
            finish(yod)
            raise

    def seen(
        self, yod: subprocess.Popen[bytes], what: bytes, count: int
    ) -> subprocess.Popen[bytes]:
        """Read until the ranks have written this; the job's id is in it."""
        text = b""
        while text.count(what) < count:
            text += read_until(yod.stdout.fileno(), b"\n")
        self.job_id = text.partition(b"job ")[2].partition(b".\n")[0].decode()
        if self.partition.kind in ("embedded", "warm"):
            wait_until(lambda: self._has_id(yod), what="the id of the job")
        return yod

    def _has_id(self, yod: subprocess.Popen[bytes]) -> bool:
        """Its partition is its own, and it takes an id while it runs."""
        for job in json.loads(finish(self.command("list", "--json")).out)["jobs"]:
            if job.get("unix_pid") == yod.pid:
                self.job_id = job["id"]
                return True
        return False

    def command(self, *words: str | Path) -> subprocess.Popen[bytes]:
        return self.partition.start_command(BIN / "yodjob", *words, env=self.env)

    def ask(self, *words: str) -> Done:
        return finish(self.command("checkpoint", *words, self.job_id))

    def newest(self) -> int:
        """The number of the newest checkpoint; 0: there is none."""
        return max((int(name.rpartition(".")[2]) for name in self.names()), default=0)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.kept.iterdir() if path.name[:1] != ".")


@pytest.fixture
def study(anywhere: Partition, tmp_path: Path) -> Study:
    tmp_path.chmod(0o755)
    return Study(anywhere, tmp_path)


def test_a_job_goes_on_behind_its_checkpoint_and_a_later_one_from_it(study):
    yod = study.start()
    done = study.ask()
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(f": {study.kept}/checkpoint.1\n")
    study.let(9)
    done = finish(yod)
    assert done.status == 0
    assert done.out.count(" at 4\n") == 2
    again = study.partition.yod("--restart", str(study.kept))
    assert (again.status, again.err) == (
        0,
        f"yod: goes on from {study.kept}/checkpoint.1; what was written behind it appears again\n",
    )
    assert again.out.count(" begins at 2\n") == 2
    assert again.out.count(" at 4\n") == 2


def test_a_job_ends_behind_its_checkpoint_with_its_own_status(study):
    yod = study.start()
    done = study.ask("--kill")
    assert (done.status, done.err) == (0, "")
    done = finish(yod)
    assert done.status == 75
    assert f"yod --restart {study.kept}/checkpoint.1 goes on" in done.err


def test_sigterm_ends_a_job_behind_a_checkpoint_if_it_is_to(study):
    yod = study.start("--checkpoint-on", "TERM")
    yod.send_signal(signal.SIGTERM)
    done = finish(yod)
    assert done.status == 75
    assert study.names() == ["checkpoint.1"]


def test_a_job_whose_time_is_over_ends_behind_a_checkpoint_if_it_is_to(study):
    def ends_behind_one(limit_s: float) -> None:
        yod = study.start("--checkpoint-on", "timeout", "-time", duration.written(limit_s))
        done = finish(yod)
        assert done.status == 75
        assert study.names() == ["checkpoint.1"]

    try_longer(ends_behind_one, 2)  # the ranks are at their second step before


def test_checkpoints_are_made_again_and_again_and_old_ones_removed(study):
    yod = study.start("--checkpoint-every", "0:01", "--checkpoint-keep", "1")
    wait_until(lambda: study.newest() >= 3, what="a third checkpoint")
    wait_until(lambda: len(study.names()) == 1, what="only the newest left")
    yod.send_signal(signal.SIGTERM)
    finish(yod)


def test_ranks_that_do_not_save_themselves_are_named_and_the_job_goes_on(study):
    options = ("--checkpoint-dir", str(study.kept), "--checkpoint-grace", "0.5")
    yod = study.partition.start_yod(*options, "-sz", "2", "sh", "-c", STUBBORN)
    study.seen(yod, b"job ", 2)
    done = study.ask("--kill")
    assert done.status == 1
    text = (
        r"no checkpoint: (rank [01] has|ranks 0\.\.1 have) not saved in time \(no file \S+/saved\)"
    )
    assert re.search(text, done.err), done.err
    assert yod.poll() is None
    assert study.names() == []
    yod.send_signal(signal.SIGTERM)
    assert "; the job goes on" in finish(yod).err


def test_a_rank_that_the_signal_would_end_is_named_and_goes_on(study):
    yod = study.partition.start_yod(
        "--checkpoint-dir", str(study.kept), "sh", "-c", "echo job $YOD_JOB_ID.; exec sleep 600"
    )
    study.seen(yod, b"job ", 1)
    done = study.ask()
    assert done.status == 1
    assert "rank 0 does not handle SIGUSR1, which would end it" in done.err
    assert yod.poll() is None
    yod.send_signal(signal.SIGTERM)
    finish(yod)


def test_a_job_without_a_directory_for_checkpoints_says_so(study):
    yod = study.partition.start_yod("sh", "-c", "echo job $YOD_JOB_ID.; exec sleep 600")
    study.seen(yod, b"job ", 1)
    done = study.ask()
    assert done.status == 1
    assert "no checkpoint: it was started without --checkpoint-dir" in done.err
    yod.send_signal(signal.SIGTERM)
    finish(yod)


def test_a_job_that_ends_while_it_saves_leaves_no_checkpoint_and_no_process(study):
    options = ("--checkpoint-dir", str(study.kept))
    yod = study.partition.start_yod(*options, "-sz", "2", "sh", "-c", STUBBORN)
    study.seen(yod, b"job ", 2)
    asking = study.command("checkpoint", study.job_id)
    wait_until(lambda: any(study.kept.glob(".collecting-*/rank.0")), what="a saver at work")
    yod.send_signal(signal.SIGTERM)
    assert finish(yod).status == -signal.SIGTERM
    assert finish(asking).status == 1
    assert study.names() == []


@pytest.mark.cold
@pytest.mark.parametrize("change", ["shorter", "changed", "gone", "record", "manifest"])
def test_a_checkpoint_that_is_not_as_it_was_written_is_refused(study, change):
    yod = study.start()
    assert study.ask("--kill").status == 0
    finish(yod)
    found = study.kept / "checkpoint.1"
    bulk = found / "rank.1" / "bulk"
    match change:
        case "shorter":
            os.truncate(bulk, 999)
        case "changed":
            bulk.write_bytes(b"2" * 1000)
        case "gone":
            bulk.unlink()
        case "record":
            bulk = next(found.glob("node.*.json"))
            bulk.write_text(bulk.read_text().replace('"size": 1000', '"size": 1001'))
        case "manifest":
            (found / "manifest.json").unlink()
    done = study.partition.yod("--restart", str(study.kept))
    assert done.status == 125
    where = "manifest.json" if change == "manifest" else str(bulk)
    assert where in done.err
    assert done.err.count("\n") == 1


@pytest.mark.cold
def test_a_program_is_started_where_there_is_no_checkpoint_and_goes_on_where_there_is(study):
    study.let(9)
    words = ("--restart", str(study.kept), "-sz", "2", *study.words(1))
    first = study.partition.yod(*words)
    assert first.status == 0
    assert first.out.count("begins at 0") == 2
    study.let(2)
    yod = study.start()
    assert study.ask("--kill").status == 0
    finish(yod)
    study.let(9)
    second = study.partition.yod(*words)
    assert second.out.count("begins at 2") == 2
    other = study.partition.yod("--restart", str(study.kept), "-sz", "3", *study.words(1))
    assert (other.status, other.out) == (125, "")
    assert "is of 2 ranks, not of 3" in other.err


@pytest.mark.cold
def test_the_checkpoints_of_a_directory_are_shown(study):
    yod = study.start()
    assert study.ask().status == 0
    assert study.ask("--check").out.endswith(": a checkpoint can be made\n")
    assert study.ask("--kill").status == 0
    finish(yod)
    (study.kept / "checkpoint.1" / "manifest.json").write_text("{")
    shown = finish(study.command("checkpoints", study.kept))
    assert shown.status == 0
    first, second = shown.out.splitlines()
    assert re.fullmatch(
        r"checkpoint\.2  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  2 ranks  0\.0 MB  python", first
    )
    assert second.startswith("checkpoint.1  not whole: ")


@pytest.mark.cold
def test_the_program_of_the_page_goes_on_where_it_was(study, tmp_path):
    page = (ROOT / "docs" / "checkpoint.md").read_text()
    lines = page.partition("    import time\n")[2].partition("    print(n)\n")[0].splitlines()
    program = "\n".join(["import time", *(line[4:] for line in lines), "print(n)\n"])
    study.program.write_text(
        program.replace("600", "60").replace("n = int", "print('up', flush=True); n = int", 1)
    )
    words = ("-sz", "2", "python", str(study.program))
    yod = study.partition.start_yod(
        "--checkpoint-dir", str(study.kept), "--checkpoint-on", "TERM", *words
    )
    read_until(yod.stdout.fileno(), b"up\n", times=2)
    yod.send_signal(signal.SIGTERM)
    assert finish(yod).status == 75
    done = study.partition.yod("--restart", str(study.kept))
    assert (done.status, done.out.count("60\n")) == (0, 2)


@pytest.mark.cold
def test_a_batch_job_waits_again_behind_its_checkpoint_and_goes_on(jobs):
    study = Study(jobs.partition, jobs.directory)
    words = shlex.join(study.words(4))
    text = f"exec yod --restart {study.kept} --checkpoint-on TERM -sz 1 {words}"
    job_id = jobs.submit("--requeue-on", "75", text=text)
    says = partial(jobs.says, job_id)
    wait_until(lambda: says("rank 0 at 2\n"), what="two steps")
    assert jobs.yodjob("signal", "TERM", job_id) == (0, "", "")
    wait_until(lambda: says("rank 0 begins at 2\n"), what="the second time")
    study.let(9)
    assert jobs.wait(job_id) == 0
    assert (
        "waits again (1): its script ended with 75" in jobs.yodjob("show", "--events", job_id).out
    )
    done = jobs.yodjob("submit", "--requeue-on", "0", "--wrap", "true")
    assert (done.status, done.err) == (
        2,
        "yodjob: --requeue-on 0: an exit status from 1 to 255\n",
    )


@pytest.mark.cold
def test_a_batch_job_is_written_down_by_its_id_and_its_requeued_step_goes_on(jobs):
    study = Study(jobs.partition, jobs.directory)
    words = shlex.join(study.words(4))
    text = f"yod --checkpoint-dir {study.kept} -sz 1 {words} || exit\necho the script is done"
    job_id = jobs.submit("--requeue-on", "75", text=text)
    says = partial(jobs.says, job_id)
    wait_until(lambda: says("rank 0 at 2\n"), what="two steps")
    step = f"{job_id}.1"
    assert jobs.yodjob("checkpoint", "--check", job_id) == (
        0,
        f"{step}: a checkpoint can be made\n",
        "",
    )
    assert jobs.yodjob("checkpoint", "--kill", job_id) == (
        0,
        f"{step}: {study.kept}/checkpoint.1\n",
        "",
    )
    wait_until(lambda: says("rank 0 begins at 2\n"), what="the second time")
    assert says(f"yod: job {job_id} was requeued: goes on from {study.kept}/checkpoint.1; ")
    study.let(9)
    assert jobs.wait(job_id) == 0
    assert says("the script is done\n")
    done = jobs.yodjob("checkpoint", job_id)
    assert (done.status, done.out) == (1, "")
    assert done.err == f"yodjob: {job_id}: no checkpoint: the job has ended\n"


@pytest.mark.cold
def test_steps_of_a_batch_job_are_written_down_all_or_none(jobs):
    study = Study(jobs.partition, jobs.directory)
    words = shlex.join(study.words(4))
    one = "yod -sz 1 sh -c 'echo up; exec sleep 600'"
    text = f"{one} & yod --checkpoint-dir {study.kept} -sz 1 {words}"
    job_id = jobs.submit("-sz", "2", text=text)
    output = jobs.directory / f"yod-{job_id}.out"
    wait_until(
        lambda: output.exists() and {"up", "rank 0 at 2"} <= set(output.read_text().split("\n")),
        what="both steps",
    )
    done = jobs.yodjob("checkpoint", "--kill", job_id)
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith("no checkpoint: it was started without --checkpoint-dir\n")
    assert study.names() == []
    assert jobs.yodjob("cancel", job_id).status == 0
    jobs.wait(job_id)


C_PROGRAM = r"""
#include <yod_checkpoint.h>
#include <string.h>
#include <time.h>
int main(void)
{
    char path[4300];
    FILE *file;
    if (yod_checkpoint_begin(SIGUSR1) != 0)
        return 1;
    if (yod_restart_dir() != NULL) {
        snprintf(path, sizeof(path), "%s/n", yod_restart_dir());
        file = fopen(path, "r");
        return file != NULL && fgetc(file) == '7' ? 0 : 2;
    }
    puts("up");
    fflush(stdout);
    for (;;) {
        nanosleep(&(struct timespec){0, 10000000}, NULL);
        if (!yod_checkpoint_asked())
            continue;
        snprintf(path, sizeof(path), "%s/n", yod_checkpoint_dir());
        file = fopen(path, "w");
        if (file == NULL || fputc('7', file) == EOF || fclose(file) != 0)
            return 3;
        if (yod_checkpoint_saved() != 0)
            return 4;
    }
}
"""


@pytest.mark.cold
def test_a_c_program_saves_itself(embedded, tmp_path):
    (tmp_path / "program.c").write_text(C_PROGRAM)
    asked = [BIN / "python", "-m", "native", "--cflags"]
    flags = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    strict = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2")
    program = str(tmp_path / "program")
    subprocess.run(["cc", *strict, *flags, tmp_path / "program.c", "-o", program], check=True)
    kept = str(tmp_path / "kept")
    options = ("--checkpoint-dir", kept, "--checkpoint-on", "TERM", "-sz", "2")
    yod = embedded.start_yod(*options, program)
    read_until(yod.stdout.fileno(), b"up\n", times=2)
    yod.send_signal(signal.SIGTERM)
    assert finish(yod).status == 75
    assert embedded.yod("--restart", kept).status == 0


@pytest.mark.cold
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--checkpoint-every", "5"), "--checkpoint-every: only with --checkpoint-dir DIR"),
        (
            ("--checkpoint-dir", "d", "--checkpoint-every", "soon"),
            "--checkpoint-every soon: no time",
        ),
        (("--checkpoint-dir", "d", "--checkpoint-on", "HUP"), "--checkpoint-on HUP: one of TERM"),
        (("--checkpoint-dir", "d", "--checkpoint-signal", "KILL"), "SIGUSR1"),
        (("--checkpoint-dir", "d", "--checkpoint-grace", "0"), "--checkpoint-grace 0: seconds"),
        (("--checkpoint-dir", "d", "--checkpoint-keep", "-1"), "--checkpoint-keep -1: a number"),
        (("--checkpoint-dir", "/proc/none"), "--checkpoint-dir /proc/none: "),
        (("--restart", "/nowhere"), "/nowhere: "),
    ],
)
def test_wrong_options_get_one_line(embedded, tmp_path, options, text):
    words = () if options[0] == "--restart" else ("true",)
    done = embedded.yod(*options, *words, cwd=tmp_path)
    assert (done.status, done.out) == (125, "")
    assert text.replace("SIGUSR1", "USR1 or USR2") in done.err
    assert done.err.count("\n") == 1
