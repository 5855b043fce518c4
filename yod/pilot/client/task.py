"""A task, as the application has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from yod.pilot.client.sandboxes import Places
from yod.pilot.client.waiting import wait_for_info
from yod.pilot.model import states
from yod.pilot.model.description import TaskDescription
from yod.pilot.wire.messages import Over

if TYPE_CHECKING:
    from yod.pilot.client.tmgr import TaskManager

_NOT_OVER = Over("", "")
_KNOWN = (  # of a task as a dictionary
    *("uid", "name", "mode", "state", "reason", "pilot", "slots", "info"),
    *("exit_code", "stdout", "stderr", "return_value", "exception", "exception_detail"),
    *("sandbox", "task_sandbox", "pilot_sandbox", "session_sandbox", "resource_sandbox"),
    *("client_sandbox", "endpoint_fs"),
)


class Task(Places):
    """A task. Everything but the calls is written by the session's thread.

    Attributes:
        uid: its name, unique in the session.
        description: what was asked for.
        state: one of :mod:`yod.pilot.model.states`.
        pilot: the uid of the pilot that has it; empty: none yet.
        reason: why it has failed, or was canceled; empty: it was not.
        info: what a service has said of itself, by its ``info_pattern``.
        restarts: how often it has begun again after its pilot was lost.
        waiters: threads of the application that wait for a state of it.
    """

    __slots__ = (
        "_over",
        "_tmgr",
        "callbacks",
        "description",
        "info",
        "payload",
        "pilot",
        "reason",
        "restarts",
        "state",
        "uid",
        "waiters",
    )

    origin = "client"

    def __init__(self, tmgr: TaskManager, uid: str, description: TaskDescription) -> None:
        self._tmgr = tmgr
        self._over = _NOT_OVER
        self.uid = uid
        self.description = description
        self.state = states.NEW
        self.pilot: str = description.value("pilot")
        self.reason = ""
        self.restarts = 0
        self.info = ""
        self.payload = b""
        self.waiters = 0
        self.callbacks: list[Callable[[Task], None]] | None = None  # at its end

    def __repr__(self) -> str:
        return f"<Task {self.uid} {self.state}>"

    def __str__(self) -> str:
        return f"[{self.uid}, {self.pilot}, {self.state}]"

    @property
    def tmgr(self) -> TaskManager:
        """The manager that it was given to."""
        return self._tmgr

    @property
    def session(self) -> object:
        """The session of its manager."""
        return self._tmgr.session

    @property
    def name(self) -> str:
        """Its name for people; the uid where it has none."""
        return self.description.value("name") or self.uid

    @property
    def mode(self) -> str:
        """What kind of task it is."""
        return self.description.kind

    @property
    def exit_code(self) -> int | None:
        """Of the first rank that failed, 0 where none did; None: it has not ended, or never ran."""
        return self._over.exit_code

    @property
    def stdout(self) -> str:
        """The last 1024 bytes of its standard output; empty while it runs."""
        return self._over.stdout

    @property
    def stderr(self) -> str:
        """The last 1024 bytes of its standard error; empty while it runs."""
        return self._over.stderr

    @property
    def output_files(self) -> list[str]:
        """The paths of its standard output and error."""
        value = self.description.value
        names = (value("stdout") or f"{self.uid}.out", value("stderr") or f"{self.uid}.err")
        return [os.path.join(self.sandbox, name) for name in names] if self.sandbox else []

    @property
    def return_value(self) -> Any:
        """What a function has returned; None otherwise."""
        if not self._over.value:
            return None
        from yod.pilot.function.codec import unpack_value

        return unpack_value(self._over.value)

    @property
    def exception(self) -> str | None:
        """What a function has raised."""
        return self._over.exception or None

    @property
    def exception_detail(self) -> str | None:
        """The traceback, or why a task has failed."""
        return self._over.exception_detail or self.reason or None

    @property
    def slots(self) -> list[dict[str, Any]]:
        """Where its ranks ran: ``node``, ``cores`` and ``gpus`` of each."""
        return [
            {"node": node, "cores": list(cores), "gpus": list(gpus)}
            for node, cores, gpus in self._over.slots
        ]

    @property
    def ranks(self) -> int:
        """How many ranks it has."""
        ranks: int = self.description.value("ranks")
        return ranks

    @property
    def metadata(self) -> Any:
        """What the application has put there."""
        return self.description.value("metadata")

    @property
    def sandbox(self) -> str:
        """Its directory; empty: no pilot has it yet."""
        if not self.pilot:
            return ""
        return os.path.join(self.pilot_sandbox, self.description.value("sandbox") or self.uid)

    task_sandbox = sandbox

    @property
    def pilot_sandbox(self) -> str:
        """The directory of its pilot."""
        return self._tmgr.session.sandbox_of(self.pilot) if self.pilot else ""

    @property
    def session_sandbox(self) -> str:
        """The directory of its session."""
        there = self.pilot_sandbox
        return os.path.dirname(there) if there else self._tmgr.session.path

    @property
    def why(self) -> str:
        """Why it stands where it does, in a sentence."""
        return self._tmgr.why(self.uid)

    def wait(self, state: object = None, timeout: float | None = None) -> str:
        """Wait until it has been in a state, or is over; the present state is returned."""
        found = self._tmgr.wait_tasks(self.uid, state, timeout)
        assert isinstance(found, str)
        return found

    def wait_info(self, timeout: float | None = None) -> str:
        """Wait until a service is ready, or is over; what it has said of itself.

        Raises:
            YodError: it ended before, or the time is over.
        """
        wait_for_info(self._tmgr.session.loop, self, timeout)
        return self.info

    def cancel(self) -> None:
        """End it; :meth:`wait` tells when it has ended."""
        self._tmgr.cancel_tasks(self.uid)

    def register_callback(
        self, cb: Callable[..., object], cb_data: Any = None, metric: str | None = None
    ) -> None:
        """Call at each state."""
        self._tmgr.register_callback(cb, cb_data, metric, self.uid)

    def unregister_callback(
        self, cb: Callable[..., object] | None = None, metric: str | None = None
    ) -> None:
        """Call no more."""
        self._tmgr.unregister_callback(cb, metric, self.uid)

    def as_dict(self) -> dict[str, Any]:
        """What is known of it."""
        return {name: getattr(self, name) for name in _KNOWN} | {
            "type": "task",
            "tmgr": self._tmgr.uid,
            "description": self.description.as_dict(),
        }

    # -- told by the manager ----------------------------------------------------

    def ended(self, over: Over) -> None:
        """Its pilot has told how it has ended."""
        self._over = over
        self.reason = over.reason
