"""``yodjob submit --as``: the variables of other batch systems that are known at submission. Pure.

The others are added where the script begins (:mod:`pct.batch_dialects`).
"""

from __future__ import annotations

from collections.abc import Mapping

from native import allocated
from native.errors import UsageError
from native.text import shown
from native.wire.alloc import NodeSpec
from native.wire.base import Terms

VARIABLE = allocated.SYSTEMS_VARIABLE
NAMES = ("slurm", "pbs")


def variables(
    said: str,
    spec: NodeSpec,
    terms: Terms,
    directory: str,
    host: str,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """What a job finds in its environment.

    Args:
        said: the systems, with commas between.
        host: where it is submitted.
        environment: of the submission.

    Raises:
        UsageError: a system is none of those that are known.
    """
    names = tuple(dict.fromkeys(filter(None, said.split(","))))
    if strange := next((name for name in names if name not in NAMES), None):
        raise UsageError(f"--as {shown(strange)}: {', '.join(NAMES)}, or both with a comma")
    found = {VARIABLE: ",".join(names)} if names else {}
    if "slurm" in names:
        found |= _slurm(spec, terms, directory, host)
    if "pbs" in names:
        found |= _pbs(terms, directory, host, environment)
    return found


def _slurm(spec: NodeSpec, terms: Terms, directory: str, host: str) -> dict[str, str]:
    found = {
        "SLURM_NTASKS": str(spec.size),
        "SLURM_NPROCS": str(spec.size),
        "SLURM_CPUS_PER_TASK": str(spec.cores),
        "SLURM_SUBMIT_DIR": directory,
        "SLURM_SUBMIT_HOST": host,
    }
    if spec.per_node:
        found["SLURM_NTASKS_PER_NODE"] = str(spec.per_node)
    if terms.queue:
        found["SLURM_JOB_PARTITION"] = terms.queue
    if terms.account:
        found["SLURM_JOB_ACCOUNT"] = terms.account
    return found


def _pbs(terms: Terms, directory: str, host: str, environment: Mapping[str, str]) -> dict[str, str]:
    found = {"PBS_O_WORKDIR": directory, "PBS_O_HOST": host}
    for name in ("HOME", "LANG", "LOGNAME", "MAIL", "PATH", "SHELL", "TZ"):
        if name in environment:
            found[f"PBS_O_{name}"] = environment[name]
    if terms.queue:
        found |= dict.fromkeys(("PBS_QUEUE", "PBS_O_QUEUE"), terms.queue)
    if terms.account:
        found["PBS_ACCOUNT"] = terms.account
    return found
