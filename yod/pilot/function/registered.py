"""Modes that the worker of a raptor has registered, for tasks that name them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from native.errors import UsageError, YodError
from yod.pilot.model import modes

_TOLD = 5  # what the reference's dispatchers return: out, err, exit code, value, exception


class Registered:
    """Stands for what a worker has registered for a mode."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __call__(self, task: dict[str, Any]) -> Any:
        """Only a worker of a raptor knows it."""
        raise UsageError(f"this worker has no mode {self.mode!r}")


class Told(YodError):
    """A failure that a dispatcher has returned, as its task has it.

    Attributes:
        text, detail: what was raised, and its traceback.
        returncode: of a program.
    """

    def __init__(self, text: str, detail: str, returncode: int) -> None:
        super().__init__(text, detail, returncode)
        self.text = text
        self.detail = detail
        self.returncode = returncode

    def __repr__(self) -> str:
        return self.text


def dispatcher_of(target: object, mode: str) -> Callable[[dict[str, Any]], Any]:
    """What a worker has registered for a mode, for a task that gets its name there.

    Raises:
        UsageError: nothing; the text has the modes that it knows.
    """
    own: dict[str, Callable[..., Any]] = getattr(target, "_modes", {})
    if mode not in own:
        known = ", ".join(sorted([*own, *(each.removeprefix("task.") for each in modes.OF_RAPTOR)]))
        raise UsageError(f"mode {mode!r} is unknown; the worker knows {known}")
    found, uid = own[mode], os.environ.get("RP_TASK_ID", "")
    return lambda task: found({"uid": uid, **task})


def value_of(returned: Any) -> Any:
    """The value of a call whose dispatcher has returned this.

    A tuple of five is as in the reference: both outputs, exit code, value, and what was raised with
    its traceback. Anything else is the value.

    Raises:
        Told: it says that the call has failed.
    """
    if not isinstance(returned, tuple) or len(returned) != _TOLD:
        return returned
    out, err, code, value, raised = returned
    print(out or "", end="")
    print(err or "", end="", file=sys.stderr)
    text, detail = raised if isinstance(raised, tuple | list) and len(raised) > 1 else (raised, "")
    code = code if isinstance(code, int) else 0
    if text or code:
        raise Told(str(text or f"exit code {code}"), str(detail or ""), code)
    return value
