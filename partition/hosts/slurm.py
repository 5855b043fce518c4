"""The step of a Slurm job that has a PCT on each node: its command line and environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from partition.find.batch import BatchJob

# A pct that is killed leaves the others alone; one that cannot begin ends them all, and so srun,
# which is how its starter hears of it. A shell's status above 128 is a signal's.
_SCRIPT = (
    "d=$1; t=$2; shift 2; p=$d/pct; "
    '[ -x "$p" ] || p=$(command -v pct) || '
    '{ echo "yod: no yod on $SLURMD_NODENAME: neither $d/pct nor pct in PATH" >&2; exit 127; }; '
    '[ $# = 1 ] || shift "$SLURM_NODEID"; unset XDG_RUNTIME_DIR; '
    '"$p" --name "$SLURMD_NODENAME" --node "$SLURM_NODEID" --slots "$1" '
    '--tag "$t" --starter-fd 0; s=$?; [ $s -lt 128 ] || exit 0; exit $s'
)
# What the job's own srun would take its defaults from, and what a step has beyond them.
_DROPPED = (
    *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
    *("SLURM_NTASKS_PER_CORE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_GPU"),
    *("SLURM_CPUS_PER_TASK", "SLURM_DISTRIBUTION", "SLURM_HINT", "SLURM_EXACT", "SLURM_LABELIO"),
    *("SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_LIST", "SLURM_CPU_BIND_VERBOSE"),
    *("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STDINMODE", "SLURM_STDOUTMODE"),
    *("SLURM_NUM_TASKS", "SLURM_HOSTFILE", "SLURM_THREADS", "SLURM_WAIT", "PYTHONPATH"),
)


def command(job: BatchJob, directory: str, tag: str) -> list[str]:
    """The arguments of srun. Its standard input is that of the PCTs: key and address of bebopd.

    Args:
        directory: where yod's commands are here; looked at first.
        tag: of the pcts.
    """
    count = len(job.slots)
    each = set(job.slots)
    slots = [str(job.slots[0])] if len(each) == 1 else list(map(str, job.slots))
    return [
        *("srun", "--jobid", job.id, "--job-name", "yod", "--overlap"),
        *("-N", str(count), "-n", str(count), "--ntasks-per-node=1", "--mpi=none"),
        *("--cpu-bind=none", "--kill-on-bad-exit=1", "--wait=0", "--no-kill", "--input=all"),
        *("sh", "-c", _SCRIPT, "yod", directory, tag, *slots),
    ]


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """An environment of srun in which nothing but its arguments says how many tasks there are."""
    return {name: value for name, value in given.items() if name not in _DROPPED}
