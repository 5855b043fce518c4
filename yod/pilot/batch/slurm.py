"""Slurm: sbatch, squeue, scancel."""

from __future__ import annotations

import math

from yod.pilot.batch.system import Ask, Home, JobStage, Stand

_WAITING = frozenset(
    (
        *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"),
        *("SPECIAL_EXIT", "SUSPENDED", "STOPPED", "RESIZING"),
    )
)
_RUNNING = frozenset(("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT"))


class Slurm:
    """Jobs by sbatch."""

    name = "slurm"
    mark = "SBATCH"
    keeps_log = False
    has_hosts = True

    def head(self, ask: Ask) -> list[str]:
        """The options of a job: tasks are slots of its nodes' daemons."""
        # A job whose output cannot be opened on its node fails: the script writes its log.
        lines = [f"--job-name={ask.name}", "--output=/dev/null"]
        lines.append(f"--time={math.ceil(ask.minutes)}")
        if ask.nodes:
            lines.append(f"--nodes={ask.nodes}")
        if ask.cores:
            lines.append(f"--ntasks={ask.cores}")
        elif ask.cores_per_node:
            lines.append(f"--ntasks-per-node={ask.cores_per_node}")
        if ask.is_exclusive or not ask.cores:
            lines.append("--exclusive")
        if ask.gpus_per_node:
            lines.append(f"--gpus-per-node={ask.gpus_per_node}")
        if ask.mem_per_node_mb:
            lines.append(f"--mem={ask.mem_per_node_mb}")
        if ask.hosts:
            lines.append(f"--nodelist={','.join(ask.hosts)}")
        if ask.queue:
            lines.append(f"--partition={ask.queue}")
        if ask.project:
            lines.append(f"--account={ask.project}")
        return [*lines, *(_option(word) for word in ask.options)]

    def submit(self, ask: Ask, home: Home) -> list[str]:
        """It says the id alone."""
        return ["sbatch", "--parsable", home.script]

    def send(self, job_id: str, output: str) -> list[str]:
        """It has it."""
        return []

    def read_id(self, output: str) -> str:
        """``17`` or ``17;cluster``, in the last line."""
        words = output.split()
        job_id = words[-1].partition(";")[0] if words else ""
        return job_id if job_id.isdecimal() else ""

    def query(self, job_id: str) -> list[str]:
        """Its state, and why it waits."""
        words = ["squeue", "--noheader", "--states=all", f"--jobs={job_id}"]
        return [*words, "--Format=State:32,exit_code:32,Reason:128"]

    def read_stand(self, status: int, output: str) -> Stand:
        """``PENDING 0 Priority``; nothing, or an error, of a job that has been forgotten."""
        lines = output.strip().splitlines()
        if status or not lines:
            return Stand(JobStage.OVER, "slurm does not know it any more")
        state, code, reason = (*lines[-1].split(None, 2), "", "")[:3]
        words = f"{state} ({reason.strip()})" if reason.strip() not in ("", "None") else state
        if state in _WAITING:
            return Stand(JobStage.WAITING, words)
        if state in _RUNNING:
            return Stand(JobStage.RUNNING, words)
        return Stand(JobStage.OVER, words, _status(code))

    def cancel(self, job_id: str) -> list[str]:
        """One that is over is no error."""
        return ["scancel", "--quiet", job_id]


def _status(code: str) -> int | None:
    """Of a wait status, or as ``scontrol`` writes it."""
    first, colon, _ = code.partition(":")
    if not first.isdecimal():
        return None
    return int(first) if colon else int(first) >> 8


def _option(word: str) -> str:
    """An option of a resource's file: a feature of nodes, or an option as it is."""
    return word if word.startswith("-") else f"--constraint={word}"
