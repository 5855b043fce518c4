"""Variables of other batch systems for a script (``yodjob submit --as``), beside ours. Pure.

Here is what the node adds when the script begins. What is known before, ``yodjob submit`` has put
into the environment (:mod:`partition.submit.dialects`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from native import allocated
from native.wire.batch import Start
from pct.job.rules.dialects import NAMES_BYTES

VARIABLE = allocated.SYSTEMS_VARIABLE


class Begun(NamedTuple):
    """A script that is about to begin.

    Attributes:
        names, slots: of the job's nodes.
        end: unix time; 0: there is no limit.
    """

    start: Start
    names: Sequence[str]
    slots: Sequence[int]
    end: int
    environment: Mapping[str, str]


def variables(begun: Begun) -> dict[str, str]:
    """The variables of the systems that the job's environment names."""
    found: dict[str, str] = {}
    for name in begun.environment.get(VARIABLE, "").split(","):
        if name in _OF:
            found |= _OF[name](begun)
    return found


def _slurm(begun: Begun) -> dict[str, str]:
    start, environment = begun.start, begun.environment
    job = str(start.job_id)
    nodes = str(len(begun.names))
    cores = environment.get("SLURM_CPUS_PER_TASK", "")
    each = int(cores) if cores.isascii() and cores.isdigit() and int(cores) else 1
    found = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_JOB_NAME": start.name,
        "SLURM_JOB_UID": str(start.uid),
        "SLURM_JOB_GID": str(start.gid),
        "SLURM_JOB_USER": environment.get("USER", str(start.uid)),
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NNODES": nodes,
        "SLURM_JOB_CPUS_PER_NODE": _folded(begun.slots),
        "SLURM_TASKS_PER_NODE": _folded([count // each for count in begun.slots]),
        "SLURM_CPUS_ON_NODE": str(begun.slots[0]),
        "SLURMD_NODENAME": begun.names[0],
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
    }
    names = ",".join(begun.names)
    if len(names) <= NAMES_BYTES:
        found |= dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), names)
    if begun.end:
        found["SLURM_JOB_END_TIME"] = str(begun.end)
    if start.attempt:
        found["SLURM_RESTART_COUNT"] = str(start.attempt)
    if start.element is not None:
        found["SLURM_ARRAY_JOB_ID"] = str(start.element.array)
        found["SLURM_ARRAY_TASK_ID"] = str(start.element.index)
    return found


def _pbs(begun: Begun) -> dict[str, str]:
    start = begun.start
    found = {
        "PBS_JOBID": str(start.job_id),
        "PBS_JOBNAME": start.name,
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_NODENUM": "0",
        "PBS_TASKNUM": "1",
        "PBS_NUM_NODES": str(len(begun.names)),
        "PBS_NP": str(sum(begun.slots)),
    }
    if start.element is not None:
        array, index = str(start.element.array), str(start.element.index)
        found["PBS_JOBID"] = f"{array}[{index}]"
        found |= {"PBS_ARRAY_ID": f"{array}[]", "PBS_ARRAY_INDEX": index, "PBS_ARRAYID": index}
    return found


def _folded(counts: Sequence[int]) -> str:
    """Counts by node as Slurm writes them: ``4(x2),3``."""
    runs = ((count, sum(1 for _ in run)) for count, run in groupby(counts))
    return ",".join(f"{count}(x{nodes})" if nodes > 1 else str(count) for count, nodes in runs)


_OF: Mapping[str, Callable[[Begun], dict[str, str]]] = {"slurm": _slurm, "pbs": _pbs}
