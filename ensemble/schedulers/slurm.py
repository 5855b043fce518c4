"""Slurm: a script for each job, sbatch, squeue, sacct, scancel. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ensemble.machine.job import Job, JobState
from ensemble.schedulers.backend import Indirect, Program, script_text

_STATES = {
    **dict.fromkeys(
        ("PENDING", "REQUEUED", "SUSPENDED", "RESIZING", "CONFIGURING", "REQUEUE_HOLD",
         "REQUEUE_FED", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED"), JobState.WAITING),
    **dict.fromkeys(("COMPLETING", "RUNNING", "SIGNALING"), JobState.RUNNING),
    "COMPLETED": JobState.TERMINATED,
    **dict.fromkeys(
        ("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
         "PREEMPTED", "TIMEOUT", "REVOKED"), JobState.FAILED),
}  # fmt: skip


class Slurm(Indirect):
    """Jobs by sbatch. squeue tells of all jobs of the user at once, also of those just ended."""

    programs = ("sbatch", "squeue", "scancel")
    of_launcher = (
        *("--output", "-o", "--error", "-e", "--job-name", "-J", "--parsable", "--wait", "-W"),
        *("--array", "-a"),
    )

    def make_job(self, job: Job, program: Program) -> tuple[str, str]:
        """A script whose head has the options."""
        head = [
            f"#SBATCH --job-name={job.name}",
            f"#SBATCH --output={_path(program.out)}",
            f"#SBATCH --error={_path(program.err)}",
            f"#SBATCH --ntasks={program.processes * job.group_size}",
            *(f"#SBATCH {word}" for word in _joined(self.arguments(job))),
        ]
        start = self.starter(job, "srun" if program.processes > 1 else "")
        if start[:1] == ["srun"]:
            start[1:1] = [f"--ntasks={program.processes}"]
        words = [*start, *program.words]
        return f"sbatch.{job.uid}.sh", script_text(job, program, head, words)

    def submit(self, job: Job, script: str) -> list[str]:
        """Options in the script's head are few, and seen there."""
        return ["sbatch", "--parsable", script]

    def read_id(self, output: str) -> str:
        """``17`` or ``17;cluster``."""
        lines = output.split()
        job_id = lines[-1].partition(";")[0] if lines else ""
        return job_id if job_id.isdecimal() else ""

    def update(self, jobs: Sequence[Job]) -> list[str]:
        """All of the user's: a list of ids would make squeue fail for one that it has forgotten."""
        return ["squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%j"]

    def read_states(self, output: str) -> Mapping[str, JobState]:
        """By id."""
        found = {}
        for line in output.splitlines():
            job_id, word, _ = line.split("|", 2)
            state = _STATES.get(word.split()[0].rstrip("+"))
            if state is None:
                raise ValueError(f"job {job_id}: unknown state {word}")
            found[job_id] = state
        return found

    def recall(self, jobs: Sequence[Job]) -> list[str]:
        """The accounting's word: slurmctld forgets a job some time after its end (MinJobAge)."""
        ids = ",".join(job.job_id for job in jobs)
        words = ["--noheader", "--parsable2", "--allocations", "--format=JobIDRaw,State"]
        return ["sacct", *words, f"--jobs={ids}"]

    def read_ends(self, output: str) -> Mapping[str, JobState]:
        """By id. A job that the accounting takes for a running one may be lost all the same."""
        rows = (line.partition("|") for line in output.splitlines())
        states = {job_id: _STATES.get(word.partition(" ")[0]) for job_id, _, word in rows}
        return {job_id: state for job_id, state in states.items() if state and state.is_final}

    def find(self, jobs: Sequence[Job]) -> list[str]:
        """The same question: a name is the last field, as it may have any character."""
        return self.update(jobs)

    def read_names(self, output: str) -> Mapping[str, str]:
        """Ids by name."""
        rows = (line.split("|", 2) for line in output.splitlines())
        return {name: job_id for job_id, _, name in rows}

    def cancel(self, job_ids: Sequence[str]) -> list[str]:
        """All at once; ``--quiet``: one that is over is no error."""
        return ["scancel", "--quiet", *job_ids]


def _path(path: str) -> str:
    """As sbatch reads a file's name: a space ends it, and % begins a number of the job."""
    return shlex.quote(path.replace("%", "%%"))


def _joined(words: Sequence[str]) -> list[str]:
    """Options with their values, one to a line."""
    lines: list[str] = []
    for word in words:
        if word.startswith("-") or not lines or " " in lines[-1] or "=" in lines[-1]:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines
