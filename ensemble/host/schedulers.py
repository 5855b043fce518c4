"""Finds the back-end that a study names: one of ours, or one of an entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from ensemble.config import NAMES, Config
from ensemble.host.runners import Both, OfJob, OnEvent, Runner, Running, Submitting
from ensemble.schedulers.backend import Backend, Direct, Indirect
from ensemble.schedulers.oar import Oar, OarHybrid
from ensemble.schedulers.openmpi import OpenMpi, SlurmGlobal, SlurmOpenMpi
from ensemble.schedulers.slurm import Slurm
from native.errors import UsageError
from native.loop.reactor import Reactor

GROUP = "yod.ensemble.schedulers"  # of entry points
_BACKENDS: dict[str, type[Backend]] = {
    "openmpi": OpenMpi,
    "slurm": Slurm,
    "slurm-global": SlurmGlobal,
    "slurm-openmpi": SlurmOpenMpi,
    "oar": Oar,
    "oar-hybrid": OarHybrid,
}


def runner(
    config: Config, of_job: OfJob, directory: Path, reactor: Reactor, on_event: OnEvent
) -> Runner:
    """What carries out the machine's wishes.

    Raises:
        UsageError: no such back-end, a program of it is not there, or an option is not the user's.
    """
    if config.scheduler == "yod":
        from ensemble.host.launches import Launches

        return Launches(config, of_job, reactor, on_event)
    if config.scheduler == "slurm-semiglobal":
        server = _run(SlurmGlobal(config), of_job, directory, reactor, on_event, sets_output=True)
        clients = _run(Slurm(config), of_job, directory, reactor, on_event)
        return Both(server, clients)
    return _run(backend(config), of_job, directory, reactor, on_event)


def backend(config: Config) -> Backend:
    """The back-end of commands that a study names.

    Raises:
        UsageError: there is none.
    """
    return (_BACKENDS.get(config.scheduler) or _foreign(config.scheduler))(config)


def _run(
    backend: Backend,
    of_job: OfJob,
    directory: Path,
    reactor: Reactor,
    on_event: OnEvent,
    *,
    sets_output: bool = False,
) -> Runner:
    backend.check()
    if isinstance(backend, Direct):
        return Running(backend, of_job, reactor, on_event)
    if not isinstance(backend, Indirect):
        raise UsageError(f"scheduler: {type(backend).__name__} is neither Direct nor Indirect")
    if not backend.config.std_output and not sets_output:
        name = backend.config.scheduler
        raise UsageError(f"std_output: must be true with {name}, whose jobs write to files")
    return Submitting(backend, of_job, directory, reactor, on_event)


def _foreign(name: str) -> type[Backend]:
    for point in entry_points(group=GROUP, name=name):
        found = point.load()
        if isinstance(found, type) and issubclass(found, Backend):
            return found
        raise UsageError(f"scheduler: {name}: {point.value} is no back-end")
    raise UsageError(f"scheduler: {name}: none of {', '.join(NAMES)}, nor of an entry point")
