"""What workers of raptors are made of: ``class MyWorker(rp.raptor.DefaultWorker)``.

A worker is made once in each of its processes, and its methods are called there: what it keeps in
``self`` is there for later calls.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from yod.pilot.model.modes import MODES

if TYPE_CHECKING:
    from yod.pilot.raptor.front import Front


class Profile:
    """Notes events of the application in the profile of the task."""

    def prof(self, event: str, uid: str = "", msg: str = "", **_older: object) -> None:
        """Note an event."""
        from yod.pilot.profile.own import prof

        prof(event, msg)

    def flush(self) -> None:
        """Nothing is kept."""


class Worker:
    """The worker of a raptor that has no class of its own.

    Args:
        raptor_id: the uid of its raptor.
    """

    wants_world = False  # its ranks are to be an MPI world

    def __init__(self, raptor_id: Any = None, *_older: object, **_more: object) -> None:
        self._raptor_id = raptor_id
        self._uid = os.environ.get("RP_TASK_ID", "")
        self._sbox = os.environ.get("RP_TASK_SANDBOX", "")
        self._log = logging.getLogger("yod.pilot.raptor")
        self._prof = Profile()
        self._modes: dict[str, Callable[..., Any]] = {}

    def register_mode(self, name: str, dispatcher: Callable[..., Any]) -> None:
        """Have tasks of a mode run by a function, which gets the task as a dictionary.

        It returns both outputs, the exit code, the value, and what was raised with its traceback,
        as in the reference; anything else than such a tuple is the value.

        Raises:
            ValueError: the mode is there already.
        """
        if name in self._modes or name in MODES:
            raise ValueError(f"mode {name} already registered")
        self._modes[name] = dispatcher

    def get_dispatcher(self, name: str) -> Callable[..., Any]:
        """What was kept for a mode.

        Raises:
            ValueError: nothing was.
        """
        if name not in self._modes:
            raise ValueError(f"mode {name} unknown")
        return self._modes[name]

    def get_master(self) -> Front:
        """Who runs tasks for a method: ``self.get_master().run_task(description)``."""
        from yod.pilot.raptor.front import front

        return front()

    def hello(self, msg: str, sleep: float = 0) -> str:
        """Greet, as the reference's worker does."""
        print(f"hello {msg}: {time.time():.3f}")
        time.sleep(sleep)
        print(f"hello {msg}: {time.time():.3f}")
        return f"hello {msg}"


DefaultWorker = Worker


class MPIWorker(Worker):
    """A worker whose ranks are an MPI world: calls of several ranks have a communicator."""

    wants_world = True

    def hello_mpi(self, comm: Any, msg: str, sleep: float = 0) -> str:
        """Greet from each rank, as the reference's worker does."""
        print(f"hello {comm.rank}/{comm.size}: {msg}")
        time.sleep(sleep)
        return f"hello_mpi {msg}"
