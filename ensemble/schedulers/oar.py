"""OAR: oarsub, oarstat, oardel. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ensemble.config import Config
from ensemble.machine.job import Job, JobState
from ensemble.schedulers.backend import Indirect, Program, script_text

_STATES = {
    **dict.fromkeys(
        ("Hold", "Launching", "toLaunch", "toAckReservation", "Waiting"), JobState.WAITING
    ),
    **dict.fromkeys(("Running", "Resuming", "Suspended", "toError"), JobState.RUNNING),
    **dict.fromkeys(("Finishing", "Terminated"), JobState.TERMINATED),
    "Error": JobState.FAILED,
}
_ALREADY_DEAD = 6  # oardel's exit status
_ID = re.compile(r"^OAR_JOB_ID=(\d+)$", re.M)
_ROW = re.compile(r"^Job_Id: (\d+)$", re.M)
_VALUE = re.compile(r"^    (name|state|exit_code) = (.*)$", re.M)


class Oar(Indirect):
    """Jobs by oarsub. It filters the environment, which is so in the script."""

    programs = ("oarsub", "oarstat", "oardel")
    of_launcher = (
        *("--name", "-n", "--stdout", "-O", "--stderr", "-E", "--scanscript", "-S", "--array"),
        *("--interactive", "-I"),
    )

    def make_job(self, job: Job, program: Program) -> tuple[str, str]:
        """A script with options in its head, where OAR takes everything behind `-n` as a name."""
        head = [f"#OAR -n {job.name}", f"#OAR -O {program.out}", f"#OAR -E {program.err}"]
        words = [*self.starter(job), *program.words]
        return f"oarsub.{job.uid}.sh", script_text(job, program, head, words)

    def submit(self, job: Job, script: str) -> list[str]:
        """The user's options, such as ``--resource=...``, and the script to be read."""
        return ["oarsub", "--scanscript", *self.arguments(job), script]

    def read_id(self, output: str) -> str:
        """Of the line ``OAR_JOB_ID=17``."""
        found = _ID.search(output)
        return found[1] if found else ""

    def update(self, jobs: Sequence[Job]) -> list[str]:
        """One call for all. ``--state`` would not tell whether a job has ended well."""
        return ["oarstat", "--full", *(word for job in jobs for word in ("--job", job.job_id))]

    def read_states(self, output: str) -> Mapping[str, JobState]:
        """By id; a job that has ended with another exit code than 0 has failed."""
        found = {}
        for job_id, row in _rows(output).items():
            word = row.get("state", "")
            if word not in _STATES:
                raise ValueError(f"job {job_id}: unknown state {word}")
            state = _STATES[word]
            if word == "Terminated" and row.get("exit_code", "0").split()[0] != "0":
                state = JobState.FAILED
            if word == "Finishing":  # how it has ended comes with the next state
                state = JobState.RUNNING
            found[job_id] = state
        return found

    def find(self, jobs: Sequence[Job]) -> list[str]:
        """All jobs of the user that are not over."""
        return ["oarstat", "--full", "--user"]

    def read_names(self, output: str) -> Mapping[str, str]:
        """Ids by name."""
        return {row.get("name", ""): job_id for job_id, row in _rows(output).items()}

    def cancel(self, job_ids: Sequence[str]) -> list[str]:
        """All at once."""
        return ["oardel", *job_ids]

    def is_cancelled(self, status: int, errors: str) -> bool:
        """One that is over is as good as cancelled."""
        return status in (0, _ALREADY_DEAD)


class OarHybrid(Oar):
    """The server's job is a container, in which so many clients run as fit.

    Of the others, one in ``besteffort_allocation_frequency`` is best-effort.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._container = ""  # id of the present one
        self._inner: set[int] = set()  # clients in it, by uid
        self._outer_count = 0

    def submit(self, job: Job, script: str) -> list[str]:
        """With the types that put it into its place."""
        if job.is_server:
            types, more = ["--type=container"], [*self.config.scheduler_arg_container]
        else:
            types, more = self._types(job), []
        return ["oarsub", "--scanscript", *types, *self.arguments(job), *more, script]

    def began(self, job: Job, job_id: str) -> None:
        """Remember the container."""
        if job.is_server:
            self._container = job_id
            self._inner.clear()

    def ended(self, job: Job) -> None:
        """There is room in the container again."""
        self._inner.discard(job.uid)

    def _types(self, job: Job) -> list[str]:
        if self._container and len(self._inner) < self.config.container_client_size:
            self._inner.add(job.uid)
            return [f"--type=inner={self._container}"]
        self._outer_count += 1
        is_best_effort = self._outer_count % self.config.besteffort_allocation_frequency == 0
        return ["--type=besteffort"] if is_best_effort else []


def _rows(output: str) -> dict[str, dict[str, str]]:
    """Jobs by id in what ``oarstat --full`` writes."""
    parts = _ROW.split(output)
    return {
        job_id: dict(reversed(_VALUE.findall(text)))  # the first of each name: users have a say
        for job_id, text in zip(parts[1::2], parts[2::2], strict=True)
    }
