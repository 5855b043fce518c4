"""mpirun on this host or, in an allocation of Slurm's, on its hosts. Pure."""

from __future__ import annotations

from types import MappingProxyType

from ensemble.machine.job import Job
from ensemble.schedulers.backend import Direct, Program, group_lines


class OpenMpi(Direct):
    """A job is an mpirun; a group is an mpirun of several programs."""

    programs = ("mpirun",)
    command = "mpirun"

    def make_job(self, job: Job, program: Program) -> list[str]:
        """mpirun with the user's options; ``-x`` passes what other hosts do not have."""
        passed = [word for name, _ in program.variables for word in ("-x", name)]
        count = ["-n", str(program.processes)]
        one = [*count, *self.arguments(job), *passed, *program.words]
        start = self.starter(job, self.command)
        if job.is_server or job.group_size == 1:
            return [*start, *one]
        parts: list[str] = []
        for number in range(job.group_size):
            parts += [":"] if number else []
            parts += [*count, *self.arguments(job), *passed, "-x", f"YOD_SIMULATION={number}"]
            parts += program.words
        return [*start, *parts]


class SlurmGlobal(Direct):
    """The launcher's own allocation of Slurm's is for all; a job is a step of its own."""

    programs = ("srun",)
    of_launcher = ("--output", "-o", "--error", "-e", "--job-name", "-J")

    def make_job(self, job: Job, program: Program) -> list[str]:
        """``srun --exclusive``: a step waits until there is room in the allocation."""
        words = [*self.starter(job), *program.words]
        count = f"--ntasks={program.processes}"
        start = ["srun", "--exclusive", count, f"--job-name={job.name}", *self.arguments(job)]
        if job.is_server or job.group_size == 1:
            return [*start, *words]
        return ["sh", "-c", group_lines(job, [*start, *words])]


class SlurmOpenMpi(OpenMpi):
    """mpirun within the launcher's own allocation of Slurm's, which it finds by itself."""

    # Its daemons are steps, which else wait until those of another mpirun have ended.
    environment = MappingProxyType({"SLURM_OVERLAP": "1"})
