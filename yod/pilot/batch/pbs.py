"""PBS Professional, OpenPBS and Torque: qsub, qstat, qdel."""

from __future__ import annotations

import re

from yod.pilot.batch.system import Ask, Home, JobStage, Stand

_ID = re.compile(r"^([0-9]+(?:\[\])?(?:\.[0-9A-Za-z_.-]+)?)$", re.M)
_VALUE = re.compile(r"^\s*(job_state|Exit_status|comment) = (.*(?:\n\t.*)*)$", re.M)
_WAITING = frozenset("QHWTSUM")  # queued, held, waiting, being moved, suspended, by its user's work
_NAME_MAX = 15


class Pbs:
    """Jobs by qsub."""

    name = "pbs"
    mark = "PBS"
    keeps_log = True
    has_hosts = False

    def head(self, ask: Ask) -> list[str]:
        """The options of a job: chunks of cores. What waits for the script's log is one file."""
        cores = ask.cores_per_node
        nodes = ask.nodes or (-(-ask.cores // cores) if cores else 0)
        if nodes and not cores:
            cores = -(-ask.cores // nodes)
        chunk = f"{nodes}:ncpus={cores}:mpiprocs={cores}" if nodes and cores else ""
        if not chunk:
            chunk = str(nodes) if nodes else f"{ask.cores}:ncpus=1:mpiprocs=1"
        if ask.gpus_per_node:
            chunk += f":ngpus={ask.gpus_per_node}"
        if ask.mem_per_node_mb:
            chunk += f":mem={ask.mem_per_node_mb}mb"
        lines = [f"-N {ask.name[:_NAME_MAX]}", "-j oe", f"-o {ask.log}", "-V"]
        lines += [f"-l select={chunk}", f"-l walltime={ask.clock}"]
        if ask.is_exclusive or not ask.cores:
            lines.append("-l place=scatter:excl")
        if ask.queue:
            lines.append(f"-q {ask.queue}")
        if ask.project:
            lines.append(f"-A {ask.project}")
        return [*lines, *(word if word.startswith("-") else f"-l {word}" for word in ask.options)]

    def submit(self, ask: Ask, home: Home) -> list[str]:
        """It says the id alone."""
        return ["qsub", home.script]

    def send(self, job_id: str, output: str) -> list[str]:
        """It has it."""
        return []

    def read_id(self, output: str) -> str:
        """``17.server``."""
        found = _ID.findall(output)
        return found[-1] if found else ""

    def query(self, job_id: str) -> list[str]:
        """All of it."""
        return ["qstat", "-f", job_id]

    def read_stand(self, status: int, output: str) -> Stand:
        """``job_state = Q``; an error of a job that is over (OpenPBS: 35, unknown: 153)."""
        values = {key: re.sub(r"\n\t", "", value) for key, value in _VALUE.findall(output)}
        state = values.get("job_state", "").strip()
        if status or not state:
            return Stand(JobStage.OVER, "pbs has it no more")
        comment = values.get("comment", "").strip()
        words = f"in state {state}" + (f" ({comment})" if comment else "")
        if state in _WAITING:
            return Stand(JobStage.WAITING, words)
        if state in ("R", "B", "E"):
            return Stand(JobStage.RUNNING, words)
        code = values.get("Exit_status", "").strip()
        own = int(code) if code.isdecimal() else None
        return Stand(JobStage.OVER, f"ended with status {code}" if code else words, own)

    def cancel(self, job_id: str) -> list[str]:
        """An error of one that is over is nobody's concern."""
        return ["qdel", job_id]
