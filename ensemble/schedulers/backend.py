"""What a back-end is. A new one is one of these classes, and an entry point: docs/ensemble.md."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from ensemble.config import Config
from ensemble.machine.job import Job, JobState
from native.errors import UsageError

OF_PROCESSES = ("-n", "--n", "-np", "--np", "--ntasks")  # options of any scheduler


class Program(Struct, frozen=True):
    """What a job runs.

    Attributes:
        words: a program and its arguments.
        variables: of its environment, beside those that everybody has.
        processes: of the server, or of each simulation of a client.
        directory: where it runs.
        out, err: files for its output.
    """

    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    processes: int
    directory: str
    out: str
    err: str


class Backend:
    """What all have in common.

    Attributes:
        config: of the study.
        environment: more variables for its commands.
        of_launcher: options that the launcher sets itself, and so nobody else.
    """

    environment: Mapping[str, str] = MappingProxyType({})
    of_launcher: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()  # that must be there

    def __init__(self, config: Config) -> None:
        self.config = config

    def check(self) -> None:
        """Refuse options that the launcher sets itself.

        Raises:
            UsageError: names the key and the option.
        """
        config = self.config
        for key in (
            "scheduler_arg",
            "scheduler_arg_server",
            "scheduler_arg_client",
            "scheduler_arg_container",
            "scheduler_server_command_options",
            "scheduler_client_command_options",
        ):
            for word in getattr(config, key):
                option = word.partition("=")[0]
                if option in self.of_launcher or word in self.of_launcher:
                    raise UsageError(f"{key}: {option} is set by the launcher itself")
                if option in OF_PROCESSES or (word[:2] == "-n" and word[2:].isdecimal()):
                    raise UsageError(
                        f"{key}: {option} is set by the launcher itself, by server_processes and"
                        " client_processes"
                    )

    def arguments(self, job: Job) -> list[str]:
        """The user's arguments of the scheduler for a job."""
        own = (
            self.config.scheduler_arg_server if job.is_server else self.config.scheduler_arg_client
        )
        return [*self.config.scheduler_arg, *own]

    def starter(self, job: Job, default: str = "") -> list[str]:
        """The user's command that starts a program within a job, with its options."""
        config = self.config
        if job.is_server:
            word, options = config.scheduler_server_command, config.scheduler_server_command_options
        else:
            word, options = config.scheduler_client_command, config.scheduler_client_command_options
        return [word or default, *options] if word or default else []


class Direct(Backend):
    """Jobs are children of the launcher, and die with it."""

    def make_job(self, job: Job, program: Program) -> list[str]:
        """The command that is the job."""
        raise NotImplementedError


class Indirect(Backend):
    """Jobs are handed to a scheduler by commands, and outlive the launcher."""

    def make_job(self, job: Job, program: Program) -> tuple[str, str]:
        """The name and the text of a script."""
        raise NotImplementedError

    def submit(self, job: Job, script: str) -> list[str]:
        """The command that submits the script at this path."""
        raise NotImplementedError

    def read_id(self, output: str) -> str:
        """The job's id in that command's output; empty: there is none."""
        raise NotImplementedError

    def update(self, jobs: Sequence[Job]) -> list[str]:
        """The command that asks how jobs are, all at once."""
        raise NotImplementedError

    def read_states(self, output: str) -> Mapping[str, JobState]:
        """The states in its output, by job id.

        Raises:
            ValueError: there is a state that nobody knows.
        """
        raise NotImplementedError

    def recall(self, jobs: Sequence[Job]) -> list[str]:
        """The command that asks how jobs have ended that update does not know any more.

        Returns:
            Empty: the scheduler has none.
        """
        return []

    def read_ends(self, output: str) -> Mapping[str, JobState]:
        """The final states in its output, by job id."""
        return {}

    def find(self, jobs: Sequence[Job]) -> list[str]:
        """The command that looks for jobs by their names."""
        raise NotImplementedError

    def read_names(self, output: str) -> Mapping[str, str]:
        """The ids in its output, by name."""
        raise NotImplementedError

    def cancel(self, job_ids: Sequence[str]) -> list[str]:
        """The command that cancels jobs."""
        raise NotImplementedError

    def began(self, job: Job, job_id: str) -> None:
        """The scheduler has taken a job."""

    def ended(self, job: Job) -> None:
        """A job is over."""

    def is_cancelled(self, status: int, errors: str) -> bool:
        """Whether the jobs are cancelled or over, by the command's exit status and words."""
        return status == 0

    def is_answer(self, status: int, errors: str) -> bool:
        """Whether update has said all that it knows."""
        return status == 0


def group_lines(job: Job, command: Sequence[str]) -> str:
    """Lines of the shell that run the simulations of a job side by side, and fail if one does.

    SIGTERM, which a launcher's death gives to its children, ends the simulations first.
    """
    line = shlex.join(command)
    if job.is_server or job.group_size == 1:
        return f"exec {line}"
    last = job.group_size - 1
    return (
        "status=0; pids=\n"
        "trap 'kill $pids 2>/dev/null; wait; exit 143' TERM\n"
        f"for simulation in $(seq 0 {last}); do\n"
        f"    YOD_SIMULATION=$simulation {line} &\n"
        '    pids="$pids $!"\n'
        "done\n"
        "for pid in $pids; do wait $pid || status=$?; done\n"
        "exit $status"
    )


def script_text(job: Job, program: Program, head: Sequence[str], command: Sequence[str]) -> str:
    """A script of the shell: lines for the scheduler, the environment, the program."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in program.variables]
    lines = ["#!/bin/sh", *head, *exports, f"cd {shlex.quote(program.directory)}"]
    return "\n".join([*lines, group_lines(job, command)]) + "\n"
