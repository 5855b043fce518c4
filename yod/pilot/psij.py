"""PSI/J on pilots: an executor whose jobs are tasks (docs/pilot.md).

To import it registers the executor: ``psij.JobExecutor.get_instance("yod")``.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.version import Version
from psij import (
    InvalidJobException,
    Job,
    JobExecutor,
    JobExecutorConfig,
    JobSpec,
    JobState,
    JobStatus,
    ResourceSpecV1,
    SubmitException,
)
from psij.descriptor import Descriptor

from native.errors import UsageError
from yod.pilot.client.pilot import Pilot
from yod.pilot.client.pmgr import PilotManager
from yod.pilot.client.session import Session
from yod.pilot.client.task import Task
from yod.pilot.client.tmgr import TaskManager
from yod.pilot.model import states
from yod.pilot.model.description import PilotDescription, TaskDescription

NAME = "yod"
VERSION = "0.1"
_SINGLE, _MULTIPLE, _MPI = (None, "single"), ("multiple",), ("mpirun", "yod")
_ENDS = {
    states.DONE: JobState.COMPLETED,
    states.FAILED: JobState.FAILED,
    states.CANCELED: JobState.CANCELED,
}


class YodConfig(JobExecutorConfig):
    """What an executor runs on.

    Args:
        pilot: one that is there, and is not ended. Default: one of its own.
        keys: of :class:`yod.pilot.PilotDescription`, for an own pilot.
    """

    def __init__(self, pilot: Pilot | None = None, **keys: Any) -> None:
        super().__init__()
        self.pilot = pilot
        self.keys = keys


class YodJobExecutor(JobExecutor):
    """Runs jobs as tasks of one pilot, which ends with the program, or by :meth:`close`.

    Args:
        url: the resource of the pilot: ``slurm.here`` and others.
        config: a :class:`YodConfig`. Default: a pilot on this host.

    Raises:
        UsageError: a key is wrong.
        YodError: the pilot cannot begin.
    """

    def __init__(self, url: str | None = None, config: JobExecutorConfig | None = None) -> None:
        super().__init__(url=url, config=config or YodConfig())
        keys = dict(config.keys) if isinstance(config, YodConfig) else {}
        pilot = config.pilot if isinstance(config, YodConfig) else None
        if pilot is not None and (keys or url):
            raise UsageError("the pilot is there already: give neither keys nor a URL")
        if url:
            keys["resource"] = url
        self._own: Session | None = None
        if pilot is None:
            description = PilotDescription(keys)
            description.verify()
            base = str(self.config.work_directory)
            os.makedirs(base, exist_ok=True)
            self._own = Session(base=base)
            self._own.goes_on = False
            pilot = PilotManager(self._own).submit_pilots(description)
        self.pilot: Pilot = pilot
        session = pilot.pmgr.session
        self._directory = session.path
        self._jobs: dict[str, Job] = {}
        self._tmgr = TaskManager(session)
        self._tmgr.add_pilots(pilot)
        self._tmgr.register_callback(self._reached, bulk=False)

    def submit(self, job: Job) -> None:
        """Run a job.

        Raises:
            InvalidJobException: it asks for what there is not.
            SubmitException: the session has been closed.
        """
        session = self.pilot.pmgr.session
        if session.is_closed:
            raise SubmitException(f"the session {session.uid} is closed")
        spec = self._check_job(job)
        try:
            description = self._description(job, spec)
            description.verify()
        except UsageError as error:
            job.executor = None
            raise InvalidJobException(str(error)) from error
        job._native_id = job.id
        self._jobs[job.id] = job
        job.status = JobStatus(JobState.QUEUED, metadata={"nativeId": job.id})
        self._tmgr.submit_tasks(description)

    def cancel(self, job: Job) -> None:
        """End a job; its status tells when it has ended.

        Raises:
            SubmitException: it is not here.
        """
        if job.native_id is None:
            raise SubmitException("the job has not been submitted")
        if not job.status.final:
            self._task(job.native_id).cancel()

    def list(self) -> list[str]:
        """The native ids of all jobs that are not over."""
        every: list[Task] = self._tmgr.get_tasks()
        return [task.uid for task in every if task.state not in states.FINAL]

    def attach(self, job: Job, native_id: str) -> None:
        """Let another job stand for one that has been submitted here.

        Raises:
            InvalidJobException: it is not new.
            SubmitException: there is no such job.
        """
        if job.status.state != JobState.NEW:
            raise InvalidJobException("the job is to be in the state NEW")
        task = self._task(native_id)
        job.executor = self
        job._native_id = native_id
        session = self.pilot.pmgr.session

        def follow() -> None:
            self._tell(job, task)
            if task.state not in states.FINAL:
                self._tmgr.register_callback(self._teller(job), uid=native_id, bulk=False)

        session.loop.call(follow)

    def close(self) -> None:
        """End the pilot, where it is the executor's own, and the jobs in it."""
        if self._own is not None:
            self._own.close()

    # -- states, in the session's thread ------------------------------------------

    def _reached(self, task: Task, state: str) -> None:
        job = self._jobs.get(task.uid)
        if job is not None:
            self._tell(job, task, state)
            if state in states.FINAL:
                del self._jobs[task.uid]

    def _teller(self, job: Job) -> Callable[[Task, str], None]:
        return lambda task, state: self._tell(job, task, state)

    def _tell(self, job: Job, task: Task, state: str = "") -> None:
        state = state or task.state
        end = _ENDS.get(state)
        if end is not None:
            reason = task.reason or None
            job.status = JobStatus(end, message=reason, exit_code=task.exit_code)
        elif states.TASK.has_reached(state, (states.AGENT_EXECUTING,)):
            job.status = JobStatus(JobState.ACTIVE)
        else:
            job.status = JobStatus(JobState.QUEUED)

    def _task(self, native_id: str) -> Task:
        try:
            task: Task = self._tmgr.get_tasks(native_id)
        except UsageError as error:
            raise SubmitException(str(error)) from error
        return task

    # -- what a job is as a task ----------------------------------------------------

    def _description(self, job: Job, spec: JobSpec) -> TaskDescription:
        if not spec.executable:
            raise UsageError("the job has no executable")
        directory = str(spec.directory or os.getcwd())
        words = [spec.executable, *(spec.arguments or ())]
        if not spec.inherit_environment:
            words = [
                "env",
                "-i",
                *(f"{k}={v}" for k, v in (spec.environment or {}).items()),
                *words,
            ]
        if spec.stdin_path:
            words = ["/bin/sh", "-c", 'exec "$@" < "$0"', str(spec.stdin_path), *words]
        entries: dict[str, Any] = {
            "uid": job.id,
            "name": spec.name,
            "executable": words[0],
            "arguments": words[1:],
            "literal": True,
            "environment": dict(spec.environment or {}),
            "sandbox": directory,
            "stdout": self._output(spec.stdout_path, directory, f"{job.id}.out"),
            "stderr": self._output(spec.stderr_path, directory, f"{job.id}.err"),
        }
        entries |= _resources(spec)
        if not spec.inherit_environment and entries.get("use_mpi"):
            raise UsageError("ranks need the environment: inherit_environment is to be true")
        single = entries["ranks"] == 1
        for key, path in ("pre", spec.pre_launch), ("post", spec.post_launch):
            if path:
                own = f"{key}_exec" if single else f"{key}_launch"
                entries[own] = [f". {shlex.quote(os.path.abspath(path))}"]
        return TaskDescription(entries | _attributes(spec))

    def _output(self, path: Path | None, directory: str, name: str) -> str:
        return os.path.join(directory, path) if path else os.path.join(self._directory, name)


def _resources(spec: JobSpec) -> dict[str, Any]:
    asked = spec.resources
    if not isinstance(asked, ResourceSpecV1):
        raise UsageError("the resources of a job are to be a ResourceSpecV1")
    if asked.exclusive_node_use:
        raise UsageError("exclusive_node_use is refused: the pilot counts cores")
    ranks, each = asked.computed_process_count, asked.cpu_cores_per_process or 1
    gpus = asked.gpu_cores_per_process or 0
    nodes = asked.computed_node_count
    entries: dict[str, Any] = {"ranks": ranks, "cores_per_rank": each, "gpus_per_rank": gpus}
    if asked.memory:
        entries["mem_per_rank"] = -(-asked.memory // (ranks << 20))
    if spec.launcher in _SINGLE:  # one process begins, and has room for all
        if nodes > 1:
            raise UsageError(
                "one process is on one node: the launcher is to be 'multiple' or 'yod'"
            )
        entries |= {"ranks": 1, "cores_per_rank": ranks * each, "gpus_per_rank": ranks * gpus}
        entries["mem_per_rank"] = entries.get("mem_per_rank", 0) * ranks
        return entries
    if spec.launcher not in _MULTIPLE + _MPI:
        known = ", ".join(str(each) for each in _SINGLE[1:] + _MULTIPLE + _MPI)
        raise UsageError(f"there is no launcher {spec.launcher!r}; known are {known}")
    entries["use_mpi"] = spec.launcher in _MPI or nodes > 1
    if asked.processes_per_node or asked.node_count:
        entries["ranks_per_node"] = asked.computed_processes_per_node
    return entries


def _attributes(spec: JobSpec) -> dict[str, Any]:
    asked = spec.attributes
    entries: dict[str, Any] = {}
    if asked is None:
        return entries
    for key in ("queue_name", "project_name", "reservation_id"):
        if getattr(asked, key):
            raise UsageError(f"{key!r} is refused: it is the pilot's, as 'queue' or 'project'")
    if asked.duration:
        entries["timeout"] = asked.duration.total_seconds()
    for name, value in (asked.custom_attributes or {}).items():
        owner, _, key = name.partition(".")
        if owner == NAME:  # else it is for another executor
            entries[key] = value
    return entries


_imported: Any = sys.modules.get(__name__)
if _imported is not None and _imported.__dict__ is not globals():
    YodJobExecutor = _imported.YodJobExecutor  # type: ignore[misc]  # PSI/J reads this file itself
else:
    JobExecutor.register_executor(
        Descriptor(name=NAME, version=Version(VERSION), cls=f"{__name__}.YodJobExecutor"),
        str(Path(__file__).parents[2]),
    )
