"""Checkpoints: each line is once in the files that yod writes, after a kill and a restart."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from native.host.marks import outputs
from tests.support.batch import Jobs
from tests.support.criu import needs_criu
from tests.support.wait import wait_until
from tests.system.test_checkpoint_files import Study

# Both write lines with numbers, one system call each and many a second, until a file is there.
SAVED_BY_ITSELF = """
import os, signal, sys
from yod.checkpoint import Saver
saver, n, rank = Saver(), 0, os.environ["YOD_RANK"]
if saver.restart:
    n = int((saver.restart / "n").read_text())
while not os.path.exists(sys.argv[1]):
    n += 1
    print("rank", rank, "line", n, flush=True)
    signal.sigtimedwait([], 0.002)
    if saver.is_asked:
        with saver.saving() as directory:
            (directory / "n").write_text(str(n))
print("end", rank, flush=True)
"""
KNOWS_NOTHING = """
import os, signal, sys
n, rank = 0, os.environ["YOD_RANK"]
while not os.path.exists(sys.argv[1]):
    n += 1
    print("rank", rank, "line", n, flush=True)
    signal.sigtimedwait([], 0.002)
print("end", rank, flush=True)
"""


class Counting:
    """A batch job whose ranks write lines with numbers."""

    def __init__(self, jobs: Jobs, size: int, *options: str, text: str = SAVED_BY_ITSELF) -> None:
        self.jobs = jobs
        self.size = size
        self.stop = jobs.directory / "stop"
        self.kept = jobs.directory / "kept"
        program = jobs.directory / "program.py"
        program.write_text(text)
        words = ("yod-cr", *options, "--checkpoint-dir", str(self.kept), "-sz", str(size))
        self.line = shlex.join((*words, sys.executable, str(program), str(self.stop)))
        self.job_id = ""

    def hand_in(self, script: str) -> None:
        self.job_id = self.jobs.submit("-sz", str(self.size), text=script)
        self.grows()

    def grows(self) -> None:
        """Each rank writes more."""
        before = self.last()

        def has_grown() -> bool:
            now = self.last()
            return all(now.get(rank, 0) > before.get(rank, 0) for rank in range(self.size))

        wait_until(has_grown, what="more lines of all ranks")

    def last(self) -> dict[int, int]:
        """The greatest number that each rank has written."""
        try:
            lines = self.jobs.output(self.job_id).splitlines()
        except FileNotFoundError:
            return {}
        found: dict[int, int] = {}
        for line in lines:
            words = line.split()
            if len(words) == 4 and words[0] == "rank":
                found[int(words[1])] = max(int(words[3]), found.get(int(words[1]), 0))
        return found

    def runs_again_behind_a_checkpoint(self) -> None:
        """It is written down, writes more, and is requeued; then its ranks end."""
        done = self.jobs.yodjob("checkpoint", self.job_id)
        assert (done.status, done.err) == (0, "")
        self.grows()
        assert self.jobs.yodjob("requeue", self.job_id) == (0, "", "")
        says = partial(self.jobs.says, self.job_id)
        wait_until(lambda: says(f"job {self.job_id} was requeued: goes on"), what="the restart")
        self.grows()

    def ends(self) -> str:
        """Let the ranks end; the output of the job."""
        self.stop.touch()
        assert self.jobs.wait(self.job_id) == 0
        return self.jobs.output(self.job_id)

    def demand_each_line_once(self, text: str) -> None:
        for rank in range(self.size):
            lines = [line for line in text.splitlines() if line.startswith(f"rank {rank} ")]
            assert lines == [f"rank {rank} line {n}" for n in range(1, len(lines) + 1)]
            assert text.count(f"end {rank}\n") == 1


CUT = "the output of the job is cut back to it"


def test_each_line_of_a_requeued_batch_job_is_once_in_its_output(jobs):
    counting = Counting(jobs, 2)
    counting.hand_in(f"echo the script begins\n{counting.line}\necho the script ends")
    counting.runs_again_behind_a_checkpoint()
    counting.runs_again_behind_a_checkpoint()  # from the second one, which the second run made
    text = counting.ends()
    counting.demand_each_line_once(text)
    assert f"goes on from {counting.kept}/checkpoint.2; {CUT}\n" in text
    assert text.count("the script begins\n") == text.count("the script ends\n") == 1


@pytest.mark.usefixtures("needs_root")
def test_each_line_is_once_in_the_output_where_criu_writes_the_ranks_down(jobs):
    options = ("--checkpoint-by", "criu", "--mpi", "none")
    counting = Counting(jobs, 2, *options, text=KNOWS_NOTHING)
    counting.hand_in(f"export YOD_CRIU={shlex.quote(needs_criu())}\n{counting.line}")
    counting.runs_again_behind_a_checkpoint()
    counting.demand_each_line_once(counting.ends())


def test_output_that_others_have_written_to_is_kept_whole_and_lines_appear_again(jobs):
    counting = Counting(jobs, 1)
    counting.hand_in(f"(read word; echo from another) <go &\n{counting.line}")
    jobs.go.say()
    wait_until(lambda: jobs.says(counting.job_id, "from another\n"), what="another writer")
    counting.runs_again_behind_a_checkpoint()
    text = counting.ends()
    assert "what was written behind it appears again\n" in text
    assert "rank 0 line 1\n" in text
    numbers = {int(line.split()[3]) for line in text.splitlines() if line.startswith("rank 0 ")}
    assert numbers == set(range(1, len(numbers) + 1))


def test_a_step_leaves_what_later_steps_have_written_behind_its_last_checkpoint(jobs):
    first, second = Counting(jobs, 1), Counting(jobs, 1)
    second.stop = jobs.directory / "stop2"
    second.kept = jobs.directory / "kept2"
    second.line = first.line.replace(str(first.stop), str(second.stop))
    second.line = second.line.replace(str(first.kept), str(second.kept))
    first.hand_in(f"{first.line}\necho between\n{second.line}")
    assert jobs.yodjob("checkpoint", first.job_id).status == 0
    first.stop.touch()
    wait_until(lambda: jobs.says(first.job_id, "between\nrank 0 line 1\n"), what="the second step")
    second.job_id = first.job_id
    second.runs_again_behind_a_checkpoint()
    text = second.ends()
    again = "what was written behind it appears again\n"
    assert f"{first.kept}/checkpoint.1; {again}" not in text  # cut off with what it wrote again
    assert text.count("between\n") == 1
    _, _, of_second = text.partition("between\n")
    lines = [line for line in of_second.splitlines() if line.startswith("rank 0 ")]
    assert lines == [f"rank 0 line {n}" for n in range(1, len(lines) + 1)]


def without_rank(text: str) -> str:
    """The same program, whose lines do not name its rank."""
    return text.replace('"rank", rank, ', "").replace('", rank', '"')


def tee_of(study: Study) -> tuple[str, ...]:
    return ("--tee", "-o", str(study.place / "out.%t"))


def test_each_line_is_once_in_the_files_of_tee(embedded, tmp_path: Path):
    study = Study(embedded, tmp_path)
    program = study.program(without_rank(SAVED_BY_ITSELF))
    study.killed_behind_one(*tee_of(study), "-sz", "2", *program)
    done = study.restart(*tee_of(study))
    assert done.status == 0
    said = "the files of --tee are cut back to it, other output appears again\n"
    assert done.err.endswith(f"goes on from {study.kept}/checkpoint.1; {said}")
    study.demand_each_line_once()


def test_a_file_of_tee_that_is_another_one_is_not_cut(embedded, tmp_path: Path):
    study = Study(embedded, tmp_path)
    study.count = 1
    study.killed_behind_one(*tee_of(study), "-sz", "1", *study.program(SAVED_BY_ITSELF))
    (mark,) = outputs.read(str(study.kept / "checkpoint.1")).files
    study.file(0).write_text("x" * (mark.size + 1))
    done = study.restart(*tee_of(study))
    assert f"--tee {study.file(0)} is not the file of the checkpoint: output goes on" in done.err
    assert study.file(0).read_text().startswith("x" * (mark.size + 1) + "rank 0 line ")


@pytest.mark.usefixtures("needs_root")
def test_each_line_is_once_where_the_ranks_are_one_world_that_criu_writes_down(
    embedded, tmp_path: Path
):
    study = Study(embedded, tmp_path)
    study.env["YOD_CRIU"] = needs_criu()
    program = study.program(without_rank(KNOWS_NOTHING))
    world = ("--checkpoint-by", "criu", "--mpi", "pmi1", "-sz", "2")
    study.killed_behind_one(*tee_of(study), *world, *program)
    done = study.restart(*tee_of(study))
    assert done.status == 0
    study.demand_each_line_once()
