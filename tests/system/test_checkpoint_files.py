"""Checkpoints: each line is once in the files that ranks write, after a kill and a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.criu import needs_criu
from tests.support.partition import BIN, Done, Partition, finish
from tests.support.wait import wait_until

pytestmark = pytest.mark.warm

SIZE = 2

# Both write lines with numbers as fast as they can, one system call each, until a file is there.
SAVED_BY_ITSELF = """
import os, sys
from yod.checkpoint import Saver
saver, n = Saver(), 0
if saver.restart:
    n = int((saver.restart / "n").read_text())
while not os.path.exists(sys.argv[1]):
    n += 1
    print("line", n, flush=n % 3 == 0)
    if saver.is_asked:
        with saver.saving() as directory:
            (directory / "n").write_text(str(n))
print("end", flush=True)
"""
KNOWS_NOTHING = """
import os, sys
n = 0
while not os.path.exists(sys.argv[1]):
    n += 1
    print("line", n, flush=n % 3 == 0)
print("end", flush=True)
"""
C_PROGRAM = r"""
#include <yod_checkpoint.h>
int main(int count, char **words)
{
    char path[4300];
    FILE *file;
    long n = 0;
    (void)count;
    if (yod_checkpoint_begin(SIGUSR1) != 0)
        return 1;
    if (yod_restart_dir() != NULL) {
        snprintf(path, sizeof(path), "%s/n", yod_restart_dir());
        if ((file = fopen(path, "r")) == NULL || fscanf(file, "%ld", &n) != 1)
            return 2;
    }
    while (access(words[1], F_OK) != 0) {
        printf("line %ld\n", ++n);
        if (n % 3 == 0)
            fflush(stdout);
        if (!yod_checkpoint_asked())
            continue;
        snprintf(path, sizeof(path), "%s/n", yod_checkpoint_dir());
        if ((file = fopen(path, "w")) == NULL || fprintf(file, "%ld", n) < 0 || fclose(file) != 0)
            return 3;
        if (yod_checkpoint_saved() != 0)
            return 4;
    }
    puts("end");
    return 0;
}
"""


class Study:
    """A job that writes lines into files, and its checkpoints."""

    def __init__(self, partition: Partition, place: Path) -> None:
        place.chmod(0o755)
        self.partition = partition
        self.place = place
        self.count = SIZE  # of the files
        self.kept = place / "kept"
        self.stop = place / "stop"
        self.env: dict[str, str | None] = {}
        if partition.launch_server is not None:
            self.env.update(partition.launch_server.directories)

    def program(self, text: str) -> tuple[str, ...]:
        path = self.place / "program.py"
        path.write_text(text)
        return sys.executable, str(path), str(self.stop)

    def file(self, rank: int) -> Path:
        return self.place / f"out.{rank}"

    def options(self, *more: str) -> tuple[str, ...]:
        return ("-o", str(self.place / "out.%t"), *more, "-sz", str(SIZE))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a job, and wait until its ranks write."""
        yod = self.partition.start_yod("--checkpoint-dir", str(self.kept), *words, env=self.env)
        for rank in range(self.count):
            self.grows(rank, 0)
        return yod

    def grows(self, rank: int, beyond: int) -> None:
        path = self.file(rank)
        wait_until(
            lambda: path.exists() and path.stat().st_size > beyond, what=f"more in {path.name}"
        )

    def checkpoint(self, yod: subprocess.Popen[bytes]) -> Done:
        """Have one made while the ranks write, and wait until they have written more."""
        done = finish(self.ask(yod))
        for rank in range(self.count):
            self.grows(rank, self.file(rank).stat().st_size)
        return done

    def ask(self, yod: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Ask for one."""
        found: list[str] = []

        def has_id() -> bool:
            command = self.partition.start_command(BIN / "yodjob", "list", "--json", env=self.env)
            jobs = json.loads(finish(command).out)["jobs"]
            found.extend(job["id"] for job in jobs if job.get("unix_pid") == yod.pid)
            return bool(found)

        wait_until(has_id, what="the id of the job")
        words = (BIN / "yodjob", "checkpoint", found[0])
        return self.partition.start_command(*words, env=self.env)

    def killed_behind_one(self, *words: str) -> None:
        """A job is written down, goes on writing, and is killed."""
        yod = self.start(*words)
        done = self.checkpoint(yod)
        assert (done.status, done.err) == (0, "")
        yod.kill()
        finish(yod)
        self.settled()

    def settled(self) -> None:
        """The ranks of a yod that was killed have been, too: their files grow no more."""
        marker = str(self.stop).encode()

        def are_gone() -> bool:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if marker in path.read_bytes().split(b"\0"):
                        return False
                except (FileNotFoundError, ProcessLookupError):
                    pass
            return True

        wait_until(are_gone, what="the end of the ranks")

    def restart(self, *words: str) -> Done:
        """Go on from the last one, and let the ranks end when they have written more."""
        sizes = [self.file(rank).stat().st_size for rank in range(self.count)]
        yod = self.partition.start_yod("--restart", str(self.kept), *words, env=self.env)
        for rank, size in enumerate(sizes):
            self.grows(rank, size)
        self.stop.touch()
        return finish(yod)

    def demand_each_line_once(self) -> None:
        for rank in range(self.count):
            lines = self.file(rank).read_text().splitlines()
            assert lines.pop() == "end"
            assert lines == [f"line {n}" for n in range(1, len(lines) + 1)]


@pytest.fixture
def study(embedded: Partition, tmp_path: Path) -> Study:
    return Study(embedded, tmp_path)


CUT = "the files of the ranks are cut back to it"


def test_each_line_is_once_in_the_files_of_ranks_that_save_themselves(study):
    study.killed_behind_one(*study.options(), *study.program(SAVED_BY_ITSELF))
    done = study.restart()
    path = study.kept / "checkpoint.1"
    assert (done.status, done.out, done.err) == (0, "", f"yod: goes on from {path}; {CUT}\n")
    study.demand_each_line_once()


def test_each_line_is_once_in_the_files_of_c_programs_that_save_themselves(study):
    (study.place / "program.c").write_text(C_PROGRAM)
    asked = [BIN / "python", "-m", "native", "--cflags"]
    flags = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    strict = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2")
    program = str(study.place / "program")
    subprocess.run(["cc", *strict, *flags, study.place / "program.c", "-o", program], check=True)
    words = (*study.options(), program, str(study.stop))
    study.killed_behind_one(*words)
    done = study.restart(*words)  # as a batch script does: the same line again
    assert (done.status, done.out) == (0, "")
    assert done.err.endswith(f"{CUT}\n")
    study.demand_each_line_once()


@pytest.mark.usefixtures("needs_root")
def test_each_line_is_once_in_the_files_of_ranks_that_criu_writes_down(study):
    study.env["YOD_CRIU"] = needs_criu()
    by_criu = study.options("--checkpoint-by", "criu")
    study.killed_behind_one(*by_criu, *study.program(KNOWS_NOTHING))
    done = study.restart()
    assert (done.status, done.out) == (0, "")
    assert done.err.endswith(f"{CUT}\n")
    study.demand_each_line_once()


def test_what_is_not_in_files_appears_again_behind_a_line_that_says_so(study):
    words = ("-e", str(study.place / "out.%t"), "-sz", str(SIZE))
    program = study.program(f"import sys\nsys.stdout = sys.stderr\n{SAVED_BY_ITSELF}")
    study.killed_behind_one(*words, *program)
    done = study.restart()
    assert done.status == 0
    assert done.err.endswith(f"{CUT}, other output appears again\n")
    study.demand_each_line_once()


def test_a_file_that_was_shortened_or_replaced_is_named_and_output_goes_on_behind_it(study):
    study.killed_behind_one(*study.options(), *study.program(SAVED_BY_ITSELF))
    short, other = study.file(0), study.file(1)
    size = other.stat().st_size
    short.write_text("line 1\n")
    other.unlink()
    other.write_text("x" * size)
    done = study.restart()
    assert done.status == 0
    assert f"yod: {short} has 7 of the " in done.err
    assert "bytes that it had at the checkpoint: output goes on behind them\n" in done.err
    replaced = (
        f"yod: {other} is not the file of the checkpoint: output goes on behind what it has\n"
    )
    assert done.err.count(replaced) == 1
    assert short.read_text().startswith("line 1\nline ")
    assert other.read_text().startswith("x" * size + "line ")


def test_a_restart_into_other_files_leaves_those_of_the_first_job_as_they_are(study):
    program = study.program(SAVED_BY_ITSELF)
    study.killed_behind_one(*study.options(), *program)
    before = study.file(0).read_bytes()
    other = study.place / "other"
    other.mkdir()
    study.stop.touch()
    words = ("-o", str(other / "out.%t"), "-sz", str(SIZE))
    done = study.partition.yod("--restart", str(study.kept), *words, *program, env=study.env)
    assert done.status == 0
    assert study.file(0).read_bytes() == before
    assert (other / "out.0").read_text() == "end\n"


def test_files_that_ranks_share_lose_no_line(study):
    study.count = 1
    words = ("-o", str(study.place / "out.%n"), "-sz", "2")
    text = SAVED_BY_ITSELF.replace('"line"', "f\"rank {os.environ['YOD_RANK']}\"")
    yod = study.start(*words, *study.program(text.replace("n % 3 == 0", "True")))
    done = study.checkpoint(yod)
    assert (done.status, done.err) == (0, "")
    yod.kill()
    finish(yod)
    study.settled()
    assert study.restart().status == 0
    lines = study.file(0).read_text().splitlines()
    for rank in (0, 1):
        numbers = {int(line.split()[2]) for line in lines if line.startswith(f"rank {rank} ")}
        assert numbers == set(range(1, len(numbers) + 1))
