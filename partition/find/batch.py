"""The batch job that this process runs in, by the variables that its batch system sets. Pure.

=========  ============================================================================
Slurm      SLURM_JOB_ID, SLURM_JOB_NUM_NODES, SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE;
           of a step: SLURM_STEP_ID, SLURM_STEP_NUM_TASKS, SLURM_JOB_CPUS_PER_NODE
=========  ============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

SLURM = "slurm"
NODES_MAX = 100_000
_ENTRY = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")


class BatchJob(Struct, frozen=True):
    """A job of a batch system, with nodes.

    Attributes:
        system: its batch system.
        id: as that calls it.
        node_list: the names of its nodes, folded; empty: not told.
        slots: of each node.
        is_here: this process runs on one of its nodes.
    """

    system: str
    id: str
    node_list: str
    slots: tuple[int, ...]
    is_here: bool

    @property
    def needs_pcts(self) -> bool:
        """It has nodes besides this host."""
        return len(self.slots) > 1 or not self.is_here

    def __str__(self) -> str:
        return f"{self.system} job {self.id}"


def job(environment: Mapping[str, str]) -> BatchJob | None:
    """The batch job; None: there is none, or this is one of many processes in it that are alike."""
    job_id = environment.get("SLURM_JOB_ID", "")
    if "YOD_RANK" in environment:  # the job's nodes are a partition already, which runs this
        return None
    if not (job_id.isascii() and job_id.isdecimal()):
        return None
    in_step = "SLURM_STEP_ID" in environment
    if in_step and environment.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        return None
    # A step has its own tasks there, and not those that the job was given room for.
    source = "SLURM_JOB_CPUS_PER_NODE" if in_step else "SLURM_TASKS_PER_NODE"
    slots = counts(environment.get(source, ""))
    if not slots or str(len(slots)) != environment.get("SLURM_JOB_NUM_NODES", ""):
        return None
    return BatchJob(
        SLURM,
        job_id,
        environment.get("SLURM_JOB_NODELIST", ""),
        slots,
        "SLURMD_NODENAME" in environment,
    )


def counts(text: str) -> tuple[int, ...]:
    """``3,1(x2)`` is 3, 1, 1; empty: it is no such list."""
    found: list[int] = []
    for entry in text.split(","):
        read = _ENTRY.fullmatch(entry)
        if read is None or len(found) + int(read[2] or 1) > NODES_MAX:
            return ()
        found += [int(read[1])] * int(read[2] or 1)
    return tuple(found) if all(found) else ()
