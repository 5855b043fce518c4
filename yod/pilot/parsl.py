"""Parsl on pilots: an executor for its apps, and a launcher for its workers (docs/pilot.md)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from parsl.executors.base import ParslExecutor
from parsl.executors.errors import InvalidResourceSpecification
from parsl.launchers.base import Launcher
from parsl.utils import RepresentationMixin

from native.errors import UsageError, YodError
from yod.pilot.executor.executor import Executor


class YodExecutor(ParslExecutor, RepresentationMixin):
    """Runs apps in the workers of a pilot.

    Args:
        label: its name in Parsl.
        max_workers: cores that apps take at a time.
        resource_dict: what an app needs; one's ``parsl_resource_specification`` goes before.
        keys: of :class:`yod.pilot.Executor`, and by it of :class:`yod.pilot.PilotDescription`.
    """

    def __init__(
        self,
        label: str = "yod",
        max_workers: int | None = None,
        resource_dict: dict[str, Any] | None = None,
        storage_access: list[Any] | None = None,
        working_dir: str | None = None,
        keys: dict[str, Any] | None = None,
    ) -> None:
        ParslExecutor.__init__(self)
        self.label = label
        self.max_workers = max_workers
        self.resource_dict = resource_dict
        self.storage_access = storage_access
        self.working_dir = working_dir
        self.keys = keys
        self._executor: Executor | None = None

    def start(self) -> None:
        """Begin the pilot, whose directory is below Parsl's own.

        Raises:
            YodError: it cannot begin.
        """
        self._executor = Executor(
            self.max_workers,
            **{"base": self.run_dir, "resource_dict": self.resource_dict, **(self.keys or {})},
        )

    def submit(
        self,
        func: Callable[..., Any],
        resource_specification: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Call an app.

        Raises:
            InvalidResourceSpecification: it asks for what there is not.
        """
        if self._executor is None:
            raise YodError(f"the executor {self.label} has not been started")
        try:
            return self._executor.submit(
                func, *args, resource_dict=resource_specification, **kwargs
            )
        except UsageError as error:
            if not resource_specification:
                raise
            raise InvalidResourceSpecification(set(resource_specification), str(error)) from error

    def shutdown(self, block: bool = True) -> None:
        """Take no more apps, and end the pilot when all are done."""
        if self._executor is not None:
            self._executor.shutdown(wait=block)
        super().shutdown()

    def monitor_resources(self) -> bool:
        """A worker runs one app after another in one process."""
        return False


class YodLauncher(Launcher):
    """Starts Parsl's workers on the nodes of a batch job by yod, in place of srun or mpiexec.

    Args:
        options: of yod, as in a shell.
    """

    def __init__(self, debug: bool = True, options: str = "") -> None:
        super().__init__(debug=debug)
        self.options = options

    def __call__(
        self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = ""
    ) -> str:
        """The command line that starts them all."""
        count = tasks_per_node * nodes_per_block
        words = ["yod", "--quiet", "--keep-going", "-sz", str(count)]
        words += ["--ranks-per-node", str(tasks_per_node), *shlex.split(self.options)]
        return shlex.join([*words, "/bin/sh", "-c", command])
